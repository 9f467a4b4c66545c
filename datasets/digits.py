"""Options and rotations that data sets of small grey images share."""

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from augbench.bench.augmentation.affine_space import shrink, transform_and_shrink
from augbench.bench.data.dataset import DatasetOptions, ImageData, Split
from augbench.bench.data.prepared import PreparedOptions, PreparedSource

ROTATION_SEED = 20230804


class DigitOptions(DatasetOptions):
    """Options of images of 28 pixels a side."""

    size: Literal[28, 14] = Field(28, description="side in pixels; 14 averages squares of 2×2 pixels")


class PreparedDigitOptions(PreparedOptions, DigitOptions):
    """Options of such images where they are prepared."""


class PreparedDigits(PreparedSource):
    """Prepared images of 28 pixels a side."""

    options_type = PreparedDigitOptions

    def apply(self, options: DatasetOptions, data: ImageData) -> ImageData:
        """Choose training images and shrink all but the test images that probes transform."""
        data = super().apply(options, data)
        size = PreparedDigitOptions.model_validate(options.model_dump()).size
        return data if size == data.image_size else shrunk(data, size)


def shrunk(data: ImageData, size: int) -> ImageData:
    """Average all images down to `size` pixels; probes get the test images from before."""
    train, test = (Split(shrink(split.images, size), split.labels) for split in (data.train, data.test))
    return replace(data, train=train, test=test, upright_test=data.probe_images)


def rotation_angles(count: int) -> NDArray[np.float64]:
    """Angles in radians, uniform on [−π, π), from the one NumPy generator whose stream is frozen; (count,)."""
    return np.random.RandomState(ROTATION_SEED).uniform(-math.pi, math.pi, count)


def turn(images: Tensor, angles: NDArray[np.float64]) -> Tensor:
    """Rotate uint8 images (N, C, S, S) by angles (N,), bilinear, black fill; uint8."""
    angle = torch.from_numpy(angles)
    cosine, sine = angle.cos(), angle.sin()
    inverse = torch.stack((torch.stack((cosine, sine), 1), torch.stack((-sine, cosine), 1)), 1)
    return transform_and_shrink(images, inverse.float(), images.shape[-1])
