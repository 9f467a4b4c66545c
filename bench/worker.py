"""Execute one run, the same way wherever a launcher has placed it."""

import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from augbench.bench.catalogues import dataset_and_options
from augbench.bench.dataset import ImageData
from augbench.bench.environment import choose_device, describe_environment
from augbench.bench.errors import CannotGoOnError, UserError
from augbench.bench.evaluation import compare_with_planted, evaluate, summarise
from augbench.bench.files import atomic_write, read_json, read_torch, write_json, write_torch
from augbench.bench.foreign import FOREIGN_ERRORS, in_words
from augbench.bench.launchers.launcher import Placement
from augbench.bench.plugins import plugin_files
from augbench.bench.probe import rotation_probe
from augbench.bench.run_folder import BusyError, RunFolder, RunState
from augbench.bench.spec import Component
from augbench.bench.training import StopRequested, Trainer, new_trainer

SECONDS_BETWEEN_REPORTS = 1.0

logger = logging.getLogger("augbench")


class StopSignal:
    """Whether this process was asked to stop: by SIGTERM, or because the process that started it is gone.

    Args:
        parent: Process id of the one that started it.
    """

    def __init__(self, parent: int) -> None:
        self.received = False
        self.parent = parent

    def install(self) -> None:
        """Take SIGTERM as a request; leave Ctrl-C to the launcher, which passes it on."""
        signal.signal(signal.SIGTERM, self._receive)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = True

    def check(self) -> None:
        """Raise StopRequested if so."""
        if self.received or os.getppid() != self.parent:
            raise StopRequested


@dataclass
class Execution:
    """One attempt at a run."""

    folder: RunFolder
    attempt: int
    stop: StopSignal
    last_report: float = 0.0

    def report(self, trainer: Trainer, phase: str) -> None:
        """Record how far the run is."""
        self.last_report = time.monotonic()
        done = {"phase": phase, "step": trainer.step, "steps": trainer.total_steps, "epoch": len(trainer.rows)}
        self.folder.write_status(RunState.RUNNING, attempt=self.attempt, **done)

    def during_search(self, trainer: Trainer) -> None:
        """Report now and then, and stop if asked to."""
        self._report_or_stop(trainer, "search")

    def after_step(self, trainer: Trainer) -> None:
        """Report now and then, and stop if asked to."""
        self._report_or_stop(trainer, "training")

    def _report_or_stop(self, trainer: Trainer, phase: str) -> None:
        if time.monotonic() - self.last_report > SECONDS_BETWEEN_REPORTS:
            self.report(trainer, phase)
        self.stop.check()

    def after_phase(self, trainer: Trainer) -> None:
        """Save what a resumed run needs."""
        for row in trainer.rows[-1:]:
            logger.info("epoch %d: loss %.4f, training accuracy %.4f", row["epoch"], row["loss"], row["accuracy"])
        self.save(trainer)

    def save(self, trainer: Trainer) -> None:
        """Write the trajectory and the checkpoint."""
        self.folder.write_metrics(trainer.rows)
        write_torch(self.folder.checkpoint, trainer.state_dict())


def execute(folder: RunFolder, placement: Placement, stop: StopSignal) -> RunState:
    """Execute a run from its last checkpoint to its result and record how it ended.

    Args:
        folder: The run's folder, with its specification.
        placement: Device, threads and data folder.
        stop: Asked after every step.

    Returns:
        The state in which the run is now.

    Raises:
        BusyError: If another process is executing it.
    """
    with folder.claim():
        before = folder.state()
        if before in (RunState.DONE, RunState.FAILED):  # by another launcher, since this one has made its plan
            return before
        folder.clear_temporary_files()
        attempt = folder.read_status().get("attempt", 0) + 1
        folder.write_status(RunState.RUNNING, attempt=attempt)
        execution = Execution(folder, attempt, stop)
        with _log_to(folder.log):
            return _recorded(execution, placement)


def _recorded(execution: Execution, placement: Placement) -> RunState:
    """Run and record the outcome: the one place where any exception is caught, since it becomes a record."""
    folder, attempt = execution.folder, execution.attempt
    state, details = RunState.DONE, {}
    try:
        _run(execution, placement)
    except StopRequested:
        state, details = RunState.CANCELLED, {"reason": "Stopped on request; the same command goes on from here."}
    except CannotGoOnError as error:
        state, details = RunState.KILLED, {"reason": str(error)}
    except FOREIGN_ERRORS as error:
        state, details = RunState.FAILED, _describe(error)
        logger.exception("attempt %d failed", attempt)
    folder.write_status(state, attempt=attempt, **details)
    return state


