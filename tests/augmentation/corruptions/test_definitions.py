"""Each corruption against SciPy, Pillow, colorsys or its definition by loops."""

import colorsys
import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage, stats
from torch import Tensor

from augbench.bench.augmentation.corruptions import blur, digital, noise, weather
from augbench.bench.augmentation.corruptions.corrupt import CORRUPTIONS, corrupt
from augbench.bench.augmentation.corruptions.filters import motion_filter, zoom
from augbench.bench.augmentation.corruptions.streams import ImageStreams

Floats = NDArray[np.floating[Any]]


def images(side: int, count: int = 2) -> Tensor:
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(1))


def streams(count: int = 2) -> ImageStreams:
    return ImageStreams(seed=0, corruption="a test", first=0, count=count, device=torch.device("cpu"))


def same(found: Tensor, expected: Floats, tolerance: float = 2e-6) -> None:
    np.testing.assert_allclose(found.numpy(), expected, atol=tolerance, rtol=0)


def each_channel(given: Tensor, change: Callable[[Floats], Floats]) -> Floats:
    return np.stack([np.stack([change(channel) for channel in image]) for image in given.numpy()])


def p_normal(found: Tensor) -> float:
    return float(stats.kstest(found.flatten().numpy(), "norm").pvalue)


def test_gaussian_and_speckle_noise_are_normal() -> None:
    given = images(64)
    assert p_normal((noise.gaussian_noise(given, streams(), 0.08) - given) / 0.08) > 0.01
    given = 0.1 + given  # where rounding does not matter
    assert p_normal((noise.speckle_noise(given, streams(), 0.16) / given - 1) / 0.16) > 0.01


def test_shot_noise_counts_photons() -> None:
    counts = (noise.shot_noise(torch.full((2, 3, 64, 64), 0.3), streams(), 50) * 50).flatten()
    torch.testing.assert_close(counts, counts.round())
    seen = torch.bincount(counts.round().long(), minlength=26)[6:26]
    expected = len(counts) * stats.poisson.pmf(np.arange(6, 26), 15)
    assert stats.chi2.sf((((seen.numpy() - expected) ** 2) / expected).sum(), 20) > 0.01


def test_impulse_noise_makes_a_share_black_or_white() -> None:
    found = noise.impulse_noise(torch.full((2, 3, 64, 64), 0.3), streams(), 0.07).flatten()
    black, white = int((found == 0).sum()), int((found == 1).sum())
    assert len(found) - black - white == int((found == found.new_tensor(0.3)).sum())
    assert stats.binomtest(black + white, len(found), 0.07).pvalue > 0.01
    assert stats.binomtest(black, black + white, 0.5).pvalue > 0.01


@pytest.mark.parametrize(("side", "sigma"), [(14, 0.4), (32, 1), (96, 3)])
def test_gaussian_blur_is_that_of_scipy(side: int, sigma: float) -> None:
    given, scale = images(side), max(1, side / 32)
    expected = each_channel(given, lambda one: ndimage.gaussian_filter(one, sigma, mode="nearest"))
    same(blur.gaussian_blur(given, streams(), sigma / scale), expected)


@pytest.mark.parametrize("level", CORRUPTIONS["defocus-blur"].levels)
@pytest.mark.parametrize("side", [14, 32, 96])
def test_defocus_blur_averages_over_a_softened_disc(level: tuple[float, float], side: int) -> None:
    given, scale = images(side), max(1, side / 32)
    rows, columns = np.mgrid[-9:10, -9:10]
    disc = (rows**2 + columns**2 <= (level[0] * scale) ** 2).astype(float)
    kernel = ndimage.gaussian_filter(disc / disc.sum(), level[1] * scale, radius=round(scale), mode="constant")
    expected = each_channel(given, lambda one: ndimage.convolve(one, kernel, mode="mirror"))
    same(blur.defocus_blur(given, streams(), *level), expected)


