"""Faster AutoAugment's search: mixtures, their gradients, the critic's losses, and that it is repeatable."""

from collections.abc import Callable
from dataclasses import replace
from statistics import mean
from typing import Any

import numpy as np
import pytest
import torch
from method_factories import seeded
from scipy.stats import binomtest, ks_2samp
from torch import Tensor, nn
from torch.distributions import RelaxedBernoulli

from augbench.bench.augmentation.affine_space import shared_space
from augbench.bench.augmentation.image_operations import GEOMETRIC, OPERATIONS, ImageSpace
from augbench.bench.contract.method import RunContext
from augbench.bench.contract.search import SearchProblem
from augbench.bench.data.dataset import Split
from augbench.methods.faster_aa_search import (
    PROBABILITY_MARGIN,
    AdversarialSearch,
    AdversarialSearchHyperparameters,
    MixturePolicy,
    gradient_penalty,
    halves,
    mixture,
    operation_outputs,
    relaxed_coins,
    start_policy,
)
from augbench.methods.subpolicies import SEARCHED, one_sided_mapping

CPU = torch.device("cpu")
NAMES = [OPERATIONS[index] for index in SEARCHED]
MAPPING = one_sided_mapping(CPU)
SIZE = 8


def float_images(count: int, channels: int = 3, seed: int = 0) -> Tensor:
    return torch.rand(count, channels, SIZE, SIZE, generator=seeded(seed), dtype=torch.float64)


def space() -> ImageSpace:
    return ImageSpace(SIZE, "bilinear")


def black_and_white(count: int) -> Split:
    """Dark images, class 0, and bright ones, class 1, in turn."""
    labels = torch.arange(count) % 2
    noise = torch.randint(60, (count, 1, SIZE, SIZE), generator=seeded(), dtype=torch.uint8)
    return Split(noise + (190 * labels).to(torch.uint8)[:, None, None, None], labels)


