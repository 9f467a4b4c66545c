"""What a policy is, in numbers that need no code of the method that found it: the content of a policy file.

There are two kinds. An affine policy draws maps of the plane from the blocks of the affine space, from the generators
of `generators.py`, or from both; a policy of operations draws operations of the image-operation space, one after
another. All numbers are in the units of these two spaces, none depends on the size of the images.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)

from augbench.bench.augmentation.affine_space import PADDING_DIVISOR, Space, crop_padding
from augbench.bench.augmentation.generators import GeneratorName
from augbench.bench.augmentation.image_operations import MAGNITUDES, OPERATIONS
from augbench.bench.common.errors import UserError, one_of, shortened
from augbench.bench.common.files import open_file
from augbench.bench.common.plain_text import safe
from augbench.bench.common.user_input import read_user_text, user_path

VERSION_KEY = "augbench_policy"
VERSION = 1
"""Version of the schema, to be raised whenever an older augbench would misread a file."""
POLICY_KEY = "policy"
ORIGIN_KEY = "origin"
MOST_BYTES = 4 << 20  # a policy of a thousand sub-policies has a tenth of it
MOST_LAWS = 100_000
MOST_TOLD = 3  # of the mistakes in a file

BlockName = Literal["rotation", "x-scale", "y-scale", "x-shear", "half-turn", "flip", "crop"]
BLOCKS: tuple[BlockName, ...] = get_args(BlockName)
CONTINUOUS = BLOCKS[:4]
STRENGTHS = {
    **dict.fromkeys(("ShearX", "ShearY"), (-10.0, 10.0)),
    **dict.fromkeys(("TranslateX", "TranslateY"), (-2.0, 2.0)),
    "Rotate": (-360.0, 360.0),
    **dict.fromkeys(("Brightness", "Color", "Contrast", "Sharpness"), (0.0, 10.0)),
    "Posterize": (1.0, 8.0),
    "Solarize": (0.0, 2.0),
    "Cutout": (0.0, 2.0),
}
"""Smallest and largest strength of each operation that has one, in its unit (`MAGNITUDES`)."""

Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, le=1001)]


class _Described(BaseModel):
    """Base of all parts: strict; dumped without what is at its default, so that later fields change no identity."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _without_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        return {
            name: value
            for name, value in dump(self).items()
            if name == "kind" or getattr(self, name) != fields[name].default
        }


class BlockLaw(_Described):
    """When and how far a block of the affine space acts.

    Attributes:
        block: Name of the block.
        probability: Probability that it is in the composition.
        range: Largest magnitude, in the unit of the block; 0 for blocks without a magnitude.
        levels: None: the magnitude is uniform on [−range, range]. Otherwise a random sign times one of so many evenly
            spaced strengths from 0 to the range, all equally likely; with 1 it is always the range.
    """

    block: BlockName
    probability: Probability = 1.0
    range: float = Field(0.0, ge=0, le=10)
    levels: Count | None = None

    @model_validator(mode="after")
    def _fits_the_block(self) -> "BlockLaw":
        if self.block not in CONTINUOUS and (self.range or self.levels):
            raise ValueError(f"the block {self.block!r} has no magnitude, so no range and no levels")
        return self


def _in_order(laws: tuple[BlockLaw, ...]) -> tuple[BlockLaw, ...]:
    if len({law.block for law in laws}) < len(laws):
        raise ValueError("a block may be in a composition once")
    return tuple(sorted(laws, key=lambda law: BLOCKS.index(law.block)))


Composition = Annotated[tuple[BlockLaw, ...], AfterValidator(_in_order)]


def _finite(half_widths: dict[GeneratorName, float]) -> dict[GeneratorName, float]:
    if any(width > 10 for name, width in half_widths.items() if not name.endswith("translation")):
        raise ValueError("half-widths are up to 10, those of translations up to 100: larger ones make no images")
    return half_widths


