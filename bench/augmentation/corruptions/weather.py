"""Weather and light: snow, fog, brightness, contrast, saturation. Images are floats in [0, 1]; (N, C, S, S)."""

import torch
from torch import Tensor

from augbench.bench.augmentation.corruptions.filters import motion_filter, pixels, zoom
from augbench.bench.augmentation.corruptions.streams import ImageStreams

_LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601)


def snow(
    images: Tensor,
    streams: ImageStreams,
    mean: float,
    deviation: float,
    size: float,
    threshold: float,
    radius: float,
    blur: float,
    kept: float,
) -> Tensor:
    """Whiten an image and add flakes: normal noise, enlarged, cut off below a threshold and blurred as it falls.

    Args:
        images: (N, C, S, S).
        streams: Random numbers.
        mean: Of the noise.
        deviation: Of the noise.
        size: Factor by which the noise is enlarged.
        threshold: Least value of a flake.
        radius: Of the blur within 45° of the vertical, in pixels.
        blur: Standard deviation of that blur in pixels.
        kept: Share of the image's own light.
    """
    side = images.shape[-1]
    noise = mean + deviation * streams.normal("flakes", (1, side, side))
    flakes = zoom(noise, pixels(size, side))
    flakes = flakes.where(flakes >= threshold, 0).clamp(0, 1)
    angle = streams.uniform("angle", -135, -45)
    flakes = motion_filter(flakes, angle, pixels(radius, side), pixels(blur, side))
    whitened = kept * images + (1 - kept) * images.maximum(1.5 * luminance(images) + 0.5)
    return whitened + flakes + flakes.flip(2, 3)


def luminance(images: Tensor) -> Tensor:
    """Grey values of images; those of grey images are their own; (N, 1, S, S)."""
    if images.shape[1] == 1:
        return images
    return (images * torch.tensor(_LUMINANCE, device=images.device)[:, None, None]).sum(1, keepdim=True)


def fog(images: Tensor, streams: ImageStreams, density: float, decay: float) -> Tensor:
    """Add a plasma fractal and darken so that the largest value an image could have stays."""
    side = images.shape[-1]
    highest = images.amax((1, 2, 3), keepdim=True)
    clouds = plasma(streams, 1 << (side - 1).bit_length(), decay)[:, None, :side, :side]
    return (images + density * clouds) * highest / (highest + density)


def plasma(streams: ImageStreams, side: int, decay: float) -> Tensor:
    """Make clouds by the diamond-square algorithm on a torus.

    Each step halves the distance between known points: squares first, then diamonds, each the mean of its four
    neighbours plus uniform noise. Its range is divided by the square of `decay` from one step to the next.

    Args:
        streams: Random numbers.
        side: A power of two.
        decay: Above 1; the larger, the smoother.

    Returns:
        From 0 to 1 in every image; (N, side, side).
    """
    clouds = torch.zeros(streams.count, side, side, device=streams.device)
    step, height = side, 1.0
    while step > 1:
        half, shape = step // 2, (side // step, side // step)
        corners = clouds[:, ::step, ::step]
        pairs = corners + corners.roll(-1, 1)
        middles = (pairs + pairs.roll(-1, 2)) / 4 + streams.uniform(f"squares {step}", -height, height, shape)
        clouds[:, half::step, half::step] = middles
        upper = (middles + middles.roll(1, 1) + corners + corners.roll(-1, 2)) / 4
        clouds[:, ::step, half::step] = upper + streams.uniform(f"tops {step}", -height, height, shape)
        left = (middles + middles.roll(1, 2) + corners + corners.roll(-1, 1)) / 4
        clouds[:, half::step, ::step] = left + streams.uniform(f"sides {step}", -height, height, shape)
        step, height = half, height / decay**2
    clouds = clouds - clouds.amin((1, 2), keepdim=True)
    return clouds / clouds.amax((1, 2), keepdim=True)


def brightness(images: Tensor, _: ImageStreams, added: float) -> Tensor:
    """Raise the value of HSV, the largest of the three colours; hue and saturation stay."""
    value = images.amax(1, keepdim=True)
    raised = (value + added).clamp(max=1)
    return torch.where(value > 0, images * raised / value.clamp(min=1e-6), raised)


def contrast(images: Tensor, _: ImageStreams, factor: float) -> Tensor:
    """Bring all values nearer to the mean of their channel."""
    mean = images.mean((2, 3), keepdim=True)
    return mean + factor * (images - mean)


def saturate(images: Tensor, _: ImageStreams, factor: float, added: float) -> Tensor:
    """Change the saturation of HSV, (largest − smallest) / largest colour; hue and value stay. Grey has a red hue."""
    value = images.amax(1, keepdim=True)
    spread = value - images.amin(1, keepdim=True)
    wanted = (factor * spread / value.clamp(min=1e-6) + added).clamp(0, 1) * value
    below = (value - images) / spread.clamp(min=1e-6)  # 0 for the largest colour, 1 for the smallest
    red = torch.tensor([0.0, 1.0, 1.0], device=images.device)[:, None, None]
    return value - wanted * torch.where(spread > 0, below, red)
