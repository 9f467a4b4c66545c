"""What is known of all runs of a folder at one moment, and how far those are that are being executed."""

import json
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from augbench.bench.common.files import write_json
from augbench.bench.runs import overview, run_states, specifications
from augbench.bench.runs.overview import Row, RunMonitor, progress_of
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.slurm_queue import Job, Jobs

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def only_progress(folder: RunFolder, **status: Any) -> overview.Progress:
    """Give a run that is being executed another status, and see how far it is."""
    status["time"] = status.pop("reported")
    write_json(folder.path / "status.json", {"state": "running", "owner": {}, **status})
    (run,) = RunMonitor(folder.path.parent.parent).snapshot().runs
    return progress_of(run, NOW)


def test_every_state_is_counted_by_method_and_data_set(plant: Any) -> None:
    plant.done("scale")
    plant.done("scale")
    plant.running("scale")
    plant.planned()
    plant.killed()
    plant.ended(RunState.FAILED)
    seen = RunMonitor(plant.out).snapshot()
    assert seen.counts() == {
        RunState.DONE: 2,
        RunState.RUNNING: 1,
        RunState.PLANNED: 1,
        RunState.KILLED: 1,
        RunState.FAILED: 1,
    }
    assert seen.rows(10) == [
        Row("none", "mnist5k (size=14)", {RunState.PLANNED: 1, RunState.KILLED: 1, RunState.FAILED: 1}),
        Row("scale", "mnist5k (size=14)", {RunState.DONE: 2, RunState.RUNNING: 1}),
    ]
    assert {run.state for run in seen.without_result()} == {RunState.KILLED, RunState.FAILED}


def test_settings_make_rows_of_their_own_unless_those_are_too_many(plant: Any, make_spec: Callable[..., Any]) -> None:
    for copies in (2, 3):
        spec = make_spec("scale", copies=copies)
        RunFolder(plant.out / "runs" / spec.folder_name).write_spec(spec)
    seen = RunMonitor(plant.out).snapshot()
    assert [row.method for row in seen.rows(2)] == ["scale (copies=2)", "scale (copies=3)"]
    assert [(row.method, row.states) for row in seen.rows(1)] == [("scale", {RunState.PLANNED: 2})]


def test_trials_are_counted_together_beside_the_runs_of_the_comparison(
    plant: Any, make_spec: Callable[..., Any]
) -> None:
    for copies in (2, 3):
        spec = make_spec("scale", copies=copies)
        protocol = spec.protocol.model_copy(update={"evaluated_on": "validation", "test_time_draws": ()})
        trial = spec.model_copy(update={"protocol": protocol})
        RunFolder(plant.out / "runs" / trial.folder_name).write_spec(trial)
    plant.done("scale")
    assert RunMonitor(plant.out).snapshot().rows(10) == [
        Row("scale", "mnist5k (size=14)", {RunState.DONE: 1}),
        Row("scale", "mnist5k (size=14), validation images", {RunState.PLANNED: 2}),
    ]


def test_damaged_folders_are_said_and_the_others_counted(plant: Any) -> None:
    plant.done()
    (plant.done().path / "result.json").write_text("{")
    (plant.planned().path / "spec.json").write_text("{}")
    seen = RunMonitor(plant.out).snapshot()
    assert seen.counts() == {RunState.DONE: 1}
    assert len(seen.damaged) == 2