def small_network(name: str | None = None, outputs: int | None = None) -> nn.Module:
    """Build a network with one hidden layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(SIZE * SIZE, 32), nn.ReLU(), nn.Linear(32, outputs or 2))


def make_search(
    seed: int = 0, count_passes: Callable[[int], None] = lambda _: None, **settings: Any
) -> AdversarialSearch:
    """Make a search on dark and bright images."""
    problem = SearchProblem(black_and_white(120), torch.arange(120) >= 80, small_network, seeded(seed), count_passes)
    settings = {"search_epochs": 2, "search_batch_size": 32} | settings
    context = RunContext(shared_space(SIZE), 1, 2, 120, 1, 1, CPU)
    return AdversarialSearch(AdversarialSearchHyperparameters(**settings), problem, space(), MAPPING, context)


# Mixtures


def test_a_mixture_is_the_weighted_sum_that_hands_work_out() -> None:
    images = torch.tensor([0.5, 0.2]).view(2, 1, 1, 1)
    outputs = torch.tensor([[1.0, 0.0, 0.5], [0.4, 0.6, 0.8]]).view(2, 3, 1, 1, 1)
    fractions = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    coins = torch.tensor([[1.0, 0.5, 0.0], [0.25, 1.0, 0.5]])
    # 0.5·1 + 0.3·(0.5·0 + 0.5·0.5) + 0.2·0.5 and 0.1·(0.1 + 0.15) + 0.1·0.6 + 0.8·(0.4 + 0.1)
    expected = [0.5 + 0.075 + 0.1, 0.025 + 0.06 + 0.4]
    assert mixture(images, outputs, fractions, coins).flatten().tolist() == pytest.approx(expected)


def test_outputs_are_those_of_the_single_operations() -> None:
    images, levels = float_images(3), torch.rand(3, len(SEARCHED), generator=seeded(1), dtype=torch.float64)
    outputs = operation_outputs(images, levels, space(), MAPPING, seeded(2))
    assert outputs.shape == (3, len(SEARCHED), 3, SIZE, SIZE)
    for position, index in enumerate(SEARCHED):
        if OPERATIONS[index] == "Cutout":
            continue  # where it cuts is drawn
        magnitudes = MAPPING.magnitudes(torch.full((3,), index), levels[:, position], seeded())
        signs = (1, -1) if OPERATIONS[index] in GEOMETRIC else (1,)
        for image in range(3):
            found = outputs[image, position]
            chosen = torch.tensor([index])
            alone = [
                space().apply(images[image : image + 1], chosen, sign * magnitudes[image : image + 1], seeded())[0]
                for sign in signs
            ]
            assert any(torch.allclose(found, each) for each in alone), OPERATIONS[index]


def test_augmenting_is_two_mixtures_in_sequence() -> None:
    """Invert chosen for certain and always applied, twice, leaves an image as it is; once, it does not."""
    images = float_images(4, channels=1).float()
    weights = torch.zeros(1, 2, len(SEARCHED))
    weights[:, :, NAMES.index("Invert")] = 10
    probabilities = torch.full(weights.shape, 1 - 1e-6)
    policy = MixturePolicy(weights, probabilities, torch.rand(weights.shape, generator=seeded()))
    search = make_search()
    torch.testing.assert_close(search.augment(policy, images), images, atol=1e-4, rtol=0)
    probabilities[:, 1] = 1e-6
    torch.testing.assert_close(search.augment(policy, images), 1 - images, atol=1e-4, rtol=0)


def test_a_chunk_of_images_shares_a_sub_policy() -> None:
    """One sub-policy inverts and the other does nothing; images of a chunk fare alike."""
    weights = torch.zeros(2, 2, len(SEARCHED))
    weights[:, :, NAMES.index("Invert")] = 10
    probabilities = torch.full(weights.shape, 1e-6)
    probabilities[0, 0] = 1 - 1e-6
    policy = MixturePolicy(weights, probabilities, torch.zeros(weights.shape))
    counts = {True: 0, False: 0}
    for seed in range(20):
        augmented = make_search(seed, chunks=4).augment(policy, torch.full((10, 1, SIZE, SIZE), 0.2))
        inverted = [bool(each) for each in augmented.mean((1, 2, 3)) > 0.5]
        for chunk in (inverted[:3], inverted[3:6], inverted[6:9], inverted[9:]):
            assert len(set(chunk)) == 1
            counts[chunk[0]] += 1
    assert binomtest(counts[True], 80, 0.5).pvalue > 1e-3


def test_relaxed_coins_follow_the_relaxed_bernoulli_law() -> None:
    torch.manual_seed(0)
    for probability in (0.1, 0.5, 0.8):
        coins = relaxed_coins(torch.full((5000,), probability), 0.3, seeded())
        reference = RelaxedBernoulli(torch.tensor(0.3), torch.tensor(probability)).sample((5000,))
        assert ks_2samp(coins.numpy(), reference.numpy(), method="asymp").pvalue > 1e-3
        assert binomtest(int((coins > 0.5).sum()), 5000, probability).pvalue > 1e-3


# Gradients


def smooth_policy() -> MixturePolicy:
    """A policy that never chooses what has no gradient in the images."""
    start = start_policy(2, seeded(3))
    weights = start.weights.detach().double() / 4
    weights[..., [NAMES.index("Posterize"), NAMES.index("Equalize")]] = -1e3
    return MixturePolicy(weights, start.probabilities.detach().double(), start.levels.detach().double())


def scalar(policy: MixturePolicy) -> Tensor:
    """A number that depends on every parameter, with all draws fixed."""
    search = make_search(4, chunks=3, weight_temperature=0.5, probability_temperature=0.7)
    augmented = search.augment(policy, float_images(6))
    return (augmented * torch.randn(augmented.shape, generator=seeded(5), dtype=torch.float64)).sum()


@pytest.mark.parametrize("name", ["weights", "probabilities", "levels"])
def test_gradients_of_the_policy_are_those_of_finite_differences(name: str) -> None:
    policy, step = smooth_policy(), 1e-7
    leaf = getattr(policy, name).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(scalar(replace(policy, **{name: leaf})), leaf)
    smooth = [not (name == "levels" and each in ("Posterize", "Solarize", "Cutout")) for each in NAMES]
    compared = 0
    for position in list(np.ndindex(*gradient.shape))[::3]:
        if not smooth[position[-1]]:
            continue
        shifted = [getattr(policy, name).clone() for _ in range(2)]
        shifted[0][position] += step
        shifted[1][position] -= step
        higher, lower = (scalar(replace(policy, **{name: each})) for each in shifted)
        assert float(gradient[position]) == pytest.approx(float(higher - lower) / (2 * step), rel=1e-3, abs=1e-5)
        compared += float(gradient[position].abs()) > 1e-3
    assert compared > 5


def test_discrete_operations_pass_gradients_straight_through() -> None:
    images = float_images(2).requires_grad_()
    levels = torch.full((2, len(SEARCHED)), 0.4, dtype=torch.float64, requires_grad=True)
    outputs = operation_outputs(images, levels, space(), MAPPING, seeded())
    weight = torch.randn(outputs.shape, generator=seeded(1), dtype=torch.float64)
    for name in NAMES:
        position = NAMES.index(name)
        of_levels, of_images = torch.autograd.grad(
            (weight * outputs)[:, position].sum(), (levels, images), retain_graph=True
        )
        others = of_levels.clone()
        others[:, position] = 0
        assert not others.any()
        if name in ("Posterize", "Solarize", "Cutout"):
            torch.testing.assert_close(of_levels[:, position], weight[:, position].sum((1, 2, 3)))
        elif name in ("AutoContrast", "Equalize", "Invert"):
            assert not of_levels.any()
        else:
            assert of_levels[:, position].all()
        if name in ("Posterize", "Equalize"):
            torch.testing.assert_close(of_images, weight[:, position])
        elif name == "Invert":
            torch.testing.assert_close(of_images, -weight[:, position])
        else:
            assert of_images.any()


# The critic


class LinearCritic(nn.Module):
    """Scores and logits that are linear in the pixels."""

    def __init__(self, pixels: int, classes: int) -> None:
        super().__init__()
        self.score = nn.Parameter(torch.randn(pixels, generator=seeded(1), dtype=torch.float64))
        self.logits = nn.Parameter(torch.randn(pixels, classes, generator=seeded(2), dtype=torch.float64))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (N, classes) and scores (N,)."""
        flat = images.flatten(1)
        return flat @ self.logits, flat @ self.score


