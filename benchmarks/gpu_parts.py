"""Parts of a long measurement: each in a process of its own, within its own time, its numbers kept at once."""

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from augbench.bench.common.user_code import USER_CODE_ERRORS, format_exception
from benchmarks.rows import Goal

SHORTEST = 2.0  # seconds: with less, a part is not begun
SECONDS_TO_END = 5.0  # for a process that has said that it is done
GOAL = "goal: "  # how the name of a number begins that has one
_ENDED = ""  # what a process says last, in place of the name of a number


class State(StrEnum):
    """How a part ended."""

    DONE = "done"
    SKIPPED = "skipped"
    OUT_OF_TIME = "out of time"
    FAILED = "failed"


@dataclass(frozen=True)
class Work:
    """The input of a part.

    Attributes:
        device: Where it is measured.
        folder: What was carried along.
        quick: Whether to take the smallest sizes.
        earlier: By part, what those before this one have found.
        deadline: When its process is killed, by the monotonic clock.
        add: Told the name and value of each number, which are in the file from then on; JSON values only.
    """

    device: torch.device
    folder: Path
    quick: bool = False
    earlier: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    deadline: float = float("inf")
    add: Callable[[str, Any], None] = lambda name, value: None

    @property
    def seconds_left(self) -> float:
        """Time until the process is killed."""
        return self.deadline - time.monotonic()

    def add_goal(self, name: str, value: float, goal: Goal) -> None:
        """Record a number that has a goal."""
        bound = {"bound": goal.bound, "at_least": goal.at_least}
        self.add(f"{GOAL}{name}", {"value": value, **bound, "met": goal.met(value)})


@dataclass(frozen=True)
class Part:
    """A part of the measurement.

    Attributes:
        name: Its name in the file.
        seconds: Time that is kept for it, the start of its process included.
        measure: Measures.
        needs_gpu: Whether it is skipped on a CPU.
    """

    name: str
    seconds: float
    measure: Callable[[Work], None]
    needs_gpu: bool = False


@dataclass
class Outcome:
    """The outcome of a part.

    Attributes:
        state: How it ended.
        reason: Why it ended so, where it was not done.
        allowed: Seconds after which it would have been killed.
        seconds: Seconds that it took.
        found: Its numbers.
    """

    state: State
    reason: str = ""
    allowed: float = 0.0
    seconds: float = 0.0
    found: dict[str, Any] = field(default_factory=dict)


def attempt(measurement: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the measurement, or the reason of its failure in words, so that the next one still takes place."""
    try:
        return measurement()
    except USER_CODE_ERRORS as error:  # it becomes a record
        return {"failed": format_exception(error)}


def measure_parts(
    parts: Sequence[Part], work: Work, seconds: float, keep: Callable[[Mapping[str, Outcome]], None]
) -> dict[str, Outcome]:
    """Measure all parts one after the other.

    A part has the time that is kept for it and may use what those before it have left, as long as nothing is taken from
    those after it. Where the time is not enough for all, the last ones are left out.

    Args:
        parts: The parts, the most important first.
        work: What each of them is given; its deadline, what was found earlier and where numbers go are filled in here.
        seconds: Time for all of them.
        keep: Given everything after each number.
    """
    end = time.monotonic() + seconds
    outcomes: dict[str, Outcome] = {}
    for position, part in enumerate(parts):
        later = sum(other.seconds for other in parts[position + 1 :] if not _misses_gpu(other, work))
        left = end - time.monotonic()
        earlier = {name: dict(one.found) for name, one in outcomes.items()}
        outcome = outcomes[part.name] = Outcome(State.SKIPPED, allowed=min(left, max(part.seconds, left - later)))
        if _misses_gpu(part, work):
            outcome.reason = "It needs a GPU."
        elif outcome.allowed < SHORTEST:
            outcome.reason = "The time was used up."
        else:
            _measure(part, work, earlier, outcome, lambda: keep(outcomes))
        keep(outcomes)
    return outcomes


def _misses_gpu(part: Part, work: Work) -> bool:
    return part.needs_gpu and work.device.type != "cuda"


def _measure(
    part: Part, work: Work, earlier: Mapping[str, Mapping[str, Any]], outcome: Outcome, keep: Callable[[], None]
) -> None:
    """Measure a part in a process that is forked, so that nothing has to be imported again."""
    start = time.monotonic()
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    deadline = start + outcome.allowed
    given = replace(work, earlier=earlier, deadline=deadline, add=lambda *pair: sender.send(pair))
    process = context.Process(target=_in_own_process, args=(part, given, sender))
    process.start()
    sender.close()
    try:
        outcome.state, outcome.reason = _listen(receiver, process, given, outcome.found, keep)
    finally:
        _end(process, SECONDS_TO_END if outcome.state in (State.DONE, State.FAILED) else 0)
        receiver.close()
        outcome.seconds = time.monotonic() - start


def _listen(
    receiver: Connection, process: BaseProcess, work: Work, found: dict[str, Any], keep: Callable[[], None]
) -> tuple[State, str]:
    """Collect the messages of the process until it is done, dead or out of time."""
    while ready := wait([receiver, process.sentinel], max(0.0, work.seconds_left)):
        if receiver not in ready:
            process.join()
            return State.FAILED, f"Its process ended with status {process.exitcode}."
        try:
            name, value = receiver.recv()
        except EOFError:
            process.join()
            return State.FAILED, f"Its process ended with status {process.exitcode}."
        if name == _ENDED:
            return (State.FAILED, value) if value else (State.DONE, "")
        found[name] = value
        keep()
    return State.OUT_OF_TIME, "It was ended when its time was used up; what it had found until then is kept."


def _end(process: BaseProcess, patience: float) -> None:
    """Wait for a process to end, or kill it; kill all processes that it has started in any case."""
    process.join(patience)
    if process.pid is not None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def _in_own_process(part: Part, work: Work, sender: Connection) -> None:
    os.setsid()  # so that it can be killed together with the compilers that it starts
    trouble = ""
    try:
        part.measure(work)
    except USER_CODE_ERRORS:  # it becomes a record, and the next part may do better
        trouble = traceback.format_exc()
    sender.send((_ENDED, trouble))
