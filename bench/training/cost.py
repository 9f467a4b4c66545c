"""Clocks and counters of what a run costs, one for each phase."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from augbench.bench.training.provenance import describe_device

if TYPE_CHECKING:  # whoever reads records of costs needs no torch
    import torch

PHASES = ("search", "training", "evaluation", "compilation")
COMPARED = ("search", "training")
"""Phases whose time is what a method costs, in tables and figures."""

Clock = Callable[[], float]


@dataclass
class Cost:
    """Seconds of wall-clock time and images passed through a network, by phase.

    Attributes:
        device: Device to wait for before a clock is read.
        seconds: By name of device, seconds of each phase: a run that goes on elsewhere has several, never added up.
        image_passes: Images that went through a network in each phase, forwards.
        plain_steps: The seconds of each phase, divided by those of a plain step where and when they passed, so that
            they add up over devices; None once time has passed without that unit.
        plain_step_timings: How the plain step of each attempt was timed.
        plain_step_seconds: Seconds of the plain step in this attempt; None if it was not timed.
        passes_of_an_image: By phase, how often the predictor puts an image through the network; once if it is not
            there.
    """

    device: "torch.device"
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    image_passes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PHASES, 0))
    plain_steps: dict[str, float] | None = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    plain_step_timings: list[dict[str, Any]] = field(default_factory=list)
    plain_step_seconds: float | None = None
    passes_of_an_image: Mapping[str, int] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of the block to a phase, also when it is left by an exception."""
        seconds = self.seconds.setdefault(describe_device(self.device), dict.fromkeys(PHASES, 0.0))
        start = self.now()
        try:
            yield
        finally:
            elapsed = self.now() - start
            seconds[name] += elapsed
            self._add_plain_steps(name, elapsed)

    def count(self, name: str, images: int) -> None:
        """Count images that a phase has put through the network."""
        self.image_passes[name] += images * self.passes_of_an_image.get(name, 1)

    def _add_plain_steps(self, name: str, seconds: float) -> None:
        if self.plain_step_seconds is None:
            self.plain_steps = None
        elif self.plain_steps is not None:
            self.plain_steps[name] += seconds / self.plain_step_seconds

    def count_in_plain_steps(self, seconds: float, timing: dict[str, Any]) -> None:
        """Count what follows in plain steps, too.

        Args:
            seconds: Of one plain step, here and now.
            timing: How that was timed, for the record.
        """
        self.plain_step_seconds = seconds
        self.plain_step_timings.append({**timing, "seconds": seconds})

    def forget(self, name: str) -> None:
        """Set a phase back to nothing, where what was done in it is lost and begins again."""
        for seconds in self.seconds.values():
            seconds[name] = 0.0
        self.image_passes[name] = 0
        if self.plain_steps is not None:
            self.plain_steps[name] = 0.0

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint and a result hold of it."""
        return {
            "seconds": self.seconds,
            "image_passes": self.image_passes,
            "plain_steps": self.plain_steps,
            "plain_step_timings": self.plain_step_timings,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; earlier versions counted no plain steps."""
        self.seconds, self.image_passes = dict(state["seconds"]), dict(state["image_passes"])
        plain_steps = state.get("plain_steps")
        self.plain_steps = None if plain_steps is None else dict(plain_steps)
        self.plain_step_timings = list(state.get("plain_step_timings", []))

    def now(self) -> float:
        """Return the seconds of a clock when the device has finished its work."""
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.device)
        return time.monotonic()


def repeated(work: Callable[[], object], now: Clock, *, fewest: int, most: int, seconds: float) -> list[float]:
    """Do work repeatedly; return the seconds of each time.

    Args:
        work: What to do.
        now: The clock.
        fewest: Number of times at least, however long they take.
        most: Number of times at most.
        seconds: No more is begun once so many have passed.
    """
    times: list[float] = []
    while len(times) < most and (len(times) < fewest or sum(times) < seconds):
        start = now()
        work()
        times.append(now() - start)
    return times
