"""Say in plain words which symmetries each learner found."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from augbench.results.frame import Runs

FOUND, LEFT_OUT = 0.6, 0.1
"""A block with at least the one probability counts as found, with at most the other as left out."""


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

    def spread(self, values: Sequence[float]) -> str:
        """Lowest and highest in brackets where they differ as shown, else nothing."""
        lowest, highest = self.number(min(values)), self.number(max(values))
        return f" [{lowest} to {highest}]" if lowest != highest else ""


_PLAIN = _Unit("±", float, 2, "")
_PERCENT = _Unit("", lambda share: 100 * share, 0, " %")
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


_NEGLIGIBLE_ROTATION = math.radians(5)
_NEGLIGIBLE_FACTOR = math.log(1.05)
_NEGLIGIBLE_SHEAR = 0.05
_NEGLIGIBLE_SHIFT = 0.04  # 2 % of the width

_WORDINGS = {
    "rotation": _Wording("rotation", _DEGREES, _NEGLIGIBLE_ROTATION),
    "x-scale": _Wording("scaling along x", _FACTOR, _NEGLIGIBLE_FACTOR),
    "y-scale": _Wording("scaling along y", _FACTOR, _NEGLIGIBLE_FACTOR),
    "uniform-scale": _Wording("scaling", _FACTOR, _NEGLIGIBLE_FACTOR),
    "stretch": _Wording("stretching", _FACTOR, _NEGLIGIBLE_FACTOR),
    "x-shear": _Wording("shearing along x", _PLAIN, _NEGLIGIBLE_SHEAR),
    "symmetric-shear": _Wording("shearing along both axes", _PLAIN, _NEGLIGIBLE_SHEAR),
    "x-translation": _Wording("shifting along x", _OF_THE_WIDTH, _NEGLIGIBLE_SHIFT),
    "y-translation": _Wording("shifting along y", _OF_THE_HEIGHT, _NEGLIGIBLE_SHIFT),
    "half-turn": _Wording("half-turn", moved="turned upside down"),
    "flip": _Wording("flip", moved="mirrored"),
    "crop": _Wording("random crop"),
}


@dataclass(frozen=True)
class _Block:
    """Learned numbers of one block, one for each seed; empty where the method learns no such number."""

    wording: _Wording
    probabilities: tuple[float, ...]
    ranges: tuple[float, ...]

    def verdict(self) -> str:
        """`found`, `in part`, `hardly` or `left out`, from the means over seeds."""
        probability = _mean(self.probabilities) if self.probabilities else 1.0
        if probability <= LEFT_OUT:
            return "left out"
        if self.ranges and _mean(self.ranges) < self.wording.negligible:
            return "hardly"
        return "found" if probability >= FOUND else "in part"

    def describe(self) -> str:
        """Noun, range and probability, such as "rotation up to ±166° (97 % of images)"."""
        words, unit = self.wording.noun, self.wording.unit
        if self.verdict() == "left out":
            return f"{words} ({_PERCENT.mean(self.probabilities)})"
        if self.ranges:
            words += f" up to {unit.mean(self.ranges)}{unit.spread(self.ranges)}"
        return f"{words} ({self._share()})" if self.probabilities else words

    def _share(self) -> str:
        share = f"{_PERCENT.mean(self.probabilities)} of images{_PERCENT.spread(self.probabilities)}"
        # One of the two elements that such a block draws from is the identity.
        return f"{share}, half of which are {self.wording.moved}" if self.wording.moved else share


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def describe_range(block: str, ranges: Sequence[float]) -> str:
    """Write the mean of learned ranges, as stored, in the unit that people think in, such as "±166°"."""
    return _WORDINGS.get(block, _Wording(block)).unit.mean(ranges)


def findings(runs: Runs) -> list[str]:
    """Say what the learners found, from the learned numbers at the end of the finished runs.

    A block counts as found with a mean probability over seeds of at least `FOUND` (always, for methods that learn
    ranges only) unless its range hardly changes an image: 5° of rotation, 5 % of scale, 0.05 of shear, 2 % of the
    image for shifts. In brackets stand the lowest and the highest seed, where they differ.

    Returns:
        A sentence for each data set and method that learns, and one for the methods that learn nothing.

    Raises:
        UserError: If no run is finished.
    """
    finished = runs.finished()
    sentences = []
    for (comparison, label), numbers in runs.learned.groupby(["comparison", "label"], sort=False):
        seeds = numbers["seed"].nunique()
        over = "1 seed" if seeds == 1 else f"mean of {seeds} seeds [lowest to highest]"
        sentences.append(f"{label} on {comparison}, {over} – {_describe(numbers)}.")
    learners = set(runs.learned["label"])
    others = [label for label in dict.fromkeys(finished["label"]) if label not in learners]
    if others:
        verb = "learns" if len(others) == 1 else "learn"
        sentences.append(f"{_enumerate(others)} {verb} nothing: what happens to the images is decided beforehand.")
    return sentences


def _describe(numbers: pd.DataFrame) -> str:
    by_quantity = {str(name): tuple(group) for name, group in numbers.groupby("quantity", sort=False)["value"]}
    by_verdict: dict[str, list[str]] = {}
    for block in _blocks(by_quantity):
        by_verdict.setdefault(block.verdict(), []).append(block.describe())
    order = ("found", "in part", "hardly", "left out")
    parts = [f"{verdict}: {_enumerate(by_verdict[verdict])}" for verdict in order if verdict in by_verdict]
    others = {name: values for name, values in by_quantity.items() if not name.startswith(("probability/", "range/"))}
    parts += [f"{name}: {_mean(values):.3g}" for name, values in others.items()]
    return "; ".join(parts)


def _blocks(by_quantity: dict[str, tuple[float, ...]]) -> list[_Block]:
    """Gather the two numbers of each block, in the order in which the method names them."""
    names = dict.fromkeys(name.partition("/")[2] for name in by_quantity if name.startswith(("probability/", "range/")))
    return [
        _Block(
            _WORDINGS.get(name, _Wording(name)),
            by_quantity.get(f"probability/{name}", ()),
            by_quantity.get(f"range/{name}", ()),
        )
        for name in names
    ]


def _enumerate(items: Iterable[str]) -> str:
    *start, last = items
    return f"{', '.join(start)} and {last}" if start else last
