"""Each corruption of CIFAR-10-C̄ against SciPy, or pixel by pixel against its definition."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import fft, ndimage
from torch import Tensor

from augbench.bench.augmentation.corruptions import bar
from augbench.bench.augmentation.corruptions.corrupt import BAR
from augbench.bench.augmentation.corruptions.filters import spline_coefficients
from augbench.bench.augmentation.corruptions.streams import ImageStreams

Floats = NDArray[np.floating[Any]]
TURN = 2 * math.pi


def images(side: int, channels: int = 3) -> Tensor:
    return torch.rand(2, channels, side, side, generator=torch.Generator().manual_seed(1))


def streams() -> ImageStreams:
    return ImageStreams(seed=0, corruption="a test", first=0, count=2, device=torch.device("cpu"))


def same(found: Tensor, expected: Floats | list[Floats], tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(found.numpy(), np.asarray(expected), atol=tolerance, rtol=0)


def levels(name: str) -> list[tuple[float, ...]]:
    return [tuple(round(number, 6) for number in level) for level in BAR[name].levels]


def test_constants_are_parts_in_ten_of_the_published_largest_values() -> None:
    assert levels("blue-noise") == [(-2.29,), (-2.08,), (-1.87,), (-1.45,), (-1.24,)]  # 3·level/10 − 2.5
    assert levels("checkerboard-cutout") == [(0.1,), (0.2,), (0.3,), (0.4,), (0.5,)]
    assert levels("inverse-sparkles") == [(0.13,), (0.195,), (0.325,), (0.585,), (0.65,)]  # 65·level/10 / 50
    twirl = [(5.5, 0.32), (6, 0.34), (6.5, 0.36), (8.5, 0.44), (10, 0.5)]  # quarter turns·level/10, 0.4·level/10 + 0.1
    assert levels("pinch-and-twirl") == [(round(level / 10 * TURN / 4, 6), amount) for level, amount in twirl]
    assert levels("ripple") == [(0.01375,), (0.015,), (0.01625,), (0.01875,), (0.02,)]
    assert levels("brownish-noise") == [(round(64 * level / 2550, 6),) for level in (2.5, 4, 5.5, 6.5, 7)]
    assert levels("circular-motion-blur") == [(4.2,), (5.4,), (6.6,), (7.8,), (9,)]
    assert levels("lines") == [(0.05,), (0.1,), (0.15,), (0.2,), (0.25,)]
    assert levels("sparkles") == [(0.224,), (1.12,), (1.792,), (2.016,), (2.24,)]  # 0.1·level/10 of 32 pixels
    assert levels("transverse-chromatic-aberration") == [(0.05,), (0.1,), (0.25,), (0.45,), (0.5,)]


def noise(side: int, amplitude: Any, purpose: str) -> list[Floats]:
    """Noise of a spectrum whose place (y, x) has the frequency (y, x) − side / 2."""
    half = streams().uniform(purpose, 0, TURN, (side, side // 2)).numpy()
    found = []
    for index in range(2):
        phases = np.zeros((side, side))
        if side % 2:
            middle = streams().uniform(f"{purpose}, middle", 0, TURN, (side // 2, 1)).numpy()[index, :, 0]
            phases[: side // 2, side // 2] = middle
            phases[side // 2 + 1 :, side // 2] = middle[::-1]
        for row, column in np.ndindex(side, side // 2):
            phases[row, column] = phases[side - 1 - row, side - 1 - column] = half[index, row, column]
        spectrum = np.zeros((side, side), dtype=complex)
        for row, column in np.ndindex(side, side):
            size = amplitude(math.hypot(row - side / 2, column - side / 2))
            at = (row + side // 2) % side, (column + side // 2) % side
            spectrum[at] = size * np.exp(1j * phases[row, column])
        values = np.real(fft.ifft2(spectrum))
        found.append(values / values.std())
    return found


@pytest.mark.parametrize("side", [14, 15, 32])
def test_blue_noise_masks_and_brownish_noise_is_added(side: int) -> None:
    given = images(side)
    masks = [one > -1.24 for one in noise(side, lambda frequency: frequency, "phases")]
    assert all(0.01 < 1 - mask.mean() < 0.3 for mask in masks)
    same(bar.blue_noise(given, streams(), -1.24), given.numpy() * np.array(masks)[:, None])
    added = np.stack([noise(side, lambda one: 1 / (one**2 + 1), f"phases {channel}") for channel in range(3)], 1)
    same(bar.brownish_noise(given, streams(), 0.1), given.numpy() + 0.1 * added)
    same(bar.brownish_noise(given[:, :1], streams(), 0.1), given.numpy()[:, :1] + 0.1 * added[:, :1])


@pytest.mark.parametrize("side", [14, 32, 96])
def test_squares_of_a_turned_chessboard(side: int) -> None:
    given = images(side, 1)
    found = bar.checkerboard_cutout(given, streams(), 0.5).numpy()
    angles, sizes = streams().uniform("angle", 0, TURN), streams().uniform("square", 0.1, 0.25) * side
    chances = streams().uniform("chance", 0, 1, (31, 31)).numpy()
    for index, (angle, size) in enumerate(zip(angles.tolist(), sizes.tolist(), strict=True)):
        for y, x in np.ndindex(side, side):
            across = (math.cos(angle) * y + math.sin(angle) * x) / size
            along = (-math.sin(angle) * y + math.cos(angle) * x) / size
            if min(abs(value - round(value)) for value in (across, along)) < 1e-4:
                continue  # on an edge, where rounding decides
            grey = int(across % 2) == int(along % 2) and chances[index, 15 + int(across), 15 + int(along)] < 0.5
            assert found[index, 0, y, x] == pytest.approx(128 / 255 if grey else given[index, 0, y, x].item())


def smooth_line(start: tuple[int, int], end: tuple[int, int]) -> dict[tuple[int, int], float]:
    """Pixels of a smooth line and their weights: Bresenham's steps, whose error is a distance (Zingl, 2012)."""
    weights: dict[tuple[int, int], float] = {}
    (row, column), height, width = start, abs(end[0] - start[0]), abs(end[1] - start[1])
    down, right = (1 if last > first else -1 for first, last in zip(start, end, strict=True))
    error, length = width - height, math.hypot(width, height)
    while True:
        weights[row, column] = 1 - abs(error - width + height) / length
        before, column_before = error, column
        if 2 * before >= -width:
            if column == end[1]:
                return weights
            if before + height < length:
                weights[row + down, column] = 1 - abs(before + height) / length
            error, column = error - height, column + right
        if 2 * before <= height:
            if row == end[0]:
                return weights
            if width - before < length:
                weights[row, column_before + right] = 1 - abs(width - before) / length
            error, row = error + width, row + down


