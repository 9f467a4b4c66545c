"""`augbench plan`: what is said of runs and their cost, to people and to scripts."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from augbench.bench.commands.planned import _short_sum
from augbench.bench.common.files import write_json
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import load_suite
from augbench.bench.planning import calibration
from augbench.bench.planning.estimates import Hours
from augbench.bench.runs.run_folder import RunFolder, RunState

CommandLine = Callable[..., tuple[int, str, str]]
HOUR = 3600.0

SUITE = """
name = "mine"
title = "Mine"
seeds = [0, 1, 2]
[[comparisons]]
datasets = [{ name = "mnist5k", options = { size = 14 } }, { name = "rotmnist5k", options = { size = 14 } }]
methods = [{ name = "none" }, { name = "fast-aa" }]
network = "tiny"
[comparisons.budget]
epochs = 2
"""

PROFILE = """
[resources]
gpus = 0.5
time = "04:00:00"
"""

BROKEN = """
from augbench.bench.contract.method import AugmentedBatch, Method
from augbench.bench.registry.registry import register

@register("broken")
class Broken(Method):
    def augment(self, images, generator):
        raise ValueError("no idea")
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "mine.toml").write_text(SUITE)
    return tmp_path / "mine.toml"


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    (tmp_path / "profile.toml").write_text(PROFILE)
    return tmp_path / "profile.toml"


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have fewer images and steps measured than is good for an estimate."""
    for name, value in {"WARM_UP_STEPS": 0, "TIMED_STEPS": 2, "LONG_STEP": 0.01, "LONG_PASS": 0.01}.items():
        monkeypatch.setattr(calibration, name, value)


def runs_of(suite: Path, out: Path, method: str, dataset: str) -> list[tuple[RunSpec, RunFolder]]:
    specs = [
        spec for spec in load_suite(str(suite)).specs() if (spec.method.name, spec.dataset.name) == (method, dataset)
    ]
    folders = [RunFolder(out / "runs" / spec.folder_name) for spec in specs]
    for spec, folder in zip(specs, folders, strict=True):
        folder.write_spec(spec)
    return list(zip(specs, folders, strict=True))


def finish(run: tuple[RunSpec, RunFolder], device: str, seconds: Mapping[str, float]) -> None:
    """Write a run as if it were finished; devices called `GPU…` are GPUs."""
    spec, folder = run
    write_json(folder.path / "result.json", {"identity": spec.identity, "seconds": {device: seconds}})
    uuid = "an id" if device.startswith("GPU") else None
    write_json(folder.path / "environment.json", {"attempts": [{"device": device, "device_uuid": uuid}]})
    np.savez(folder.predictions)


def begun(suite: Path, out: Path) -> None:
    """Make an output folder with runs in several states."""
    plain = runs_of(suite, out, "none", "mnist5k")
    finish(plain[0], "GPU x", {"training": 2 * HOUR})
    plain[1][1].write_status(RunState.FAILED)
    searched = runs_of(suite, out, "fast-aa", "rotmnist5k")
    finish(searched[0], "GPU x", {"search": 5 * HOUR, "training": 4 * HOUR})
    searched[1][1].write_status(RunState.CANCELLED)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_nothing_is_known_of_a_new_suite(suite: Path, augbench: CommandLine, tmp_path: Path) -> None:
    code, text, errors = augbench("plan", suite, "--out", tmp_path / "out")
    assert (code, errors) == (0, "")
    assert "method data set runs done running failed missing".split() in rows(text)
    assert "fast-aa rotmnist5k (size=14) 3 0 0 0 3".split() in rows(text)
    assert f"In {tmp_path / 'out'}: 12 runs: 12 missing.\nCost: unknown, since no such run has finished here" in text
    assert "hours" not in text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("columns", [80, 120])
def test_numbers_and_hours_by_method_and_data_set(
    columns: int,
    suite: Path,
    profile: Path,
    augbench: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tidy: Callable[[str], str],
    snapshot: object,
) -> None:
    out = tmp_path / "out"
    begun(suite, out)
    monkeypatch.setenv("COLUMNS", str(columns))
    code, text, _ = augbench("plan", suite, "--out", out, "--profile", profile)
    assert code == 0
    table = text[: text.index("In ")]
    assert all(len(line) <= columns for line in table.splitlines())
    assert table.count("┃") == 0
    assert len(table.splitlines()) < 20, "names were folded"
    # half a GPU: a run of none takes one GPU-hour, of which one is left (one run is done, one failed)
    cost = {"none": "1 3 1 run", "fast-aa": "9 14 1 run"}
    if columns == 120:
        assert "GPU-hours" in table
        assert f"none mnist5k (size=14) 3 1 0 1 0 1 {cost['none']}".split() in rows(table)
        assert f"fast-aa rotmnist5k (size=14) 3 1 0 0 1 1 {cost['fast-aa']}".split() in rows(table)
    else:
        assert "none mnist5k (size=14) 3 1 0 1 0 1".split() in rows(table)
        assert f"none mnist5k (size=14) {cost['none']}".split() in rows(table)
    assert tidy(text[text.index("In ") :]) == snapshot


def test_states_that_occur_seldom_share_a_column_where_there_is_no_room(
    suite: Path, augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = (RunState.KILLED, RunState.TIMED_OUT, RunState.CANCELLED)
    for (_, folder), state in zip(runs_of(suite, tmp_path, "none", "mnist5k"), states, strict=True):
        folder.write_status(state)
    monkeypatch.setenv("COLUMNS", "80")
    _, text, _ = augbench("plan", suite, "--out", tmp_path)
    assert "method data set runs done running failed other missing".split() in rows(text)
    assert "none mnist5k (size=14) 3 0 0 0 3 0".split() in rows(text)
    assert "12 runs: 9 missing, 1 killed, 1 timed out, 1 cancelled." in text
    monkeypatch.setenv("COLUMNS", "120")
    _, text, _ = augbench("plan", suite, "--out", tmp_path)
    assert "none mnist5k (size=14) 3 0 0 0 1 1 1 0".split() in rows(text)


def test_all_methods_with_jobs_that_are_too_long_are_named(
    suite: Path, profile: Path, augbench: CommandLine, tmp_path: Path
) -> None:
    finish(runs_of(suite, tmp_path, "none", "mnist5k")[0], "GPU x", {"training": 5 * HOUR})
    finish(runs_of(suite, tmp_path, "fast-aa", "mnist5k")[0], "GPU x", {"search": 5 * HOUR, "training": 9 * HOUR})
    _, text, _ = augbench("plan", suite, "--out", tmp_path, "--profile", profile)
    assert text.splitlines()[-1] == (
        "Longer than their limit, so they are saved, requeued and resumed: none on mnist5k (5 h)."
    )
    finish(runs_of(suite, tmp_path, "none", "rotmnist5k")[0], "GPU x", {"training": 20 * HOUR})
    _, text, _ = augbench("plan", suite, "--out", tmp_path, "--profile", profile)
    assert text.splitlines()[-2].startswith("Longest job: none on rotmnist5k, 20 h, longer than its limit of 4 h: ")
    assert text.splitlines()[-1].startswith("Also: fast-aa on mnist5k, 14 h, longer than its limit of 4 h: its search")


@pytest.mark.parametrize(
    ("limit", "search", "words"),
    [
        (None, 5.0, "9 h, without a time limit."),
        ("10:00:00", 5.0, "9 h, within its limit of 10 h."),
        ("04:00:00", 5.0, "search of 5 h is not saved midway and does not fit; raise `time` of [methods.fast-aa]"),
        ("06:00:00", 5.0, "search of 5 h is not saved midway, but fits; it is saved, requeued and resumed about once"),
        ("04:00:00", 1e-4, "9 h, longer than its limit of 4 h: it is saved"),  # nothing was searched for
        ("04:00:00", 0.0, "9 h, longer than its limit of 4 h: it is saved, requeued and resumed about 2 times."),
    ],
)
def test_the_longest_job_is_compared_with_its_limit(
    limit: str | None, search: float, words: str, suite: Path, augbench: CommandLine, tmp_path: Path
) -> None:
    finish(runs_of(suite, tmp_path, "none", "mnist5k")[0], "GPU x", {"training": 2 * HOUR})
    phases = {"search": search * HOUR, "training": (9 - search) * HOUR}
    finish(runs_of(suite, tmp_path, "fast-aa", "rotmnist5k")[0], "GPU x", phases)
    profile = tmp_path / "profile.toml"
    profile.write_text(f'[resources]\ntime = "{limit}"\n' if limit else "")
    _, text, _ = augbench("plan", suite, "--out", tmp_path, "--profile", profile)
    line = text.splitlines()[-1]
    assert line.startswith("Longest job: fast-aa on rotmnist5k, 9 h, ")
    assert words in line


def test_hours_of_a_processor_are_no_gpu_hours(
    suite: Path, profile: Path, augbench: CommandLine, tmp_path: Path
) -> None:
    finish(runs_of(suite, tmp_path, "none", "mnist5k")[0], "Processor x", {"training": 2 * HOUR})
    _, text, _ = augbench("plan", suite, "--out", tmp_path, "--profile", profile)
    assert "GPU-hours" not in text
    assert "Left: 4 hours on Processor x for 2 runs + 9 runs of unknown cost." in text
    finish(runs_of(suite, tmp_path, "none", "rotmnist5k")[0], "GPU x", {"training": 2 * HOUR})
    _, text, _ = augbench("plan", suite, "--out", tmp_path, "--profile", profile)
    assert "Left: 4 hours on Processor x + 2 GPU-hours on GPU x for 4 runs + 6 runs of unknown cost." in text


def test_scripts_get_everything(suite: Path, profile: Path, augbench: CommandLine, tmp_path: Path) -> None:
    begun(suite, tmp_path)
    code, text, errors = augbench("plan", suite, "--out", tmp_path, "--profile", profile, "--json")
    assert (code, errors) == (0, "")
    content: dict[str, Any] = json.loads(text)
    assert list(content) == ["runs", "damaged", "groups", "methods", "total", "resolution"]
    assert [run["state"] for run in content["runs"]].count("done") == 2
    assert RunSpec.model_validate(content["runs"][0]["spec"]) in load_suite(str(suite)).specs()
    group = content["groups"][0]
    assert (group["method"], group["dataset"], group["runs"], group["to_do"]) == ("none", "mnist5k (size=14)", 3, 1)
    assert group["states"] == {"done": 1, "failed": 1, "planned": 1}
    assert (group["gpus"], group["limit_minutes"], group["device_hours_of_a_run"]) == (0.5, 240, 1.0)
    assert group["estimate"] == {
        "device": "GPU x",
        "gpu": True,
        "source": "finished runs",
        "count": 1,
        "seconds": {"training": 2 * HOUR},
        "search_unknown": False,
        "too_high": False,
    }
    assert content["groups"][1]["estimate"] is None
    assert content["methods"]["none"]["left"] == {"device_hours": {"GPU x": 1.0}, "runs": 1, "unknown_runs": 3}
    assert content["total"]["in_all"] == {"device_hours": {"GPU x": 16.5}, "runs": 6, "unknown_runs": 6}
    assert content["total"]["longest_job"]["method"] == "fast-aa"


def test_every_run_is_shown_on_request(suite: Path, augbench: CommandLine, tmp_path: Path) -> None:
    begun(suite, tmp_path)
    _, text, _ = augbench("plan", suite, "--out", tmp_path, "--runs")
    assert text.count("│ tiny") == 12
    assert text.count("│ failed") == 1
    assert text.endswith("12 runs: 8 missing, 2 done, 1 failed, 1 cancelled.\n")


@pytest.mark.usefixtures("few_digits", "few_steps")
def test_steps_are_timed_once_of_what_is_unknown(suite: Path, augbench: CommandLine, tmp_path: Path) -> None:
    suite.write_text(SUITE.replace(', { name = "rotmnist5k", options = { size = 14 } }', ""))
    finish(runs_of(suite, tmp_path, "none", "mnist5k")[0], "Processor x", {"training": 2 * HOUR})
    code, text, errors = augbench("plan", suite, "--out", tmp_path, "--calibrate", "--device", "cpu")
    assert (code, errors) == (0, "")
    assert "Left: 4 hours on Processor x for 2 runs + 3 runs of unknown cost." in text
    assert "fast-aa mnist5k (size=14) ≥" in " ".join(text.split())
    assert "the length of the search before them is unknown" in text
    kept = (tmp_path / "calibration.json").read_bytes()
    _, again, _ = augbench("plan", suite, "--out", tmp_path)
    assert again == text
    augbench("plan", suite, "--out", tmp_path, "--calibrate", "--device", "cpu")
    assert (tmp_path / "calibration.json").read_bytes() == kept


@pytest.mark.usefixtures("few_digits", "few_steps")
def test_a_method_that_cannot_be_measured_stays_unknown(suite: Path, augbench: CommandLine, tmp_path: Path) -> None:
    plugin = tmp_path / "broken.py"
    plugin.write_text(BROKEN)
    suite.write_text(SUITE.replace('"fast-aa"', '"broken"').replace("epochs = 2", "epochs = 1"))
    code, text, errors = augbench(
        "--plugin", plugin, "plan", suite, "--out", tmp_path, "--calibrate", "--device", "cpu", "--json"
    )
    assert code == 0
    reason = "could not be measured: ValueError: no idea (line 8 of broken.py)."
    assert errors.splitlines() == [f"Note: broken on {name} (size=14) {reason}" for name in ("mnist5k", "rotmnist5k")]
    estimated = {(group["method"], group["estimate"] is None) for group in json.loads(text)["groups"]}
    assert estimated == {("none", False), ("broken", True)}


def test_data_that_is_missing_is_said_before_anything_is_measured(augbench: CommandLine, tmp_path: Path) -> None:
    code, text, errors = augbench("plan", "paper-svhn", "--out", tmp_path / "out", "--data", tmp_path, "--calibrate")
    assert (code, text) == (2, "")
    assert "augbench data prepare svhn" in errors


def test_mistakes_are_explained(suite: Path, augbench: CommandLine, tmp_path: Path) -> None:
    for arguments, words in (
        (("--device", "cuda:99"), "There is no device 'cuda:99' here"),
        (("--profile", tmp_path / "missing.toml"), "cannot be read"),
        (("--budget", "quik"), "--budget: There is no level 'quik'. Did you mean 'quick'?"),
    ):
        code, _, errors = augbench("plan", suite, "--out", tmp_path, *arguments)
        assert code == 2
        assert words in errors
    (tmp_path / "calibration.json").write_text("{")
    code, _, errors = augbench("plan", suite, "--out", tmp_path)
    assert code == 2
    assert "calibration.json is damaged. Delete it" in errors.replace("\n", " ")


def test_hours_of_different_devices_are_not_added_up() -> None:
    assert _short_sum(Hours({"GPU x": 1.0, "GPU y": 2.0}, 3, 1)) == "1 on GPU x + 2 on GPU y + 1 run of unknown cost"
    assert [_short_sum(Hours({}, 0, 2)), _short_sum(Hours({}, 0, 0))] == ["2 runs of unknown cost", "0"]
