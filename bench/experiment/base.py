"""The base of a budget: the usual augmentation of every training image, whichever method is compared on top of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from augbench.bench.common.errors import UserError

StepName = Literal["crop", "flip", "cutout"]
ORDER = get_args(StepName)
"""Names of all steps in the order in which they are applied; the learned transforms come before the cutout."""

USUAL_SIDE = 32
USUAL_PIXELS: dict[str, int] = {"crop": 4, "cutout": 16}
"""What a plain name stands for, in images of `USUAL_SIDE` pixels: those of CIFAR and SVHN, and the papers' sizes."""


class BaseStep(BaseModel):
    """One step of a base; in TOML its plain name, or a table with its size."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: StepName = Field(description="the step")
    pixels: int | None = Field(
        None, ge=1, le=1024, description="zero padding on each side of a crop, or side of the square of a cutout"
    )

    @model_validator(mode="before")
    @classmethod
    def _plain_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _size_where_there_is_one(self) -> "BaseStep":
        if self.pixels is not None and self.name not in USUAL_PIXELS:
            raise ValueError(f"{self.name} has no size in pixels; write its plain name")
        return self

    def __str__(self) -> str:
        return self.name if self.pixels is None else f"{self.name} {self.pixels} px"


def _in_order(steps: tuple[BaseStep, ...]) -> tuple[BaseStep, ...]:
    names = [step.name for step in steps]
    if len(set(names)) < len(names):
        raise ValueError(f"lists {next(name for name in names if names.count(name) > 1)!r} twice; list each step once")
    if names != [name for name in ORDER if name in names]:
        raise ValueError(f"must list the steps in the order in which they are applied: {', '.join(ORDER)}")
    return steps


Base = Annotated[tuple[BaseStep, ...], Field(strict=False), AfterValidator(_in_order)]
"""Steps of a base, in the order of `ORDER`; empty if methods stand alone."""


def base_in_words(base: Sequence[BaseStep]) -> str:
    """Name a base, such as `crop, flip, cutout` or `crop 2 px, flip`; empty without one."""
    return ", ".join(map(str, base))


@dataclass(frozen=True)
class BaseSizes:
    """What a base does to images of one size.

    Attributes:
        padding: Zero padding of the crop, in pixels on each side; 0 without a crop.
        flips: Whether images are mirrored with probability ½.
        square: Side of the cutout's square, in pixels; 0 without a cutout.
    """

    padding: int = 0
    flips: bool = False
    square: int = 0


def base_sizes(base: Sequence[BaseStep], side: int, dataset: str) -> BaseSizes:
    """Resolve a base for a data set whose images have `side` pixels a side.

    Raises:
        UserError: If a plain name stands for a size at another side, or a size is too large.
    """
    plain = [step.name for step in base if step.pixels is None and step.name in USUAL_PIXELS]
    if plain and side != USUAL_SIDE:
        meant = " and ".join(f"{name!r} for {USUAL_PIXELS[name]}" for name in plain)
        raise UserError(
            f"The budget's base has no sizes for {dataset!r}, whose images have {side} pixels a side: its plain names "
            f"are for {USUAL_SIDE} pixels, {meant}. Give the sizes in the suite; in proportion they are "
            f"{in_proportion(base, side)}."
        )
    pixels: dict[str, int] = {step.name: step.pixels or USUAL_PIXELS.get(step.name, 0) for step in base}
    for name, most in (("crop", side - 1), ("cutout", side)):
        if pixels.get(name, 0) > most:
            raise UserError(
                f"The budget's base has a {name} of {pixels[name]} pixels, too large for {dataset!r}, whose images "
                f"have {side} pixels a side: at most {most}. Give a smaller size in the suite; the usual ones are, in "
                f"proportion, {in_proportion(base, side)}."
            )
    return BaseSizes(pixels.get("crop", 0), "flip" in pixels, pixels.get("cutout", 0))


def in_proportion(base: Sequence[BaseStep], side: int) -> str:
    """Write the same steps as TOML, with the usual sizes in proportion to the side of the images, at least 1."""

    def written(name: str) -> str:
        usual = USUAL_PIXELS.get(name)
        if usual is None:
            return f'"{name}"'
        return f'{{ name = "{name}", pixels = {max(1, round(usual * side / USUAL_SIDE))} }}'

    return f"base = [{', '.join(written(step.name) for step in base)}]"
