"""The corruptions by name, with the constants of CIFAR-10-C and CIFAR-10-C̄, and how images are corrupted.

Hendrycks and Dietterich, "Benchmarking neural network robustness to common corruptions and perturbations" (2019);
constants and definitions of their script `make_cifar_c.py`. Frost is left out, since it needs pictures of frost, and
so is spatter, three levels of which are defined by an edge detector and integer filters of OpenCV.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.augmentation.corruptions import bar, blur, digital, noise, weather
from augbench.bench.augmentation.corruptions.streams import ImageStreams
from augbench.bench.common.errors import UserError, one_of

SEVERITIES = (1, 2, 3, 4, 5)
SMALLEST_SIDE = 14
IMAGES_AT_A_TIME = 1000

Levels = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Corruption:
    """A corruption with five severities.

    Attributes:
        function: Takes float images (N, C, S, S) in [0, 1], their random streams and the constants of a severity.
        levels: Constants of each severity.
        extra: Whether CIFAR-10-C has it for validation, beside its main ones.
        colour: Whether it needs colour images.
    """

    function: Callable[..., Tensor]
    levels: Levels
    extra: bool = False
    colour: bool = False


def _single(*numbers: float) -> Levels:
    return tuple((number,) for number in numbers)


def _scaled(factor: float, added: float, *levels: float) -> Levels:
    """Constants from the levels of CIFAR-10-C̄, which are parts in ten of a largest value."""
    return _single(*(factor * level + added for level in levels))


CORRUPTIONS = MappingProxyType(
    {
        "gaussian-noise": Corruption(noise.gaussian_noise, _single(0.04, 0.06, 0.08, 0.09, 0.10)),
        "shot-noise": Corruption(noise.shot_noise, _single(500, 250, 100, 75, 50)),
        "impulse-noise": Corruption(noise.impulse_noise, _single(0.01, 0.02, 0.03, 0.05, 0.07)),
        "defocus-blur": Corruption(blur.defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))),
        "glass-blur": Corruption(blur.glass_blur, ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2))),
        "motion-blur": Corruption(blur.motion_blur, ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))),
        "zoom-blur": Corruption(blur.zoom_blur, _single(1.06, 1.11, 1.16, 1.21, 1.26)),
        "snow": Corruption(
            weather.snow,
            (
                (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
                (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
                (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
                (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
                (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
            ),
        ),
        "fog": Corruption(weather.fog, ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))),
        "brightness": Corruption(weather.brightness, _single(0.05, 0.1, 0.15, 0.2, 0.3)),
        "contrast": Corruption(weather.contrast, _single(0.75, 0.5, 0.4, 0.3, 0.15)),
        "elastic": Corruption(
            digital.elastic,
            ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
        ),
        "pixelate": Corruption(digital.pixelate, _single(0.95, 0.9, 0.85, 0.75, 0.65)),
        "jpeg": Corruption(digital.jpeg, _single(80, 65, 58, 50, 40)),
        "speckle-noise": Corruption(noise.speckle_noise, _single(0.06, 0.1, 0.12, 0.16, 0.2), extra=True),
        "gaussian-blur": Corruption(blur.gaussian_blur, _single(0.4, 0.6, 0.7, 0.8, 1), extra=True),
        "saturate": Corruption(
            weather.saturate, ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)), extra=True, colour=True
        ),
    }
)
"""The main corruptions in the order of CIFAR-10-C, then the extra ones."""

BAR = MappingProxyType(
    {
        "blue-noise": Corruption(bar.blue_noise, _scaled(0.3, -2.5, 0.7, 1.4, 2.1, 3.5, 4.2)),
        "checkerboard-cutout": Corruption(bar.checkerboard_cutout, _scaled(0.1, 0, 1, 2, 3, 4, 5)),
        "inverse-sparkles": Corruption(bar.inverse_sparkles, _scaled(0.13, 0, 1, 1.5, 2.5, 4.5, 5)),
        "pinch-and-twirl": Corruption(
            bar.pinch_and_twirl,
            tuple((math.pi / 20 * level, 0.04 * level + 0.1) for level in (5.5, 6, 6.5, 8.5, 10)),
        ),
        "ripple": Corruption(bar.ripple, _scaled(0.0025, 0, 5.5, 6, 6.5, 7.5, 8)),
        "brownish-noise": Corruption(bar.brownish_noise, _scaled(6.4 / 255, 0, 2.5, 4, 5.5, 6.5, 7)),
        "circular-motion-blur": Corruption(bar.circular_motion_blur, _scaled(1.5, 0, 2.8, 3.6, 4.4, 5.2, 6)),
        "lines": Corruption(bar.lines, _scaled(0.1, 0, 0.5, 1, 1.5, 2, 2.5)),
        "sparkles": Corruption(bar.sparkles, _scaled(0.32, 0, 0.7, 3.5, 5.6, 6.3, 7)),
        "transverse-chromatic-aberration": Corruption(
            bar.transverse_chromatic_aberration, _scaled(0.05, 0, 1, 2, 5, 9, 10), colour=True
        ),
    }
)
"""The corruptions of CIFAR-10-C̄, in its order."""

SETS = MappingProxyType({"corruptions": CORRUPTIONS, "corruptions-bar": BAR})
"""The sets of corruptions by name. No name of a corruption is in two of them."""

_ALL = {**CORRUPTIONS, **BAR}


def offered(channels: int, which: str = "corruptions") -> list[str]:
    """Names of the corruptions of one of the `SETS` for images with so many channels."""
    return [name for name, corruption in SETS[which].items() if channels == 3 or not corruption.colour]


def corrupt(images: Tensor, name: str, severity: int, seed: int = 0, first: int = 0) -> Tensor:
    """Corrupt images.

    An image's random numbers depend on the seed, the corruption and its position alone. So it is corrupted alike
    whichever images come with it, on every device, and with more of the same noise at a higher severity.

    Args:
        images: uint8 or floats in [0, 1]; (N, C, S, S), C of 1 or 3, S of at least 14.
        name: One of those in `SETS`.
        severity: From 1 to 5.
        seed: Seed of all random numbers.
        first: Position of the first image in its data set.

    Returns:
        Rounded to the 256 levels in which CIFAR-10-C is stored, too (it cuts off instead); uint8; (N, C, S, S).

    Raises:
        UserError: If there is no such corruption or severity, or the images are too small, not square, or of another
            number of channels.
    """
    _check(images, name, severity)
    corruption = _ALL[name]
    done = [torch.empty_like(images[:0], dtype=torch.uint8)]
    for start in range(0, len(images), IMAGES_AT_A_TIME):
        some = to_unit_interval(images[start : start + IMAGES_AT_A_TIME])
        streams = ImageStreams(seed, name, first + start, len(some), images.device)
        corrupted = corruption.function(some, streams, *corruption.levels[severity - 1])
        done.append((corrupted.clamp(0, 1) * 255).round().to(torch.uint8))
    return torch.cat(done)


def check_shape(channels: int, height: int, width: int) -> None:
    """Make sure that images are square, large enough, and grey or colour.

    Raises:
        UserError: If they are not.
    """
    if height != width or height < SMALLEST_SIDE:
        raise UserError(
            f"Images of {height} × {width} pixels cannot be corrupted. Give square images of at least "
            f"{SMALLEST_SIDE} × {SMALLEST_SIDE} pixels."
        )
    if channels not in (1, 3):
        raise UserError(
            f"Images with {channels} channels cannot be corrupted. Give grey or colour images (1 or 3 channels)."
        )


def _check(images: Tensor, name: str, severity: int) -> None:
    channels, height, width = images.shape[1:]
    if name not in _ALL:
        raise UserError(one_of("corruption", name, _ALL))
    if severity not in SEVERITIES:
        raise UserError(f"There is no severity {severity} of {name}. Choose one from 1 to 5.")
    check_shape(channels, height, width)
    if channels == 1 and _ALL[name].colour:
        raise UserError(f"The corruption {name} is for colour images (3 channels); these images have 1 of them.")
