"""Density matching: folds, rewards, what is kept, and that it is repeatable."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from method_factories import seeded
from scipy.stats import binomtest, chisquare, kstest
from torch import Tensor, nn

from augbench.bench.augmentation.base import BaseAugmentation
from augbench.bench.augmentation.image_operations import OPERATIONS, ImageSpace
from augbench.bench.common.errors import UserError
from augbench.bench.contract.search import SearchProblem
from augbench.bench.data.dataset import Split
from augbench.bench.experiment.spec import validated
from augbench.methods.fast_aa_search import (
    DensityMatching,
    DensityMatchingHyperparameters,
    best_trials,
    propose,
    right_at_least_once,
    split_folds,
    without_duplicates,
)
from augbench.methods.subpolicies import SEARCHED, SubPolicies, symmetric_mapping

INVERT = OPERATIONS.index("Invert")


def black_and_white(count: int) -> Split:
    """Images that are black, class 0, or white, class 1, in turn."""
    labels = torch.arange(count) % 2
    images = (255 * labels).to(torch.uint8)[:, None, None, None].expand(-1, 1, 8, 8).contiguous()
    return Split(images, labels)


class Bright(nn.Module):
    """Class 1 for images that are bright, class 0 for dark ones."""

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (N, 2)."""
        brightness = images.mean((1, 2, 3))
        return torch.stack((1 - brightness, brightness), dim=1)


def small_network(name: str | None = None, outputs: int | None = None) -> nn.Module:
    """Build a linear network with batch normalisation."""
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, outputs or 2))


def make_search(
    seed: int = 0, train: Split | None = None, count_passes: Callable[[int], None] = lambda _: None, **settings: Any
) -> DensityMatching:
    """Make a search on black and white images."""
    images = train or black_and_white(80)
    settings = {"search_images": 40, "folds": 2, "rounds": 1, "trials": 6, "kept_trials": 2, "draws": 2} | settings
    return DensityMatching(
        hyperparameters=DensityMatchingHyperparameters(**settings),
        problem=SearchProblem(
            images=images,
            held_out=torch.arange(len(images)) >= len(images) * 3 // 4,
            build_network=small_network,
            generator=seeded(seed),
            count_passes=count_passes,
        ),
        space=ImageSpace(8),
        mapping=symmetric_mapping(torch.device("cpu")),
        epochs=3,
    )


def sub_policies(*pairs: tuple[str, str], probability: float = 1.0) -> SubPolicies:
    operations = torch.tensor([[OPERATIONS.index(name) for name in pair] for pair in pairs])
    return SubPolicies(operations, torch.full(operations.shape, probability), torch.full(operations.shape, 0.5))


# Folds


