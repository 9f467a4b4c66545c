"""Sentences about the symmetries that each learner found."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from augbench.results.model.frame import Runs

FOUND, LEFT_OUT = 0.6, 0.1
"""Probability from which a block counts as found, and up to which it counts as left out."""

FAR_APART = 0.2
"""The range over seeds is given if it exceeds this fraction of their mean."""


@dataclass(frozen=True)
class _Unit:
    """How people write a stored number: converted, with a sign before and a unit after it."""

    before: str
    convert: Callable[[float], float]
    digits: int
    after: str

    def number(self, value: float) -> str:
        return f"{self.convert(value):.{self.digits}f}"

    def mean(self, values: Sequence[float]) -> str:
        return f"{self.before}{self.number(_mean(values))}{self.after}"

    def span(self, values: Sequence[float]) -> list[str]:
        """Give the lowest and the highest seed if they are far apart."""
        lowest, highest = self.convert(min(values)), self.convert(max(values))
        if highest - lowest <= FAR_APART * self.convert(_mean(values)):
            return []
        return [f"by seed {lowest:.{self.digits}f} to {highest:.{self.digits}f}"]


_PLAIN = _Unit("±", float, 2, "")
_PERCENT = _Unit("", lambda fraction: 100 * fraction, 0, " %")
_DEGREES = _Unit("±", math.degrees, 0, "°")
_FACTOR = _Unit("×", math.exp, 2, "")
# Half an image is the unit of translations, so that a whole width is 2.
_OF_THE_WIDTH = _Unit("±", lambda halves: 50 * halves, 0, " % of the width")
_OF_THE_HEIGHT = _Unit("±", lambda halves: 50 * halves, 0, " % of the height")


@dataclass(frozen=True)
class _Wording:
    """How a block is spoken of.

    Attributes:
        noun: What it does.
        unit: Unit that people think in.
        negligible: Range, as stored, below which the block hardly changes an image.
        moved: For blocks that change only half of the images that they are drawn for: what happens to those.
    """

    noun: str
    unit: _Unit = _PLAIN
    negligible: float = 0.0
    moved: str = ""


_WORDINGS = {
    "rotation": _Wording("rotation", _DEGREES, math.radians(5)),
    "x-scale": _Wording("scaling along x", _FACTOR, math.log(1.05)),
    "y-scale": _Wording("scaling along y", _FACTOR, math.log(1.05)),
    "uniform-scale": _Wording("scaling", _FACTOR, math.log(1.05)),
    "stretch": _Wording("stretching", _FACTOR, math.log(1.05)),
    "x-shear": _Wording("shearing along x", _PLAIN, 0.05),
    "symmetric-shear": _Wording("shearing along both axes", _PLAIN, 0.05),
    "x-translation": _Wording("shifting along x", _OF_THE_WIDTH, 0.04),  # 2 % of the width
    "y-translation": _Wording("shifting along y", _OF_THE_HEIGHT, 0.04),
    "half-turn": _Wording("half-turn", moved="turned upside down"),
    "flip": _Wording("flip", moved="mirrored"),
    "crop": _Wording("random crop"),
}


@dataclass(frozen=True)
class Block:
    """Learned numbers of one block, one for each seed; empty where the method learns no such number.

    Attributes:
        name: The block.
        probabilities: In [0, 1].
        ranges: As stored.
    """

    name: str
    probabilities: tuple[float, ...]
    ranges: tuple[float, ...]

    @property
    def wording(self) -> _Wording:
        """How it is spoken of."""
        return _WORDINGS.get(self.name, _Wording(self.name))

    def of_seed(self, position: int) -> "Block":
        """Return the numbers of one seed."""
        one = slice(position, position + 1)
        return Block(self.name, self.probabilities[one], self.ranges[one])

    def verdict(self) -> str:
        """`found`, `in part`, `hardly` or `left out`, from the means over seeds."""
        probability = _mean(self.probabilities) if self.probabilities else 1.0
        if probability <= LEFT_OUT:
            return "left out"
        if self.ranges and _mean(self.ranges) < self.wording.negligible:
            return "hardly"
        return "found" if probability >= FOUND else "in part"

    def describe(self) -> str:
        """Noun, range and fraction of images, such as "rotation up to ±166° (97 %)"."""
        verdict = self.verdict()
        if verdict in ("hardly", "left out"):
            return self.wording.noun
        words, details = self.wording.noun, []
        if self.ranges:
            words += f" up to {self.wording.unit.mean(self.ranges)}"
            details += self.wording.unit.span(self.ranges)
        if self.probabilities:
            details += [_PERCENT.mean(self.probabilities), *_PERCENT.span(self.probabilities)]
        if self.wording.moved:  # one of the two elements that such a block draws from is the identity
            details.append(f"every other one of them {self.wording.moved}")
        return f"{words} ({', '.join(details)})" if details else words


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def describe_range(block: str, ranges: Sequence[float]) -> str:
    """Write the mean of learned ranges, as stored, in the unit that people think in, such as "±166°"."""
    return _WORDINGS.get(block, _Wording(block)).unit.mean(ranges)


def findings(runs: Runs) -> list[str]:
    """Describe what the learners found: the learned numbers at the end of the finished runs, averaged over seeds.

    A block counts as found with a mean probability of at least `FOUND` (always, for methods that learn ranges only),
    as left out with at most `LEFT_OUT`, and as hardly used below 5° of rotation, 5 % of scale, 0.05 of shear or shifts
    of 2 % of the image.

    Returns:
        A sentence for each data set and method that learns, and one for the methods that learn nothing.

    Raises:
        UserError: If no run is finished.
    """
    finished = runs.finished()
    sentences = []
    for (comparison, label), numbers in runs.learned.groupby(["comparison", "label"], sort=False):
        seeds = numbers["seed"].nunique()
        over = "1 seed" if seeds == 1 else f"mean of {seeds} seeds"
        sentences.append(f"On {comparison}, {label} {_describe(numbers)} ({over}).")
    learners = set(runs.learned["label"])
    others = [label for label in dict.fromkeys(finished["label"]) if label not in learners]
    if others:
        verb = "learns" if len(others) == 1 else "learn"
        sentences.append(f"{_enumerate(others)} {verb} nothing: what happens to the images is decided beforehand.")
    return sentences


_PHRASES = {
    "found": "found {}",
    "in part": "used {} in part",
    "hardly": "hardly used {}",
    "left out": "left out {}",
}


def _describe(numbers: pd.DataFrame) -> str:
    by_quantity = _by_quantity(numbers)
    by_verdict: dict[str, list[str]] = {}
    for block in blocks_of(numbers):
        by_verdict.setdefault(block.verdict(), []).append(block.describe())
    parts = [phrase.format(_enumerate(by_verdict[key])) for key, phrase in _PHRASES.items() if key in by_verdict]
    others = {name: values for name, values in by_quantity.items() if not name.startswith(("probability/", "range/"))}
    parts += [f"ended with {name} = {_mean(values):.3g}" for name, values in others.items()]
    has_shares = any(name.startswith("probability/") for name in by_quantity)
    return ("(% of images) " if has_shares else "") + "; ".join(parts)


def _by_quantity(numbers: pd.DataFrame) -> dict[str, tuple[float, ...]]:
    return {str(name): tuple(group) for name, group in numbers.groupby("quantity", sort=False)["value"]}


def blocks_of(numbers: pd.DataFrame) -> list[Block]:
    """Gather the two numbers of each block, in the order in which the method names them.

    Args:
        numbers: Rows of `Runs.learned` of one method on one data set.
    """
    by_quantity = _by_quantity(numbers)
    names = dict.fromkeys(name.partition("/")[2] for name in by_quantity if name.startswith(("probability/", "range/")))
    return [
        Block(
            name,
            by_quantity.get(f"probability/{name}", ()),
            by_quantity.get(f"range/{name}", ()),
        )
        for name in names
    ]


def _enumerate(items: Iterable[str]) -> str:
    *start, last = items
    return f"{', '.join(start)} and {last}" if start else last
