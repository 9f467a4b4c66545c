"""`augbench status`, `augbench watch` and `augbench logs` on folders with runs in every state."""

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from augbench.bench.commands import following
from augbench.bench.runs import run_states
from augbench.bench.runs.run_folder import RunState
from augbench.bench.runs.slurm_queue import Job, Jobs

CommandLine = Callable[..., tuple[int, str, str]]


@pytest.fixture
def every_state(plant: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plant a run in each state."""
    plant.done("scale")
    began = (datetime.now(UTC) - timedelta(minutes=10)).isoformat()
    at = {"device": "H200", "phase": "training", "step": 50, "steps": 200}
    plant.running("scale", **at, phase_began={"step": 0, "time": began})
    plant.planned("scale")
    plant.ended(
        RunState.FAILED, "scale", **at, host="node3", exception="ValueError", reason="ValueError: [bold]\x1b[1m"
    )
    plant.killed(**at)
    plant.ended(RunState.TIMED_OUT, **at, reason="It was over.")
    plant.ended(RunState.CANCELLED)
    waiting, refused = plant.planned(), plant.planned()
    submission = plant.submitted(waiting)
    plant.submitted(refused, job=None, error="sbatch: error: no such account")
    monkeypatch.setattr(run_states, "ask_slurm", lambda _: {(submission.token, 0): Job("PENDING", "Priority")})
    return plant


def test_status_counts_every_state_and_shows_what_is_executed(
    every_state: Any, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    code, text, errors = augbench("status", "--out", every_state.out)
    assert (code, errors) == (0, "")
    for words in ("9 runs: 1 missing, 1 submitted, 1 running, 1 done, 1 failed", "cancelled", "never", "timed"):
        assert words in text
    assert "node7, job 31_4, process 1: step 50 of 200 (25 %) " in text
    assert re.search(r"about (29|30) min left", text)
    assert "1 submitted. Slurm: pending (Priority)." in text
    assert f"5 runs ended without a result: augbench failures --out {every_state.out}" in text
    assert max(len(line) for line in text.splitlines() if "│" in line) <= 120


def test_status_fits_into_eighty_columns(
    every_state: Any, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, text, _ = augbench("status", "--out", every_state.out)
    table = [line for line in text.splitlines() if line[:1] in "┏┃┡│└"]
    assert max(map(len, table)) <= 80
    assert "no" in text
    assert "…" not in "".join(table), "a heading or number is cut off"
    assert "│ scale  " in text


def test_status_as_json_has_every_run(every_state: Any, augbench: CommandLine) -> None:
    content = json.loads(augbench("status", "--out", every_state.out, "--json")[1])
    assert content["states"]["timed out"] == 1
    assert len(content["runs"]) == 9
    (running,) = content["running"]
    assert (running["host"], running["pid"], running["step"], running["steps"]) == ("node7", 1, 50, 200)
    assert running["seconds_left"] == pytest.approx(1800, abs=120)
    causes = {run["cause"] for run in content["runs"]}
    assert causes == {None, "exception", "killed", "timed out", "cancelled", "never started"}


def test_stopping_runs_are_marked_and_damaged_folders_named(plant: Any, augbench: CommandLine) -> None:
    plant.running().request_cancel()
    broken = plant.planned()
    (broken.path / "spec.json").unlink()
    code, text, errors = augbench("status", "--out", plant.out)
    assert code == 0
    assert "1 run: 1 running." in text
    assert "saves and stops" in text
    assert f"Left out: {broken.path}" in errors


def test_where_slurm_does_not_answer_that_is_said_once(
    plant: Any, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_answer(_: object) -> Jobs:
        raise run_states.SlurmError("no answer")

    plant.submitted(plant.planned(), plant.planned())
    monkeypatch.setattr(run_states, "ask_slurm", no_answer)
    _, text, _ = augbench("status", "--out", plant.out)
    assert text.count("no answer") == 1
    assert "2 unknown. It was submitted as" in text


def test_a_folder_without_runs_is_an_error(augbench: CommandLine, tmp_path: Path) -> None:
    for command in (("status",), ("watch",), ("failures",), ("logs", "x"), ("retry",), ("cancel",)):
        code, _, errors = augbench(*command, "--out", tmp_path / "nothing")
        assert code == 2
        assert "does not exist" in errors


def test_watch_ends_at_once_when_no_run_is_left_to_wait_for(plant: Any, augbench: CommandLine) -> None:
    plant.done()
    code, text, _ = augbench("watch", "--out", plant.out)
    assert code == 0
    assert "All done: 1 run." in text
    os.utime(plant.planned().path, (0, 0))
    code, _, errors = augbench("watch", "--out", plant.out)
    assert code == 2
    assert "1 run never started" in errors


def test_watch_says_each_change_and_how_it_ended(
    plant: Any,
    augbench: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    tidy: Callable[[str], str],
    snapshot: object,
) -> None:
    plant.done()
    going, waiting = plant.running(), plant.planned()
    happens = [
        lambda: going.write_status(RunState.FAILED, reason="planted"),
        lambda: waiting.write_status(RunState.CANCELLED),
    ]
    monkeypatch.setattr(following.time, "sleep", lambda _: happens.pop(0)())
    code, text, errors = augbench("watch", "--out", plant.out, "--every", "0.5")
    assert code == 2
    assert tidy(text + errors) == snapshot


def test_ctrl_c_ends_watching_and_nothing_else(
    plant: Any, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    going = plant.running()
    monkeypatch.setattr(following.time, "sleep", interrupt)
    code, text, _ = augbench("watch", "--out", plant.out)
    assert code == 130
    assert "the runs continue" in text
    assert going.state() is RunState.RUNNING


def test_watch_refuses_to_look_without_a_pause_or_never_again(plant: Any, augbench: CommandLine) -> None:
    plant.running()
    for seconds in ("0", "nan", "inf"):
        assert "--every must be from 0.1 to 86,400" in augbench("watch", "--out", plant.out, "--every", seconds)[2]


def test_logs_shows_log_job_and_failure(plant: Any, augbench: CommandLine) -> None:
    folder = plant.ended(
        RunState.FAILED, reason="ValueError: planted", traceback="Traceback\n  in f\nValueError: planted"
    )
    folder.log.write_text("epoch 1\nepoch 2\n")
    submission = plant.submitted(folder)
    (submission.folder / "jobs").mkdir()
    (submission.folder / "jobs" / "31_0_log.out").write_text("the job begins\n")
    code, text, _ = augbench("logs", folder.path.name, "--out", plant.out)
    assert code == 0
    parts = ["epoch 1\nepoch 2", "the job begins", "── traceback\nTraceback\n  in f", "── failed: ValueError: planted"]
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)
    assert "epoch 1" not in augbench("logs", folder.path.name, "--out", plant.out, "--lines", "1")[1]


def test_a_log_may_be_missing_or_empty_or_have_the_traceback_already(plant: Any, augbench: CommandLine) -> None:
    folder = plant.ended(RunState.FAILED, reason="r", traceback="Traceback\n  in f\n")

    def shown() -> str:
        return augbench("logs", folder.path.name, "--out", plant.out)[1]

    assert f"{folder.log}\n(not there)\n" in shown()
    folder.log.touch()
    assert f"{folder.log}\n(empty)\n" in shown()
    folder.log.write_text("ERROR attempt 1 failed\nTraceback\n  in f\n")
    assert shown().count("in f") == 1


def test_nothing_in_a_log_is_obeyed(plant: Any, augbench: CommandLine) -> None:
    folder = plant.ended(RunState.KILLED, reason="[red]r[/red]\x07")
    folder.log.write_bytes(b"[bold]a[/bold] \x1b]0;title\x07\r50 %\r\n\xff\xc2\x9b\xe2\x80\xae\n")
    _, text, _ = augbench("logs", folder.path.name, "--out", plant.out)
    assert "[bold]a[/bold] \\x1b]0;title\\x07\n50 %\n\ufffd\\x9b\\u202e\n" in text
    assert "── killed: [red]r[/red]\\x07" in text
    assert not {character for character in text if not character.isprintable()} - {"\n"}


def test_a_run_is_found_by_the_beginning_of_its_name_or_identity(plant: Any, augbench: CommandLine) -> None:
    runs = [plant.planned("none"), plant.planned("scale"), plant.planned("scale")]
    name = runs[0].path.name
    for given in (name, "none", name[-12:-4], f"{plant.out}/runs/{name}/"):
        assert f"{name}/log.txt" in augbench("logs", given, "--out", plant.out)[1]
    code, _, errors = augbench("logs", "scale", "--out", plant.out)
    assert code == 2
    assert "matches 2 runs" in errors
    assert runs[1].path.name in errors
    code, _, errors = augbench("logs", "nnoe_mnist5k_tiny_seed0", "--out", plant.out)
    assert code == 2
    assert f"Did you mean {name}" in errors


def test_following_a_log_shows_what_is_added_until_the_run_has_ended(
    plant: Any, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = plant.running()
    folder.log.write_text("first\n")

    def add(text: str) -> None:
        with folder.log.open("a") as file:
            file.write(text)

    def end() -> None:
        add("half line\n")
        folder.write_status(RunState.KILLED, reason="planted")

    happens = [lambda: add("second\nhalf "), lambda: folder.log.write_text("anew\n"), end]
    monkeypatch.setattr("augbench.bench.commands.logs.time.sleep", lambda _: happens.pop(0)())
    code, text, _ = augbench("logs", "none", "--out", plant.out, "--follow")
    assert code == 0
    assert "first\nsecond\nanew\nhalf line\n── killed: planted" in text
