"""DADA's search: the step it looks through, what it sees, what it draws, and that it finds what was planted."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from method_factories import seeded
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import Draw, shared_space
from augbench.bench.common.errors import DivergedError, UserError
from augbench.bench.contract.search import SearchProblem
from augbench.bench.data.dataset import Split
from augbench.bench.training.building import build_network
from augbench.datasets.mnist5k import DigitOptions, Mnist5k
from augbench.methods.dada_policy import BlockPairs, all_pairs
from augbench.methods.dada_search import (
    PolicySearch,
    SearchHyperparameters,
    Weights,
    WeightStep,
    search_policy,
    unroll,
    weight_step,
)

CPU = torch.device("cpu")
SIZE, CLASSES = 8, 3
BLOCKS = [block.name for block in shared_space(SIZE).blocks]


def _network(*, normalise: bool = True) -> nn.Module:
    """A small double-precision network whose weights are set by hand, so that nothing else decides them."""
    norm: nn.Module = nn.BatchNorm2d(4) if normalise else nn.Identity()
    layers = [nn.Conv2d(1, 4, 3, padding=1), norm, nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, CLASSES)]
    network = nn.Sequential(*layers).double()
    source = seeded(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=source, dtype=torch.float64))
    return network.to(memory_format=torch.channels_last)


def _weights(network: nn.Module) -> tuple[Weights, Weights]:
    source = seeded(2)
    weights = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    velocity = {name: 0.1 * torch.randn(w.shape, generator=source, dtype=w.dtype) for name, w in weights.items()}
    return weights, velocity


def _batch(count: int, seed: int) -> tuple[Tensor, Tensor]:
    images = torch.rand(count, 1, SIZE, SIZE, generator=seeded(seed), dtype=torch.float64)
    return F.avg_pool2d(images, 3, stride=1, padding=1), torch.arange(count) % CLASSES


def _augmented(images: Tensor, magnitudes: Tensor) -> Tensor:
    """All four continuous blocks at the given magnitudes, with other signs for each image."""
    count = len(images)
    signs = 2.0 * torch.randint(2, (count, 4), generator=seeded(5)) - 1
    coins, offsets = torch.zeros(count, dtype=torch.bool), torch.zeros(count, 2, dtype=torch.long)
    active = (torch.arange(7) < 4).expand(count, 7)
    return shared_space(SIZE).apply(images, Draw(active, signs.double() * magnitudes, coins, coins, offsets))


def _loss_after_torchs_own_step(step: WeightStep, magnitudes: Tensor, fractions: Tensor) -> float:
    """Validation loss after a step that torch's SGD takes on a copy of the network."""
    network = _network()
    _, velocity = _weights(network)
    optimizer = torch.optim.SGD(
        network.parameters(), lr=step.rate, momentum=step.momentum, weight_decay=step.weight_decay
    )
    for name, parameter in network.named_parameters():
        optimizer.state[parameter]["momentum_buffer"] = velocity[name].clone()
    images, labels = _batch(6, seed=3)
    losses = F.cross_entropy(network(_augmented(images, magnitudes)), labels, reduction="none")
    (fractions @ losses).backward()
    nn.utils.clip_grad_norm_(network.parameters(), step.clip)
    optimizer.step()
    held_out, held_out_labels = _batch(5, seed=4)
    return float(F.cross_entropy(network(held_out), held_out_labels).detach())


def _finite_difference(value: Callable[[Tensor], float], at: Tensor, index: int, step: float = 1e-5) -> float:
    shift = step * torch.eye(len(at), dtype=at.dtype)[index]
    return (value(at + shift) - value(at - shift)) / (2 * step)


# The step