def numbered(classes: list[int]) -> Split:
    """Images that carry their own number in their first pixels."""
    labels = torch.tensor([label for label, count in enumerate(classes) for _ in range(count)])
    images = torch.zeros(len(labels), 1, 8, 8, dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.arange(len(labels)) % 256
    images[:, 0, 0, 1] = torch.arange(len(labels)) // 256
    return Split(images, labels)


def numbers(split: Split) -> set[int]:
    return set((split.images[:, 0, 0, 0].long() + 256 * split.images[:, 0, 0, 1].long()).tolist())


def folds_of(seed: int) -> list[tuple[Split, Split]]:
    images = numbered([200, 100, 100])
    problem = SearchProblem(images, torch.arange(400) % 2 == 1, small_network, seeded(seed), lambda _: None)
    return split_folds(problem, DensityMatchingHyperparameters(search_images=100, folds=3, hold_out=0.4))


def test_folds_keep_class_shares_share_no_image_and_come_from_one_reduced_set() -> None:
    folds = folds_of(0)
    assert len(folds) == 3
    for train, held_out in folds:
        assert train.labels.bincount().tolist() == [30, 15, 15]
        assert held_out.labels.bincount().tolist() == [20, 10, 10]
        assert not numbers(train) & numbers(held_out)
    unions = [numbers(train) | numbers(held_out) for train, held_out in folds]
    assert unions[0] == unions[1] == unions[2]
    assert len(unions[0]) == 100
    assert any(number % 2 for number in unions[0])  # validation images take part
    assert numbers(folds[0][1]) != numbers(folds[1][1]) != numbers(folds[2][1])


def test_folds_are_the_same_for_every_seed_of_a_run() -> None:
    first, other = ([numbers(part) for fold in folds_of(seed) for part in fold] for seed in (0, 1))
    assert first == other


def test_splits_that_would_be_empty_are_explained() -> None:
    with pytest.raises(UserError, match=r"Holding out 0.01 of each class of 40 images .* `search_images`"):
        make_search(hold_out=0.01).search()


# Rewards


class Grey(BaseAugmentation):
    """A base that makes all images grey."""

    def after(self, images: Tensor, normalised: bool = False) -> Tensor:
        """Make them grey."""
        return torch.full_like(images, 0.5)


class Recording(nn.Module):
    """A linear network that remembers its images."""

    def __init__(self, seen: list[Tensor]) -> None:
        super().__init__()
        self.seen, self.network = seen, small_network()

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (N, 2)."""
        self.seen.append(images)
        logits: Tensor = self.network(images)
        return logits


def test_networks_are_trained_and_judged_on_images_under_the_base() -> None:
    seen: list[Tensor] = []
    search = make_search()
    problem = replace(search.problem, base=Grey(), build_network=lambda name=None, outputs=None: Recording(seen))
    search = replace(search, problem=problem)
    network = search.train(black_and_white(40))
    trained = len(seen)
    search.reward(network, black_and_white(20), sub_policies(("Invert", "Rotate")))
    assert len(seen) > trained > 0
    assert all((images == 0.5).all() for images in seen)


def test_an_image_counts_when_one_draw_is_right() -> None:
    predictions = torch.tensor([[0, 1, 2, 3, 0], [0, 2, 2, 0, 1], [0, 1, 1, 1, 2]])
    labels = torch.tensor([0, 0, 1, 3, 2])
    assert right_at_least_once(predictions, labels).tolist() == [True, False, True, True, True]
    assert right_at_least_once(predictions[:1], labels).tolist() == [True, False, False, True, False]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (sub_policies(("Invert", "Identity")), 0.0),
        (sub_policies(("Invert", "Invert")), 1.0),
        (sub_policies(("Invert", "Identity"), probability=0.0), 1.0),
    ],
)
def test_reward_is_the_share_of_images_that_stay_right(policy: SubPolicies, expected: float) -> None:
    search = make_search(draws=3, search_batch_size=7)
    assert float(search.reward(Bright(), black_and_white(30), policy)) == expected


@pytest.mark.parametrize("draws", [1, 2, 3])
def test_reward_rises_with_the_draws_as_chance_says(draws: int) -> None:
    """Of two sub-policies one inverts: an image stays right unless all draws are that one."""
    images, passes = 2000, []
    search = make_search(draws=draws, count_passes=passes.append)
    policy = sub_policies(("Invert", "Identity"), ("Identity", "Identity"))
    reward = float(search.reward(Bright(), black_and_white(images), policy))
    assert binomtest(round(reward * images), images, 1 - 0.5**draws).pvalue > 1e-3
    assert sum(passes) == images * draws


# What is tried and kept


def test_trials_are_uniform_over_operations_probabilities_and_levels() -> None:
    policy = propose(3000, seeded())
    assert policy.operations.shape == (3000, 2)
    counts = policy.operations.flatten().bincount(minlength=len(OPERATIONS))
    assert counts[OPERATIONS.index("Identity")] == 0
    assert chisquare(counts[list(SEARCHED)]).pvalue > 1e-3
    for numbers_drawn in (policy.probabilities, policy.levels):
        assert kstest(numbers_drawn.flatten().numpy(), "uniform").pvalue > 1e-3
    assert not torch.equal(policy.probabilities, policy.levels)


def test_the_best_trials_come_first_and_of_equal_ones_the_earlier() -> None:
    rewards = torch.tensor([0.2, 0.9, 0.5, 0.9, 0.1, 0.9])
    assert best_trials(rewards, 2) == [1, 3]
    assert best_trials(rewards, 4) == [1, 3, 5, 2]


def test_of_sub_policies_with_the_same_operations_in_order_the_first_is_kept() -> None:
    policy = sub_policies(
        ("Rotate", "Invert"), ("Invert", "Rotate"), ("Rotate", "Invert"), ("Cutout", "Cutout"), ("Invert", "Rotate")
    )
    policy.levels[:, 0] = torch.arange(5) / 10
    kept = without_duplicates(policy)
    assert kept.levels[:, 0].tolist() == pytest.approx([0, 0.1, 0.3])
    assert torch.equal(kept.operations, policy.operations[[0, 1, 3]])
    assert torch.equal(kept.probabilities, policy.probabilities[[0, 1, 3]])


def test_the_trials_of_the_largest_rewards_are_kept() -> None:
    search = make_search(trials=8, kept_trials=3, sub_policies=2)
    rewards = iter([0.1, 0.7, 0.3, 0.9, 0.2, 0.8, 0.0, 0.4])
    tried: list[SubPolicies] = []

    class Graded(DensityMatching):
        def reward(self, network: nn.Module, held_out: Split, policy: SubPolicies) -> Tensor:
            tried.append(policy)
            return torch.tensor(next(rewards))

    graded = Graded(**{field.name: getattr(search, field.name) for field in fields(DensityMatching)})
    kept = graded.best(Bright(), black_and_white(4))
    assert len(tried) == 8
    expected = [without_duplicates(tried[trial]) for trial in (3, 5, 1)]
    assert [part.levels.tolist() for part in kept] == [part.levels.tolist() for part in expected]


def inversion(policy: SubPolicies) -> float:
    """Mean probability over sub-policies that an image ends up inverted."""
    once = policy.probabilities * (policy.operations == INVERT)
    first, second = once.unbind(1)
    return float((first * (1 - second) + second * (1 - first)).mean())


def test_policies_that_destroy_the_classes_are_not_kept() -> None:
    search = make_search(trials=150, kept_trials=10, draws=1)
    kept = search.best(Bright(), black_and_white(40))
    tried = [propose(5, seeded(seed)) for seed in range(1000)]
    typical = sum(map(inversion, tried)) / len(tried)
    assert typical > 0.05
    assert sum(map(inversion, kept)) / len(kept) < typical / 4


# The whole search


def test_networks_are_trained_to_judge() -> None:
    images, passes = black_and_white(40), []
    network = make_search(search_epochs=6, search_batch_size=16, count_passes=passes.append).train(images)
    assert not network.training
    assert float((network(images.images / 255).argmax(1) == images.labels).float().mean()) == 1
    assert passes == [16, 16, 8] * 6


def test_epochs_are_the_runs_own_unless_named() -> None:
    passes: list[int] = []
    make_search(search_batch_size=40, count_passes=passes.append).train(black_and_white(40))
    assert passes == [40] * 3


def test_a_search_counts_every_image_that_goes_through_a_network() -> None:
    passes: list[int] = []
    found = make_search(count_passes=passes.append, rounds=2, search_batch_size=8).search()
    train, held_out, folds, rounds, trials, draws = 24, 16, 2, 2, 6, 2
    assert sum(passes) == folds * (3 * train + rounds * trials * draws * held_out)
    assert 0.8 * folds * rounds * 2 * 5 <= len(found) <= folds * rounds * 2 * 5
    assert max(passes) <= 8 * draws


def searched(seed: int) -> list[Any]:
    torch.manual_seed(seed)
    found = make_search(seed, trials=10).search()
    return [found.operations.tolist(), found.probabilities.tolist(), found.levels.tolist()]


def test_the_seed_decides_the_policy_bit_for_bit() -> None:
    first, again, other = (searched(seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_more_trials_cannot_be_kept_than_are_made() -> None:
    with pytest.raises(UserError, match="kept_trials must not exceed trials, which are 5"):
        validated(DensityMatchingHyperparameters, {"trials": 5, "kept_trials": 6}, "a test")


def test_defaults_are_those_of_the_paper() -> None:
    defaults = DensityMatchingHyperparameters()
    assert (defaults.search_images, defaults.folds, defaults.hold_out, defaults.rounds) == (4000, 5, 0.4, 2)
    assert (defaults.trials, defaults.sub_policies, defaults.draws, defaults.kept_trials) == (200, 5, 5, 10)
    assert defaults.most_sub_policies == 500
