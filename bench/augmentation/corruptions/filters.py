"""Filters and samplers that several corruptions need. Images are floats; (N, C, S, S).

What lies outside an image follows from a rule for indices: `nearest` repeats the border (aaa|abcd|ddd), `symmetric`
mirrors the image at the edge of its border (cba|abcd|dcb), `mirror` at the middle of its border (dcb|abcd|cba).
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

ORIGINAL_SIDE = 32
"""Side of the images for which the constants of CIFAR-10-C were chosen, in pixels."""

Outside = Callable[[Tensor, int], Tensor]


def pixels(length: float, side: int) -> float:
    """Scale a length in pixels of an image of 32 pixels to one of `side`; smaller images keep it.

    Below 32 pixels a length in proportion would be a fraction of a pixel, and several corruptions would do nothing.
    """
    return length * max(1.0, side / ORIGINAL_SIDE)


def nearest(indices: Tensor, side: int) -> Tensor:
    """Repeat the border."""
    return indices.clamp(0, side - 1)


def symmetric(indices: Tensor, side: int) -> Tensor:
    """Mirror the image at the edge of its border, which is repeated."""
    inside = indices % (2 * side)
    return torch.minimum(inside, 2 * side - 1 - inside)


def mirror(indices: Tensor, side: int) -> Tensor:
    """Mirror the image at the middle of its border, which is not repeated."""
    inside = indices % (2 * side - 2)
    return torch.minimum(inside, 2 * side - 2 - inside)


def gaussian_filter(images: Tensor, deviation: float, outside: Outside, truncate: float = 4.0) -> Tensor:
    """Blur along both axes with weights exp(−k²/2σ²) that end after `truncate` standard deviations.

    Args:
        images: (…, S, S).
        deviation: σ in pixels; 0 changes nothing.
        outside: Rule for what lies outside.
        truncate: Where the weights end; the last is at ⌊truncate·σ + ½⌋ pixels.
    """
    side = images.shape[-1]
    reach = int(truncate * deviation + 0.5)
    if not reach:
        return images
    taps = torch.arange(-reach, reach + 1, device=images.device)
    weights = (-0.5 * (taps / deviation) ** 2).exp()
    weights = (weights / weights.sum()).expand(side, -1)
    columns = outside(torch.arange(side, device=images.device)[:, None] + taps, side)
    matrix = torch.zeros(side, side, device=images.device).scatter_add_(1, columns, weights)
    return matrix @ images @ matrix.T


def shifted(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Take each pixel from so many rows below and columns to the right, repeating the border.

    Args:
        images: (N, C, S, S).
        rows: Whole numbers; (N,) long.
        columns: Whole numbers; (N,) long.
    """
    count, channels, side, _ = images.shape
    along = torch.arange(side, device=images.device)
    down = nearest(along + rows[:, None], side)[:, None, :, None].expand(count, channels, side, side)
    across = nearest(along + columns[:, None], side)[:, None, None, :].expand(count, channels, side, side)
    return images.gather(2, down).gather(3, across)


def motion_filter(images: Tensor, degrees: Tensor, radius: float, deviation: float) -> Tensor:
    """Blur in one direction, as ImageMagick does: half a Gaussian over whole pixels along a line, border repeated.

    Args:
        images: (N, C, S, S).
        degrees: Direction of each line, clockwise from the right; (N,).
        radius: Half the length of the line in pixels: it has 2⌈radius⌉ + 1 pixels.
        deviation: Of the Gaussian, in pixels.
    """
    steps = range(2 * math.ceil(radius) + 1)
    weights = [math.exp(-0.5 * (step / deviation) ** 2) for step in steps]
    sine, cosine = degrees.deg2rad().sin(), degrees.deg2rad().cos()
    blurred = torch.zeros_like(images)
    for step, weight in zip(steps, weights, strict=True):
        rows, columns = ((step * part - 0.5).ceil().long() for part in (sine, cosine))
        blurred += weight / sum(weights) * shifted(images, rows, columns)
    return blurred


def zoom(images: Tensor, factor: float) -> Tensor:
    """Enlarge the middle of square images by a factor of at least 1, linearly between pixels; the size stays."""
    side = images.shape[-1]
    taken = math.ceil(side / factor)
    start = (side - taken) // 2
    middle = images[..., start : start + taken, start : start + taken]
    enlarged = round(taken * factor)
    large = F.interpolate(middle, size=(enlarged, enlarged), mode="bilinear", align_corners=True)
    trimmed = (enlarged - side) // 2
    return large[..., trimmed : trimmed + side, trimmed : trimmed + side]


def sample_linearly(images: Tensor, rows: Tensor, columns: Tensor, outside: Outside) -> Tensor:
    """Read images between pixels.

    Args:
        images: (N, C, S, S).
        rows: Where to read, in pixels from the middle of the first; (N, T, T).
        columns: As `rows`.
        outside: Rule for what lies outside.

    Returns:
        (N, C, T, T).
    """
    side = images.shape[-1]
    top, left = rows.floor(), columns.floor()
    below, right = (rows - top)[:, None], (columns - left)[:, None]

    def corner(down: int, across: int) -> Tensor:
        places = outside(top.long() + down, side) * side + outside(left.long() + across, side)
        flat = places.flatten(1)[:, None].expand(-1, images.shape[1], -1)
        return images.flatten(2).gather(2, flat).view(*images.shape[:2], *rows.shape[1:])

    upper = (1 - right) * corner(0, 0) + right * corner(0, 1)
    lower = (1 - right) * corner(1, 0) + right * corner(1, 1)
    return (1 - below) * upper + below * lower


def spline_coefficients(images: Tensor) -> Tensor:
    """Find the coefficients of the cubic B-splines through all pixels, mirrored at the middle of the border."""
    side = images.shape[-1]
    along = torch.arange(side, dtype=torch.float64)
    taps, weights = cubic_taps(along, side)
    at_pixels = torch.zeros(side, side, dtype=torch.float64).scatter_add_(1, taps, weights)
    inverse: Tensor = torch.linalg.inv(at_pixels).float().to(images.device)
    return inverse @ images @ inverse.T


def cubic_taps(places: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """Which coefficients a cubic B-spline takes at some places along an axis, and their weights.

    Args:
        places: In pixels from the middle of the first; (…).
        side: Pixels along the axis, mirrored at the middle of the border.

    Returns:
        Indices and weights; both (…, 4).
    """
    first = places.floor()
    part = places - first
    rest = 1 - part
    weights = torch.stack((rest**3, 3 * part**3 - 6 * part**2 + 4, 3 * rest**3 - 6 * rest**2 + 4, part**3), -1)
    offsets = torch.arange(-1, 3, device=places.device)
    return mirror(first.long()[..., None] + offsets, side), weights / 6
