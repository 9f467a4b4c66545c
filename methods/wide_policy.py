"""What policies on the image-operation space share: torchvision's tables of strengths, and how a policy is applied."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.augmentation.image_operations import ENHANCING, MAGNITUDES, OPERATIONS, ImageSpace
from augbench.bench.augmentation.policy_description import OperationLaw
from augbench.bench.augmentation.policy_draws import strengths_of
from augbench.bench.contract.method import AugmentedBatch, H, Method, Policy, repeat

RANDOM_OPERATIONS = OPERATIONS[: OPERATIONS.index("Invert")]
"""The 14 operations that TrivialAugment and RandAugment choose from, first in `OPERATIONS`."""

DEVIATIONS = (
    "A coin puts enhancing factors above or below 1, as in torchvision; in the authors' code they rise with the level "
    "from near 0 to near 2, so its middle level leaves an image as it is.",
    "Images stay floats; torchvision truncates to 256 levels after each operation, which only Posterize and Equalize "
    "do here.",
    "Crop, flip and cutout, which the paper's training on CIFAR has, are left to the `base` of a budget, whose crop "
    "and flip come before the operations; in TrivialAugment's code they come after them.",
    "Color leaves grey images as they are, as in torchvision.",
    "Test-time draws are those of training; the paper has no test-time augmentation.",
)
"""What holds for all of them."""


@dataclass(frozen=True)
class Application:
    """One operation for each image.

    Attributes:
        operations: Index into `OPERATIONS`; (N,) long.
        magnitudes: Strength in the operation's unit; (N,).
    """

    operations: Tensor
    magnitudes: Tensor


@dataclass(frozen=True)
class Strengths:
    """Strength of each operation at each level, and on which side of the neutral value it may lie.

    Attributes:
        table: Strength on the upper side of the neutral value; (operations, levels).
        neutral: Where an operation does nothing; (operations,).
        mirrored: Whether a coin decides on the side; (operations,) bool.
    """

    table: Tensor
    neutral: Tensor
    mirrored: Tensor

    def draw(self, operations: Tensor, levels: Tensor, generator: torch.Generator) -> Application:
        """Look up the strengths of operations (N,) at levels (N,) and draw the side of each."""
        coin = torch.randint(2, operations.shape, device=generator.device, generator=generator, dtype=torch.bool)
        upper, neutral = self.table[operations, levels], self.neutral[operations]
        return Application(operations, torch.where(self.mirrored[operations] & coin, 2 * neutral - upper, upper))


@dataclass(frozen=True)
class Ranges:
    """Strengths of a policy's operations at its highest level; at the lowest all but Solarize do nothing.

    Attributes:
        shear: Tangent of the angle.
        translation: Share of the side.
        rotation: Degrees.
        enhancement: Distance of the factor from 1.
        bits: Bits that Posterize keeps.
    """

    shear: float
    translation: float
    rotation: float
    enhancement: float
    bits: int

    def law(self, operation: str, levels: int, **others: Any) -> OperationLaw:
        """Describe an operation with evenly spaced levels; `others` are further fields of the law."""
        ends = {
            **dict.fromkeys(("ShearX", "ShearY"), (0.0, self.shear)),
            **dict.fromkeys(("TranslateX", "TranslateY"), (0.0, self.translation)),
            "Rotate": (0.0, self.rotation),
            **dict.fromkeys(ENHANCING, (1.0, 1 + self.enhancement)),
            "Posterize": (8.0, float(self.bits)),
            "Solarize": (1.0, 0.0),
            "Cutout": (0.0, 0.0),  # which none of these policies draws
        }.get(operation)
        if ends is None:
            kept = {name: value for name, value in others.items() if name != "level"}
            return OperationLaw(operation=operation, **kept)
        mirrored = MAGNITUDES[operation].mirrored
        return OperationLaw(operation=operation, low=ends[0], high=ends[1], levels=levels, mirrored=mirrored, **others)

    def strengths(self, levels: int, image_size: int, device: torch.device) -> Strengths:
        """Tabulate two or more evenly spaced levels by torchvision's formulas.

        They have whole pixels, which depend on the side of the images, whole bits, and thresholds from 1 to 0.
        """
        rows = [strengths_of(self.law(name, levels), image_size) for name in OPERATIONS]
        known = [MAGNITUDES.get(name) for name in OPERATIONS]
        return Strengths(
            table=torch.stack([row.expand(levels) for row in rows]).to(device),
            neutral=torch.tensor([magnitude.neutral if magnitude else 0.0 for magnitude in known], device=device),
            mirrored=torch.tensor([magnitude is not None and magnitude.mirrored for magnitude in known], device=device),
        )


# 150 pixels in images of 331 is where AutoAugment's search space ends
AUTOAUGMENT_RANGES = Ranges(shear=0.3, translation=150 / 331, rotation=30.0, enhancement=0.9, bits=4)
AUTOAUGMENT_RANGES_DEVIATION = (
    "Translations reach 150/331 of the side, 14 pixels of 32, as in torchvision; the authors' code for CIFAR stops at "
    "10 pixels."
)


def apply_in_turn(
    images: Tensor, applications: list[Application], space: ImageSpace, generator: torch.Generator
) -> Tensor:
    """Transform images (N, C, H, W), uint8 or float in [0, 1]; returns float images in [0, 1]."""
    for application in applications:
        images = space.apply(images, application.operations, application.magnitudes, generator)
    return to_unit_interval(images)


class WidePolicy(Method[H]):
    """A policy of image operations: `draw` says which to apply one after another, the rest follows."""

    @cached_property
    def image_space(self) -> ImageSpace:
        """The image-operation space."""
        return self.context.image_space

    def draw(self, count: int, generator: torch.Generator) -> list[Application]:
        """Draw what happens to `count` images, in order."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to draw: override `draw`.")

    def transform(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Transform each of the images (N, C, H, W), uint8, by a draw of its own; float in [0, 1]."""
        return apply_in_turn(images, self.draw(len(images), generator), self.image_space, generator)

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Make the augmented copies, each with a draw of its own."""
        return AugmentedBatch(self.transform(repeat(images, self.copies), generator))

    def test_policy(self) -> Policy | None:
        """Draw as in training."""
        return self.transform
