"""`augbench failures` and `augbench retry` on planted failures, and once with real runs."""

import json
import shlex
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import typer

from augbench.bench.commands import placing
from augbench.bench.common.files import write_json
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.runs import run_states
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.output_folder import run_folders
from augbench.bench.runs.run_folder import RunState
from augbench.bench.runs.slurm_queue import Job
from augbench.bench.training.worker import execute

CommandLine = Callable[..., tuple[int, str, str]]
AT = {"host": "node3", "device": "H200", "phase": "training", "step": 1200, "steps": 4800}


@pytest.fixture
def failed(plant: Any) -> Any:
    """Plant failures of several sorts beside runs that are none."""
    plant.done()
    plant.running()
    for number in range(4):
        reason = f"OutOfMemoryError: CUDA out of memory: {number} GiB"
        plant.ended(RunState.FAILED, "scale", **AT, cause="out of memory", exception="OutOfMemoryError", reason=reason)
    for exception in ("ValueError", "KeyError"):
        said = {"exception": exception, "reason": f"{exception}: [red]planted[/red] \x1b[31m"}
        plant.ended(RunState.FAILED, **AT, cause="exception", traceback="Traceback\n  in f", **said)
    plant.killed(**AT)
    plant.submitted(plant.planned(), job=None, error="sbatch: error: no such account")
    return plant


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> list[PlannedRun]:
    """Have runs finish at once instead of being executed; returns those that were placed."""
    runs: list[PlannedRun] = []

    def place(to_do: list[PlannedRun], *_: object, **__: object) -> None:
        runs.extend(to_do)
        for run in to_do:
            np.savez(run.folder.predictions)
            write_json(run.folder.path / "result.json", {"identity": run.spec.identity})

    monkeypatch.setattr(placing, "place", place)
    return runs


def test_what_a_killed_run_could_not_record_is_looked_for_in_the_log_of_its_job(
    plant: Any, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = plant.submitted(plant.killed(**AT))
    monkeypatch.setattr(run_states, "ask_slurm", lambda _: {(submission.token, 0): Job("FAILED")})
    submission.log_of(0).parent.mkdir()
    submission.log_of(0).write_text("Error: \x1b[31mNo space left on device\n")
    text = augbench("failures", "--out", plant.out)[1]
    assert "last line of its job: Error: " in text
    assert "No space left on device" in text
    assert "\x1b" not in text
    [group] = json.loads(augbench("failures", "--out", plant.out, "--json")[1])["groups"]
    assert "No space left on device" in group["runs"][0]["last_words"]


def test_failures_are_grouped_with_the_command_for_each(failed: Any, augbench: CommandLine) -> None:
    code, text, errors = augbench("failures", "--out", failed.out / "runs")  # the folder of the runs itself will do
    assert (code, errors) == (0, "")
    for words in (
        "8 runs ended without a result.",
        "out of memory: 4 runs\n",
        "… and 1 more\n",
        f"To retry: augbench retry --out {failed.out} --cause 'out of memory'\n",
        "exception ValueError: 1 run\n",
        f"--out {failed.out} --cause ValueError\n",
        "node3, H200, training, step 1,200 of 4,800, ",
        "ValueError: [red]planted[/red] \\x1b[31m",
        "It was not submitted: sbatch: error: no such account",
        "--cause 'never started' --profile lab\n",
    ):
        assert words in text


def test_failures_as_json_have_their_tracebacks(failed: Any, augbench: CommandLine) -> None:
    content = json.loads(augbench("failures", "--out", failed.out, "--json")[1])
    groups = {(group["cause"], group["exception"]): group for group in content["groups"]}
    assert set(groups) == {
        ("out of memory", None),
        ("exception", "ValueError"),
        ("exception", "KeyError"),
        ("killed", None),
        ("never started", None),
    }
    assert groups["exception", "KeyError"]["runs"][0]["traceback"] == "Traceback\n  in f"
    assert groups["never started", None]["retry"].endswith("--cause 'never started' --profile lab")
    assert len(groups["out of memory", None]["runs"]) == 4


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (["--cause", "out of memory"], 4),
        (["--cause", "ValueError"], 1),
        (["--cause", "exception"], 2),
        (["--cause", "killed", "--cause", "never started"], 2),
        (["--all"], 8),
        (["scale_*"], 4),
    ],
)
def test_retry_places_what_was_chosen(
    choice: list[str], expected: int, failed: Any, augbench: CommandLine, placed: list[PlannedRun]
) -> None:
    code, _, errors = augbench("retry", *choice, "--out", failed.out)
    assert (code, errors) == (0, "")
    assert len(placed) == expected
    assert not {run.state for run in placed} & {RunState.DONE, RunState.RUNNING}