@pytest.mark.parametrize(("side", "density", "count"), [(14, 0.05, 1), (14, 0.25, 3), (32, 0.05, 1), (32, 0.25, 8)])
def test_lines_are_smooth_and_grey(side: int, density: float, count: int) -> None:
    given = images(side)
    drawn, angle = streams().uniform("lines", 0, 1, (side, 3)).numpy(), streams().uniform("angle", 0, TURN).numpy()
    variation = streams().uniform("variation", 0.1, 1).numpy()
    for index, image in enumerate(given.numpy().astype(float)):
        for y, x, part in drawn[index, :count]:
            direction = angle[index] + TURN * variation[index] * (part - 0.5)
            reach = side * math.cos(direction), side * math.sin(direction)
            ends = [(int(side * y + sign * reach[0]), int(side * x + sign * reach[1])) for sign in (-1, 1)]
            for (row, column), weight in smooth_line(*ends).items():
                if 0 <= row < side and 0 <= column < side:
                    image[:, row, column] += weight * (128 / 255 - image[:, row, column])
        same(bar.lines(given, streams(), density)[index], image)


def star(y: int, x: int, centre: Floats, lengths: Floats, rays: int, sharpness: float) -> float:
    """How bright a star is at a pixel."""
    down, across = y - float(centre[0]), x - float(centre[1])
    place = (math.atan2(across, down) + math.pi) / TURN * rays
    ray, part = int(place), place - int(place)
    length = (1 - part) * float(lengths[ray % rays]) + part * float(lengths[(ray + 1) % rays])
    reach = (length**2 / (down**2 + across**2 + 1e-4)) ** sharpness
    return min(max(reach * (1 - (part - 0.5) ** 2), 0), 1)