@pytest.mark.parametrize(("side", "distance", "rounds"), [(14, 1, 2), (32, 1, 1), (64, 2, 2)])
def test_glass_blur_does_what_numpy_does_when_it_is_told_to_swap(side: int, distance: int, rounds: int) -> None:
    given = images(side)
    found = blur.glass_blur(given, streams(), 0.4, 1, rounds)
    sigma = 0.4 * max(1, side / 32)
    for index, image in enumerate(given.permute(0, 2, 3, 1).numpy()):
        x = ndimage.gaussian_filter(image, (sigma, sigma, 0), mode="nearest")
        for turn in range(rounds):
            moves = streams().integers(f"neighbours {turn}", -distance, distance, (2, side, side))[index].numpy()
            assert (moves.min(), moves.max()) == (-distance, distance - 1)
            for h in range(side - distance, distance, -1):
                for w in range(side - distance, distance, -1):
                    there = h + moves[0, h, w], w + moves[1, h, w]
                    x[h, w], x[there] = x[there], x[h, w]  # of views: the second place keeps what it has
        same(found[index].permute(1, 2, 0), ndimage.gaussian_filter(x, (sigma, sigma, 0), mode="nearest"))


def moved_along_a_line(image: Floats, degrees: float, radius: float, sigma: float) -> Floats:
    """Blur one channel pixel by pixel."""
    steps = np.arange(2 * math.ceil(radius) + 1)
    weights = stats.norm.pdf(steps, 0, sigma)
    found, last = np.zeros_like(image), len(image) - 1
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    for row, column in np.ndindex(image.shape):
        for step, weight in zip(steps, weights / weights.sum(), strict=True):
            down, right = math.ceil(step * sine - 0.5), math.ceil(step * cosine - 0.5)
            taken = image[min(max(row + down, 0), last), min(max(column + right, 0), last)]
            found[row, column] += weight * taken
    return found


@pytest.mark.parametrize("degrees", [-131.0, -90.0, -30.5, 0.0, 17.0])
def test_the_motion_filter_follows_a_line(degrees: float) -> None:
    given = images(15, count=1)
    expected = each_channel(given, lambda one: moved_along_a_line(one, degrees, 3.5, 2))
    same(motion_filter(given, torch.tensor([degrees]), 3.5, 2), expected)


def test_motion_blur_has_an_angle_for_each_image() -> None:
    given = images(64)
    angles = streams().uniform("angle", -45, 45)
    assert len(set(angles.tolist())) == 2
    assert torch.equal(blur.motion_blur(given, streams(), 6, 1), motion_filter(given, angles, 12, 2))


def zoomed(image: Floats, factor: float) -> Floats:
    side = len(image)
    taken = math.ceil(side / factor)
    start = (side - taken) // 2
    large = ndimage.zoom(image[start : start + taken, start : start + taken], factor, order=1)
    trimmed = (len(large) - side) // 2
    return large[trimmed : trimmed + side, trimmed : trimmed + side]


@pytest.mark.parametrize("side", [14, 28, 32, 33, 96])
def test_zoom_is_that_of_scipy(side: int) -> None:
    given = images(side)
    for factor in (1, 1.01, 1.06, 1.15, 1.25, 1.75, 2.25, 3):
        same(zoom(given, factor), each_channel(given, lambda one, by=factor: zoomed(one, by)), 1e-5)  # type: ignore[misc]


def test_zoom_blur_averages_enlargements_by_hundredths() -> None:
    given = images(33)
    for (end,), last in zip(CORRUPTIONS["zoom-blur"].levels, (6, 11, 15, 20, 25), strict=True):
        total = given.numpy()
        for step in range(last + 1):
            total = total + each_channel(given, lambda one, by=1 + step / 100: zoomed(one, by))  # type: ignore[misc]
        same(blur.zoom_blur(given, streams(), end), total / (last + 2))


