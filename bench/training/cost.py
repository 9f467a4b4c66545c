"""Clocks and counters of what a run costs, one for each phase."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from augbench.bench.training.provenance import describe_device

if TYPE_CHECKING:  # whoever reads records of costs needs no torch
    import torch

PHASES = ("search", "training", "evaluation", "compilation")


@dataclass
class Cost:
    """Seconds of wall-clock time and images passed through a network, by phase.

    Attributes:
        device: Device to wait for before a clock is read.
        seconds: By name of device, seconds of each phase: a run that goes on elsewhere has several, never added up.
        image_passes: Images that went through a network in each phase, forwards.
    """

    device: "torch.device"
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    image_passes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PHASES, 0))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of the block to a phase, also when it is left by an exception."""
        seconds = self.seconds.setdefault(describe_device(self.device), dict.fromkeys(PHASES, 0.0))
        start = self._now()
        try:
            yield
        finally:
            seconds[name] += self._now() - start

    def forget(self, name: str) -> None:
        """Set a phase back to nothing, where what was done in it is lost and begins again."""
        for seconds in self.seconds.values():
            seconds[name] = 0.0
        self.image_passes[name] = 0

    def _now(self) -> float:
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.device)
        return time.monotonic()
