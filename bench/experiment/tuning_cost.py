"""The cost of a tuning, part of the cost of a method's results; stored beside the runs that use its values."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

NAME = "tuning.json"
"""File beside a run's specification with its `TuningCost`."""

SearchKind = Literal["random", "optuna", "asha"]


class TuningCost(BaseModel):
    """How many settings were tried for a method on a data set, and the cost.

    Attributes:
        trials: Settings tried, the defaults included.
        search: How they were chosen: `random`, `optuna` or `asha`.
        seconds: Wall-clock seconds of all trials by device, never summed over devices.
        image_passes: Forward passes of images through a network in all trials.
        values: Those that were chosen, by hyperparameter; empty where an earlier version has not kept them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    trials: int = Field(ge=1)
    search: SearchKind
    seconds: dict[str, float]
    image_passes: int = Field(ge=0)
    values: dict[str, JsonValue] = {}


@dataclass
class Spent:
    """Seconds by device and phase, and image passes by phase, summed over runs."""

    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    image_passes: dict[str, int] = field(default_factory=dict)

    def add(self, other: "Spent") -> None:
        """Add those of another one."""
        for device, phases in other.seconds.items():
            own = self.seconds.setdefault(device, {})
            for phase, seconds in phases.items():
                own[phase] = own.get(phase, 0.0) + seconds
        for phase, images in other.image_passes.items():
            self.image_passes[phase] = self.image_passes.get(phase, 0) + images

    @property
    def by_device(self) -> dict[str, float]:
        """Seconds of all phases, by device."""
        return {device: sum(phases.values()) for device, phases in self.seconds.items()}

    @property
    def passes(self) -> int:
        """Image passes of all phases."""
        return sum(self.image_passes.values())


def total(parts: Iterable[Spent]) -> Spent:
    """Add up."""
    whole = Spent()
    for part in parts:
        whole.add(part)
    return whole