@pytest.mark.parametrize("clip", [1000.0, 0.3])
def test_the_step_is_that_of_torchs_sgd_on_clipped_gradients(clip: float) -> None:
    network = _network()
    step = WeightStep(rate=0.05, momentum=0.9, weight_decay=0.01, clip=clip)
    weights = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    velocity = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    for turn in range(3):
        images, labels = _batch(6, seed=turn)
        optimizer.zero_grad()
        F.cross_entropy(network(images), labels).backward()
        gradients = {name: parameter.grad.clone() for name, parameter in network.named_parameters()}  # type: ignore[union-attr]
        nn.utils.clip_grad_norm_(network.parameters(), clip)
        optimizer.step()
        weights, velocity = step.take(weights, velocity, gradients)
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(weights[name], parameter.detach())


@pytest.mark.parametrize("clip", [1000.0, 0.3])
def test_hypergradient_equals_finite_differences_of_the_step_that_is_taken(clip: float) -> None:
    step = WeightStep(rate=0.2, momentum=0.9, weight_decay=0.01, clip=clip)
    network = _network()
    weights, velocity = _weights(network)
    magnitudes = torch.tensor([0.4, 0.2, -0.15, 0.3], dtype=torch.float64).requires_grad_()
    images, labels = _batch(6, seed=3)
    train = _augmented(images, magnitudes), labels
    unrolled = unroll(network, weights, velocity, step, train, _batch(5, seed=4), magnitudes)
    fixed, fractions = magnitudes.detach(), torch.full((6,), 1 / 6, dtype=torch.float64)
    for index in range(4):
        slope = _finite_difference(lambda m: _loss_after_torchs_own_step(step, m, fractions), fixed, index)
        assert abs(slope) > 1e-4
        assert float(unrolled.magnitude_gradient[index]) * step.rate == pytest.approx(slope, rel=1e-4, abs=1e-7)
    for index in range(6):
        slope = _finite_difference(lambda u: _loss_after_torchs_own_step(step, fixed, u), fractions, index)
        assert float(unrolled.image_effects[index]) * step.rate == pytest.approx(slope, rel=1e-4, abs=1e-7)


def test_the_weights_after_it_are_those_of_the_step() -> None:
    step = WeightStep(rate=0.2, momentum=0.9, weight_decay=0.01, clip=0.3)
    network = _network()
    weights, velocity = _weights(network)
    magnitudes = torch.full((4,), 0.2, dtype=torch.float64).requires_grad_()
    images, labels = _batch(6, seed=3)
    train = _augmented(images, magnitudes), labels
    unrolled = unroll(network, weights, velocity, step, train, _batch(5, seed=4), magnitudes)
    inner = F.cross_entropy(network(train[0].detach()), labels)
    gradients = dict(zip(weights, torch.autograd.grad(inner, list(network.parameters())), strict=True))
    expected_weights, expected_velocity = step.take(weights, velocity, gradients)
    for name in weights:
        torch.testing.assert_close(unrolled.weights[name], expected_weights[name])
        torch.testing.assert_close(unrolled.velocity[name], expected_velocity[name])
        assert not unrolled.weights[name].requires_grad


def _half_turned(images: Tensor, turned: Tensor) -> Tensor:
    count = len(images)
    yes, offsets = torch.ones(count, dtype=torch.bool), torch.zeros(count, 2, dtype=torch.long)
    draw = Draw(torch.zeros(count, 7, dtype=torch.bool), torch.zeros(count, 4).double(), yes, yes, offsets)
    active = torch.arange(7) == BLOCKS.index("half-turn")
    return shared_space(SIZE).apply(images, replace(draw, active=active & turned[:, None]))


