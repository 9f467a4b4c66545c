"""Execute one run, the same way wherever a launcher has placed it."""

import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from augbench.bench.common.errors import DivergedError, RetryableError, UnfitMachineError, UserError
from augbench.bench.common.files import atomic_write, read_json, read_torch, write_json, write_torch
from augbench.bench.common.user_code import USER_CODE_ERRORS, format_exception
from augbench.bench.contract.method import Method, learned_numbers
from augbench.bench.data.dataset import ImageData
from augbench.bench.data.dataset_checks import load_checked
from augbench.bench.experiment.catalogues import dataset_and_options
from augbench.bench.experiment.spec import Component
from augbench.bench.registry.plugins import plugin_files
from augbench.bench.runs.causes import Cause, cause_of
from augbench.bench.runs.claim import BusyError, TakenOverError, heartbeat
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.run_log import crashes_to, log_to, logger
from augbench.bench.runs.sound_status import IDLE_ATTEMPTS
from augbench.bench.training.corrupted_images import corrupted_images
from augbench.bench.training.evaluation import compare_with_planted, evaluate, summarise
from augbench.bench.training.examples import draw_examples, write_examples
from augbench.bench.training.execution import Execution
from augbench.bench.training.plain_step import time_plain_step
from augbench.bench.training.probe import rotation_probe
from augbench.bench.training.process_memory import keep_freed_memory
from augbench.bench.training.process_state import put_back, threads_left_behind
from augbench.bench.training.provenance import choose_device, describe_device, describe_environment
from augbench.bench.training.shift import shift_probe
from augbench.bench.training.stopping import StopCause, StopRequested, StopSignal
from augbench.bench.training.trainer import Trainer, new_trainer

HOW_STOPPED = {
    StopCause.REQUESTED: (RunState.CANCELLED, Cause.CANCELLED, "Stopped on request"),
    StopCause.CANCELLED: (RunState.CANCELLED, Cause.CANCELLED, "Cancelled with `augbench cancel`"),
    StopCause.SCHEDULER: (RunState.KILLED, Cause.KILLED, "Stopped by the scheduler"),
    StopCause.LAUNCHER_GONE: (RunState.KILLED, Cause.KILLED, "The launcher is gone"),
    StopCause.EARLY_STOPPED: (RunState.CANCELLED, Cause.STOPPED_EARLY, "Other values of the tuning did better"),
}


def execute(folder: RunFolder, settings: ExecutionSettings, stop: StopSignal) -> RunState:
    """Execute a run from its last checkpoint to its result and record how it ended.

    Args:
        folder: The run's folder, with its specification.
        settings: Device, threads and data folder.
        stop: Asked after every step.

    Returns:
        The state in which the run is now.

    Raises:
        BusyError: If another process is executing it, or has taken it over.
    """
    ended = (RunState.DONE, RunState.FAILED)  # by another launcher, since this one has made its plan
    if (state := folder.state()) in ended or folder.cancel_request.exists():
        return state
    with folder.claim() as ownership:
        if (state := folder.state()) in ended:
            return state
        folder.clear_temporary_files()
        execution = Execution(folder, ownership, stop, {"host": socket.gethostname()})
        try:
            with log_to(folder.log), heartbeat(execution.beat):
                return _recorded(execution, settings)
        except TakenOverError:
            raise BusyError(str(folder.path)) from None


def _recorded(execution: Execution, settings: ExecutionSettings) -> RunState:
    """Run and record the outcome: the one place where any exception is caught, since it becomes a record."""
    state = RunState.DONE
    details: dict[str, Any] = {}
    idle = execution.folder.read_status().get(IDLE_ATTEMPTS, 0)
    execution.record(RunState.RUNNING)
    try:
        _run(execution, settings)
    except StopRequested:
        state, details = _stopped(execution, idle)
    except UnfitMachineError as error:
        reason = f"On {socket.gethostname()}: {error}"
        state, details = RunState.KILLED, {"cause": Cause.UNFIT_MACHINE, "reason": reason}
    except RetryableError as error:
        state, details = RunState.KILLED, {"cause": Cause.KILLED, "reason": str(error)}
    except TakenOverError:
        raise
    except (*USER_CODE_ERRORS, KeyboardInterrupt) as error:  # Ctrl-C reaches no worker: a method has raised the last
        state, details = RunState.FAILED, _describe(error)
        logger.exception("attempt %d failed", execution.ownership.attempt)
    if state is RunState.DONE:
        execution.ownership.verify()
        execution.folder.delete_what_is_not_needed()
    else:
        execution.record(state, **details)
    return state