def test_the_penalty_of_a_linear_critic_is_that_of_its_norm_over_the_whole_image() -> None:
    weight = torch.randn(3, SIZE, SIZE, generator=seeded(1), dtype=torch.float64)

    def score(images: Tensor) -> Tensor:
        return (images * weight).sum((1, 2, 3))

    penalty = float(gradient_penalty(score, float_images(5), float_images(5, seed=1), seeded()).detach())
    assert penalty == pytest.approx((float(np.linalg.norm(weight.numpy().ravel())) - 1) ** 2)
    over_channels = float(((np.linalg.norm(weight.numpy(), axis=0) - 1) ** 2).mean())
    assert abs(penalty - over_channels) > 10


def test_the_penalty_of_a_quadratic_critic_is_taken_between_real_and_augmented_images() -> None:
    """The gradient of ‖x‖²/2 is x itself: here images of one grey level between 0.25 and 0.75."""
    real, augmented = torch.full((4000, 1, 2, 2), 0.25), torch.full((4000, 1, 2, 2), 0.75)

    def score(images: Tensor) -> Tensor:
        return images.square().sum((1, 2, 3)) / 2

    # the norm is 2·level; the mean of (2·level − 1)² over the levels is 1/12
    assert float(gradient_penalty(score, real, augmented, seeded()).detach()) == pytest.approx(1 / 12, rel=0.05)


def test_the_penalty_has_gradients_for_the_critic() -> None:
    critic = LinearCritic(SIZE * SIZE, 2)
    penalty = gradient_penalty(lambda images: critic(images)[1], float_images(3, 1), float_images(3, 1, 1), seeded())
    penalty.backward()  # type: ignore[no-untyped-call]
    norm = critic.score.detach().norm()
    assert critic.score.grad is not None
    torch.testing.assert_close(critic.score.grad, 2 * (norm - 1) * critic.score.detach() / norm)


def cross_entropy(logits: Any, labels: Any) -> float:
    shifted = logits - logits.max(1, keepdims=True)
    return float((np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(labels)), labels]).mean())