@pytest.mark.parametrize("side", [14, 40])
def test_snow_step_by_step(side: int) -> None:
    given, scale = images(side), max(1, side / 32)
    found = weather.snow(given, streams(), 0.25, 0.3, 2.25, 0.6, 5, 6, 0.85)
    noise_drawn, angles = streams().normal("flakes", (1, side, side)).numpy(), streams().uniform("angle", -135, -45)
    for index, image in enumerate(given.numpy()):
        flakes = zoomed(0.25 + 0.3 * noise_drawn[index, 0], 2.25 * scale)
        flakes = np.clip(np.where(flakes < 0.6, 0, flakes), 0, 1)
        flakes = moved_along_a_line(flakes, float(angles[index]), 5 * scale, 6 * scale)
        grey = 0.299 * image[0] + 0.587 * image[1] + 0.114 * image[2]
        white = 0.85 * image + 0.15 * np.maximum(image, 1.5 * grey + 0.5)
        same(found[index], white + flakes + np.rot90(flakes, 2))


def clouds(side: int, decay: float, drawn: dict[str, Floats]) -> Floats:
    """Make one plasma point by point."""
    points, step, row_of = np.zeros((side, side)), side, range(side)
    while step > 1:
        half = step // 2
        diagonal = [(-half, -half), (-half, half), (half, -half), (half, half)]
        straight = [(-half, 0), (half, 0), (0, -half), (0, half)]
        for kind, start in (("squares", (half, half)), ("tops", (0, half)), ("sides", (half, 0))):
            for row in row_of[start[0] :: step]:
                for column in row_of[start[1] :: step]:
                    around = diagonal if kind == "squares" else straight
                    known = [points[(row + y) % side, (column + x) % side] for y, x in around]
                    points[row, column] = np.mean(known) + drawn[f"{kind} {step}"][row // step, column // step]
        step = half
    return (points - points.min()) / (points.max() - points.min())


def test_plasma_point_by_point() -> None:
    decay, side = 1.75, 16
    found = weather.plasma(streams(), side, decay)
    for index in range(2):
        drawn = {}
        for turn, step in enumerate((16, 8, 4, 2)):
            for kind in ("squares", "tops", "sides"):
                height, places = decay ** (-2 * turn), (side // step, side // step)
                drawn[f"{kind} {step}"] = streams().uniform(f"{kind} {step}", -height, height, places)[index].numpy()
        same(found[index], clouds(side, decay, drawn))


def test_fog_adds_clouds_and_keeps_the_highest_value() -> None:
    given = images(20) * torch.tensor([0.5, 1])[:, None, None, None]
    over = weather.plasma(streams(), 32, 2)[:, :20, :20].numpy()
    for image, cloud, found in zip(given.numpy(), over, weather.fog(given, streams(), 0.75, 2), strict=True):
        same(found, (image + 0.75 * cloud) * image.max() / (image.max() + 0.75))


def in_hsv(given: Tensor, change: Callable[[float, float, float], tuple[float, float, float]]) -> Floats:
    pixels = given.permute(0, 2, 3, 1).double().numpy()
    changed = [colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*pixel))) for pixel in pixels.reshape(-1, 3).tolist()]
    return np.array(changed).reshape(pixels.shape).transpose(0, 3, 1, 2)


def with_grey_pixels() -> Tensor:
    given = images(14)
    given[0, :, 0] = torch.tensor([0, 0.3, 1]).repeat_interleave(5)[:14]
    return given


def test_brightness_raises_the_value() -> None:
    expected = in_hsv(with_grey_pixels(), lambda hue, saturation, value: (hue, saturation, min(value + 0.3, 1)))
    same(weather.brightness(with_grey_pixels(), streams(), 0.3), expected)


@pytest.mark.parametrize("level", CORRUPTIONS["saturate"].levels)
def test_saturate_changes_the_saturation(level: tuple[float, float]) -> None:
    factor, added = level
    expected = in_hsv(
        with_grey_pixels(), lambda hue, saturation, value: (hue, min(saturation * factor + added, 1), value)
    )
    same(weather.saturate(with_grey_pixels(), streams(), factor, added), expected)


