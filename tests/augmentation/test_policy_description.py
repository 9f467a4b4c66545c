"""Descriptions of policies: what is valid, how files are read, and the strengths of levels."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from method_factories import seeded, some_images
from torchvision.transforms.autoaugment import TrivialAugmentWide

from augbench.bench.augmentation.affine_space import Space
from augbench.bench.augmentation.policy_description import (
    MOST_BYTES,
    AffinePolicy,
    BlockLaw,
    OperationLaw,
    OperationPolicy,
    as_file_content,
    read_description,
)
from augbench.bench.augmentation.policy_draws import AffineDraws, OperationDraws, strengths_of
from augbench.bench.common.errors import UserError
from augbench.methods.trivialaugment_wide import WIDE

CPU = torch.device("cpu")
FLIP = {"kind": "affine", "compositions": [[{"block": "flip"}]]}
TURN: dict[str, Any] = {"operation": "Rotate", "low": 30.0}


def affine(**law: Any) -> dict[str, Any]:
    return {"kind": "affine", "compositions": [[law]]}


def operations(**law: Any) -> dict[str, Any]:
    return {"kind": "operations", "sub_policies": [[[TURN | law]]]}


WRONG: dict[str, tuple[object, str]] = {
    "nothing": (None, "it holds nothing, no JSON object"),
    "a list": ([FLIP], "it holds a list"),
    "no kind": ({}, "'kind'"),
    "another kind": ({"kind": "colour"}, "'affine', 'operations'"),
    "a newer schema": ({"augbench_policy": 2, "policy": {}}, "reads up to 1. Install a newer augbench"),
    "no version": ({"augbench_policy": "1", "policy": FLIP}, "must be a version"),
    "true for a version": ({"augbench_policy": True, "policy": FLIP}, "must be a version"),
    "no policy": ({"augbench_policy": 1}, 'no key "policy"'),
    "an unknown key beside it": ({"augbench_policy": 1, "policy": FLIP, "origins": {}}, "Did you mean 'origin'"),
    "an unknown key": ({**FLIP, "pad": 3}, "pad: Extra inputs"),
    "no composition": ({"kind": "affine", "compositions": []}, "compositions: "),
    "an unknown block": (affine(block="turn"), "compositions.1.1.block: "),
    "a probability above 1": (affine(block="flip", probability=1.5), "compositions.1.1.probability: "),
    "a probability that is a text": (affine(block="flip", probability="0.5"), "compositions.1.1.probability: "),
    "NaN": (affine(block="flip", probability=float("nan")), "finite number"),
    "infinity": (affine(block="rotation", range=float("inf")), "compositions.1.1.range: "),
    "a negative range": (affine(block="rotation", range=-1.0), "compositions.1.1.range: "),
    "a range of a flip": (affine(block="flip", range=1.0), "'flip' has no magnitude"),
    "no levels": (affine(block="rotation", range=1.0, levels=0), "compositions.1.1.levels: "),
    "a block twice": ({"kind": "affine", "compositions": [[{"block": "flip"}] * 2]}, "in a composition once"),
    "an unknown generator": ({"kind": "affine", "generators": {"shear": 1.0}}, "generators"),
    "a half-width that makes no images": ({"kind": "affine", "generators": {"stretch": 50.0}}, "up to 10"),
    "a long kind": ({"kind": "z" * 100_000}, "zzz…"),
    "a key of several lines": ({**FLIP, "\n\nEvil: hi": 3}, "Evil: hi: Extra inputs"),
    "no padding": ({**FLIP, "padding_divisor": 0}, "padding_divisor: "),
    "an unknown operation": (operations(operation="Rotates"), "Did you mean 'Rotate'"),
    "a strength out of range": (operations(low=400.0), "from -360 to 360"),
    "no strength": (operations(low=None), "needs a strength"),
    "a strength of none": (operations(operation="Invert"), "Invert has no strength"),
    "two strengths at one level": (operations(high=40.0), "one level has one strength"),
    "a level beyond the last": (operations(high=40.0, levels=3, level=3), "below levels"),
    "a mirrored threshold": (operations(operation="Solarize", low=0.5, mirrored=True), "cannot be mirrored"),
    "a factor that cannot be mirrored": (operations(operation="Color", low=2.5, mirrored=True), "above 2"),
    "no weight": (operations(weight=0.0), "weight above 0"),
    "no stage": ({"kind": "operations", "sub_policies": [[]]}, "sub_policies.1: "),
    "no operation": ({"kind": "operations", "sub_policies": [[[]]]}, "sub_policies.1.1: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_content_is_refused(name: str, tmp_path: Path) -> None:
    content, said = WRONG[name]
    with pytest.raises(UserError) as error:
        read_description(content)
    assert said in str(error.value)
    assert "\n" not in str(error.value) and len(str(error.value)) < 1000
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(content))
    with pytest.raises(UserError) as of_file:
        read_description(str(file))
    assert said in str(of_file.value)
    assert str(file) in str(of_file.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "is not valid JSON"),
        (b"", "is not valid JSON"),
        (b"[" * 100_000, "is not valid JSON"),
        ("{}".encode("utf-16"), "UTF-16"),
        (b" " * (MOST_BYTES + 1), "cannot be read: it has 4 MB"),
    ],
)
def test_files_that_are_no_policies_are_refused(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_bytes(content)
    with pytest.raises(UserError, match=said):
        read_description(str(tmp_path / "policy.json"))


def test_paths_that_are_no_files_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json", "~nobody-of-this-name/policy.json", "\n", ""):
        with pytest.raises(UserError, match="cannot be read"):
            read_description(str(path))


def test_what_is_at_its_default_is_not_written() -> None:
    policy = read_description(FLIP)
    assert policy == AffinePolicy(compositions=((BlockLaw(block="flip"),),))
    assert as_file_content(policy, {"why": "a test"}) == {
        "augbench_policy": 1,
        "policy": FLIP,
        "origin": {"why": "a test"},
    }
    whole_numbers = affine(block="rotation", range=1, probability=1)
    assert read_description(whole_numbers).model_dump(mode="json") == affine(block="rotation", range=1.0)


def test_blocks_have_one_order() -> None:
    blocks = [{"block": "crop"}, {"block": "rotation", "range": 0.5}]
    first, second = ({"kind": "affine", "compositions": [order]} for order in (blocks, blocks[::-1]))
    assert read_description(first) == read_description(second)


def test_only_the_padding_of_the_shared_space_is_described() -> None:
    with pytest.raises(UserError, match="padding of 3 pixels"):
        AffinePolicy.of(((BlockLaw(block="crop"),),), Space(image_size=28, padding=3))


@pytest.mark.parametrize("bins", [2, 11, 31])
@pytest.mark.parametrize("side", [14, 32, 33])
def test_strengths_are_those_of_torchvision(bins: int, side: int) -> None:
    theirs = TrivialAugmentWide(num_magnitude_bins=bins)._augmentation_space(bins)
    for name in ("ShearX", "Rotate", "Brightness", "Color", "Contrast", "Sharpness"):
        expected = theirs[name][0] + (name in ("Brightness", "Color", "Contrast", "Sharpness"))
        torch.testing.assert_close(strengths_of(WIDE.law(name, bins), side), expected)
    assert strengths_of(WIDE.law("Posterize", bins), side).int().tolist() == theirs["Posterize"][0].tolist()
    torch.testing.assert_close(strengths_of(WIDE.law("Solarize", bins), side), theirs["Solarize"][0] / 255)
    pixels = strengths_of(WIDE.law("TranslateX", bins), side) * side
    torch.testing.assert_close(pixels, torch.linspace(0, side, bins).trunc())


def test_a_law_by_hand() -> None:
    """A quarter of the images turned by 10°, −10°, 30° or −30° in a half of the draws, three quarters inverted."""
    stage = (
        OperationLaw(operation="Rotate", weight=1, probability=0.5, low=10, high=30, levels=2, mirrored=True),
        OperationLaw(operation="Invert", weight=3),
    )
    draws = OperationDraws(OperationPolicy(sub_policies=((stage,),)), 14, CPU)
    ((drawn, strengths),) = draws.draw(40_000, seeded(1))
    shares = {index: (drawn == index).float().mean().item() for index in (0, 5, 14)}
    assert shares == pytest.approx({0: 1 / 8, 5: 1 / 8, 14: 3 / 4}, abs=0.01)
    turned = strengths[drawn == 5]
    assert [(turned == angle).float().mean().item() for angle in (-30, -10, 10, 30)] == pytest.approx(
        4 * [0.25], abs=0.03
    )


@pytest.mark.parametrize("side", [14, 28, 32, 64])
def test_the_crop_moves_by_a_seventh_of_the_side(side: int) -> None:
    policy = AffinePolicy(compositions=((BlockLaw(block="crop"),),))
    maps = AffineDraws(policy, side, CPU).sample_transforms(2000, seeded(1))
    assert (maps[:, :, 2].abs().amax() * side / 2).item() == pytest.approx(side // 7)


def test_nothing_leaves_images_as_they_are() -> None:
    images = some_images(5)
    assert torch.equal(AffineDraws(AffinePolicy(), 14, CPU).transform(images, seeded(1)), images / 255)
