"""Faster AutoAugment as a run: what is drawn in training, what is reported, and that it can be repeated."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, chisquare
from torch import Tensor

from augbench.bench.augmentation.affine_space import shared_space
from augbench.bench.augmentation.image_operations import GEOMETRIC, OPERATIONS
from augbench.bench.contract.method import RunContext
from augbench.bench.data.dataset import ImageData, Split
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder
from augbench.bench.training.trainer import Trainer, new_trainer
from augbench.bench.training.worker import load_dataset
from augbench.methods.faster_aa import FasterAutoAugment
from augbench.methods.faster_aa_search import AdversarialSearchHyperparameters
from augbench.methods.subpolicies import SEARCHED

CPU = torch.device("cpu")
QUICK = FasterAutoAugment.quick_hyperparameters
NAMES = [OPERATIONS[index] for index in SEARCHED]

MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]


def make_method(**settings: Any) -> FasterAutoAugment:
    context = RunContext(shared_space(14), 1, 10, 400, 1, 2, CPU)
    return FasterAutoAugment(AdversarialSearchHyperparameters(**settings), context)


def with_policy(**settings: Any) -> FasterAutoAugment:
    """A method with a policy drawn at random, of even weights."""
    method, generator = make_method(**settings), torch.Generator().manual_seed(1)
    for tensor in method.learnable.values():
        tensor.uniform_(generator=generator)
    return method


def images(count: int = 200) -> Tensor:
    return torch.randint(256, (count, 1, 14, 14), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


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


def test_copies_are_transformed_and_the_generator_decides() -> None:
    method = with_policy()
    first, again, other = (method.augment(images(), torch.Generator().manual_seed(seed)).images for seed in (0, 0, 1))
    assert first.shape == (400, 1, 14, 14)
    assert 0 <= first.min() <= first.max() <= 1
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    test_policy = method.test_policy()
    assert test_policy is not None
    doubled = images().repeat(2, 1, 1, 1)
    assert torch.equal(test_policy(doubled, torch.Generator().manual_seed(0)), first)


def test_geometric_operations_are_resampled_as_in_the_search() -> None:
    """Bilinear resampling makes grey levels of its own out of black and white."""
    method = with_policy(sub_policies=1)
    method.policy.weights.zero_()
    method.policy.weights[..., NAMES.index("Rotate")] = 10
    method.policy.probabilities.fill_(1.0)
    method.policy.levels.fill_(0.4)
    black_and_white = 255 * (images(20) > 127).to(torch.uint8)
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
    method = make_method()
    copies = method.augment(images(), torch.Generator().manual_seed(0)).images
    assert torch.equal(copies, images().repeat(2, 1, 1, 1).float() / 255)
    assert set(method.learned().values()) == {0.0}


def test_state_goes_round() -> None:
    method, other = with_policy(), make_method()
    other.load_state_dict(method.state_dict())
    generators = [torch.Generator().manual_seed(0) for _ in range(2)]
    assert torch.equal(*(m.augment(images(), g).images for m, g in zip((method, other), generators, strict=True)))
    assert method.learned() == other.learned()


# Runs


class Watcher:
    """Lets everything go on."""

    def during_search(self, trainer: Trainer) -> None:
        """Do nothing."""

    def after_step(self, trainer: Trainer) -> None:
        """Do nothing."""

    def after_phase(self, trainer: Trainer) -> None:
        """Do nothing."""


def found_policy(
    spec: RunSpec, settings: ExecutionSettings, change: Callable[[ImageData], ImageData] = lambda data: data
) -> dict[str, Tensor]:
    trainer = new_trainer(spec, change(load_dataset(spec.dataset, settings.data)), CPU)
    trainer.train(Watcher())
    return dict(trainer.method.learnable)


@pytest.mark.usefixtures("few_digits")
def test_the_seed_decides_the_policy_bit_for_bit_and_test_images_do_not(
    make_spec: MakeSpec, settings: ExecutionSettings
) -> None:
    def other_test_images(data: ImageData) -> ImageData:
        return replace(data, test=Split(255 - data.test.images, 9 - data.test.labels))

    spec = make_spec("faster-aa", **QUICK)
    first = found_policy(spec, settings)
    torch.rand(3)  # another process would not have this one's global generator
    again = found_policy(spec, settings, other_test_images)
    other = found_policy(make_spec("faster-aa", seed=1, **QUICK), settings)
    for name, tensor in first.items():
        assert tensor.any()
        assert torch.equal(tensor, again[name])
        assert not torch.equal(tensor, other[name])


def test_defaults_are_those_of_the_authors_code() -> None:
    defaults = AdversarialSearchHyperparameters()
    assert (defaults.sub_policies, defaults.weight_temperature, defaults.probability_temperature) == (10, 0.05, 0.1)
    assert (defaults.search_images, defaults.search_epochs, defaults.search_batch_size) == (4000, 20, 128)
    assert (defaults.search_learning_rate, defaults.chunks) == (1e-3, 8)
    assert (defaults.class_weight, defaults.penalty_weight) == (0.1, 10)