def _stopped(execution: Execution, idle: int) -> tuple[RunState, dict[str, Any]]:
    """Describe the end of an attempt that was asked to stop."""
    cause = execution.stop.cause or StopCause.REQUESTED
    if cause is StopCause.TAKEN_OVER:
        raise TakenOverError(str(execution.folder.path))
    state, kind, how = HOW_STOPPED[cause]
    signals = f" ({', '.join(execution.stop.received)})" if execution.stop.received else ""
    is_final = cause is StopCause.EARLY_STOPPED
    then = "the tuning does not resume it" if is_final else "it is saved, and the same command resumes it"
    reason = f"{how}{signals}; {then}."
    idle = idle + 1 if execution.saved == execution.begun else 0
    return state, {"cause": kind, "reason": reason, "signals": execution.stop.received, IDLE_ATTEMPTS: idle}


def _describe(error: BaseException) -> dict[str, str]:
    reason = str(error) if isinstance(error, UserError) else format_exception(error, *plugin_files())
    trace = traceback.format_exc()
    return {"cause": cause_of(error), "reason": reason, "exception": type(error).__name__, "traceback": trace}


def _run(execution: Execution, settings: ExecutionSettings) -> None:
    execution.stop.check()
    device = choose_device(settings.device)
    execution.where["device"] = describe_device(device)
    torch.set_num_threads(settings.threads)
    keep_freed_memory()
    surroundings = _record_environment(execution, device, settings)
    threads = threading.enumerate()
    with put_back(_log_what_was_put_back):  # other runs follow in this process
        trainer = _begin(execution, settings.data, device)
        time_plain_step(trainer, execution.stop)
        _train(execution, trainer)
        execution.report("evaluation")
        _finish(execution, trainer, surroundings["code"], settings.data)
    if names := threads_left_behind(threads):
        logger.warning("The run has ended, but threads that it started have not: %s.", ", ".join(names))


def _log_what_was_put_back(names: Sequence[str]) -> None:
    logger.warning("The run changed settings, put back for the next one in this process: %s.", ", ".join(names))


def _begin(execution: Execution, data: Path, device: torch.device) -> Trainer:
    """Build the run, and go on from its checkpoint if there is one."""
    folder = execution.folder
    spec = folder.read_spec()
    trainer = new_trainer(spec, load_dataset(spec.dataset, data), device)
    execution.trainer = trainer
    execution.report("preparation")
    if folder.checkpoint.exists():
        _go_on_from(folder.checkpoint, trainer)
        logger.info("attempt %d goes on from step %d", execution.ownership.attempt, trainer.step)
    execution.begun = execution.saved = (trainer.searched, trainer.step)
    return trainer


def _train(execution: Execution, trainer: Trainer) -> None:
    try:
        trainer.train(execution)
    except StopRequested:
        if execution.stop.cause is not StopCause.TAKEN_OVER:
            execution.save(trainer)
        raise
    except DivergedError:
        execution.folder.write_metrics(trainer.rows)  # shows when it began
        raise


def _finish(execution: Execution, trainer: Trainer, code: dict[str, Any], data_root: Path) -> None:
    """Evaluate and write the result; the result comes last, since its presence means that the run is done."""
    folder, spec, cost, test = execution.folder, trainer.spec, trainer.cost, trainer.data.test
    check = execution.stop.check
    policy = trainer.method.test_policy()
    predictions = evaluate(trainer.network, policy, test, spec.protocol, spec.seed, cost, check)
    probed, side = trainer.data.probe_images, trainer.data.image_size
    probe = rotation_probe(trainer.network, probed, spec.protocol.probed_angles, cost, check, side)
    shift = _shift(trainer, data_root, check)
    mean, deviation = trainer.data.mean_and_deviation
    result = {
        "identity": spec.identity,
        "metrics": summarise(predictions, spec.protocol.calibration_bins),
        "rotation_probe": probe,
        **shift,
        "learned": learned_numbers(trainer.method),
        "learned_at_start": learned_numbers(trainer.method, trainer.learned_at_start),
        **cost.state_dict(),
        "epochs": trainer.epochs,
        "code": code,
        "train_images": len(trainer.data.train),
        "test_images": len(test),
        "data": trainer.data.provenance,
        "channels": {"mean": mean.tolist(), "deviation": deviation.tolist()},
        "search_images": trainer.search_images,
        "attempts": execution.ownership.attempt,
        "policy": _described(trainer.method),
        **compare_with_planted(trainer.method, trainer.data.planted, spec.protocol, spec.seed),
    }
    execution.ownership.verify()
    with atomic_write(folder.predictions) as file:
        np.savez_compressed(file, **predictions.arrays())  # type: ignore[arg-type]
    state = {"identity": spec.identity, "network": trainer.network.state_dict()}
    write_torch(folder.model, state | {"method": trainer.method.state_dict()})
    write_examples(folder, draw_examples(trainer))
    execution.ownership.verify()
    write_json(folder.path / "result.json", result)