class AffinePolicy(_Described):
    """A distribution of affine maps: for each image one of the compositions, all equally likely, then the generators.

    The blocks of a composition act in the order of the affine space, the crop first. After them acts the exponential of
    Σ cᵢGᵢ over the generators, with independent cᵢ uniform on [−half-width, half-width]. Both share one resampling:
    bilinear, `align_corners=False`, black outside.

    Attributes:
        compositions: At least one; an empty one does nothing.
        generators: Half-width of each coefficient; of translations in half images, of the rotation in radians.
        padding_divisor: The crop's padding is the side over this, rounded down, at least 1 pixel.
    """

    kind: Literal["affine"] = "affine"
    compositions: tuple[Composition, ...] = Field(((),), min_length=1, max_length=MOST_LAWS)
    generators: Annotated[dict[GeneratorName, Annotated[float, Field(ge=0, le=100)]], AfterValidator(_finite)] = {}
    padding_divisor: int = Field(PADDING_DIVISOR, ge=1, le=1000)

    @classmethod
    def of(cls, compositions: Iterable[Composition], space: Space) -> "AffinePolicy":
        """Describe a policy of blocks in a space.

        Raises:
            UserError: If its crop has another padding than that of the shared space.
        """
        if space.padding != crop_padding(space.image_size):
            raise UserError(
                f"A crop with a padding of {space.padding} pixels at {space.image_size} cannot be described: only the "
                f"shared space's, the side over {PADDING_DIVISOR}, rounded down."
            )
        return cls(compositions=tuple(compositions))

    def space(self, image_size: int) -> Space:
        """The affine space in which the crop has the padding of this policy."""
        return Space(image_size, crop_padding(image_size, self.padding_divisor))


class OperationLaw(_Described):
    """One operation that a stage may draw, and with which strength.

    Strengths are `levels` evenly spaced values from `low` to `high`. If there are several, translations are rounded
    down to whole pixels and Posterize to the nearest whole bit, as in torchvision's policies.

    Attributes:
        operation: Name of the operation.
        weight: Chance to be drawn, relative to the other operations of the stage.
        probability: Probability that it is applied once it is drawn.
        low: Strength at the first level, in the unit of the operation; None for operations without strength.
        high: Strength at the last level; that of the first if left out.
        levels: Number of levels.
        level: The only level that is used, from 0; None if all are equally likely.
        mirrored: Whether a coin decides on which side of the neutral value the strength lies.
    """

    operation: str
    weight: float = Field(1.0, ge=0, le=1e6)
    probability: Probability = 1.0
    low: float | None = None
    high: float | None = None
    levels: Count = 1
    level: int | None = Field(None, ge=0)
    mirrored: bool = False

    @model_validator(mode="after")
    def _fits_the_operation(self) -> "OperationLaw":
        if self.operation not in OPERATIONS:
            raise ValueError(one_of("operation", safe(self.operation), OPERATIONS))
        limits = STRENGTHS.get(self.operation)
        given = [strength for strength in (self.low, self.high) if strength is not None]
        if limits is None and (given or self.levels > 1 or self.level is not None or self.mirrored):
            raise ValueError(f"{self.operation} has no strength, so no low, high, levels, level and mirrored")
        if limits is not None and self.low is None:
            raise ValueError(f"{self.operation} needs a strength: low, and high if they differ")
        if limits is not None and not all(limits[0] <= strength <= limits[1] for strength in given):
            raise ValueError(f"strengths of {self.operation} are from {limits[0]:g} to {limits[1]:g}")
        if self.levels == 1 and self.high not in (None, self.low):
            raise ValueError("one level has one strength: leave out high, or give more levels")
        if self.level is not None and self.level >= self.levels:
            raise ValueError("level counts from 0, so it is below levels")
        if self.mirrored:
            self._check_mirrored(given)
        return self

    def _check_mirrored(self, given: list[float]) -> None:
        if not MAGNITUDES[self.operation].mirrored:
            raise ValueError(f"{self.operation} cannot be mirrored")
        if MAGNITUDES[self.operation].neutral == 1 and max(given) > 2:
            raise ValueError("a factor above 2 has none on the other side of 1 to be mirrored to")


def _any_weight(laws: tuple[OperationLaw, ...]) -> tuple[OperationLaw, ...]:
    if not sum(law.weight for law in laws) > 0:
        raise ValueError("a stage needs an operation with a weight above 0")
    return laws


Stage = Annotated[tuple[OperationLaw, ...], Field(min_length=1), AfterValidator(_any_weight)]
SubPolicy = Annotated[tuple[Stage, ...], Field(min_length=1, max_length=100)]


class OperationPolicy(_Described):
    """A distribution of image operations: for each image one of the sub-policies, all equally likely.

    The stages of a sub-policy act one after another; each draws one of its operations.

    Attributes:
        sub_policies: At least one, of at least one stage.
        interpolation: How shears, translations and rotations resample; black outside.
    """

    kind: Literal["operations"] = "operations"
    sub_policies: tuple[SubPolicy, ...] = Field(min_length=1)
    interpolation: Literal["nearest", "bilinear"] = "nearest"

    @model_validator(mode="after")
    def _not_too_large(self) -> "OperationPolicy":
        if sum(1 for _ in self.laws()) > MOST_LAWS:
            raise ValueError(f"there are more than {MOST_LAWS} operations in all")
        return self

    def laws(self) -> Iterator[OperationLaw]:
        """Every operation of every stage."""
        return chain.from_iterable(chain.from_iterable(self.sub_policies))


