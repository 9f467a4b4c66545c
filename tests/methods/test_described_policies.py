"""What methods say of their policies is what they draw, in law."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from described import AFFINE, DESCRIBED, learned_method
from method_factories import make_method, seeded, some_images
from scipy.stats import ks_2samp
from torch import Tensor

from augbench.bench.augmentation.image_operations import OPERATIONS
from augbench.bench.augmentation.policy_description import AffinePolicy, as_file_content, read_description
from augbench.bench.augmentation.policy_draws import OperationDraws, draws_of
from augbench.bench.augmentation.transform_distribution import COORDINATES, decompose
from augbench.bench.contract.method import Method, SharedSpaceMethod
from augbench.bench.experiment.catalogues import methods
from augbench.methods.none import NoAugmentation
from augbench.methods.policy import GivenPolicy
from augbench.methods.wide_policy import WidePolicy

DRAWS = 30_000
LEAST_P = 1e-6  # the seeds are fixed: a right description never gets below
CPU = torch.device("cpu")


def test_every_method_but_none_describes_its_policy() -> None:
    for entry in methods():
        assert (entry.target.describe_policy is Method.describe_policy) == (entry.name == "none"), entry.name
    assert make_method(NoAugmentation).describe_policy() is None


@pytest.mark.parametrize("name", AFFINE)
def test_maps_have_the_law_of_the_methods_own(name: str) -> None:
    method = learned_method(name)
    policy = method.describe_policy()
    assert isinstance(policy, AffinePolicy)
    own = method.sample_transforms(DRAWS, seeded(3))
    drawn = draws_of(policy, 14, CPU).sample_transforms(DRAWS, seeded(4))
    assert own is not None and drawn is not None
    first, second = decompose(own), decompose(drawn)
    for index, coordinate in enumerate(COORDINATES):
        one, other = first[:, index].round(5), second[:, index].round(5)  # which makes values equal that are
        assert ks_2samp(one, other).pvalue > LEAST_P, coordinate
        error = np.hypot(one.std(), other.std()) / np.sqrt(DRAWS)
        assert abs(one.mean() - other.mean()) <= 6 * error + 1e-5, coordinate
        for share in (0.05, 0.25, 0.75, 0.95):  # the distribution functions agree at the quantiles of either
            at = np.quantile(one, share)
            assert abs((one <= at).mean() - (other <= at).mean()) < 0.018, coordinate
    _same_counts(_patterns(first), _patterns(second))


def _patterns(coordinates: Any) -> list[int]:
    """Which coordinates each draw changes, as the digits of a binary number."""
    return _numbers(abs(coordinates) > 1e-5, base=2)


def _numbers(digits: Any, base: int) -> list[int]:
    """Write each row of digits, (N, D), as one number."""
    found: list[int] = (np.asarray(digits) @ base ** np.arange(digits.shape[1])).tolist()
    return found


def _same_counts(first: list[Any], second: list[Any]) -> None:
    """Check that two samples have the same joint distribution: each outcome occurs as often, within chance."""
    counts = Counter(first), Counter(second)
    for outcome in counts[0].keys() | counts[1].keys():
        one, other = (count[outcome] for count in counts)
        assert abs(one - other) <= 6 * np.sqrt(one + other + 1), outcome


@pytest.mark.parametrize("name", [name for name in AFFINE if issubclass(methods().get(name), SharedSpaceMethod)])
def test_blocks_are_active_together_as_often(name: str) -> None:
    method = learned_method(name)
    assert isinstance(method, SharedSpaceMethod)
    policy = method.describe_policy()
    assert isinstance(policy, AffinePolicy)
    draws = draws_of(policy, 14, CPU)
    assert not isinstance(draws, OperationDraws)
    own, drawn = method.draw(DRAWS, seeded(5)), draws.draw(DRAWS, seeded(6))
    _same_counts(*(_numbers(draw.active, base=2) for draw in (own, drawn)))
    signs = [(draw.magnitudes * draw.active[:, :4]).detach().sign().int() for draw in (own, drawn)]
    _same_counts(*(_numbers(sign + 1, base=3) for sign in signs))
    for block in range(4):
        ours, theirs = (
            draw.magnitudes[draw.active[:, block], block].detach().numpy().round(5) for draw in (own, drawn)
        )
        assert len(ours) == len(theirs) == 0 or ks_2samp(ours, theirs).pvalue > LEAST_P


@pytest.mark.parametrize("name", [name for name in DESCRIBED if issubclass(methods().get(name), WidePolicy)])
@pytest.mark.parametrize("side", [14, 32])
def test_operations_and_strengths_are_drawn_together_as_often(name: str, side: int) -> None:
    method = learned_method(name, side)
    assert isinstance(method, WidePolicy)
    policy = method.describe_policy()
    assert policy is not None
    draws = draws_of(policy, side, CPU)
    assert isinstance(draws, OperationDraws)
    own = [(one.operations, one.magnitudes) for one in method.draw(DRAWS, seeded(7))]
    drawn = draws.draw(DRAWS, seeded(8))
    _same_counts(_outcomes(own), _outcomes(drawn))
    assert draws.image_space == method.image_space


def _outcomes(stages: list[tuple[Tensor, Tensor]]) -> list[tuple[tuple[str, float], ...]]:
    """Operations with their strengths, rounded; what has no effect has none."""
    plain = {"Identity", "AutoContrast", "Equalize", "Invert"}
    columns = [
        [
            (OPERATIONS[index], 0.0 if OPERATIONS[index] in plain else round(strength, 4) + 0.0)
            for index, strength in zip(operations.tolist(), strengths.tolist(), strict=True)
        ]
        for operations, strengths in stages
    ]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize(
    "name", ["fixed", "scale", "scale-norm", "augerino", "augerino-pb", "augerino+flips", "policy"]
)
def test_the_same_random_numbers_make_the_same_images(name: str) -> None:
    method, images = learned_method(name, side=32, channels=3), some_images(50, 3, 32)
    policy = method.describe_policy()
    assert policy is not None
    expected = method.augment(images, seeded(9)).images[:50] if method.copies == 1 else None
    test_policy = method.test_policy()
    if test_policy is not None:
        expected = test_policy(images, seeded(9))
    assert expected is not None
    drawn = draws_of(policy, 32, CPU).transform(images, seeded(9))
    torch.testing.assert_close(drawn, expected.detach(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", DESCRIBED)
def test_the_method_policy_takes_what_was_described(name: str) -> None:
    policy = learned_method(name).describe_policy()
    assert policy is not None
    given = make_method(GivenPolicy, side=32, settings={"policy": as_file_content(policy)})
    assert given.describe_policy() == policy == read_description(as_file_content(policy))
    images = some_images(5, side=32)
    assert torch.equal(given.augment(images, seeded(2)).images, draws_of(policy, 32, CPU).transform(images, seeded(2)))
