"""Noise in every value of an image: Gaussian, shot, impulse, speckle. Images are floats in [0, 1]; (N, C, S, S)."""

from torch import Tensor

from augbench.bench.augmentation.corruptions.streams import ImageStreams


def gaussian_noise(images: Tensor, streams: ImageStreams, deviation: float) -> Tensor:
    """Add normal noise with a standard deviation."""
    return images + deviation * streams.normal("noise", images.shape[1:])


def shot_noise(images: Tensor, streams: ImageStreams, photons: float) -> Tensor:
    """Count photons: a Poisson number whose mean is `photons` for a value of 1."""
    return streams.poisson("photons", images * photons) / photons


def impulse_noise(images: Tensor, streams: ImageStreams, share: float) -> Tensor:
    """Set a share of all values to 0 or 1, each with probability 1/2."""
    hit = streams.uniform("hit", 0, 1, images.shape[1:]) < share
    white = streams.uniform("white", 0, 1, images.shape[1:]) < 0.5
    return images.where(~hit, white.to(images.dtype))


def speckle_noise(images: Tensor, streams: ImageStreams, deviation: float) -> Tensor:
    """Add normal noise whose standard deviation is in proportion to the value."""
    return images * (1 + deviation * streams.normal("noise", images.shape[1:]))
