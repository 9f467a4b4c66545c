"""Faster AutoAugment as a run: what is drawn in training, what is reported, and that it can be repeated."""

from typing import Any

import numpy as np
import pytest
import torch
from method_factories import make_method, some_images
from scipy.stats import binomtest, chisquare

from augbench.bench.augmentation.image_operations import GEOMETRIC, OPERATIONS
from augbench.methods.faster_aa import FasterAutoAugment
from augbench.methods.faster_aa_search import AdversarialSearchHyperparameters
from augbench.methods.subpolicies import SEARCHED

NAMES = [OPERATIONS[index] for index in SEARCHED]


def make_faster_aa(**settings: Any) -> FasterAutoAugment:
    return make_method(FasterAutoAugment, copies=2, settings=settings)


def with_policy(**settings: Any) -> FasterAutoAugment:
    """A method with a policy drawn at random, of even weights."""
    method, generator = make_faster_aa(**settings), torch.Generator().manual_seed(1)
    for tensor in method.learnable.values():
        tensor.uniform_(generator=generator)
    return method


# Drawing in training


def softmax(weights: Any) -> Any:
    exponentials = np.exp(weights - weights.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def test_operations_are_drawn_by_their_weights_and_applied_with_their_probabilities() -> None:
    method, count = with_policy(sub_policies=3, weight_temperature=0.2), 30_000
    drawn = method.draw(count, torch.Generator().manual_seed(0))
    choice = softmax(method.policy.weights.double().numpy() / 0.2)
    rates = choice * method.policy.probabilities.double().numpy()
    for stage, application in enumerate(drawn):
        expected = np.concatenate(([1 - rates[:, stage].sum(1).mean()], rates[:, stage].mean(0)))
        found = application.operations.bincount(minlength=len(OPERATIONS)).numpy()
        assert chisquare(found, count * expected / expected.sum()).pvalue > 1e-3


def test_both_stages_and_their_levels_are_those_of_one_sub_policy() -> None:
    method = with_policy(sub_policies=2)
    for tensor in method.learnable.values():
        tensor.zero_()
    for sub_policy, names in enumerate([("Rotate", "Invert"), ("Cutout", "Solarize")]):
        for stage, name in enumerate(names):
            method.policy.weights[sub_policy, stage, NAMES.index(name)] = 10
            method.policy.levels[sub_policy, stage, NAMES.index(name)] = 0.25 * (1 + stage + 2 * sub_policy)
    method.policy.probabilities.fill_(1.0)
    first, second = method.draw(1000, torch.Generator().manual_seed(0))
    pairs = {(OPERATIONS[a], OPERATIONS[b]) for a, b in zip(first.operations, second.operations, strict=True)}
    assert pairs == {("Rotate", "Invert"), ("Cutout", "Solarize")}
    rotates = first.operations == OPERATIONS.index("Rotate")
    assert first.magnitudes[rotates].abs().unique().tolist() == [0.25 * 30]
    assert first.magnitudes[~rotates].unique().tolist() == pytest.approx([0.75 * 0.2])
    assert second.magnitudes[~rotates].unique().tolist() == pytest.approx([256 / 255])
    rotations = int(rotates.sum())
    assert binomtest(rotations, 1000, 0.5).pvalue > 1e-3


def test_levels_reach_from_nothing_to_the_maximum_with_a_random_sign() -> None:
    method = with_policy(sub_policies=1)
    method.policy.weights.zero_()
    method.policy.probabilities.fill_(1.0)
    for level, expected in ((0.0, {0.0}), (0.5, {-15.0, 15.0}), (1.0, {-30.0, 30.0})):
        method.policy.levels.fill_(level)
        first, _ = method.draw(2000, torch.Generator().manual_seed(0))
        rotations = first.magnitudes[first.operations == OPERATIONS.index("Rotate")]
        assert {each.item() for each in rotations} == expected
        unsigned = first.magnitudes[
            ~torch.isin(first.operations, torch.tensor([OPERATIONS.index(n) for n in GEOMETRIC]))
        ]
        assert unsigned.min() >= 0


def test_geometric_operations_are_resampled_as_in_the_search() -> None:
    """Bilinear resampling makes grey levels of its own out of black and white."""
    method = with_policy(sub_policies=1)
    method.policy.weights.zero_()
    method.policy.weights[..., NAMES.index("Rotate")] = 10
    method.policy.probabilities.fill_(1.0)
    method.policy.levels.fill_(0.4)
    black_and_white = 255 * (some_images(20) > 127).to(torch.uint8)
    grey = method.augment(black_and_white, torch.Generator().manual_seed(0)).images
    assert ((grey > 0.1) & (grey < 0.9)).float().mean() > 0.2


# What is reported and saved


def test_learned_numbers_are_the_probabilities_that_a_draw_contains_an_operation() -> None:
    method = with_policy(sub_policies=4, weight_temperature=0.3)
    rates = softmax(method.policy.weights.double().numpy() / 0.3) * method.policy.probabilities.double().numpy()
    expected = (1 - (1 - rates[:, 0]) * (1 - rates[:, 1])).mean(0)
    learned = method.learned()
    assert list(learned) == [f"probability/{name}" for name in NAMES]
    assert list(learned.values()) == pytest.approx(expected.tolist(), abs=1e-6)


def test_nothing_is_done_to_images_before_the_search() -> None:
    method = make_faster_aa()
    copies = method.augment(some_images(200), torch.Generator().manual_seed(0)).images
    assert torch.equal(copies, some_images(200).repeat(2, 1, 1, 1).float() / 255)
    assert set(method.learned().values()) == {0.0}


# Runs


def test_defaults_are_those_of_the_authors_code() -> None:
    defaults = AdversarialSearchHyperparameters()
    assert (defaults.sub_policies, defaults.weight_temperature, defaults.probability_temperature) == (10, 0.05, 0.1)
    assert (defaults.search_images, defaults.search_epochs, defaults.search_batch_size) == (4000, 20, 128)
    assert (defaults.search_learning_rate, defaults.chunks) == (1e-3, 8)
    assert (defaults.class_weight, defaults.penalty_weight) == (0.1, 10)
