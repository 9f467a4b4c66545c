"""Requests to stop: by signals, by a file, and what is recorded of them."""

import os
import signal
from collections.abc import Callable, Iterator

import pytest
from short_runs import Runs

from augbench.bench.runs.causes import Cause
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.sound_status import IDLE_ATTEMPTS
from augbench.bench.training import execution, worker
from augbench.bench.training.execution import Execution
from augbench.bench.training.stopping import StopCause, StopRequested, StopSignal
from augbench.bench.training.trainer import Trainer


@pytest.fixture
def handlers() -> Iterator[None]:
    """Put signal handlers back."""
    numbers = (signal.SIGTERM, signal.SIGUSR2, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_signals_are_requests_with_a_meaning() -> None:
    stop = StopSignal()
    stop.install({signal.SIGUSR2: StopCause.SCHEDULER, signal.SIGTERM: StopCause.REQUESTED})
    stop.check()
    os.kill(os.getpid(), signal.SIGINT)  # left to the launcher
    stop.check()
    os.kill(os.getpid(), signal.SIGUSR2)
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(StopRequested):
        stop.check()
    assert stop.cause is StopCause.SCHEDULER  # the first one
    assert stop.received == ["SIGUSR2", "SIGTERM"]


def test_being_taken_over_outweighs_every_other_cause() -> None:
    stop = StopSignal()
    stop.request(StopCause.SCHEDULER)
    stop.request(StopCause.TAKEN_OVER)
    assert stop.cause is StopCause.TAKEN_OVER


def test_a_process_whose_launcher_is_gone_stops() -> None:
    StopSignal(os.getppid()).check()
    stop = StopSignal(os.getppid() + 1)
    with pytest.raises(StopRequested):
        stop.check()
    assert stop.cause is StopCause.LAUNCHER_GONE


class StopsAt(StopSignal):
    """A request with a cause that comes at some question."""

    def __init__(self, question: int, cause: StopCause) -> None:
        super().__init__()
        self.left = question
        self.why = cause

    def check(self) -> None:
        """Count down."""
        self.left -= 1
        if self.left == 0:
            self.received.append("SIGUSR2")
            self.request(self.why)
        super().check()


@pytest.mark.parametrize(
    ("cause", "state", "recorded"),
    [
        (StopCause.REQUESTED, RunState.CANCELLED, Cause.CANCELLED),
        (StopCause.CANCELLED, RunState.CANCELLED, Cause.CANCELLED),
        (StopCause.SCHEDULER, RunState.KILLED, Cause.KILLED),
        (StopCause.LAUNCHER_GONE, RunState.KILLED, Cause.KILLED),
        (StopCause.EARLY_STOPPED, RunState.CANCELLED, Cause.STOPPED_EARLY),
    ],
)
def test_how_a_run_was_stopped_is_recorded(cause: StopCause, state: RunState, recorded: Cause, runs: Runs) -> None:
    folder = runs.folder(epochs=2)
    assert runs.execute(folder, StopsAt(4, cause)) is state
    status = folder.read_status()
    assert (status["state"], status["cause"]) == (state, recorded)
    then = "the tuning does not resume it." if cause is StopCause.EARLY_STOPPED else "it is saved"
    assert f"(SIGUSR2); {then}" in status["reason"]
    assert status["steps"] == 14
    assert {"host", "device", "step", "epoch", "phase"} <= set(status)
    assert folder.checkpoint.exists()
    assert folder.state() is state


def test_attempts_in_which_nothing_could_be_saved_are_counted(
    runs: Runs,
) -> None:
    folder = runs.folder(epochs=2)
    for counted, question in ((1, 1), (2, 1), (0, 4), (1, 1), (2, 1)):  # 1: before anything; 4: after a few steps
        runs.execute(folder, StopsAt(question, StopCause.SCHEDULER))
        assert folder.read_status()[IDLE_ATTEMPTS] == counted
    assert runs.execute(folder) is RunState.DONE


def test_evaluation_can_be_broken_off_and_ends_the_same(runs: Runs, outcome: Callable[[RunFolder], object]) -> None:
    class StopsInEvaluation(StopSignal):
        """Stops as soon as images are evaluated."""

        def check(self) -> None:
            """Look at what the run does."""
            if parts.read_status().get("phase") == "evaluation":
                self.request(StopCause.SCHEDULER)
            super().check()

    whole, parts = runs.done("scale"), runs.folder("scale")
    assert runs.execute(parts, StopsInEvaluation()) is RunState.KILLED
    assert not parts.predictions.exists()
    assert runs.execute(parts) is RunState.DONE
    assert outcome(parts) == outcome(whole)


def test_a_cancelled_run_stops_at_its_next_heartbeat_and_does_not_begin_before_it_is_placed_again(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = runs.folder(epochs=3)
    at_once = 0.001
    monkeypatch.setattr(worker, "heartbeat", lambda beat: worker_heartbeat(beat, at_once))
    after_step = Execution.after_step

    def cancel_in_the_first_step(execution: Execution, trainer: Trainer) -> None:
        if trainer.step == 1:
            folder.request_cancel()
            while execution.stop.cause is None:
                assert folder.cancel_request.exists()
        after_step(execution, trainer)

    monkeypatch.setattr(Execution, "after_step", cancel_in_the_first_step)
    assert runs.execute(folder) is RunState.CANCELLED
    assert folder.read_status()["step"] == 1
    assert "augbench cancel" in folder.read_status()["reason"]
    assert runs.execute(folder) is RunState.CANCELLED  # still
    assert folder.read_status()["attempt"] == 1
    folder.withdraw_cancel()
    monkeypatch.setattr(Execution, "after_step", after_step)
    assert runs.execute(folder) is RunState.DONE


def test_a_cancelled_run_that_never_began_is_cancelled(runs: Runs) -> None:
    folder = runs.folder()
    assert folder.state() is RunState.PLANNED
    folder.request_cancel()
    assert folder.state() is RunState.CANCELLED
    folder.withdraw_cancel()
    folder.withdraw_cancel()
    assert folder.state() is RunState.PLANNED


def test_a_run_saves_now_and_then_within_an_epoch(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = []
    save = Execution.save
    monkeypatch.setattr(Execution, "save", lambda run, trainer: (saved.append(trainer.step), save(run, trainer)))
    runs.done()
    assert saved == [7]  # at the end of the epoch
    monkeypatch.setattr(execution, "MOST_SECONDS_BETWEEN_SAVES", 0.0)
    saved.clear()
    runs.done()
    assert saved[:6] == [1, 2, 3, 4, 5, 6]


worker_heartbeat = worker.heartbeat
