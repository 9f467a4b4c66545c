"""Draws from a described policy: the one sampler that exported files, the method `policy` and checks have in common."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import Draw, Space, resample, to_unit_interval
from augbench.bench.augmentation.generators import GENERATORS, exponential, generator_matrices
from augbench.bench.augmentation.image_operations import ENHANCING, OPERATIONS, ImageSpace
from augbench.bench.augmentation.policy_description import (
    BLOCKS,
    CONTINUOUS,
    AffinePolicy,
    BlockLaw,
    OperationLaw,
    OperationPolicy,
    PolicyDescription,
)


@dataclass(frozen=True)
class AffineDraws:
    """An affine policy at one image size.

    Attributes:
        policy: What to draw from.
        image_size: Height and width of the images, in pixels.
        device: Where to draw.
    """

    policy: AffinePolicy
    image_size: int
    device: torch.device

    @cached_property
    def space(self) -> Space:
        """The affine space."""
        return self.policy.space(self.image_size)

    @cached_property
    def _laws(self) -> tuple[Tensor, Tensor, Tensor]:
        """Probabilities (K, 7), ranges (K, 4) and levels (K, 4), 0 for uniform, of the K compositions."""
        nothing = BlockLaw(block="flip", probability=0.0)
        rows = [
            [by_name.get(name, nothing) for name in BLOCKS]
            for by_name in ({law.block: law for law in composition} for composition in self.policy.compositions)
        ]
        probabilities = [[law.probability for law in row] for row in rows]
        ranges = [[law.range for law in row[: len(CONTINUOUS)]] for row in rows]
        levels = [[law.levels or 0 for law in row[: len(CONTINUOUS)]] for row in rows]
        first, second, third = (torch.tensor(table, device=self.device) for table in (probabilities, ranges, levels))
        return first, second, third

    @cached_property
    def _half_widths(self) -> Tensor:
        """Half-widths of the generators' coefficients; (6,)."""
        found = [self.policy.generators.get(name, 0.0) for name in GENERATORS]
        return torch.tensor(found, device=self.device)

    def draw(self, count: int, generator: torch.Generator) -> Draw:
        """Draw the blocks for each image.

        The random numbers are those of `Space.sample`, after the choice of the composition where there are several.
        """
        probabilities, ranges, levels = self._laws
        chosen = torch.zeros(count, dtype=torch.long, device=self.device)
        if len(probabilities) > 1:
            chosen = torch.randint(len(probabilities), (count,), device=self.device, generator=generator)
        uniform = torch.rand(count, len(BLOCKS) + len(CONTINUOUS), device=self.device, generator=generator)
        active = uniform[:, : len(BLOCKS)] < probabilities[chosen]
        share = _on_levels(2 * uniform[:, len(BLOCKS) :] - 1, levels[chosen])
        return Draw(active, ranges[chosen] * share, *self.space.sample_elements(count, generator))

    def _draw(self, count: int, generator: torch.Generator) -> tuple[Draw | None, Tensor | None]:
        """Draw the blocks, and the inverse matrices (N, 2, 3) of what acts after them; None where there is nothing."""
        draw = self.draw(count, generator) if any(self.policy.compositions) else None
        if not self.policy.generators:
            return draw, None
        uniform = torch.rand(count, len(GENERATORS), device=self.device, generator=generator)
        coefficients = 2 * self._half_widths * (uniform - 0.5)
        sums = torch.einsum("ng,gij->nij", coefficients, generator_matrices(1.0, self.device))
        return draw, exponential(sums)[:, :2]

    @torch.no_grad()
    def transform(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Transform images (N, C, H, W), uint8 or float in [0, 1], each by a draw of its own; float in [0, 1]."""
        draw, last = self._draw(len(images), generator)
        if last is None:
            return to_unit_interval(images) if draw is None else self.space.apply(images, draw)
        if draw is not None:
            images, last = self.space.crop(images, draw), self.space.inverse_matrices(draw) @ last
        return resample(to_unit_interval(images), last)

    @torch.no_grad()
    def sample_transforms(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw affine maps, see `Method.sample_transforms`; (N, 2, 3).

        The generators' law is the same for a map and its inverse.
        """
        draw, last = self._draw(count, generator)
        before = torch.eye(2, 3, device=self.device).expand(count, 2, 3) if draw is None else self.space.matrices(draw)
        if last is None:
            return before
        linear = last[:, :, :2] @ before
        return torch.cat((linear[:, :, :2], linear[:, :, 2:] + last[:, :, 2:]), dim=2)


def _on_levels(share: Tensor, levels: Tensor) -> Tensor:
    """Turn numbers uniform on [−1, 1) into a random sign times one of so many evenly spaced levels; 0 leaves them."""
    level = (share.abs() * levels).floor().minimum(levels - 1)
    strength = torch.where(levels > 1, level / (levels - 1).clamp(min=1), 1)
    return torch.where(levels == 0, share, torch.where(share < 0, -strength, strength))


@dataclass(frozen=True)
class OperationDraws:
    """A policy of operations at one image size.

    Attributes:
        policy: What to draw from.
        image_size: Height and width of the images, in pixels.
        device: Where to draw.
    """

    policy: OperationPolicy
    image_size: int
    device: torch.device

    @cached_property
    def image_space(self) -> ImageSpace:
        """The image-operation space."""
        return ImageSpace(self.image_size, self.policy.interpolation)

    @cached_property
    def _laws(self) -> "_Laws":
        nothing = (OperationLaw(operation="Identity"),)
        stages = max(map(len, self.policy.sub_policies))
        padded = [(*each, *[nothing] * (stages - len(each))) for each in self.policy.sub_policies]
        return _Laws.of([stage for each in padded for stage in each], stages, self.image_size, self.device)

    def draw(self, count: int, generator: torch.Generator) -> list[tuple[Tensor, Tensor]]:
        """Draw what happens to `count` images: for each stage operations (N,) and strengths (N,), as in `ImageSpace`.

        The random numbers are the sub-policy of each image, where there are several, and four uniform ones for each
        stage: which operation, whether it is applied, at which level and on which side.
        """
        chosen, laws = torch.zeros(count, dtype=torch.long, device=self.device), self._laws
        if len(self.policy.sub_policies) > 1:
            chosen = torch.randint(len(self.policy.sub_policies), (count,), device=self.device, generator=generator)
        uniform = torch.rand(count, laws.stages, 4, device=self.device, generator=generator)
        return [laws.draw(chosen * laws.stages + stage, uniform[:, stage]) for stage in range(laws.stages)]

    @torch.no_grad()
    def transform(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Transform images (N, C, H, W), uint8 or float in [0, 1], each by a draw of its own; float in [0, 1]."""
        for operations, strengths in self.draw(len(images), generator):
            images = self.image_space.apply(images, operations, strengths, generator)
        return to_unit_interval(images)

    def sample_transforms(self, count: int, generator: torch.Generator) -> None:
        """Return nothing: images of operations are not those of a map of the plane."""


@dataclass(frozen=True)
class _Laws:
    """Tables of R stages of C operations; those of one sub-policy follow one another.

    Attributes:
        stages: Number of stages of a sub-policy.
        cumulative: Chance of drawing this operation or one before it; (R, C).
        operations: Index into `OPERATIONS`; (R, C).
        probabilities: Of applying each; (R, C).
        counts: Number of strengths; (R, C).
        strengths: (R·C, L).
        mirrored: Whether a coin decides on the side; (R, C).
    """

    stages: int
    cumulative: Tensor
    operations: Tensor
    probabilities: Tensor
    counts: Tensor
    strengths: Tensor
    mirrored: Tensor

    @classmethod
    def of(cls, rows: list[tuple[OperationLaw, ...]], stages: int, side: int, device: torch.device) -> "_Laws":
        longest, nothing = max(map(len, rows)), OperationLaw(operation="Identity", weight=0.0)
        padded = [[*row, *[nothing] * (longest - len(row))] for row in rows]
        known = {law: strengths_of(law, side) for law in {law for row in padded for law in row}}
        values = [[known[law] for law in row] for row in padded]
        most = max(len(each) for row in values for each in row)
        weights = torch.tensor([[law.weight for law in row] for row in padded], dtype=torch.float64)
        cumulative = weights.cumsum(1)
        return cls(
            stages,
            (cumulative / cumulative[:, -1:]).float().to(device),
            torch.tensor([[OPERATIONS.index(law.operation) for law in row] for row in padded], device=device),
            torch.tensor([[law.probability for law in row] for row in padded], device=device),
            torch.tensor([[len(each) for each in row] for row in values], device=device),
            torch.stack([F.pad(each, (0, most - len(each))) for row in values for each in row]).to(device),
            torch.tensor([[law.mirrored for law in row] for row in padded], device=device),
        )

    def draw(self, rows: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Draw operations and strengths of these stages (N,) by uniform numbers on [0, 1); (N, 4)."""
        drawn = rows, (uniform[:, :1] >= self.cumulative[rows]).sum(1)
        operations, counts = self.operations[drawn], self.counts[drawn]
        level = (uniform[:, 2] * counts).long().minimum(counts - 1)
        strengths = self.strengths[rows * self.operations.shape[1] + drawn[1], level]
        neutral = self._neutral[operations]
        other_side = self.mirrored[drawn] & (uniform[:, 3] < 0.5)
        applied = uniform[:, 1] < self.probabilities[drawn]
        return (
            torch.where(applied, operations, OPERATIONS.index("Identity")),
            torch.where(other_side, 2 * neutral - strengths, strengths),
        )

    @cached_property
    def _neutral(self) -> Tensor:
        return torch.tensor([_mirror(name) for name in OPERATIONS], device=self.operations.device)


def _mirror(operation: str) -> float:
    """Strength that an operation's strengths are mirrored at."""
    return 1.0 if operation in ENHANCING else 0.0


def strengths_of(law: OperationLaw, side: int) -> Tensor:
    """Strengths of an operation at its levels for images of so many pixels a side; (levels,), or (1,) of one level.

    These are the formulas of torchvision's policies, to the last bit.
    """
    if law.low is None:
        return torch.zeros(1)
    if law.levels == 1:
        return torch.tensor([law.low])
    low, high = law.low, law.low if law.high is None else law.high
    if law.operation in ("TranslateX", "TranslateY"):
        found = torch.linspace(low * side, high * side, law.levels).trunc() / side
    elif law.operation == "Posterize":
        steps = (law.levels - 1) / (high - low) if high != low else math.inf
        found = (low + torch.arange(law.levels) / steps).round()
    else:
        neutral = _mirror(law.operation)
        found = neutral + torch.linspace(low - neutral, high - neutral, law.levels)
    return found if law.level is None else found[law.level : law.level + 1]


def draws_of(policy: PolicyDescription, image_size: int, device: torch.device) -> AffineDraws | OperationDraws:
    """Make what draws from a policy, for images of this size on this device."""
    if isinstance(policy, AffinePolicy):
        return AffineDraws(policy, image_size, device)
    return OperationDraws(policy, image_size, device)