def test_rewards_of_single_images_give_the_gradient_of_the_expected_loss_after_a_small_step() -> None:
    """Three images, each turned with probability 0.3: all eight outcomes are enumerated."""
    rate, p, network = 1e-6, 0.3, _network(normalise=False)
    step = WeightStep(rate=rate, momentum=0.0, weight_decay=0.0, clip=1000.0)
    weights, velocity = _weights(network)
    (images, labels), held_out = _batch(3, seed=6), _batch(5, seed=7)
    ignored = torch.zeros(1, dtype=torch.float64).requires_grad_()
    exact, from_rewards = 0.0, 0.0
    for outcome in range(8):
        turned = torch.tensor([bool(outcome >> image & 1) for image in range(3)])
        likelihood = math.prod(p if each else 1 - p for each in turned.tolist())
        scores = turned.double() / p - (1 - turned.double()) / (1 - p)
        train = _half_turned(images, turned) + 0 * ignored, labels
        unrolled = unroll(network, weights, velocity, step, train, held_out, ignored)
        loss = F.cross_entropy(functional_call(network, unrolled.weights, (held_out[0],)), held_out[1])
        exact += likelihood * float(scores.sum()) * float(loss.detach()) / rate
        from_rewards += likelihood * float((scores * unrolled.image_effects).mean())
    assert abs(exact) > 1e-3
    assert from_rewards == pytest.approx(exact, rel=1e-3)


def test_the_rate_falls_along_a_cosine_and_all_settings_arrive() -> None:
    settings = SearchHyperparameters(
        search_learning_rate=0.2, search_final_rate=0.1, search_momentum=0.5, search_weight_decay=0.03, search_clip=7.0
    )
    rates = [weight_step(settings, progress).rate for progress in (0, 1 / 3, 0.5, 1)]
    assert rates == pytest.approx([0.2, 0.175, 0.15, 0.1])
    step = weight_step(settings, 0)
    assert (step.momentum, step.weight_decay, step.clip) == (0.5, 0.03, 7.0)


# The search


class Images:
    """A search problem made of real digits."""

    def __init__(self, train: int = 60, validation: int = 40, size: int = 14) -> None:
        digits = Mnist5k().load(DigitOptions(size=14), root=None)  # type: ignore[arg-type]
        assert size == digits.image_size
        order = torch.randperm(len(digits.train), generator=seeded(8))
        self.data = digits
        self.images = digits.train.subset(order[: train + validation])
        self.held_out = torch.arange(train + validation) >= train
        self.built: list[str | None] = []
        self.passes: list[int] = []

    def build(self, name: str | None = None, outputs: int | None = None) -> nn.Module:
        """Build the tiny network, always the same, and remember which one was asked for."""
        self.built.append(name)
        torch.manual_seed(0)
        return build_network("tiny", self.data, CPU, outputs)

    def problem(self, seed: int = 0) -> SearchProblem:
        """Make the problem."""
        return SearchProblem(self.images, self.held_out, self.build, seeded(seed), self.passes.append)

    def search(self, seed: int = 0, **hyperparameters: Any) -> BlockPairs:
        """Search with small batches."""
        settings = {"search_batch_size": 16, "search_epochs": 2} | hyperparameters
        policies = all_pairs(shared_space(14), CPU)
        search_policy(policies, self.problem(seed), SearchHyperparameters(**settings))
        return policies


@pytest.fixture
def images() -> Images:
    """Sixty digits to fit on and forty held out."""
    return Images()


def _numbers(policies: BlockPairs) -> Tensor:
    return torch.cat([policies.logits, policies.probabilities.flatten(), policies.magnitudes.flatten()])


def test_training_and_validation_batches_change_from_step_to_step_and_cover_their_halves(
    images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, list[Split]] = {"train": [], "validation": []}
    original = PolicySearch.step

    def spy(self: PolicySearch, *arguments: Any) -> tuple[Weights, Weights]:
        seen["train"].append(arguments[-2])
        seen["validation"].append(arguments[-1])
        return original(self, *arguments)

    monkeypatch.setattr(PolicySearch, "step", spy)
    images.search(search_epochs=3)
    assert len(seen["train"]) == 3 * 4
    problem = images.problem()
    for half, split, pass_length in (("train", problem.train, 4), ("validation", problem.validation, 3)):
        batches = [batch.images.flatten(1) for batch in seen[half]]
        assert all(len(a) != len(b) or not torch.equal(a, b) for a, b in itertools.pairwise(batches))
        in_one_pass = torch.cat(batches[:pass_length])
        assert torch.equal(torch.unique(in_one_pass, dim=0), torch.unique(split.images.flatten(1), dim=0))
        assert len(in_one_pass) == len(split)


