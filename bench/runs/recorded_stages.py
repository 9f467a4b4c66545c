"""What `OUT/tuning` says of suites whose methods are tuned before they are compared: in which stage they are."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from augbench.bench.common.files import read_json
from augbench.bench.common.wording import counted
from augbench.bench.runs.run_folder import RunState

FOLDER = "tuning"
Content = dict[str, Any]


def read_stage_record(path: Path) -> Content | None:
    """Read a record; None where there is none, or none that can be used."""
    with suppress(ValueError, OSError):
        content = read_json(path)
        if isinstance(content.get("searches"), list) and {"suite", "final", "waiting"} <= set(content):
            return content
    return None


def read_stages(out: Path) -> list[Content]:
    """Read the records of an output folder that can be read, by name."""
    return [content for _, content in _records(out)]


def waiting_suites(out: Path) -> set[str]:
    """Names of the kept copies of suites some of whose runs wait for the values of trials."""
    return {path.with_suffix(".toml").name for path, content in _records(out) if content["waiting"]}


def _records(out: Path) -> list[tuple[Path, Content]]:
    paths = sorted((out / FOLDER).glob("*.json")) if (out / FOLDER).is_dir() else []
    return [(path, content) for path in paths if (content := read_stage_record(path)) is not None]


def called(suite: str, level: str | None, share: object = None) -> str:
    """Name a suite at a level, or a share of it such as 2/4."""
    options = [f"--{name} {value}" for name, value in (("budget", level), ("shard", share)) if value]
    return f"{suite} with {' '.join(options)}" if options else suite


def waiting_in(records: Sequence[Content]) -> int:
    """Number of runs that wait for the values of trials."""
    return sum(record["waiting"] for record in records)


def progress_lines(records: Sequence[Content], states: Mapping[str, RunState]) -> Iterator[str]:
    """Say in which stage each recorded suite is, by the states of the runs of its folder."""
    for record in records:
        trials = {name for search in record["searches"] for name in search["runs"]}
        over = [states[name] for name in trials if states.get(name) in (RunState.DONE, RunState.FAILED)]
        failed = f", {over.count(RunState.FAILED)} of them failed" if RunState.FAILED in over else ""
        done = sum(states.get(name) is RunState.DONE for name in record["final"])
        total = sum(search["trials"] * search["question"]["repeats"] for search in record["searches"])
        if record["waiting"]:
            yield (
                f"{record['suite']}: stage 1 of 2, trials: {len(over)} of {counted(total, 'run')} ended{failed}. "
                f"{counted(record['waiting'], 'run')} of the comparison wait for their values."
            )
        else:
            yield f"{record['suite']}: stage 2 of 2, the comparison: {done} of {len(record['final'])} done."