def _shift(trainer: Trainer, data_root: Path, check: Callable[[], object]) -> dict[str, Any]:
    """Score the network on corrupted test images where the protocol asks for it."""
    protocol = trainer.spec.protocol
    if protocol.probed_shift is None:
        return {}
    corrupted = corrupted_images(trainer.data.test, protocol.probed_shift, data_root)
    return {"shift": shift_probe(trainer.network, corrupted, protocol.calibration_bins, trainer.cost, check)}


def _described(method: Method[Any]) -> dict[str, Any] | None:
    """Describe the policy, for `augbench export`; a run is not to fail at its very end for the lack of it."""
    try:
        found = method.describe_policy()
        return None if found is None else found.model_dump(mode="json")
    except USER_CODE_ERRORS as error:
        logger.warning("The policy is not kept with the result: %s", error)
        return None


def _record_environment(execution: Execution, device: torch.device, settings: ExecutionSettings) -> dict[str, Any]:
    """Add this attempt's surroundings to those of earlier ones and return them."""
    path = execution.folder.path / "environment.json"
    earlier = _earlier_attempts(path)
    surroundings = {
        "attempt": execution.ownership.attempt,
        "workers": settings.workers,
        **describe_environment(device),
    }
    write_json(path, {"attempts": [*earlier, surroundings]})
    return surroundings


def _earlier_attempts(path: Path) -> list[Any]:
    """Read the surroundings of earlier attempts; where they are damaged, the run goes on all the same."""
    if not path.exists():
        return []
    try:
        attempts = read_json(path)["attempts"]
        if not isinstance(attempts, list):
            raise ValueError(f"{path.name} holds no list of attempts")
    except (ValueError, KeyError) as error:
        aside = path.with_name("environment-damaged.json")
        path.replace(aside)
        logger.warning("The record of earlier attempts is damaged; it is kept as %s: %s", aside.name, error)
        return []
    return attempts


def load_dataset(component: Component, root: Path) -> ImageData:
    """Load a data set of a specification.

    Raises:
        UserError: If a file is missing or damaged, or runs cannot use what is loaded.
    """
    return load_checked(*dataset_and_options(component.name, component.all_settings), root)


def _go_on_from(path: Path, trainer: Trainer) -> None:
    """Load a checkpoint into a run. It is read into main memory; what it is loaded into copies it to a GPU."""
    advice = "Repeat the command with --retry-failed to start this run from the beginning."
    try:
        state = read_torch(path)
    except ValueError as error:
        raise UserError(f"The checkpoint {path} is damaged: {error}. {advice}") from None
    if state.get("identity") != trainer.spec.identity:
        raise UserError(f"The checkpoint {path} belongs to another run. {advice}")
    try:
        trainer.load_state_dict(state)
    except UserError:
        raise
    except USER_CODE_ERRORS as error:  # a plug-in may load part of it
        said = format_exception(error, *plugin_files())
        raise UserError(
            f"The run cannot resume from its checkpoint {path}: {said}. Other code wrote it, or it is damaged. {advice}"
        ) from error


def serve(settings: ExecutionSettings, parent: int) -> None:
    """Execute the runs that come in on standard input, and answer each with its state.

    First it says that it is ready. Each line is a JSON list of the run's CPU threads and its folder, so that a folder
    may have any name.
    """
    stop = StopSignal(parent)
    stop.install({signal.SIGTERM: StopCause.REQUESTED})
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a method prints is no answer
    answers.write("ready\n")  # all is imported
    answers.flush()
    status = 0
    for line in sys.stdin:
        threads, path = json.loads(line)
        try:
            with crashes_to((folder := RunFolder(Path(path))).log):
                answer = str(execute(folder, replace(settings, threads=threads), stop))
        except BusyError:
            answer = "busy"
        except UserError as error:  # nothing could be recorded: the launcher passes it on
            sys.stderr.write(str(error))
            status = 1
            break
        answers.write(answer + "\n")
        answers.flush()
    sys.stderr.flush()
    os._exit(status)  # whatever threads a method has left behind


if __name__ == "__main__":
    _device, _workers, _data, _parent = sys.argv[1:]
    serve(ExecutionSettings(_device, int(_workers), 1, Path(_data)), int(_parent))
