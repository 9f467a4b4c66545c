"""Plans: as careful with thousands of runs as with one."""

import errno
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import read_json, write_json
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import Suite, parse_suite
from augbench.bench.planning.plan import PlannedRun, make_plan, seconds_of_others
from augbench.bench.runs.run_folder import RunFolder, RunState

SUITE = """
name = "many"
title = "Many"
seeds = [0, 1, 2]
[[comparisons]]
datasets = [{ name = "mnist5k", options = { size = 14 } }]
methods = [{ name = "none" }, { name = "scale", hyperparameters = { copies = 2 } }]
network = "tiny"
[comparisons.budget]
epochs = 3
"""


@dataclass
class Finished:
    """An output folder in which every run of a suite is finished, after a fashion."""

    suite: Suite
    out: Path

    def folders(self) -> list[tuple[RunSpec, RunFolder]]:
        """Each run with its folder."""
        return [(spec, RunFolder(self.out / "runs" / spec.folder_name)) for spec in self.suite.specs()]

    def plan(self) -> tuple[PlannedRun, ...]:
        """Plan anew."""
        return make_plan(self.suite, self.out).runs


def only_damage(finished: Finished, folder: RunFolder) -> str:
    """Return what is said of the one folder that is left out; all other runs are done."""
    plan = make_plan(finished.suite, finished.out)
    assert plan.counts() == {RunState.DONE: 5}
    assert folder.path not in [run.folder.path for run in plan.runs]
    assert plan.summary() == "5 runs: 5 done. 1 run left out."
    [problem] = plan.damaged
    return problem


@pytest.fixture
def finished(tmp_path: Path) -> Finished:
    made = Finished(parse_suite(SUITE, "a test"), tmp_path)
    for spec, folder in made.folders():
        folder.write_spec(spec)
        seconds = {"a device": {"training": float(spec.seed)}}
        write_json(folder.path / "result.json", {"identity": spec.identity, "seconds": seconds})
        np.savez(folder.predictions)
    return made


def test_finished_runs_are_done_and_have_a_cost(finished: Finished) -> None:
    assert {run.state for run in finished.plan()} == {RunState.DONE}
    assert [run.seconds for run in finished.plan()] == [
        {"a device": {"training": float(seed)}} for seed in (0, 1, 2) for _ in range(2)
    ]
    assert make_plan(finished.suite, finished.out).summary() == "6 runs: 6 done."


@pytest.mark.parametrize("number", [0, -1])
def test_no_run_is_trusted_because_of_others_of_its_kind(number: int, finished: Finished) -> None:
    spec, folder = finished.folders()[number]
    sound = read_json(folder.path / "spec.json")

    def left_out(content: object, words: str) -> None:
        (folder.path / "spec.json").write_text(json.dumps(content))
        assert words in only_damage(finished, folder)

    left_out(sound | {"identity": "0"}, "identity does not belong")
    left_out(sound | {"spec": sound["spec"] | {"seed": 7}}, "identity does not belong")
    left_out(sound | {"spec": sound["spec"] | {"protocol_version": 99}}, "protocol version 99")
    left_out(sound | {"spec": 3}, "no complete run folder")
    left_out([], "no complete run folder")
    method = {**spec.method.model_dump(), "defaults": {"momentum": 0.5}}
    write_json(folder.path / "spec.json", sound | {"spec": sound["spec"] | {"method": method}})
    with pytest.raises(UserError, match=r"momentum was 0\.5, is 'gone' now"):
        finished.plan()


def test_a_damaged_result_is_noticed(finished: Finished) -> None:
    *_, (_, folder) = finished.folders()
    for content in ('{"identity": "', '{"identity": "other"}', "[]"):
        (folder.path / "result.json").write_text(content)
        assert only_damage(finished, folder).startswith(f"The result in {folder.path} is damaged: ")


def test_where_all_folders_are_damaged_no_run_is_planned(finished: Finished) -> None:
    for _, folder in finished.folders():
        (folder.path / "spec.json").unlink()
    plan = make_plan(finished.suite, finished.out)
    assert plan.summary() == "0 runs. 6 runs left out."
    assert len(set(plan.damaged)) == 6


