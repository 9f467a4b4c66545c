"""What holds for all corruptions: one image one stream, whole levels, five severities, sizes, and what is refused."""

from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import torch
from torch import Tensor

from augbench.bench.augmentation.corruptions.corrupt import BAR, CORRUPTIONS, SETS, SEVERITIES, corrupt, offered
from augbench.bench.commands.corruptions import CORRUPTED
from augbench.bench.common.errors import UserError
from augbench.bench.experiment.protocol import Protocol
from augbench.datasets.digits import DigitOptions
from augbench.datasets.mnist5k import Mnist5k

WITHOUT_CHANCE = {
    "defocus-blur",
    "zoom-blur",
    "brightness",
    "contrast",
    "pixelate",
    "jpeg",
    "gaussian-blur",
    "saturate",
    "circular-motion-blur",
}
ALL = [*CORRUPTIONS, *BAR]
GREY = [name for which in SETS for name in offered(1, which)]
NOT_MONOTONE = {
    "glass-blur",  # from level 4 to 5 neighbours go as far, and more blur brings pixels nearer to their mean
    "elastic",  # less affine, more displacement
    "pixelate",  # which pixels a box holds depends on the side
    "saturate",  # fades on two levels, then makes colours stronger
}


def colour_images(count: int = 5, side: int = 32) -> Tensor:
    source = torch.Generator().manual_seed(0)
    smooth = torch.rand(count, 3, 8, 8, generator=source)
    return (torch.nn.functional.interpolate(smooth, size=side, mode="bicubic").clamp(0, 1) * 255).to(torch.uint8)


@cache
def digits(side: int) -> Tensor:
    return Mnist5k().load(DigitOptions.model_validate({"size": side}), Path()).test.images[:200]


def test_fourteen_main_ones_and_three_extra_ones_one_of_them_for_colour() -> None:
    assert [sum(one.extra == extra for one in CORRUPTIONS.values()) for extra in (False, True)] == [14, 3]
    assert set(offered(3)) - set(offered(1)) == {"saturate"}
    assert all(len(corruption.levels) == 5 for which in SETS.values() for corruption in which.values())


def test_ten_of_the_second_set_one_of_them_for_colour() -> None:
    assert len(BAR) == 10
    assert not any(corruption.extra for corruption in BAR.values())
    assert set(offered(3, "corruptions-bar")) - set(offered(1, "corruptions-bar")) == {
        "transverse-chromatic-aberration"
    }
    assert not set(BAR) & set(CORRUPTIONS)
    assert set(get_args(get_args(Protocol.model_fields["shift"].annotation)[0])) == set(SETS) == set(CORRUPTED)


@pytest.mark.parametrize("name", BAR)
def test_photographs_are_further_from_what_they_were_at_each_severity_of_the_second_set(name: str) -> None:
    images = colour_images(40)
    far = [(corrupt(images, name, severity).float() - images).abs().mean().item() for severity in SEVERITIES]
    assert sorted(set(far)) == far


@pytest.mark.parametrize("name", ALL)
def test_an_image_is_corrupted_alike_whichever_come_with_it(name: str) -> None:
    images = colour_images(4, 20)
    for severity in (1, 5):
        together = corrupt(images, name, severity, seed=3)
        parts = [corrupt(images[:2], name, severity, seed=3), corrupt(images[2:], name, severity, seed=3, first=2)]
        # products of matrices may be rounded otherwise for another number of images
        assert (together.int() - torch.cat(parts).int()).abs().max() <= 1
        assert torch.equal(corrupt(images.float() / 255, name, severity, seed=3), together)


@pytest.mark.parametrize("name", ALL)
def test_seed_and_position_decide_where_there_is_chance(name: str) -> None:
    images = colour_images(1).expand(8, 3, 32, 32)
    found, other = (corrupt(images, name, 5, seed=seed) for seed in (1, 2))
    alike = torch.equal(found, found[:1].expand_as(found))
    assert alike == torch.equal(found, other) == (name in WITHOUT_CHANCE)


@pytest.mark.parametrize("side", [14, 28])
@pytest.mark.parametrize("name", [name for name in GREY if name not in NOT_MONOTONE])
def test_digits_are_further_from_what_they_were_at_each_severity(name: str, side: int) -> None:
    images = digits(side)
    far = [(corrupt(images, name, severity).float() - images).abs().mean().item() for severity in SEVERITIES]
    assert far == sorted(far)
    assert 0 < far[0] < far[-1]


@pytest.mark.parametrize("side", [14, 28, 33, pytest.param(96, marks=pytest.mark.slow)])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_size_is_corrupted_and_keeps_its_shape(side: int, channels: int) -> None:
    images = colour_images(2, side)[:, :channels]
    for name in [name for which in SETS for name in offered(channels, which)]:
        found = corrupt(images, name, 4)
        assert (found.shape, found.dtype) == (images.shape, torch.uint8)
        assert not torch.equal(found, images)


@pytest.mark.parametrize("name", GREY)
def test_no_image_and_black_images(name: str) -> None:
    assert corrupt(torch.zeros(0, 1, 14, 14, dtype=torch.uint8), name, 1).shape == (0, 1, 14, 14)
    assert corrupt(torch.zeros(1, 1, 14, 14, dtype=torch.uint8), name, 5).dtype == torch.uint8


@pytest.mark.parametrize(
    ("shape", "name", "severity", "words"),
    [
        (
            (1, 1, 14, 14),
            "frost",
            1,
            "There is no corruption 'frost'. Valid choices: blue-noise, brightness, brownish-noise,",
        ),
        ((1, 1, 14, 14), "fogg", 1, "Did you mean 'fog'?"),
        ((1, 1, 14, 14), "fog", 0, "There is no severity 0 of fog. Choose one from 1 to 5."),
        ((1, 1, 14, 14), "fog", 6, "There is no severity 6 of fog."),
        ((1, 1, 13, 13), "fog", 1, "13 × 13 pixels cannot be corrupted. Give square images of at least 14 × 14"),
        ((1, 3, 32, 28), "fog", 1, "32 × 28 pixels cannot be corrupted"),
        ((1, 2, 32, 32), "fog", 1, "Images with 2 channels cannot be corrupted. Give grey or colour images"),
        ((1, 3, 32, 32), "ripple", 6, "There is no severity 6 of ripple."),
        ((1, 3, 9, 9), "ripple", 1, "9 × 9 pixels cannot be corrupted"),
        ((1, 1, 32, 32), "transverse-chromatic-aberration", 1, "for colour images .* these images have 1 of them"),
        ((1, 1, 32, 32), "saturate", 1, "saturate is for colour images .* these images have 1 of them"),
    ],
)
def test_what_cannot_be_corrupted(shape: tuple[int, ...], name: str, severity: int, words: str) -> None:
    with pytest.raises(UserError, match=words):
        corrupt(torch.zeros(shape, dtype=torch.uint8), name, severity)