def test_every_printed_command_chooses_its_group(
    failed: Any, augbench: CommandLine, placed: list[PlannedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads(augbench("failures", "--out", failed.out, "--json")[1])
    for group in content["groups"]:
        placed.clear()
        words = [word for word in shlex.split(group["retry"])[1:] if word not in ("--profile", "lab")]
        assert augbench(*words)[0] == 0
        assert {run.folder.path.name for run in placed} == {run["run"] for run in group["runs"]}


def test_what_is_done_or_goes_on_is_left_alone(plant: Any, augbench: CommandLine, placed: list[PlannedRun]) -> None:
    done, going, ended = plant.done(), plant.running(), plant.ended(RunState.FAILED)
    code, _, errors = augbench("retry", done.path.name, "--out", plant.out)
    assert code == 2
    assert "None of the runs can be placed again. In" in errors
    assert "there are 1 exception" in errors
    names = [folder.path.name for folder in (done, going, ended)]
    code, text, errors = augbench("retry", *names, "--out", plant.out)
    assert (code, text) == (0, "1 run: 1 done.\n")
    assert [run.folder.path.name for run in placed] == [ended.path.name]
    assert f"Left alone: {done.path.name} is done." in errors
    assert f"Left alone: {going.path.name} is running." in errors


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ([], ["Name the runs, or give --cause", "there are 4 out of memory, 2 exception, 1 killed, 1 never started"]),
        (["--cause", "memory"], ["no cause 'memory'", "out of memory", "KeyError"]),
        (["--cause", "timed out"], ["No run ended with the cause 'timed out'", "killed"]),
        (["nosuch*"], ["no run 'nosuch*'"]),
        (["--all", "--profile", "nosuch"], ["no profile 'nosuch'"]),
    ],
)
def test_a_wrong_choice_says_what_there_is(
    choice: list[str], words: list[str], failed: Any, augbench: CommandLine, placed: list[PlannedRun]
) -> None:
    code, _, errors = augbench("retry", *choice, "--out", failed.out)
    assert code == 2
    assert not [word for word in words if word not in errors], errors
    assert placed == []


def test_a_dry_run_says_what_would_be_placed(failed: Any, augbench: CommandLine) -> None:
    code, text, _ = augbench("retry", "--all", "--dry-run", "--workers", "2", "--device", "cpu", "--out", failed.out)
    assert code == 0
    assert "8 runs would be placed by local" in text
    assert [folder.state() for folder in run_folders(failed.out)].count(RunState.FAILED) == 6


def test_from_scratch_forgets_what_was_saved_of_all_but_finished_runs(plant: Any) -> None:
    killed, done = plant.killed(), plant.done()
    killed.checkpoint.touch()
    for folder in (killed, done):
        folder.set_attempts_aside()
    assert not killed.checkpoint.exists()
    assert (killed.path / "spec.json").exists()
    assert (killed.path / "claim-1.json").exists()
    assert killed.state() is RunState.PLANNED
    assert done.state() is RunState.DONE


@pytest.mark.slow
def test_failed_runs_start_again_and_killed_ones_go_on(
    plant: Any, augbench: CommandLine, stop_after: Callable[[int], Any], settings: Any
) -> None:
    stopped, failed, left = plant.planned("none"), plant.planned("none"), plant.planned("none")
    assert execute(stopped, settings, stop_after(5)) is RunState.CANCELLED
    assert execute(failed, settings, stop_after(5)) is RunState.CANCELLED
    failed.write_status(RunState.FAILED, cause="exception", exception="ValueError", reason="planted")
    assert stopped.checkpoint.exists()
    write_json(left.path / "status.json", {"state": "failed", "cause": "not finite", "reason": "planted"})

    choice = ["--cause", "cancelled", "--cause", "ValueError"]
    code, text, _ = augbench("retry", *choice, "--out", plant.out, "--device", "cpu", "--workers", "1")
    assert code == 0
    assert "Again: 2 of 3 runs to do" in text
    assert "2 runs: 2 done." in text
    assert "goes on from step" in stopped.log.read_text()
    assert "goes on from step" not in failed.log.read_text()
    assert left.state() is RunState.FAILED


def test_ctrl_c_says_how_to_go_on(failed: Any, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise typer.Exit(130)

    monkeypatch.setattr(placing, "place", interrupted)
    code, text, _ = augbench("retry", "--all", "--out", failed.out)
    assert code == 130
    assert f"`augbench retry --out {failed.out} --cause cancelled --cause missing`" in text


def test_runs_that_a_tuning_stopped_or_that_never_started_are_placed_only_when_asked_for(
    plant: Any, augbench: CommandLine, placed: list[PlannedRun]
) -> None:
    missing = plant.planned()
    early = plant.ended(RunState.CANCELLED, cause=Cause.STOPPED_EARLY, reason="Other values did better.")
    killed = plant.ended(RunState.KILLED, cause=Cause.KILLED)
    text = augbench("failures", "--out", plant.out)[1]
    assert "stopped early: 1 run\n" in text
    assert "Somebody stopped it" not in text
    for choice, chosen in (
        (["--all"], killed),
        (["--cause", "stopped early"], early),
        (["--cause", "missing"], missing),
    ):
        assert augbench("retry", *choice, "--out", plant.out)[0] == 0
        assert placed[-1].folder == chosen
    assert len(placed) == 3


def test_nothing_in_an_error_is_obeyed(failed: Any, augbench: CommandLine) -> None:
    errors = augbench("logs", "\x1b[31mred", "--out", failed.out)[2]
    assert "\x1b" not in errors
    assert "red" in errors
