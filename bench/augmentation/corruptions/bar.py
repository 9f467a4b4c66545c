"""The corruptions of CIFAR-10-C̄, far from augmentations in use. Images are floats in [0, 1]; (N, C, S, S).

Mintun, Kirillov and Xie, "On interaction between augmentations and corruptions in natural corruption robustness"
(2021), whose script for images of 32 pixels defines them. Unless it is said otherwise, lengths are shares of the side.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation.corruptions.filters import (
    cubic_taps,
    nearest,
    pixels,
    sample_linearly,
    spline_coefficients,
)
from augbench.bench.augmentation.corruptions.streams import ImageStreams

GREY = 128 / 255
CELLS = 3  # of pinch and twirl, along each axis
ROTATIONS = 21
FEWEST_RAYS, MOST_RAYS = 50, 199


def blue_noise(images: Tensor, streams: ImageStreams, threshold: float) -> Tensor:
    """Blacken pixels where noise whose amplitude is in proportion to the frequency is below a threshold."""
    side = images.shape[-1]
    noise = _noise_of_spectrum(streams, "phases", _frequencies(side))
    return images * (noise > threshold)[:, None]


def brownish_noise(images: Tensor, streams: ImageStreams, deviation: float) -> Tensor:
    """Add noise whose amplitude falls as 1/(f² + 1), one for each channel."""
    spectrum = 1 / (_frequencies(images.shape[-1]) ** 2 + 1)
    noise = [_noise_of_spectrum(streams, f"phases {channel}", spectrum) for channel in range(images.shape[1])]
    return images + deviation * torch.stack(noise, 1)


def _frequencies(side: int) -> Tensor:
    """Distance of each place of a spectrum from its middle, which is at side / 2; (S, S)."""
    along = torch.arange(side) - side / 2
    return (along[:, None] ** 2 + along**2).sqrt()


def _noise_of_spectrum(streams: ImageStreams, purpose: str, amplitudes: Tensor) -> Tensor:
    """Make noise of a standard deviation of 1 with random phases.

    The phases of one half of the spectrum are those of the other half, turned by 180°, as the original has it.

    Returns:
        (N, S, S).
    """
    side = len(amplitudes)
    half = streams.uniform(purpose, 0, 2 * math.pi, (side, side // 2))
    parts = [half, half.flip(1, 2)]
    if side % 2:
        column = streams.uniform(f"{purpose}, middle", 0, 2 * math.pi, (side // 2, 1))
        parts.insert(1, torch.cat((column, torch.zeros_like(column[:, :1]), column.flip(1)), 1))
    phases = torch.cat(parts, 2)
    spectrum = torch.polar(amplitudes.to(phases.device).expand_as(phases), phases).roll((side // 2, side // 2), (1, 2))
    noise: Tensor = torch.fft.ifft2(spectrum).real
    return noise / noise.std((1, 2), correction=0, keepdim=True)


def checkerboard_cutout(images: Tensor, streams: ImageStreams, share: float) -> Tensor:
    """Make a share of the black squares of a turned chessboard grey; squares are 0.1 to 0.25 of the side.

    Chance goes by the whole part of a square's position, so that squares at both sides of an axis share it.
    """
    rows, columns = _grid(images)
    angle = streams.uniform("angle", 0, 2 * math.pi)[:, None, None]
    square = (streams.uniform("square", 0.1, 0.25) * images.shape[-1]).clamp(min=1)[:, None, None]
    down = (angle.cos() * rows + angle.sin() * columns) / square
    across = (angle.cos() * columns - angle.sin() * rows) / square
    furthest = math.ceil(math.sqrt(2) / 0.1)  # squares from the corner in which they begin
    chances = streams.uniform("chance", 0, 1, (2 * furthest + 1, 2 * furthest + 1)).flatten(1)
    places = (down.trunc().long() + furthest) * (2 * furthest + 1) + across.trunc().long() + furthest
    chosen = chances.gather(1, places.flatten(1)).view_as(down) < share
    is_black = down.floor() % 2 == across.floor() % 2
    return images.where(~(chosen & is_black)[:, None], GREY)


def lines(images: Tensor, streams: ImageStreams, density: float) -> Tensor:
    """Draw smooth grey lines a pixel wide: `density` times the side of them, at least one.

    Each is twice as long as the side, through a point of the image, in a direction that varies about a common one.
    """
    side = images.shape[-1]
    drawn = streams.uniform("lines", 0, 1, (side, 3))
    common, variation = streams.uniform("angle", 0, 2 * math.pi), streams.uniform("variation", 0.1, 1)
    angles = common[:, None] + 2 * math.pi * variation[:, None] * (drawn[..., 2] - 0.5)
    for index in range(max(1, int(density * side))):
        middle = side * drawn[:, index, :2]
        reach = side * torch.stack((angles[:, index].cos(), angles[:, index].sin()), 1)
        weight = line_weights(images, (middle - reach).trunc(), (middle + reach).trunc())[:, None]
        images = images + weight * (GREY - images)
    return images


def line_weights(images: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """How much of each pixel a line a pixel wide covers: 1 less its distance in pixels, between the ends.

    Args:
        images: (N, C, S, S).
        start: Row and column; (N, 2).
        end: As `start`; another place.

    Returns:
        In [0, 1]; (N, S, S).
    """
    rows, columns = _grid(images)
    down, across = ((end - start)[:, axis, None, None] for axis in (0, 1))
    length = (down**2 + across**2).sqrt()
    below, right = rows - start[:, 0, None, None], columns - start[:, 1, None, None]
    along = (below * down + right * across) / length
    weights = (1 - (below * across - right * down).abs() / length).clamp(min=0)
    return weights * ((along - length / 2).abs() < length / 2 + 1e-3)


def sparkles(images: Tensor, streams: ImageStreams, radius: float) -> Tensor:
    """Add five white stars; their rays are about `radius` pixels of a side of 32 long, and at least one."""
    side = images.shape[-1]
    centres = streams.uniform("centres", 0, side, (5, 2))
    counts = streams.integers("rays", FEWEST_RAYS, MOST_RAYS + 1, (5,))
    lengths = pixels(radius, side) * (1 + 0.25 * streams.normal("lengths", (5, MOST_RAYS)))
    lengths = lengths.clamp(min=pixels(1, side))
    for star in range(5):
        light = _star(images, centres[:, star], lengths[:, star], counts[:, star, None, None], 1.0)
        images = images + light * (1 - images)
    return images


def inverse_sparkles(images: Tensor, streams: ImageStreams, sharpness: float) -> Tensor:
    """Whiten all but the inside of a star, whose rays are about a quarter of the side long."""
    side = images.shape[-1]
    centre = streams.uniform("centre", 0.25 * side, 0.75 * side, (2,))
    counts = streams.integers("rays", FEWEST_RAYS, MOST_RAYS + 1, (1, 1))
    lengths = 0.25 * side * (1 + 0.25 * streams.normal("lengths", (MOST_RAYS,)))
    kept = _star(images, centre, lengths, counts, sharpness)
    return 1 + kept * (images - 1)


def _star(images: Tensor, centre: Tensor, lengths: Tensor, counts: Tensor, sharpness: float) -> Tensor:
    """How bright each pixel of a star is: (length of the ray / distance)^(2·sharpness), a little less between rays.

    Args:
        images: (N, C, S, S).
        centre: Row and column; (N, 2).
        lengths: In pixels, of which the first ones count; (N, R).
        counts: Rays of each image; (N, 1, 1).
        sharpness: Half the exponent.

    Returns:
        In [0, 1]; (N, 1, S, S).
    """
    rows, columns = _grid(images)
    down, across = rows - centre[:, 0, None, None], columns - centre[:, 1, None, None]
    place = (torch.atan2(across, down) + math.pi) / (2 * math.pi) * counts
    before = place.floor()
    part = place - before
    left, right = (
        lengths.gather(1, (index % counts).flatten(1)).view_as(part) for index in (before.long(), before.long() + 1)
    )
    length = left + part * (right - left)
    reach = (length**2 / (down**2 + across**2 + 1e-4)) ** sharpness
    return (reach * (1 - (part - 0.5) ** 2)).clamp(0, 1)[:, None]


def pinch_and_twirl(images: Tensor, streams: ImageStreams, angle: float, amount: float) -> Tensor:
    """Pinch and turn a disc in each of 3 × 3 squares, either way; black where nothing is."""
    side = images.shape[-1]
    cell = side // CELLS
    radius = cell / 2
    signs = 1 - 2 * streams.integers("signs", 0, 2, (CELLS, CELLS))
    rows, columns = _grid(images)
    down, across = rows % cell - radius, columns % cell - radius
    distance = (down**2 + across**2).sqrt() / radius
    inside = (rows < cell * CELLS) & (columns < cell * CELLS) & (distance <= 1) & (distance > 0)
    pinched = torch.where(inside, (0.5 * math.pi * distance).sin(), 1) ** -amount
    # all squares at once, as a disc takes nothing from outside its square but unchanged pixels beside it
    left, upper = ((places[0] // cell).clamp(max=CELLS - 1).long() for places in (columns, rows))
    turn = signs[:, left, upper] * angle * (1 - distance) ** 2
    moved_down = pinched * (down * turn.cos() - across * turn.sin())
    moved_across = pinched * (down * turn.sin() + across * turn.cos())
    return _sampled(images, rows + inside * (moved_down - down), columns + inside * (moved_across - across))


def ripple(images: Tensor, streams: ImageStreams, amplitude: float) -> Tensor:
    """Move rows and columns by waves of 0.1 to 0.3 of the side; black where nothing is."""
    side = images.shape[-1]
    lengths = streams.uniform("wavelengths", 0.1 * side, 0.3 * side, (2,))
    phases = streams.uniform("phases", 0, 2 * math.pi, (2,))
    moved = [
        places
        + side * amplitude * (2 * math.pi * places / lengths[:, axis, None, None] + phases[:, axis, None, None]).sin()
        for axis, places in enumerate(_grid(images))
    ]
    return _sampled(images, moved[0], moved[1])


def circular_motion_blur(images: Tensor, _: ImageStreams, degrees: float) -> Tensor:
    """Average over 21 rotations by up to `degrees` either way, weighted by exp(−2t²) for t from −1 to 1.

    Rotations are cubic splines, black outside, as SciPy's `rotate` has them.
    """
    side = images.shape[-1]
    blurred = _rotations(side, degrees).to(images.device) @ spline_coefficients(images).flatten(2).flatten(0, 1).T
    return blurred.T.reshape(images.shape)


@lru_cache(maxsize=5)
def _rotations(side: int, degrees: float) -> Tensor:
    """Make the matrix from spline coefficients to the mean of the rotations; sparse, (S², S²)."""
    times = torch.linspace(-1, 1, ROTATIONS, dtype=torch.float64)
    weights = (-2 * times**2).exp()
    angles = (degrees * times).deg2rad()[:, None, None]
    along = torch.arange(side, dtype=torch.float64) - (side - 1) / 2
    rows = angles.cos() * along[:, None] + angles.sin() * along + (side - 1) / 2
    columns = angles.cos() * along - angles.sin() * along[:, None] + (side - 1) / 2
    inside = (rows >= 0) & (rows <= side - 1) & (columns >= 0) & (columns <= side - 1)
    (row_taps, of_rows), (column_taps, of_columns) = cubic_taps(rows, side), cubic_taps(columns, side)
    sources = row_taps[..., :, None] * side + column_taps[..., None, :]  # (21, S, S, 4, 4)
    shares = of_rows[..., :, None] * of_columns[..., None, :] * (inside * weights[:, None, None])[..., None, None]
    targets = torch.arange(side**2).view(1, side, side, 1, 1).expand_as(sources)
    indices = torch.stack((targets.flatten(), sources.flatten()))
    values = (shares / weights.sum()).flatten().float()
    return torch.sparse_coo_tensor(indices, values, (side**2, side**2), check_invariants=False).coalesce()


def transverse_chromatic_aberration(images: Tensor, streams: ImageStreams, added: float) -> Tensor:
    """Enlarge each colour by another factor: 1, 1 + added/2 and 1 + added, in random order.

    Enlargements are cubic B-splines through nothing, which smooth: SciPy's `zoom` without its prefilter.
    """
    side = images.shape[-1]
    matrices = torch.stack([_enlargement(side, 1 + part * added) for part in (0, 0.5, 1)]).to(images.device)
    order = streams.uniform("order", 0, 1, (3,)).argsort(1)
    chosen = matrices[order]
    return chosen @ images @ chosen.transpose(2, 3)


def _enlargement(side: int, factor: float) -> Tensor:
    """Make the matrix that enlarges along an axis and keeps the middle; (S, S)."""
    large = round(side * factor)
    places = (torch.arange(side, dtype=torch.float64) + (large - side) // 2) * (side - 1) / (large - 1)
    taps, weights = cubic_taps(places, side)
    return torch.zeros(side, side, dtype=torch.float64).scatter_add_(1, taps, weights).float()


def _grid(images: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column of each pixel; two of (1, S, S)."""
    along = torch.arange(images.shape[-1], device=images.device, dtype=images.dtype)
    rows, columns = torch.meshgrid(along, along, indexing="ij")
    return rows[None], columns[None]


def _sampled(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Read images linearly between pixels, black outside; rows and columns (N, S, S)."""
    return sample_linearly(F.pad(images, [1, 1, 1, 1]), rows + 1, columns + 1, nearest)