def _describe(error: BaseException) -> dict[str, str]:
    reason = str(error) if isinstance(error, UserError) else in_words(error, *plugin_files())
    return {"reason": reason, "exception": type(error).__name__, "traceback": traceback.format_exc()}


def _run(execution: Execution, placement: Placement) -> None:
    folder = execution.folder
    device = choose_device(placement.device)
    torch.set_num_threads(placement.threads)
    surroundings = _record_environment(execution, device, placement)
    spec = folder.read_spec()
    trainer = new_trainer(spec, load_dataset(spec.dataset, placement.data), device)
    execution.report(trainer, "preparation")
    if folder.checkpoint.exists():
        trainer.load_state_dict(_load(folder.checkpoint, spec.identity))
        logger.info("attempt %d goes on from step %d", execution.attempt, trainer.step)
    try:
        trainer.train(execution)
    except StopRequested:
        execution.save(trainer)
        raise
    execution.report(trainer, "evaluation")
    _finish(execution, trainer, surroundings["code"])


def _finish(execution: Execution, trainer: Trainer, code: dict[str, Any]) -> None:
    """Evaluate and write the result; the result comes last, since its presence means that the run is done."""
    folder, spec, cost, test = execution.folder, trainer.spec, trainer.cost, trainer.data.test
    policy = trainer.method.test_policy()
    predictions = evaluate(trainer.network, policy, test, spec.protocol, spec.seed, cost)
    execution.stop.check()
    probe = rotation_probe(trainer.network, trainer.data.probe_images, spec.protocol.probe_angles, cost)
    with atomic_write(folder.predictions) as file:
        np.savez_compressed(file, **predictions.arrays())  # type: ignore[arg-type]
    state = {"identity": spec.identity, "network": trainer.network.state_dict()}
    write_torch(folder.model, state | {"method": trainer.method.state_dict()})
    result = {
        "identity": spec.identity,
        "metrics": summarise(predictions, spec.protocol.calibration_bins),
        "rotation_probe": probe,
        "learned": trainer.method.learned(),
        "seconds": cost.seconds,
        "image_passes": cost.image_passes,
        "code": code,
        "train_images": len(trainer.data.train),
        "test_images": len(test),
        "data": trainer.data.provenance,
        "channels": _channel_statistics(trainer.data),
        "search_images": trainer.search_images,
        "attempts": execution.attempt,
        **compare_with_planted(trainer.method, trainer.data.planted, spec.protocol, spec.seed),
    }
    write_json(folder.path / "result.json", result)
    folder.checkpoint.unlink(missing_ok=True)


def _channel_statistics(data: ImageData) -> dict[str, list[float]]:
    mean, deviation = data.mean_and_deviation
    return {"mean": mean.tolist(), "deviation": deviation.tolist()}


def _record_environment(execution: Execution, device: torch.device, placement: Placement) -> dict[str, Any]:
    """Add this attempt's surroundings to those of earlier ones and return them."""
    path = execution.folder.path / "environment.json"
    earlier = read_json(path)["attempts"] if path.exists() else []
    surroundings = {"attempt": execution.attempt, "workers": placement.workers, **describe_environment(device)}
    write_json(path, {"attempts": [*earlier, surroundings]})
    return surroundings


def load_dataset(component: Component, root: Path) -> ImageData:
    """Load a data set of a specification.

    Raises:
        UserError: If a file is missing or damaged.
    """
    source, options = dataset_and_options(component.name, component.all_settings)
    return source.load(options, root)


def _load(path: Path, identity: str) -> dict[str, Any]:
    """Read a checkpoint into main memory; what belongs on a GPU is copied there by whatever it is loaded into."""
    advice = "Give the command again with --retry-failed to have this run start from the beginning."
    try:
        state = read_torch(path)
    except ValueError as error:
        raise UserError(f"The checkpoint {path} is damaged: {error}. {advice}") from None
    if state.get("identity") != identity:
        raise UserError(f"The checkpoint {path} belongs to another run. {advice}")
    return state


@contextmanager
def _log_to(path: Path) -> Iterator[None]:
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


def serve(placement: Placement, parent: int) -> None:
    """Execute the runs whose folders come in on standard input, a line each, and answer each with its state."""
    stop = StopSignal(parent)
    stop.install()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a method prints is no answer
    for line in sys.stdin:
        try:
            answer = str(execute(RunFolder(Path(line.rstrip("\n"))), placement, stop))
        except BusyError:
            answer = "busy"
        except UserError as error:  # nothing could be recorded: the launcher passes it on
            sys.exit(str(error))
        answers.write(answer + "\n")
        answers.flush()


if __name__ == "__main__":
    _device, _workers, _threads, _data, _parent = sys.argv[1:]
    serve(Placement(_device, int(_workers), int(_threads), Path(_data)), int(_parent))