def test_its_generator_decides_the_policy_bit_for_bit(images: Images) -> None:
    first = _numbers(images.search(seed=3))
    assert torch.equal(_numbers(images.search(seed=3)), first)
    other = _numbers(images.search(seed=4))
    assert (other != first).float().mean() > 0.8, "all but the magnitudes of blocks that have none"


def test_a_search_begins_at_its_start_wherever_an_interrupted_one_has_left_the_policy(images: Images) -> None:
    policies = all_pairs(shared_space(14), CPU)
    for tensor in (policies.logits, policies.probabilities, policies.magnitudes):
        tensor.fill_(0.9)
    settings = SearchHyperparameters(search_batch_size=16, search_epochs=2)
    search_policy(policies, images.problem(), settings)
    assert torch.equal(_numbers(policies), _numbers(images.search()))


def test_all_that_is_learned_moves_and_stays_within_its_bounds(images: Images) -> None:
    policies = images.search(policy_learning_rate=0.3, search_epochs=8)
    assert (policies.logits != 0).all()
    assert policies.probabilities.min() == pytest.approx(0.05)
    assert policies.probabilities.max() == pytest.approx(0.95)
    continuous = policies.blocks < 4
    assert policies.magnitudes[continuous].min() == 0
    assert policies.magnitudes[continuous].max() == 1
    assert (policies.magnitudes[~continuous] == 0.5).all(), "blocks without a magnitude learn none"


def test_images_are_counted_that_go_forwards_through_the_network(images: Images) -> None:
    images.search(search_epochs=2)
    assert images.passes == [16 + 16, 16 + 16, 16 + 8, 12 + 16, 16 + 16, 16 + 8, 16 + 16, 12 + 16]


@pytest.mark.parametrize("name", [None, "tiny"])
def test_the_network_of_the_search_can_be_named(images: Images, name: str | None) -> None:
    images.search(search_network=name, search_epochs=1)
    assert images.built == [name]


def test_an_unknown_network_is_refused_before_anything_runs() -> None:
    with pytest.raises(UserError, match="no network 'tyni'"):
        SearchHyperparameters(search_network="tyni")


@pytest.mark.slow
def test_a_search_that_diverges_says_so(images: Images) -> None:
    with pytest.raises(DivergedError, match=r"search_learning_rate \(now 10\)"):
        images.search(search_learning_rate=10.0, search_final_rate=10.0, search_weight_decay=1.0, search_epochs=20)


# What it finds


def _share(policies: BlockPairs, block: str) -> float:
    """Probability that a draw of the whole policy, all sub-policies by their weights, has a block."""
    applied = policies.probabilities * policies.logits.softmax(0)[:, None]
    return float(applied[policies.blocks == BLOCKS.index(block)].sum())


@pytest.mark.slow
@pytest.mark.parametrize(("planted", "other"), [("flip", "half-turn"), ("half-turn", "flip")])
def test_it_prefers_the_block_that_makes_training_images_like_the_validation_images(planted: str, other: str) -> None:
    images = Images(train=500, validation=500)
    dims = [3] if planted == "flip" else [2, 3]
    images.images.images[images.held_out] = images.images.images[images.held_out].flip(dims)
    policies = images.search(search_batch_size=50, search_epochs=12, policy_learning_rate=0.02)
    start = all_pairs(shared_space(14), CPU)
    assert _share(start, planted) == pytest.approx(_share(start, other))
    assert _share(policies, planted) > 1.5 * _share(start, planted)
    assert _share(policies, planted) > 1.5 * _share(policies, other)
    assert _share(policies, planted) == max(_share(policies, block) for block in BLOCKS)
