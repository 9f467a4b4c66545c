"""The fixed augmentation that most image classifiers are trained with."""

import torch
from torch import Tensor

from augbench.bench.method import Copies, Hyperparameters, Method, Setting, repeat
from augbench.bench.registry import register
from augbench.bench.space import to_unit_interval


@register("fixed")
class FixedAugmentation(Method[Hyperparameters]):
    """Crops every image at random after zero padding and mirrors every other one."""

    title = "random crop and horizontal flip"
    paper = "standard practice; the shared space's crop and flip blocks, each always in the composition"

    def __init__(self, hyperparameters: Hyperparameters, setting: Setting) -> None:
        super().__init__(hyperparameters, setting)
        names = [block.name for block in setting.space.blocks]
        self.probabilities = torch.tensor([float(name in ("flip", "crop")) for name in names], device=setting.device)

    def augment(self, images: Tensor, generator: torch.Generator) -> Copies:
        """Crop and mirror; both only move whole pixels, so nothing is resampled."""
        space = self.setting.space
        images = repeat(images, self.copies)
        draw = space.sample(len(images), self.probabilities, space.maxima(images.device), generator)
        cropped = to_unit_interval(space.crop(images, draw))
        return Copies(torch.where(draw.flip[:, None, None, None], cropped.flip(-1), cropped), draw)