@pytest.mark.parametrize("side", [14, 32, 48])
def test_sparkles_and_inverse_sparkles(side: int) -> None:
    given, scale = images(side), max(1, side / 32)
    centres, rays = streams().uniform("centres", 0, side, (5, 2)).numpy(), streams().integers("rays", 50, 200, (5,))
    lengths = np.maximum(scale, 2.24 * scale * (1 + 0.25 * streams().normal("lengths", (5, 199)).numpy()))
    found = bar.sparkles(given, streams(), 2.24)
    for index, image in enumerate(given.numpy().astype(float)):
        for one in range(5):
            for y, x in np.ndindex(side, side):
                light = star(y, x, centres[index, one], lengths[index, one], int(rays[index, one]), 1)
                image[:, y, x] += light * (1 - image[:, y, x])
        same(found[index], image, 2e-4)
    centre, count = streams().uniform("centre", side / 4, 3 * side / 4, (2,)), streams().integers("rays", 50, 200, (1,))
    radii = side / 4 * (1 + 0.25 * streams().normal("lengths", (199,)).numpy())
    found = bar.inverse_sparkles(given, streams(), 0.65)
    for index, image in enumerate(given.numpy().astype(float)):
        for y, x in np.ndindex(side, side):
            kept = star(y, x, centre[index].numpy(), radii[index], int(count[index, 0]), 0.65)
            image[:, y, x] = 1 - kept * (1 - image[:, y, x])
        same(found[index], image, 2e-4)


def read(image: Floats, rows: Floats, columns: Floats) -> Floats:
    """Read an image between its pixels, black beside it."""
    around = np.pad(image, ((0, 0), (2, 2), (2, 2)))
    return np.stack([ndimage.map_coordinates(one, [rows + 2, columns + 2], order=1) for one in around])


@pytest.mark.parametrize("side", [14, 32, 33])
def test_pinch_and_twirl_square_by_square(side: int) -> None:
    angle, amount = BAR["pinch-and-twirl"].levels[-1]
    given, signs = images(side), 1 - 2 * streams().integers("signs", 0, 2, (3, 3)).numpy()
    cell, found = side // 3, bar.pinch_and_twirl(given, streams(), angle, amount)
    for index, image in enumerate(given.numpy()):
        rows, columns = np.mgrid[:side, :side].astype(float)
        for left, upper in np.ndindex(3, 3):
            middle = np.array([upper * cell + cell / 2, left * cell + cell / 2])
            for y in range(upper * cell, (upper + 1) * cell):
                for x in range(left * cell, (left + 1) * cell):
                    away = np.array([y, x]) - middle
                    distance = np.linalg.norm(away) / (cell / 2)
                    if 0 < distance <= 1:
                        away = away * math.sin(math.pi / 2 * distance) ** -amount
                        turn = signs[index, left, upper] * angle * (1 - distance) ** 2
                        rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
                        rows[y, x], columns[y, x] = middle + rotation @ away
        same(found[index], read(image, rows, columns), 5e-5)


@pytest.mark.parametrize("side", [14, 32, 48])
def test_ripple_moves_rows_and_columns_by_waves(side: int) -> None:
    given, found = images(side), bar.ripple(images(side), streams(), 0.02)
    lengths = streams().uniform("wavelengths", 0.1 * side, 0.3 * side, (2,)).numpy()
    phases = streams().uniform("phases", 0, TURN, (2,)).numpy()
    for index, image in enumerate(given.numpy()):
        y, x = np.mgrid[:side, :side].astype(float)
        rows = y + 0.02 * side * np.sin(TURN * y / lengths[index, 0] + phases[index, 0])
        columns = x + 0.02 * side * np.sin(TURN * x / lengths[index, 1] + phases[index, 1])
        same(found[index], read(image, rows, columns), 5e-5)


@pytest.mark.parametrize("side", [14, 33])
def test_circular_motion_blur_is_a_mean_of_rotations_by_scipy(side: int) -> None:
    given = images(side)
    times = np.linspace(-1, 1, 21)
    weights = np.exp(-2 * times**2)
    rotated = [ndimage.rotate(given.double().numpy(), 9 * time, axes=(2, 3), reshape=False) for time in times]
    same(bar.circular_motion_blur(given, streams(), 9), np.average(rotated, axis=0, weights=weights))
    filtered = ndimage.spline_filter1d(ndimage.spline_filter1d(given.double().numpy(), axis=2), axis=3)
    same(spline_coefficients(given), filtered)


@pytest.mark.parametrize("side", [14, 32, 33])
@pytest.mark.parametrize("added", [0.05, 0.25, 0.5])
def test_chromatic_aberration_enlarges_each_colour_by_scipy(side: int, added: float) -> None:
    given, found = images(side), bar.transverse_chromatic_aberration(images(side), streams(), added)
    order = streams().uniform("order", 0, 1, (3,)).argsort(1)
    assert all(sorted(one) == [0, 1, 2] for one in order.tolist())
    for index, channel in np.ndindex(2, 3):
        factor = 1 + added * int(order[index, channel]) / 2
        large = ndimage.zoom(given[index, channel].double().numpy(), factor, prefilter=False)
        edge = (len(large) - side) // 2
        same(found[index, channel], large[edge : edge + side, edge : edge + side])
