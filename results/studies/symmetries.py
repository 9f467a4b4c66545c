"""Which symmetries of the images a learner found, in words for people who do not know its blocks."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pandas as pd

from augbench.bench.common.wording import listed
from augbench.results.model.findings import Block, blocks_of, describe_range

ANY_ANGLE = math.radians(300)
"""Angles out of 360° that turns must reach to be called turning by any angle; half-turns double what they reach."""

STARTED = 1.25
"""A learned range that is not this many times as wide, or as narrow, as at its start is not spoken of."""


@dataclass(frozen=True)
class Symmetry:
    """What one block does to images, and with how many seeds it was found or left out.

    Attributes:
        name: In words, such as "turning by any angle".
        found: Seeds with which it was found.
        left_out: Seeds with which it was left out, or hardly used.
        seeds: All seeds.
    """

    name: str
    found: int
    left_out: int
    seeds: int


def _by(noun: str, block: str) -> Callable[[tuple[float, ...]], str]:
    return lambda ranges: f"{noun} by up to {describe_range(block, ranges)}"


_NAMES: dict[str, tuple[str, Callable[[tuple[float, ...]], str]]] = {
    "rotation": ("turning", _by("turning", "rotation")),
    "x-scale": ("a change of width", _by("a change of width", "x-scale")),
    "y-scale": ("a change of height", _by("a change of height", "y-scale")),
    "x-shear": ("slanting", _by("slanting", "x-shear")),
    "half-turn": ("turning upside down", lambda ranges: "turning upside down"),
    "flip": ("mirroring left to right", lambda ranges: "mirroring left to right"),
    "crop": ("small shifts", lambda ranges: "small shifts"),
}
_WIDTHS = {
    "rotation": "turning",
    "x-translation": "shifts to the side",
    "y-translation": "shifts up and down",
    "uniform-scale": "a change of size",
    "stretch": "stretching",
    "symmetric-shear": "slanting",
}


def symmetries(numbers: pd.DataFrame) -> list[Symmetry]:
    """Say what a learner of probabilities and ranges found.

    Args:
        numbers: Rows of `Runs.learned` of one method, such as SCALE, on one data set.
    """
    seeds = numbers["seed"].nunique()
    found = {block.name: _symmetry(block, seeds) for block in blocks_of(numbers)}
    turned = numbers.loc[numbers["quantity"] == "range/rotation", "value"].mean()
    half_turned = "half-turn" in found and found["half-turn"].found == seeds
    reached = 2 * turned * (2 if half_turned else 1)
    if "rotation" in found and found["rotation"].found == seeds and reached >= ANY_ANGLE:
        found["rotation"] = replace(found["rotation"], name="turning by any angle")
    return list(found.values())


def _symmetry(block: Block, seeds: int) -> Symmetry:
    verdicts = [block.of_seed(seed).verdict() for seed in range(seeds)]
    found, left_out = verdicts.count("found"), verdicts.count("left out") + verdicts.count("hardly")
    plain, in_full = _NAMES[block.name]
    return Symmetry(in_full(block.ranges) if found == seeds else plain, found, left_out, seeds)


def symmetry_sentences(numbers: pd.DataFrame, label: str) -> Iterator[str]:
    """Say what a learner of probabilities and ranges did with all seeds, with none, and with some.

    Args:
        numbers: Its rows of `Runs.learned` on one data set.
        label: What it is called.
    """
    found = symmetries(numbers)
    seeds = numbers["seed"].nunique()
    always = [one.name for one in found if one.found == seeds]
    never = [one.name for one in found if one.left_out == seeds]
    others = [f"{one.name} ({one.found} of {seeds})" for one in found if 0 < one.found < seeds]
    runs = f"all {seeds} runs" if seeds > 1 else "its one run"
    yield f"In {runs}, {label} learned {listed(always) if always else 'no transform for most images'}."
    if never:
        yield f"In {runs}, it left out, or hardly used, {listed(never)}."
    if others:
        yield f"In some runs only, it learned {listed(others)}."


def width_sentence(numbers: pd.DataFrame, label: str) -> str:
    """Say which ranges a learner of widths alone, such as Augerino, has widened or narrowed; means over seeds.

    Args:
        numbers: Its rows of `Runs.learned` on one data set.
        label: What it is called.
    """
    starts = numbers.assign(value=numbers["start"])
    words: dict[str, list[str]] = {"widened": [], "narrowed": []}
    for end, start in zip(blocks_of(numbers), blocks_of(starts), strict=True):
        ratio = sum(end.ranges) / sum(start.ranges)
        change = "widened" if ratio >= STARTED else "narrowed" if ratio <= 1 / STARTED else ""
        if change and "found" in (end.verdict(), start.verdict()):
            ranges = f"from {describe_range(end.name, start.ranges)} to {describe_range(end.name, end.ranges)}"
            words[change].append(f"{_WIDTHS.get(end.name, end.name)} {ranges}")
    changes = [f"{change} {listed(those)}" for change, those in words.items() if those]
    return f"{label} {listed(changes)}." if changes else f"{label} changed no range much."