def test_losses_are_those_of_the_paper() -> None:
    critic, labels = LinearCritic(SIZE * SIZE, 2), torch.tensor([0, 1, 1])
    real, augmented = float_images(3, 1), float_images(3, 1, seed=1)
    search = make_search(class_weight=0.1, penalty_weight=10.0)
    score, to_logits = critic.score.detach().numpy(), critic.logits.detach().numpy()
    flat_real, flat_augmented = real.flatten(1).numpy(), augmented.flatten(1).numpy()
    penalty = (np.linalg.norm(score) - 1) ** 2
    expected = 0.1 * cross_entropy(flat_real @ to_logits, labels.numpy())
    expected += -(flat_real @ score).mean() + (flat_augmented @ score).mean() + 10 * penalty
    assert float(search.critic_loss(critic, Split(real, labels), augmented).detach()) == pytest.approx(expected)
    expected = 0.1 * cross_entropy(flat_augmented @ to_logits, labels.numpy()) - (flat_augmented @ score).mean()
    assert float(search.policy_loss(critic, augmented, labels).detach()) == pytest.approx(expected)


@pytest.mark.parametrize(("size", "half"), [(6, 3), (7, 3), (2, 1)])
def test_the_halves_of_a_batch_share_no_image(size: int, half: int) -> None:
    batch = Split(torch.arange(size)[:, None, None, None], torch.arange(size))
    first, second = halves(batch)
    assert len(first) == len(second) == half
    assert not set(first.labels.tolist()) & set(second.labels.tolist())
    for part in (first, second):
        assert part.images.flatten().tolist() == part.labels.tolist()


# The whole search


def test_the_start_is_uniform_and_within_the_ranges() -> None:
    policy = start_policy(100, seeded())
    for tensor in policy.tensors():
        assert tensor.shape == (100, 2, 15)
        assert tensor.requires_grad
        assert tensor.is_leaf
        assert 0 <= tensor.min() < 0.01
        assert 0.99 < tensor.max() <= 1
    assert policy.probabilities.min() >= PROBABILITY_MARGIN


def searched(seed: int, **settings: Any) -> list[Tensor]:
    torch.manual_seed(seed)
    return [tensor.detach() for tensor in make_search(seed, **settings).search().tensors()]


def test_the_seed_decides_the_policy_bit_for_bit() -> None:
    first, again, other = (searched(seed) for seed in (0, 0, 1))
    assert all(map(torch.equal, first, again))
    assert not any(map(torch.equal, first, other))


def test_everything_is_learned_and_stays_in_its_range() -> None:
    """With one step of Adam so large that it leaves the range wherever there is a gradient."""
    weights, probabilities, levels = searched(0, search_epochs=1, search_learning_rate=1.0, sub_policies=2)
    almost_start = searched(0, search_epochs=1, search_learning_rate=1e-9, sub_policies=2)
    for found, before in zip((weights, probabilities, levels), almost_start, strict=True):
        assert ((found - before).abs() > 1e-3).float().mean() > 0.5
    edges = torch.tensor([PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN])
    assert torch.isin(probabilities, edges).any()
    assert edges[0] <= probabilities.min() <= probabilities.max() <= edges[1]
    assert levels.min() == 0
    assert levels.max() == 1


def test_a_search_counts_every_image_that_goes_through_a_network() -> None:
    passes: list[int] = []
    make_search(count_passes=passes.append, search_epochs=3, search_batch_size=32).search()
    assert passes == [4 * 16] * (3 * (120 // 32))  # real, augmented for the critic and the policy, between


@pytest.mark.slow
def test_only_the_classifier_tells_against_an_operation_that_swaps_the_classes() -> None:
    """Inverted dark images look like bright ones, which the critic cannot object to; on average over seeds."""
    rates = {class_weight: mean(inversions(seed, class_weight) for seed in range(8)) for class_weight in (0.0, 1.0)}
    assert rates[0.0] > 0.03
    assert rates[1.0] < rates[0.0] / 5


def inversions(seed: int, class_weight: float) -> float:
    """Share of the draws of a stage in which it inverts."""
    found = searched(seed, class_weight=class_weight, search_learning_rate=0.02, search_epochs=40)
    policy = MixturePolicy(*found)
    chosen = policy.choice(0.05) * policy.probabilities
    return float(chosen[..., NAMES.index("Invert")].mean())
