"""What data sets of small grey images have in common: their size and how they are turned."""

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.dataset import IMAGES_AT_A_TIME, DatasetOptions, ImageData, Split
from augbench.bench.prepared import PreparedOptions, PreparedSource
from augbench.bench.space import resample, to_unit_interval

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
        """Choose training images and shrink all."""
        data = super().apply(options, data)
        size = PreparedDigitOptions.model_validate(options.model_dump()).size
        train, test = (_shrunk(split, size) for split in (data.train, data.test))
        upright = None if data.upright_test is None else _shrunk(data.upright_test, size)
        return replace(data, train=train, test=test, upright_test=upright)


def _shrunk(split: Split, size: int) -> Split:
    return Split(shrink(split.images, size), split.labels)


def rotation_angles(count: int) -> NDArray[np.float64]:
    """Angles in radians, uniform on [−π, π), from the one NumPy generator whose stream is frozen; (count,)."""
    return np.random.RandomState(ROTATION_SEED).uniform(-math.pi, math.pi, count)


def turn(images: Tensor, angles: NDArray[np.float64]) -> Tensor:
    """Rotate uint8 images (N, C, H, W) by angles (N,), bilinear, black fill; uint8."""
    chunks = zip(images.split(IMAGES_AT_A_TIME), torch.from_numpy(angles).split(IMAGES_AT_A_TIME), strict=True)
    return torch.cat([_turn(chunk, angle) for chunk, angle in chunks])


def _turn(images: Tensor, angle: Tensor) -> Tensor:
    cosine, sine = angle.cos(), angle.sin()
    inverse = torch.stack((torch.stack((cosine, sine), 1), torch.stack((-sine, cosine), 1)), 1)
    return (resample(to_unit_interval(images), inverse.float()) * 255).round().to(torch.uint8)


def shrink(images: Tensor, size: int) -> Tensor:
    """Average uint8 images (N, C, H, W) down to `size`, a divisor of H; uint8."""
    factor = images.shape[-1] // size
    if factor == 1:
        return images
    chunks = images.split(IMAGES_AT_A_TIME)
    return torch.cat([F.avg_pool2d(chunk.float(), factor).round().to(torch.uint8) for chunk in chunks])
