"""Blurs: defocus, glass, motion, zoom, Gaussian. Images are floats in [0, 1], lengths in pixels of a side of 32."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation.corruptions.filters import gaussian_filter, motion_filter, nearest, pixels, zoom
from augbench.bench.augmentation.corruptions.streams import ImageStreams


def defocus_blur(images: Tensor, _: ImageStreams, radius: float, softening: float) -> Tensor:
    """Average over a disc with a softened edge, mirroring what lies outside."""
    side = images.shape[-1]
    kernel = soft_disc(pixels(radius, side), pixels(softening, side), round(pixels(1, side))).to(images.device)
    reach = len(kernel) // 2
    padded = F.pad(images.flatten(0, 1)[:, None], [reach] * 4, mode="reflect")
    return F.conv2d(padded, kernel[None, None]).view_as(images)


def soft_disc(radius: float, softening: float, softening_reach: int) -> Tensor:
    """Make the weights of a disc of pixels that is blurred by a Gaussian; they sum to 1.

    Args:
        radius: A pixel belongs to the disc if its middle is no further from that of the disc, in pixels.
        softening: Standard deviation of the Gaussian in pixels.
        softening_reach: Pixels after which the Gaussian ends.
    """
    reach = int(radius) + softening_reach
    places = torch.arange(-reach, reach + 1)
    disc = ((places[:, None] ** 2 + places**2) <= radius**2).float()
    taps = torch.arange(-softening_reach, softening_reach + 1)
    weights = (-0.5 * (taps / softening) ** 2).exp()
    both = weights[:, None] * weights
    kernel = F.conv2d(disc[None, None], both[None, None], padding=softening_reach)[0, 0]
    return kernel / kernel.sum()


def glass_blur(images: Tensor, streams: ImageStreams, deviation: float, distance: float, rounds: float) -> Tensor:
    """Blur, let pixels take the value of a neighbour, and blur again.

    From the bottom right corner on, each pixel but those next to the border takes the value of one that is up to
    `distance` pixels up or left and less than that down or right. The original means to swap the two; in colour images
    its NumPy code copies, and so does this.
    """
    side = images.shape[-1]
    sigma, furthest = pixels(deviation, side), round(pixels(distance, side))
    shuffled = gaussian_filter(images, sigma, nearest).clone()
    each = torch.arange(len(images), device=images.device)
    for turn in range(int(rounds)):
        offsets = streams.integers(f"neighbours {turn}", -furthest, furthest, (2, side, side))
        for row in range(side - furthest, furthest, -1):
            for column in range(side - furthest, furthest, -1):
                down, across = offsets[:, 0, row, column], offsets[:, 1, row, column]
                shuffled[:, :, row, column] = shuffled[each, :, row + down, column + across]
    return gaussian_filter(shuffled, sigma, nearest)


def motion_blur(images: Tensor, streams: ImageStreams, radius: float, deviation: float) -> Tensor:
    """Blur along a line within 45° of the horizontal."""
    side = images.shape[-1]
    return motion_filter(images, streams.uniform("angle", -45, 45), pixels(radius, side), pixels(deviation, side))


def zoom_blur(images: Tensor, _: ImageStreams, end: float) -> Tensor:
    """Average an image and its enlargements by 1, 1.01, … up to about `end`."""
    factors = np.arange(1, end, 0.01)  # as the original has it, whose rounding decides whether the end is among them
    return (images + sum(zoom(images, float(factor)) for factor in factors)) / (len(factors) + 1)


def gaussian_blur(images: Tensor, _: ImageStreams, deviation: float) -> Tensor:
    """Blur with a Gaussian, repeating the border."""
    return gaussian_filter(images, pixels(deviation, images.shape[-1]), nearest)