PolicyDescription = AffinePolicy | OperationPolicy
"""A policy as data: what `Method.describe_policy` returns and policy files hold."""

_ADAPTER: TypeAdapter[PolicyDescription] = TypeAdapter(Annotated[PolicyDescription, Field(discriminator="kind")])


def as_file_content(policy: PolicyDescription, origin: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Make the content of a policy file: version, policy and, for people, where it comes from."""
    content = {VERSION_KEY: VERSION, POLICY_KEY: policy.model_dump(mode="json")}
    return content if origin is None else content | {ORIGIN_KEY: dict(origin)}


def read_description(given: object) -> PolicyDescription:
    """Read a description from the path of a policy file, from what such a file contains, or from its policy alone.

    Args:
        given: A path, relative to the current folder, in which ~ is the home folder; the content of a policy file; or
            what stands in it under "policy".

    Raises:
        UserError: If there is no such file, or it is huge, no JSON, of a newer schema, or wrong; it names the place.
    """
    if isinstance(given, AffinePolicy | OperationPolicy):
        return given
    if isinstance(given, str | Path):
        where, content = f"the policy file {shortened(str(given))}", _load(given)
    else:
        where, content = "`policy`", given
    if not isinstance(content, dict):
        raise UserError(f"There is no policy in {where}: it holds {_kind_of(content)}, no JSON object. {_way_on()}")
    if VERSION_KEY in content:
        content = _policy_of(content, where)
    try:
        return _ADAPTER.validate_json(json.dumps(content), strict=True)
    except (TypeError, ValueError) as error:
        told = _in_words(error) if isinstance(error, ValidationError) else str(error)
        raise UserError(f"{where[:1].upper()}{where[1:]} holds no valid policy: {told}. {_way_on()}") from None


def _load(given: str | Path) -> object:
    name = shortened(str(given))
    try:
        path = user_path(given)
        with open_file(path)[0] as file:
            size = file.seek(0, 2)
        if size > MOST_BYTES:
            raise ValueError(f"it has {size / 1e6:.0f} MB, and a policy at most {MOST_BYTES / 1e6:.0f} MB")
        text = read_user_text(path)
    except (OSError, ValueError, UserError) as error:
        said = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise UserError(f"The policy file {name} cannot be read: {said.rstrip('.')}. {_way_on()}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"The policy file {name} is not valid JSON: {error}. {_way_on()}") from None


def _policy_of(content: dict[str, Any], where: str) -> object:
    """Take the policy out of a file's content."""
    version = content[VERSION_KEY]
    if type(version) is not int or version < 1:
        raise UserError(f'"{VERSION_KEY}" in {where} must be a version such as {VERSION}. {_way_on()}')
    if version > VERSION:
        raise UserError(
            f"{where[:1].upper()}{where[1:]} has version {version} of the schema; this augbench reads up to {VERSION}. "
            "Install a newer augbench (`pip install --upgrade augbench`)."
        )
    unknown = sorted(set(content) - {VERSION_KEY, POLICY_KEY, ORIGIN_KEY})
    if unknown:
        raise UserError(f"In {where}: {one_of('key', safe(unknown[0]), (POLICY_KEY, ORIGIN_KEY))}")
    if POLICY_KEY not in content:
        raise UserError(f'There is no key "{POLICY_KEY}" in {where}. {_way_on()}')
    return content[POLICY_KEY]


def _kind_of(content: object) -> str:
    return {list: "a list", str: "a text", type(None): "nothing"}.get(type(content), "a number")


def _in_words(error: ValidationError) -> str:
    """Name the wrong places, counting from 1, and what is wrong there."""
    found = error.errors(include_url=False)
    places = [problem["loc"] for problem in found]
    problems = [  # a part that is wrong inside also makes what it is in too short
        problem
        for problem in found
        if not any(len(place) > len(problem["loc"]) == _shared(place, problem["loc"]) for place in places)
    ]
    told = []
    for problem in problems[:MOST_TOLD]:
        parts = [str(part + 1) if isinstance(part, int) else str(part) for part in problem["loc"][1:]]
        place = _line(".".join(parts)) or "the policy"
        told.append(f"{place}: {_line(problem['msg'].removeprefix('Value error, ').rstrip('.'))}")
    more = f"; and {len(problems) - MOST_TOLD} more" if len(problems) > MOST_TOLD else ""
    return "; ".join(told) + more


def _line(text: str) -> str:
    """Quote what may come from a file: short, in one line, without control characters."""
    return " ".join(safe(shortened(text)).split())


def _shared(first: Sequence[object], second: Sequence[object]) -> int:
    """Length of the beginning that two places have in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _way_on() -> str:
    return "`augbench export RUN --to json --out FILE` writes a policy file; docs/exporting.md has the schema."