@pytest.mark.parametrize("name", ["predictions.npz", "metrics.jsonl"])
@pytest.mark.parametrize("fraction", [None, 0.5])
def test_what_is_missing_or_cut_short_beside_a_result_is_noticed(
    fraction: float | None, name: str, finished: Finished
) -> None:
    *_, (spec, folder) = finished.folders()
    write_json(folder.path / "result.json", {"identity": spec.identity, "epochs": 2})
    np.savez_compressed(folder.predictions, labels=np.arange(100), draws_0=np.eye(100))
    folder.write_metrics([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25}])
    assert {run.state for run in finished.plan()} == {RunState.DONE}
    path = folder.path / name
    if fraction is None:
        path.unlink()
    else:
        os.truncate(path, int(fraction * path.stat().st_size))
    what = "is missing" if fraction is None else {"p": "is cut short", "m": "does not end with epoch 2"}[name[0]]
    assert f"{name} {what}" in only_damage(finished, folder)


@pytest.mark.parametrize("name", ["spec.json", "result.json", "predictions.npz"])
def test_a_run_that_cannot_be_read_is_not_to_be_deleted(
    name: str, finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, (_, folder) = finished.folders()
    real = os.open

    def refuse(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path) == str(folder.path / name):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    problem = only_damage(finished, folder)
    assert f"{folder.path}: {name} cannot be read (Permission denied)" in problem
    assert "delete" not in problem


@pytest.mark.parametrize("name", ["spec.json", "result.json", "predictions.npz"])
def test_what_is_no_file_is_not_read(name: str, finished: Finished) -> None:
    *_, (_, folder) = finished.folders()
    (folder.path / name).unlink()
    os.mkfifo(folder.path / name)
    assert f"{name} is no ordinary file. Move" in only_damage(finished, folder)


def test_a_cost_that_is_none_is_unknown(finished: Finished) -> None:
    *_, (spec, folder) = finished.folders()
    odd = [{"a device": {"training": one}} for one in (None, "3", {}, -1.0, math.nan, math.inf, 10**400)]
    for seconds in (None, 3, {"a device": 3}, *odd):
        (folder.path / "result.json").write_text(json.dumps({"identity": spec.identity, "seconds": seconds}))
        assert finished.plan()[-1].seconds == {}


def test_runs_from_before_a_setting_existed_are_read_with_care_once(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _, folder in finished.folders():
        content = read_json(folder.path / "spec.json")
        del content["spec"]["protocol"]["evaluated_on"]
        write_json(folder.path / "spec.json", content)
    read: list[Path] = []
    read_spec = RunFolder.read_spec

    def counted(self: RunFolder) -> RunSpec:
        read.append(self.path)
        return read_spec(self)

    monkeypatch.setattr(RunFolder, "read_spec", counted)
    assert {run.state for run in finished.plan()} == {RunState.DONE}
    assert len(read) == 2  # one for each kind


def test_finished_runs_of_the_same_kind_are_found_beside_a_plan(finished: Finished) -> None:
    def others(text: str) -> list[tuple[str, int]]:
        runs = make_plan(parse_suite(text, "a test"), finished.out).runs
        found = seconds_of_others(runs, finished.out)
        return [(spec.method.name, int(seconds["a device"]["training"])) for spec, _, seconds in found]

    assert others(SUITE) == []
    assert others(SUITE.replace("[0, 1, 2]", "[0, 5]")) == [("none", 1), ("none", 2), ("scale", 1), ("scale", 2)]
    assert others(SUITE.replace("[0, 1, 2]", "[5]").replace("copies = 2", "copies = 3")) == [
        ("none", seed) for seed in (0, 1, 2)
    ]
    *_, (_, folder) = finished.folders()
    (folder.path / "spec.json").write_text("{")
    assert others(SUITE.replace("[0, 1, 2]", "[0, 1]")) == [("none", 2)]
