"""Sub-policies of the image-operation space: operations in sequence, each with a probability and a level in [0, 1].

A policy is a set of sub-policies; each image gets one of them, drawn uniformly, and each operation of it is applied
with its own probability. Fast and Faster AutoAugment share this, and differ in what a level means.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from augbench.bench.augmentation.image_operations import GEOMETRIC, OPERATIONS
from augbench.bench.augmentation.policy_description import STRENGTHS, OperationLaw
from augbench.bench.contract.method import H
from augbench.methods.wide_policy import Application, WidePolicy

STAGES = 2
IDENTITY = OPERATIONS.index("Identity")
SEARCHED = tuple(index for index, name in enumerate(OPERATIONS) if name != "Identity")
"""Indices into `OPERATIONS` of the 15 operations that a search chooses from."""

GEOMETRIC_MAXIMA = {"ShearX": 0.3, "ShearY": 0.3, "TranslateX": 0.45, "TranslateY": 0.45, "Rotate": 30.0}
OTHER_RANGES = {
    "Brightness": (0.1, 1.9),
    "Color": (0.1, 1.9),
    "Contrast": (0.1, 1.9),
    "Sharpness": (0.1, 1.9),
    "Posterize": (4.0, 8.0),
    "Solarize": (0.0, 256 / 255),
    "Cutout": (0.0, 0.2),
}
"""Ranges in the units of the image-operation space, as in the code of Fast AutoAugment and DADA."""


@dataclass(frozen=True)
class LevelMapping:
    """What a level in [0, 1] means: low + level·(high − low), times a random sign for the geometric operations.

    Attributes:
        low: Magnitude at level 0, by index into `OPERATIONS`; (16,).
        high: Magnitude at level 1; (16,).
        signed: Whether a random sign is drawn; (16,) bool.
    """

    low: Tensor
    high: Tensor
    signed: Tensor

    def magnitudes(self, operations: Tensor, levels: Tensor, generator: torch.Generator) -> Tensor:
        """Map levels in [0, 1] of operations to magnitudes in their own units, each with a sign of its own.

        All three have the same shape. Magnitudes are differentiable in the levels, except that Posterize keeps whole
        bits.
        """
        low, high = self.low[operations], self.high[operations]
        values = low + levels * (high - low)
        # the reference code rounds down, the image-operation space to the nearest
        values = torch.where(operations == OPERATIONS.index("Posterize"), values.floor(), values)
        coin = torch.randint(2, operations.shape, device=self.low.device, generator=generator, dtype=torch.bool)
        return torch.where(coin & self.signed[operations], -values, values)

    def law(self, operation: int, level: float, probability: float, weight: float = 1.0) -> OperationLaw:
        """Describe an operation at a level."""
        name = OPERATIONS[operation]
        if name not in STRENGTHS:
            return OperationLaw(operation=name, weight=weight, probability=probability)
        low, high = self.low[operation], self.high[operation]
        strength = float(low + level * (high - low))
        if name == "Posterize":
            strength = float(math.floor(strength))
        mirrored = bool(self.signed[operation])
        return OperationLaw(operation=name, weight=weight, probability=probability, low=strength, mirrored=mirrored)


def symmetric_mapping(device: torch.device) -> LevelMapping:
    """Return the mapping of Fast AutoAugment: geometric operations from −maximum to maximum, level ½ the identity."""
    return _mapping({name: (-maximum, maximum) for name, maximum in GEOMETRIC_MAXIMA.items()}, device)


def one_sided_mapping(device: torch.device) -> LevelMapping:
    """Return the mapping of Faster AutoAugment: geometric operations from 0 to their maximum."""
    return _mapping({name: (0.0, maximum) for name, maximum in GEOMETRIC_MAXIMA.items()}, device)


def _mapping(geometric: dict[str, tuple[float, float]], device: torch.device) -> LevelMapping:
    ranges = geometric | OTHER_RANGES
    low, high = torch.tensor([ranges.get(name, (0.0, 0.0)) for name in OPERATIONS], device=device).unbind(1)
    return LevelMapping(low, high, torch.tensor([name in GEOMETRIC for name in OPERATIONS], device=device))


def draw_applications(
    operations: Tensor, probabilities: Tensor, levels: Tensor, mapping: LevelMapping, generator: torch.Generator
) -> list[Application]:
    """Apply each operation with its probability and give it its magnitude.

    Operations, as indices into `OPERATIONS`, probabilities and levels, both in [0, 1], are (N, 2).

    Returns:
        What happens to the N images, first and second; the identity where an operation is left out.
    """
    applied = torch.rand(operations.shape, device=operations.device, generator=generator) < probabilities
    magnitudes = mapping.magnitudes(operations, levels, generator)
    operations = torch.where(applied, operations, IDENTITY)
    return [Application(operations[:, stage], magnitudes[:, stage]) for stage in range(STAGES)]


@dataclass(frozen=True)
class SubPolicies:
    """Sub-policies with fixed operations.

    Attributes:
        operations: Index into `OPERATIONS`; (S, 2).
        probabilities: Of applying each operation, in [0, 1]; (S, 2).
        levels: Strength of each, in [0, 1]; (S, 2).
    """

    operations: Tensor
    probabilities: Tensor
    levels: Tensor

    def __len__(self) -> int:
        return self.operations.shape[0]

    def subset(self, chosen: Tensor | slice) -> "SubPolicies":
        """Return the chosen sub-policies."""
        return SubPolicies(self.operations[chosen], self.probabilities[chosen], self.levels[chosen])

    def draw(
        self, images: int, mapping: LevelMapping, generator: torch.Generator, count: Tensor | None = None
    ) -> list[Application]:
        """Draw a sub-policy for each image, uniformly, and its operations.

        Args:
            images: Number of images.
            mapping: What a level means.
            generator: Source of randomness.
            count: How many of the first to draw from; all by default. A tensor, so that nothing waits for a GPU.
        """
        device = self.operations.device
        # the remainder of so large a number is uniform to within 1e-16
        chosen = torch.randint(2**62, (images,), device=device, generator=generator)
        drawn = self.subset(chosen % (len(self) if count is None else count))
        return draw_applications(drawn.operations, drawn.probabilities, drawn.levels, mapping, generator)


class SubPolicyMethod(WidePolicy[H]):
    """A learner whose policy is a set of sub-policies: it says how to draw and how likely each operation is."""

    def rates(self) -> Tensor:
        """Probability with which each stage of each sub-policy applies each operation; (S, 2, 16)."""
        raise NotImplementedError(f"{type(self).__name__} does not say how likely operations are: override `rates`.")

    def learned(self) -> dict[str, float]:
        """Probability that a draw contains an operation, once or twice."""
        contained = (1 - (1 - self.rates()).prod(1)).mean(0).tolist()
        return {f"probability/{OPERATIONS[index]}": contained[index] for index in SEARCHED}