def test_a_second_look_reads_what_is_done_no_more_and_sees_what_has_changed(
    plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant.done()
    going = plant.running()
    monitor = RunMonitor(plant.out)
    assert monitor.snapshot().counts() == {RunState.DONE: 1, RunState.RUNNING: 1}
    going.write_status(RunState.FAILED)
    read: list[str] = []
    monkeypatch.setattr(specifications, "read_content", lambda *_: pytest.fail("a specification was read again"))
    monkeypatch.setattr(overview, "read_result", lambda folder, _: read.append(folder.path.name))
    assert monitor.snapshot().counts() == {RunState.DONE: 1, RunState.FAILED: 1}
    assert read == [going.path.name]


def test_a_run_that_goes_on_is_read_when_its_folder_has_changed_or_it_is_silent(
    plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = plant.running()
    read: list[str] = []
    monkeypatch.setattr(overview, "read_result", lambda folder, _: read.append(folder.path.name))
    monitor = RunMonitor(plant.out)

    def look(changed_before: float) -> int:
        then = clock - changed_before
        os.utime(going.path, (then, then))
        monitor.snapshot()
        return len(read)

    clock = time.time()
    stopped = SimpleNamespace(time_ns=lambda: int(clock * 1e9), monotonic=time.monotonic)
    monkeypatch.setattr(overview, "time", stopped)
    assert [look(0.0), look(0.0)] == [1, 2], "a folder that was changed just now may change again unnoticed"
    assert [look(10.0), look(10.0)] == [3, 3]
    assert [look(9.0), look(9.0)] == [4, 4]
    assert [look(40.0), look(40.0)] == [5, 6], "its process may be dead"


def test_slurm_is_asked_every_ten_seconds_at_most(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    submission = plant.submitted(plant.planned())
    clock, asked = [100.0], [0]

    def ask(_: object) -> Jobs:
        asked[0] += 1
        return {(submission.token, 0): Job("PENDING", "Priority")}

    monkeypatch.setattr(run_states, "ask_slurm", ask)
    monkeypatch.setattr(overview.time, "monotonic", lambda: clock[0])
    monitor = RunMonitor(plant.out)
    for _ in range(5):
        seen = monitor.snapshot()
        clock[0] += 2.0
    assert asked == [1]
    assert seen.reasons(RunState.SUBMITTED) == [("Slurm: pending (Priority).", 1)]
    monitor.snapshot()
    assert asked == [2]


def test_the_time_left_follows_from_the_steps_since_the_phase_began(plant: Any) -> None:
    folder = plant.running()
    at = {"phase": "training", "step": 300, "steps": 1000, "reported": ago(20)}
    progress = only_progress(folder, **at, phase_began={"step": 100, "time": ago(120)})
    assert (progress.host, progress.job) == ("node7", "31_4")
    assert progress.silent_seconds == 20
    assert progress.left_seconds == 700 * 0.5 - 20  # 200 steps took 100 seconds


@pytest.mark.parametrize(
    "status",
    [
        {"reported": ago(20)},
        {"phase": "search", "step": 0, "steps": 1000, "reported": ago(20), "phase_began": {"step": 0, "time": ago(99)}},
        {"phase": "training", "step": 5, "steps": 9, "reported": ago(20), "phase_began": {"step": 5, "time": ago(99)}},
        {"phase": "training", "step": 5, "steps": 9, "reported": ago(20), "phase_began": {"step": 0, "time": ago(21)}},
        {"phase": "training", "step": 5, "steps": 9, "reported": ago(20)},
    ],
)
def test_no_time_is_given_where_none_can_be_told(status: dict[str, Any], plant: Any) -> None:
    progress = only_progress(plant.running(), **status)
    assert progress.left_seconds is None
    assert progress.silent_seconds == 20


def test_runs_that_have_just_been_made_may_still_begin(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "SECONDS_TO_BEGIN", 3600.0)
    plant.done()
    assert not RunMonitor(plant.out).snapshot().goes_on()
    waiting = plant.planned()
    assert RunMonitor(plant.out).snapshot().goes_on()
    os.utime(waiting.path, (0, 0))
    assert not RunMonitor(plant.out).snapshot().goes_on()


@pytest.mark.slow
def test_ten_thousand_runs_are_seen_within_seconds(
    plant: Any, make_spec: Callable[..., Any], effort: Callable[..., Any]
) -> None:
    spec = make_spec()
    shutil.rmtree(plant.done().path)
    for seed in range(10_000):
        of_seed = spec.with_seed(seed)
        path = plant.out / "runs" / of_seed.folder_name
        path.mkdir()
        content = {"identity": of_seed.identity, "spec": of_seed.model_dump(mode="json")}
        (path / "spec.json").write_text(json.dumps(content))
        if seed % 2:
            (path / "result.json").write_text(json.dumps({"identity": of_seed.identity}))
            np.savez(path / "predictions.npz")
        elif seed % 3:
            (path / "status.json").write_text('{"state": "failed", "reason": "planted"}')
    seen, taken = effort(lambda: RunMonitor(plant.out).snapshot())
    counts = seen.counts()
    assert counts == {RunState.DONE: 5000, RunState.FAILED: 3333, RunState.PLANNED: 1667}
    assert taken < 12, "much slower than it was, which is 3 times the fixed work"
