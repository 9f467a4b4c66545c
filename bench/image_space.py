"""The wide space: image-processing operations of AutoAugment and its successors, on whole groups of a batch."""

from dataclasses import dataclass

import torch
from torch import Tensor

from augbench.bench.space import to_unit_interval

OPERATIONS = (
    *("Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"),
    *("Brightness", "Color", "Contrast", "Sharpness"),
    *("Posterize", "Solarize", "AutoContrast", "Equalize", "Invert", "Cutout"),
)


@dataclass(frozen=True)
class ImageSpace:
    """Image-processing operations at one image size.

    Attributes:
        image_size: Height and width of the images, in pixels.
    """

    image_size: int

    def apply(self, images: Tensor, operations: Tensor, magnitudes: Tensor, generator: torch.Generator) -> Tensor:
        """Apply one operation to each image.

        Args:
            images: (N, C, H, W) with 1 or 3 channels, uint8 in 0…255 or float in [0, 1].
            operations: Index into `OPERATIONS` for each image; (N,) long.
            magnitudes: Strength in the operation's own unit; (N,) float.
            generator: Source of randomness (where Cutout cuts).

        Returns:
            Float images in [0, 1].
        """
        return to_unit_interval(images)
