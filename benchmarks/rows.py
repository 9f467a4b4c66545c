"""Input and output of the sections, without libraries that a machine that only measures may lack."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch

from benchmarks.timing import Clock, Contestant, Spread, device_clock, paired_ratio, spread, take_turns


def say_nothing(done: int, total: int, what: str) -> None:
    """Show no progress."""


def keep_nothing(rows: Sequence["Row"]) -> None:
    """Ignore a single row."""


@dataclass(frozen=True)
class Settings:
    """The settings of a measurement.

    Attributes:
        device: Where it is measured.
        repeats: Rounds of each comparison.
        threads: CPU threads, also of the processes that a section starts; the caller sets those of its own process.
        quick: Whether a glance is enough: the smallest shapes only, as tests need them.
        processor_time: Whether contestants that take turns are timed by what they keep the processor busy, all threads
            together, on a CPU that other programs use, too.
        progress: Told before each case how many are done, how many there are and which one begins.
        keep: Given the rows of each case as soon as they are measured, where waiting for all could lose them.
    """

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    repeats: int = 20
    threads: int = 2
    quick: bool = False
    processor_time: bool = False
    progress: Callable[[int, int, str], None] = say_nothing
    keep: Callable[[Sequence["Row"]], None] = keep_nothing

    @property
    def clock(self) -> Clock:
        """The clock of the device, or of the processor."""
        return time.process_time if self.processor_time else device_clock(self.device)


@dataclass(frozen=True)
class Goal:
    """The goal of a row.

    Attributes:
        bound: The bound.
        at_least: Whether the bound is a lower one.
    """

    bound: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Whether a value reaches it."""
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True)
class Row:
    """One contestant in one case.

    Attributes:
        section: Name of the section.
        case: What is compared: shape, batch, network.
        contestant: Who.
        values: What was measured in each round, in `unit`, for one call.
        unit: Seconds, bytes, or nothing for what is counted.
        images: Images of one call, 0 where that says nothing.
        reference: The contestant of the same case by whose values these are divided, round by round.
        ratio: Those ratios; None without a reference.
        goal: For the ratio or, where there is none, for the value.
    """

    section: str
    case: str
    contestant: str
    values: Sequence[float]
    unit: Literal["s", "B", ""] = "s"
    images: int = 0
    reference: str = ""
    ratio: Spread | None = None
    goal: Goal | None = None

    @property
    def value(self) -> Spread:
        """Median and quartiles over the rounds."""
        return spread(self.values)

    @property
    def images_per_second(self) -> float | None:
        """At the median time."""
        return self.images / self.value.median if self.images and self.unit == "s" else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met by the median; None where there is no goal."""
        if self.goal is None:
            return None
        return self.goal.met((self.ratio or self.value).median)

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        more = {"value": asdict(self.value), "images_per_second": self.images_per_second, "met": self.met}
        return asdict(self) | {"values": list(self.values)} | more


@dataclass(frozen=True)
class Entry:
    """A contestant and the contents of its row beside its times.

    Attributes:
        run: What is timed.
        reference: The contestant whose times its own are divided by, or nothing.
        goal: For the ratio, or for the time where there is no reference.
    """

    run: Contestant
    reference: str = ""
    goal: Goal | None = None


def compare(section: str, case: str, entries: Mapping[str, Entry], settings: Settings, images: int = 0) -> list[Row]:
    """Let contestants take turns and return a row for each.

    Args:
        section: Name of the section.
        case: What is compared.
        entries: Contestants by name.
        settings: How it is measured.
        images: Images of one call.
    """
    seconds = take_turns({name: entry.run for name, entry in entries.items()}, settings.repeats, settings.clock)
    rows = [
        Row(
            section,
            case,
            name,
            seconds[name],
            images=images,
            reference=entry.reference,
            ratio=paired_ratio(seconds[name], seconds[entry.reference]) if entry.reference else None,
            goal=entry.goal,
        )
        for name, entry in entries.items()
    ]
    settings.keep(rows)
    return rows
