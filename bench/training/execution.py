"""One attempt at a run: what it records on the way, and when it saves.

Progress is not flushed to disk, and written no more often than somebody looks: on a cluster hundreds of runs share one
file system.
"""

import os
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import read_torch, write_torch
from augbench.bench.runs.claim import HEARTBEAT_SECONDS, LAUNCHER_VARIABLE, Ownership, TakenOverError
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.run_log import logger
from augbench.bench.training.stopping import StopCause, StopSignal
from augbench.bench.training.trainer import Trainer

SECONDS_BETWEEN_REPORTS = 3.0  # of runs on one machine; others report with every heartbeat
LEAST_SECONDS_BETWEEN_SAVES = 30.0  # of epochs; with the next line, only some of them are saved where they are short
SHARE_OF_SAVING = 0.02  # of the time, at most
MOST_SECONDS_BETWEEN_SAVES = 300.0  # also within an epoch


@dataclass
class Execution:
    """One attempt at a run.

    Attributes:
        folder: The run's folder.
        ownership: What is to be verified before anything is written.
        stop: Asked after every step.
        where: Host and device.
        phase: What is being done.
        trainer: The run, once there is something of it.
        begun: What was done when the attempt began: whether the search was over, and steps.
        saved: What is done of what is saved.
        last_report: When progress was recorded last, by the monotonic clock.
        last_save: When the state was saved last.
        save_seconds: How long that took; 0 before the first time, which is therefore never put off.
    """

    folder: RunFolder
    ownership: Ownership
    stop: StopSignal
    where: dict[str, Any] = field(default_factory=dict)
    phase: str = "preparation"
    trainer: Trainer | None = None
    begun: tuple[bool, int] = (False, 0)
    saved: tuple[bool, int] = (False, 0)
    last_report: float = 0.0
    last_save: float = field(default_factory=time.monotonic)
    save_seconds: float = 0.0

    def record(self, state: RunState, **details: Any) -> None:
        """Write the status, unless the run belongs to somebody else by now."""
        self.ownership.verify()
        where = {"attempt": self.ownership.attempt, **self.where, "phase": self.phase}
        if (run := self.trainer) is not None:
            where |= {"step": run.step, "steps": run.total_steps, "epoch": len(run.rows), "epochs": run.epochs}
        self.folder.write_status(state, **where, **details)

    def report(self, phase: str) -> None:
        """Record how far the run is."""
        if phase != self.phase and self.trainer is not None:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            self.where["phase_began"] = {"step": self.trainer.step, "time": now}
        self.last_report, self.phase = time.monotonic(), phase
        self.record(RunState.RUNNING)

    def beat(self) -> None:
        """Show that the process lives, and see whether it is to go on."""
        self.ownership.touch()
        if self.folder.cancel_request.exists():
            self.stop.request(StopCause.CANCELLED)
        try:
            self.ownership.verify()
        except TakenOverError:
            self.stop.request(StopCause.TAKEN_OVER)

    def during_search(self, trainer: Trainer) -> None:
        """Report now and then, and stop if asked to."""
        self._report_or_stop("search")

    def after_step(self, trainer: Trainer) -> None:
        """Report and save now and then, and stop if asked to."""
        self._report_or_stop("training")
        if time.monotonic() - self.last_save > MOST_SECONDS_BETWEEN_SAVES:
            self.save(trainer)

    def _report_or_stop(self, phase: str) -> None:
        if phase != self.phase or time.monotonic() - self.last_report > seconds_between_reports():
            self.report(phase)
        self.stop.check()

    def after_phase(self, trainer: Trainer) -> None:
        """Save what a resumed run needs, unless so little time has passed that saving would be much of it."""
        for row in trainer.rows[-1:]:
            logger.info("epoch %d: loss %.4f, training accuracy %.4f", row["epoch"], row["loss"], row["accuracy"])
        if self._is_worth_saving(trainer):
            self.save(trainer)

    def _is_worth_saving(self, trainer: Trainer) -> bool:
        is_over = trainer.step in (0, trainer.total_steps)  # the search, or the training
        is_looked_at = trainer.spec.protocol.evaluated_on == "validation"  # by a tuning, after every epoch
        elapsed = time.monotonic() - self.last_save
        is_time = not self.save_seconds or elapsed > LEAST_SECONDS_BETWEEN_SAVES
        return is_over or is_looked_at or (is_time and self.save_seconds < SHARE_OF_SAVING * elapsed)

    def save(self, trainer: Trainer) -> None:
        """Write the trajectory and the checkpoint."""
        begun = time.monotonic()
        self.ownership.verify()
        self.folder.write_metrics(trainer.rows)
        write_torch(self.folder.checkpoint, trainer.state_dict())
        if not self.save_seconds:
            self._check_checkpoint(trainer)
        self.last_save = time.monotonic()
        self.save_seconds = self.last_save - begun
        self.saved = (trainer.searched, trainer.step)

    def _check_checkpoint(self, trainer: Trainer) -> None:
        """Read the first checkpoint of an attempt again: better to fail now than when the run is to go on from it."""
        try:
            read_torch(self.folder.checkpoint)
        except ValueError as error:
            name = trainer.spec.method.name
            raise UserError(
                f"A file cannot hold what `state_dict` of the method {name!r} returns ({error}). Return tensors, "
                f"numbers, texts, lists and dictionaries only; `augbench check method {name}` tells more."
            ) from None


def seconds_between_reports() -> float:
    """Return how often a run reports its progress, which depends on what has placed it."""
    is_local = os.environ.get(LAUNCHER_VARIABLE, "local") == "local"
    return SECONDS_BETWEEN_REPORTS if is_local else HEARTBEAT_SECONDS
