"""Failures of one sort stand together, and the command that placed them is found again."""

from pathlib import Path
from typing import Any

import pytest

from augbench.bench.common.files import write_json
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.failures import (
    MEANING,
    WHAT_HELPS,
    Failure,
    failure_of,
    group_failures,
    last_words,
    placing_options,
    without_what_varies,
)
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.run_states import RunStates


def failure(folder: RunFolder, **status: Any) -> Failure:
    """Describe a run whose status is planted, with a time of its own."""
    if status:
        write_json(folder.path / "status.json", {"state": "failed", "owner": {"host": "node1"}, **status})
    return failure_of(folder, RunStates(folder.path.parent.parent).of(folder))


def test_exceptions_are_told_apart_by_class_and_by_text_without_numbers(plant: Any) -> None:
    texts = ["shape 3 at /a/b.py", "shape 14 at /c/d.py", "no key", "shape 3 at /a/b.py"]
    kinds = ["ValueError", "ValueError", "ValueError", "TypeError"]
    failures = [
        failure(plant.planned(), exception=kind, reason=text, cause="exception", time=f"2026-03-0{day}T00:00:00+00:00")
        for day, (kind, text) in enumerate(zip(kinds, texts, strict=True), 1)
    ]
    groups = group_failures(failures)
    assert [(group.exception, len(group.failures)) for group in groups] == [
        ("TypeError", 1),
        ("ValueError", 1),
        ("ValueError", 2),
    ]
    assert [one.time[:10] for one in groups[2].failures] == ["2026-03-02", "2026-03-01"], "the newest comes first"
    assert groups[2].reasons() == [("shape 14 at /c/d.py", 2)]


def test_other_causes_are_one_group_each_whatever_was_said(plant: Any) -> None:
    said = ["CUDA out of memory: 1 GiB", "CUDA out of memory: 2 GiB", "killed"]
    failures = [failure(plant.planned(), cause="out of memory", reason=reason, exception="X") for reason in said]
    failures.append(failure(plant.planned(), cause="not finite", reason="nan"))
    groups = {group.cause: group for group in group_failures(failures)}
    assert set(groups) == {Cause.OUT_OF_MEMORY, Cause.NOT_FINITE}
    assert groups[Cause.OUT_OF_MEMORY].exception == ""
    assert groups[Cause.OUT_OF_MEMORY].reasons() == [("CUDA out of memory: 1 GiB", 2), ("killed", 1)]


STARTED = "submitit INFO (2026-11-29 05:42:00,015) - Starting with JobEnvironment(job_id=17)\n"
ENDED = "srun: error: node1: task 0: Exited with exit code 1\n"
FULL = "Error: /out/status.json cannot be written: No space left on device."
RAISED = 'Traceback (most recent call last):\n  File "a.py", line 1\nOSError: [Errno 28] No space left on device\n'


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (STARTED + f"{FULL}\n{RAISED}" + ENDED, FULL),
        (STARTED + RAISED + "submitit WARNING (now) - it may be requeued\n" + ENDED, RAISED.splitlines()[-1]),
        ("bash: module: command not found\n" + ENDED, "bash: module: command not found"),
        (STARTED + "none_seed0: killed\n\n", "none_seed0: killed"),
        (STARTED + ENDED, ""),
        ("x" * 1000, "x" * 200 + "…"),
        (None, ""),
    ],
)
def test_the_last_words_of_a_job_are_found_in_its_log(log: str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "17_0_log.out"
    if log is not None:
        path.write_text(log)
    assert last_words(path) == words


def test_an_owner_that_is_no_record_is_no_host(plant: Any) -> None:
    folder = plant.planned()
    write_json(folder.path / "status.json", {"state": "failed", "owner": "x"})
    assert failure_of(folder, RunStates(folder.path.parent.parent).of(folder)).host == ""


def test_all_that_is_recorded_of_a_failure_is_found(plant: Any) -> None:
    folder = plant.planned()
    folder.log.touch()
    write_json(folder.path / "environment.json", {"attempts": [{"command": "a"}, {"command": "augbench run x"}]})
    at = {"host": "node3", "device": "H200", "phase": "training", "step": 4, "steps": 9}
    found = failure(folder, **at, exception="E", reason="r", cause="exception", time="2026-03-01T00:00:00+00:00")
    assert (found.host, found.device, found.phase, found.step, found.steps) == ("node3", "H200", "training", 4, 9)
    assert (found.state, found.cause, found.exception) == (RunState.FAILED, Cause.EXCEPTION, "E")
    assert found.command == "augbench run x"
    assert found.logs == (folder.log,)


def test_a_run_that_was_never_begun_has_what_its_submission_says(plant: Any) -> None:
    folder = plant.planned()
    submission = plant.submitted(folder, job=None, error="no such account")
    found = failure(folder)
    assert found.cause is Cause.NEVER_STARTED
    assert "no such account" in found.reason
    assert (found.time, found.command) == (submission.time, submission.command)
    assert (found.host, found.step, found.logs) == ("", None, ())


def test_what_a_job_has_printed_is_among_the_logs(plant: Any) -> None:
    folder = plant.ended(RunState.FAILED)
    submission = plant.submitted(folder, plant.planned())
    (submission.folder / "jobs").mkdir()
    for name in ("31_0_0_log.out", "31_1_0_log.out", "31_submission.sh"):
        (submission.folder / "jobs" / name).touch()
    assert [log.name for log in failure(folder).logs] == ["31_0_0_log.out"]


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("size mismatch, 12 != 3.5e-4", "size mismatch, … != …"),
        ("cannot read /tmp/x/data.npy: gone", "cannot read …: gone"),
        ("object at 0x7f3a", "object at …"),
        ("nothing varies", "nothing varies"),
    ],
)
def test_what_varies_is_left_out(text: str, rest: str) -> None:
    assert without_what_varies(text) == rest


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("augbench run demo --out x", []),
        ("augbench run demo --profile lab --yes", ["--profile", "lab"]),
        ("augbench --plugin a.py run demo --profile='my lab.toml'", ["--plugin", "a.py", "--profile=my lab.toml"]),
        ("augbench run demo --launcher ray --retry-failed", ["--launcher", "ray"]),
        ("", []),
        ("augbench run 'unclosed", []),
        ("augbench run demo --profile", []),
    ],
)
def test_how_runs_were_placed_is_taken_from_their_command(command: str, options: list[str]) -> None:
    assert placing_options(command) == options


def test_every_cause_is_explained() -> None:
    assert set(MEANING) == set(WHAT_HELPS) == set(Cause)


def test_what_is_recorded_of_an_earlier_attempt_is_not_taken_for_the_last_one(plant: Any) -> None:
    folder = plant.ended(RunState.TIMED_OUT, host="node3", step=4, steps=9, cause="timed out", reason="over")
    status = folder.read_status() | {"time": "2026-01-01T00:00:00+00:00"}
    write_json(folder.path / "status.json", status)
    plant.submitted(folder, job=None, error="no such account")
    found = failure(folder)
    assert (found.state, found.host, found.step) == (RunState.NEVER_STARTED, "", None)
    folder.request_cancel()
    found = failure(folder)
    assert (found.state, found.cause) == (RunState.CANCELLED, Cause.CANCELLED)
    assert "before it started or resumed" in found.reason
