"""Augerino with crop and horizontal flip added by hand."""

from collections.abc import Mapping

import torch
from torch import Tensor

from augbench.bench.augmentation.affine_space import Draw, resample, to_unit_interval
from augbench.bench.augmentation.policy_description import AffinePolicy, BlockLaw
from augbench.bench.contract.method import RunContext
from augbench.bench.registry.registry import register
from augbench.methods.augerino import Augerino, AugerinoHyperparameters


@register("augerino+flips")
class AugerinoWithFlips(Augerino):
    """Learns Augerino's widths on images that were cropped and mirrored at random beforehand.

    A draw is g = a∘f∘c: the crop c acts first, then the flip f, both as blocks of the affine space that are always in
    the composition, and Augerino's transform a last. Flip and Augerino's transform share one resampling.
    """

    title = "Augerino after a random crop and horizontal flip"
    paper = "Learning Augmentation Distributions using Transformed Risk Minimization (TMLR 2023), row 'Augerino +Flips'"
    deviations = (
        *Augerino.deviations,
        "SCALE's tables have this row, but its text does not describe it; a sentence commented out in its source "
        "says that crops and flips were added by hand. Order and strength are not stated: here the crop comes first, "
        "then the flip, as in the affine space, and Augerino's transform last.",
        "Test-time augmentation draws the crop and the flip as well, as in training; the paper does not tell.",
    )
    own_base = ("crop", "flip")

    def __init__(self, hyperparameters: AugerinoHyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        names = [block.name for block in context.space.blocks]
        self.always = torch.tensor([float(name in ("flip", "crop")) for name in names], device=context.device)
        self.unused_ranges = context.space.maxima(context.device)

    def _draw_crop_and_flip(self, count: int, generator: torch.Generator) -> Draw:
        return self.context.space.sample(count, self.always, self.unused_ranges, generator)

    def _transform(self, images: Tensor, generator: torch.Generator) -> Tensor:
        space = self.context.space
        draw = self._draw_crop_and_flip(len(images), generator)
        inverse = space.inverse_matrices(draw) @ self._draw_matrices(len(images), generator)  # f⁻¹·a⁻¹
        return resample(to_unit_interval(space.crop(images, draw)), inverse)

    def policy_of(self, learned: Mapping[str, float]) -> AffinePolicy:
        """Describe the distribution with these learned numbers, after crop and flip."""
        blocks = (BlockLaw(block="flip"), BlockLaw(block="crop"))
        widths = {"generators": super().policy_of(learned).generators}
        return AffinePolicy.of((blocks,), self.context.space).model_copy(update=widths)

    def sample_transforms(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw from the distribution of the whole composition a∘f∘c."""
        before = self.context.space.matrices(self._draw_crop_and_flip(count, generator))  # f∘c
        last = super().sample_transforms(count, generator)
        linear = last[:, :, :2] @ before
        return torch.cat((linear[:, :, :2], linear[:, :, 2:] + last[:, :, 2:]), dim=2)