def test_contrast_keeps_the_mean_of_each_channel() -> None:
    given = images(14)
    expected = each_channel(given, lambda one: one.mean() + 0.3 * (one - one.mean()))
    same(weather.contrast(given, streams(), 0.3), expected)


@pytest.mark.parametrize("level", CORRUPTIONS["elastic"].levels)
@pytest.mark.parametrize("side", [14, 32])
def test_elastic_is_two_resamplings_by_scipy(level: tuple[float, float, float], side: int) -> None:
    given = images(side)
    found = digital.elastic(given, streams(), *level)
    alpha, sigma, most = (side * part for part in level)
    middle, away = side // 2, side // 3
    before = np.array([[away, away], [away, -away], [-away, -away]]) + middle
    moves, noises = streams().uniform("points", -1, 1, (3, 2)), {}
    for name in ("columns", "rows"):
        noises[name] = streams().uniform(name, -1, 1, (side, side)).numpy()
    rows, columns = np.mgrid[:side, :side]
    for index, image in enumerate(given.numpy()):
        after = before + most * moves[index].numpy()
        forwards = np.linalg.solve(np.column_stack((before, np.ones(3))), after).T  # (2, 3): x' = A·(x, y, 1)
        there = np.linalg.inv(np.vstack((forwards, [0, 0, 1]))) @ [columns.ravel(), rows.ravel(), np.ones(side**2)]
        shifts = {
            name: alpha * (ndimage.gaussian_filter(one[index], sigma, truncate=3) if sigma else one[index])
            for name, one in noises.items()
        }
        for channel, seen in zip(image, found[index], strict=True):
            warped = ndimage.map_coordinates(channel, there[[1, 0]], order=1, mode="mirror").reshape(side, side)
            places = rows + shifts["rows"], columns + shifts["columns"]
            same(seen, ndimage.map_coordinates(warped, places, order=1, mode="reflect"), 1e-4)


def boxes(levels: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Resize the columns of a channel: means of those pixels whose middle lies in the box of an output pixel."""
    scale = levels.shape[1] / size
    middles = np.arange(levels.shape[1]) + 0.5
    if scale < 1:  # a box holds one pixel, the one in which its middle lies
        return levels[:, np.floor((np.arange(size) + 0.5) * scale).astype(int)]
    held = [(middles > index * scale) & (middles <= (index + 1) * scale) for index in range(size)]
    return np.stack([np.floor(levels[:, one].mean(1) + 0.5) for one in held], 1).astype(np.int64)


@pytest.mark.parametrize("side", [14, 32])
@pytest.mark.parametrize("share", [0.95, 0.75, 0.65])
def test_pixelate_takes_means_of_boxes(side: int, share: float) -> None:
    given = (images(side) * 255).round()
    found = (digital.pixelate(given / 255, streams(), share) * 255).round()
    small = int(side * share)
    for image, seen in zip(given.numpy().astype(np.int64), found, strict=True):
        for channel, one in zip(image, seen, strict=True):
            shrunk = boxes(boxes(channel, small).T, small).T
            same(one, boxes(boxes(shrunk, side).T, side).T)


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_is_that_of_pillow_at_each_quality(channels: int) -> None:
    given = (images(32)[:, :channels] * 255).round().to(torch.uint8)
    for severity, quality in enumerate((80, 65, 58, 50, 40), start=1):
        for image, found in zip(given.permute(0, 2, 3, 1).numpy(), corrupt(given, "jpeg", severity), strict=True):
            stored = io.BytesIO()
            Image.fromarray(image.squeeze()).save(stored, "JPEG", quality=quality)
            expected = np.asarray(Image.open(stored)).reshape(image.shape).transpose(2, 0, 1)
            np.testing.assert_array_equal(found.numpy(), expected)
