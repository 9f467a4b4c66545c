"""`--have`: what was computed elsewhere is taken over, and nothing else."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tuned_suite import SHORT

from augbench import load_runs
from augbench.bench.commands import known_runs
from augbench.bench.common.files import read_json, write_json
from augbench.bench.runs.output_folder import run_folders
from augbench.bench.runs.run_folder import RunFolder
from augbench.results.records import record

CommandLine = Callable[..., tuple[int, str, str]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_digits: None) -> Path:
    """Be in an empty folder with a short tuned suite: 2 trials of a learner, then 2 final runs of it and of none."""
    (tmp_path / "short.toml").write_text(SHORT.replace(', { name = "randaugment" }', ""))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def result_of(folder: RunFolder) -> dict[str, object]:
    return {name: value for name, value in read_json(folder.path / "result.json").items() if name != "code"}


@pytest.mark.parametrize("ending", [pytest.param("tar.gz", marks=pytest.mark.slow), "parquet"])
def test_runs_of_a_file_are_taken_over_stage_after_stage_and_nothing_is_computed(
    place: Path, executed: list[str], augbench: CommandLine, ending: str
) -> None:
    assert augbench("run", "short.toml", "--out", "first")[0] == 0
    assert augbench("archive", "--from", "first", "--out", f"all.{ending}")[1].startswith(f"all.{ending}: 6 runs")
    computed = len(executed)
    planned = augbench("plan", "short.toml", "--out", "second", "--have", f"all.{ending}")
    assert planned[0] == 0 and not (place / "second").exists()
    assert f"all.{ending}: 4 runs of this suite; 4 runs would be taken over" in planned[2], planned[2]
    assert "runs that wait for values which they give are not counted" in planned[2]
    assert "6 runs: 2 missing, 4 done." in planned[1]
    code, said, errors = augbench("run", "short.toml", "--out", "second", "--have", f"all.{ending}")
    assert code == 0, errors
    assert f"all.{ending}: 6 runs of this suite; 6 runs taken over into second." in errors
    assert "Nothing to compute in second: 6 runs: 6 done." in said
    assert len(executed) == computed == 6
    first, second = (run_folders(place / name) for name in ("first", "second"))
    assert [one.path.name for one in first] == [one.path.name for one in second]
    assert list(map(result_of, first)) == list(map(result_of, second))
    shown = [augbench("tables", "--from", name, "--json")[1] for name in ("first", "second", f"all.{ending}")]
    assert shown[0] == shown[1] == shown[2]
    assert augbench("verify", "second")[0] == 0
    again = augbench("run", "short.toml", "--out", "second", "--have", f"all.{ending}")
    assert (again[0], len(executed)) == (0, 6)
    assert "6 runs of this suite; 0 runs taken over" in again[2]


@pytest.mark.slow
def test_a_new_learner_costs_its_own_runs_alone(place: Path, executed: list[str], augbench: CommandLine) -> None:
    plain = SHORT.replace("[tuning]\ntrials = 2\n", "")
    (place / "two.toml").write_text(plain.replace(', { name = "randaugment" }', ""))
    (place / "three.toml").write_text(plain)
    assert augbench("run", "two.toml", "--out", "first")[0] == 0
    augbench("archive", "--from", "first", "--out", "two.parquet")
    executed.clear()
    code, _, errors = augbench("run", "three.toml", "--out", "second", "--have", "two.parquet")
    assert code == 0, errors
    assert sorted(name.partition("_")[0] for name in executed) == ["randaugment"] * 2
    assert len(load_runs("second").finished()) == 6


@pytest.mark.slow
def test_what_a_file_holds_in_place_of_predictions_is_whole_and_packed_again(
    place: Path, executed: list[str], augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "AGREEMENT", 1e-6)  # which other tests of the same process may have set otherwise
    augbench("run", "short.toml", "--out", "first")
    augbench("archive", "--from", "first", "--out", "a.parquet")
    augbench("run", "short.toml", "--out", "second", "--have", "a.parquet")
    for ending in ("tar.gz", "parquet"):
        augbench("archive", "--from", "second", "--out", f"b.{ending}")
        again, before = load_runs(f"b.{ending}"), load_runs("first")
        assert again.reliability.drop(columns="source", errors="ignore").equals(before.reliability)
    code, _, errors = augbench("calibrate", "--from", "second")
    assert code == 2 and "probabilities" in errors
    (folder, *_) = (one for one in run_folders(place / "second") if one.path.name.startswith("none"))
    with np.load(folder.predictions) as arrays:
        changed = {name: arrays[name] for name in arrays.files}
    changed["right_0"] = ~changed["right_0"]
    np.savez(folder.predictions, **changed)
    code, said, _ = augbench("verify", "second")
    assert code == 1 and "they give the accuracy" in said


@pytest.mark.slow
def test_files_that_hold_nothing_of_the_suite_are_refused_and_other_code_is_said(
    place: Path, executed: list[str], augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_runs, "code_state", lambda: {"commit": "fedcba9876543210", "dirty": True})
    augbench("run", "short.toml", "--out", "first")
    (place / "other.toml").write_text(SHORT.replace("epochs = 1", "epochs = 2"))
    for command in (("run",), ("run", "--dry-run"), ("plan",)):
        code, _, errors = augbench(*command, "other.toml", "--out", "second", "--have", "first")
        assert code == 2
        assert "None of the 6 finished runs in first is one of this suite as it is now" in " ".join(errors.split())
    code, _, errors = augbench("run", "short.toml", "--out", "second", "--have", "nowhere.parquet")
    assert code == 2 and "nowhere.parquet does not exist" in errors
    for folder in run_folders(place / "first"):
        result = read_json(folder.path / "result.json")
        write_json(folder.path / "result.json", result | {"code": {"commit": "0123456789abcdef", "dirty": False}})
    _, said, errors = augbench("run", "short.toml", "--out", "third", "--have", "first", "--dry-run")
    assert "Nothing would be placed" in said
    assert "made with other code, though with the same versions of methods and data: 4 runs with 0123456789; " in errors
    assert "this is fedcba9876 with changes." in errors
