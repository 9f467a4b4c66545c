"""DADA as a learner: its sub-policies and final policy, what it draws and reports, and whole runs."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from augbench.bench.augmentation.affine_space import Draw, shared_space
from augbench.bench.contract.method import RunContext
from augbench.bench.data.dataset import Split
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.trainer import new_trainer
from augbench.bench.training.worker import execute, load_dataset
from augbench.methods.dada import Dada, DadaHyperparameters, largest

BLOCKS = ("rotation", "x-scale", "y-scale", "x-shear", "half-turn", "flip", "crop")
PAIRS = list(combinations(BLOCKS, 2))
MAXIMA = {"rotation": math.pi, "x-scale": math.log(2), "y-scale": math.log(2), "x-shear": 1.0}

MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]


def _dada(**hyperparameters: Any) -> Dada:
    context = RunContext(
        space=shared_space(14),
        channels=1,
        classes=10,
        train_size=100,
        epochs=10,
        baseline_copies=1,
        device=torch.device("cpu"),
    )
    return Dada(DadaHyperparameters(**hyperparameters), context)


def _source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _images(count: int) -> Tensor:
    return torch.randint(256, (count, 1, 14, 14), dtype=torch.uint8, generator=_source())


def _put(method: Dada, pair: tuple[str, str], probabilities: tuple[float, float], levels: tuple[float, float]) -> int:
    index = PAIRS.index(pair)
    method.policies.probabilities[index] = torch.tensor(probabilities)
    method.policies.magnitudes[index] = torch.tensor(levels)
    return index


@pytest.fixture
def found() -> Dada:
    """A final policy of three sub-policies, as if a search had found it."""
    method = _dada(kept=3)
    first = _put(method, ("rotation", "flip"), (0.9, 0.2), (0.25, 0.5))
    second = _put(method, ("rotation", "x-shear"), (0.3, 0.6), (0.75, 0.4))
    third = _put(method, ("half-turn", "crop"), (0.5, 0.8), (0.1, 0.9))
    method.kept.copy_(torch.tensor([first, second, third]))
    return method


# Sub-policies and the final policy


def test_sub_policies_are_all_pairs_of_blocks_in_the_order_of_the_space_at_their_starts() -> None:
    policies = _dada().policies
    assert [(BLOCKS[a], BLOCKS[b]) for a, b in policies.blocks.tolist()] == PAIRS
    assert len(PAIRS) == 21
    assert policies.logits.tolist() == [0.0] * 21
    assert policies.probabilities.tolist() == policies.magnitudes.tolist() == [[0.5, 0.5]] * 21


def test_the_largest_weights_win_and_of_equal_ones_the_first() -> None:
    logits = torch.tensor([0.1, 0.7, -0.2, 0.7, 0.3, 0.1])
    assert largest(logits, 2).tolist() == [1, 3]
    assert largest(logits, 4).tolist() == [1, 3, 4, 0]


@pytest.mark.parametrize(("kept", "expected"), [(5, [7, 20, 3, 0, 1]), (1, [7]), (100, None)])
def test_a_search_keeps_as_many_as_it_is_told(
    kept: int, expected: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(policies: Any, problem: Any, hyperparameters: Any) -> None:
        policies.logits.copy_(torch.zeros(21))
        policies.logits[torch.tensor([3, 7, 20])] = torch.tensor([0.2, 0.9, 0.4])

    monkeypatch.setattr("augbench.methods.dada.search_policy", find)
    method = _dada(kept=kept)
    method.search(Mock())
    kept_ones = method.learnable["kept"].tolist()
    assert kept_ones == expected if expected else sorted(kept_ones) == list(range(21))


def test_by_default_about_a_quarter_is_kept_as_in_the_paper() -> None:
    assert len(_dada().kept) == 5 == round(25 / 105 * 21)


# Draws


def _patterns(draw: Draw) -> dict[tuple[str, ...], int]:
    rows, counts = np.unique(draw.active.numpy(), axis=0, return_counts=True)
    names = [tuple(name for name, used in zip(BLOCKS, row, strict=True) if used) for row in rows]
    return dict(zip(names, counts.tolist(), strict=True))


def test_draws_choose_kept_sub_policies_uniformly_and_blocks_with_their_probabilities(found: Dada) -> None:
    count = 30_000
    expected: dict[tuple[str, ...], float] = {}
    for (first, second), (p, q) in (
        (("rotation", "flip"), (0.9, 0.2)),
        (("rotation", "x-shear"), (0.3, 0.6)),
        (("half-turn", "crop"), (0.5, 0.8)),
    ):
        outcomes = {(first, second): p * q, (first,): p * (1 - q), (second,): (1 - p) * q, (): (1 - p) * (1 - q)}
        for used, probability in outcomes.items():
            expected[used] = expected.get(used, 0) + count * probability / 3
    observed = _patterns(found.draw(count, _source(1)))
    assert set(observed) == set(expected)
    keys = list(expected)
    test = stats.chisquare([observed[key] for key in keys], [expected[key] for key in keys])
    assert test.pvalue > 1e-3


def test_magnitudes_are_shares_of_the_maxima_with_a_random_sign(found: Dada) -> None:
    draw = found.draw(20_000, _source(2))
    with_shear = draw.active[:, 3]
    sheared = draw.magnitudes[with_shear, 3]
    torch.testing.assert_close(sheared.abs(), torch.full_like(sheared, 0.4 * MAXIMA["x-shear"]))
    rotated = draw.magnitudes[draw.active[:, 0], 0]
    levels, counts = (rotated.abs() / math.pi).round(decimals=4).unique(return_counts=True)
    assert levels.tolist() == pytest.approx([0.25, 0.75])
    assert stats.chisquare(counts.numpy(), counts.sum().item() * np.array([0.75, 0.25])).pvalue > 1e-3
    for values in (sheared, rotated):
        assert stats.binomtest(int((values > 0).sum()), len(values), 0.5).pvalue > 1e-3
    both = draw.active[:, 0] & draw.active[:, 3]
    agree = (draw.magnitudes[both, 0] > 0) == (draw.magnitudes[both, 3] > 0)
    assert stats.binomtest(int(agree.sum()), len(agree), 0.5).pvalue > 1e-3


def test_blocks_without_a_magnitude_draw_uniformly_from_their_support(found: Dada) -> None:
    draw = found.draw(20_000, _source(3))
    turned, mirrored = draw.half_turn[draw.active[:, 4]], draw.flip[draw.active[:, 5]]
    for coins in (turned, mirrored):
        assert stats.binomtest(int(coins.sum()), len(coins), 0.5).pvalue > 1e-3
    places = draw.offsets[draw.active[:, 6]]
    assert stats.chisquare(np.bincount((5 * places[:, 0] + places[:, 1]).numpy(), minlength=25)).pvalue > 1e-3


def test_training_images_are_drawn_from_the_policy_without_gradients(found: Dada) -> None:
    images = _images(30)
    copies = found.augment(images, _source(4))
    assert copies.draw is not None
    assert torch.equal(copies.images, found.context.space.apply(images, copies.draw))
    assert not copies.images.requires_grad
    policy = found.test_policy()
    assert policy is not None
    assert torch.equal(policy(images, _source(4)), copies.images)


# What is reported and saved


def test_learned_numbers_are_those_of_the_final_policy_worked_out_by_hand(found: Dada) -> None:
    assert found.learned() == pytest.approx(
        {
            "probability/rotation": (0.9 + 0.3) / 3,
            "magnitude/rotation": (0.25 + 0.75) / 2 * math.pi,
            "probability/x-scale": 0,
            "probability/y-scale": 0,
            "probability/x-shear": 0.6 / 3,
            "magnitude/x-shear": 0.4,
            "probability/half-turn": 0.5 / 3,
            "probability/flip": 0.2 / 3,
            "probability/crop": 0.8 / 3,
        }
    )


def test_state_goes_round(found: Dada) -> None:
    other = _dada(kept=3)
    other.load_state_dict(found.state_dict())
    assert other.learned() == found.learned()
    assert torch.equal(other.augment(_images(20), _source(5)).images, found.augment(_images(20), _source(5)).images)


# Whole runs


def _trainer_spec(make_spec: MakeSpec, **settings: Any) -> RunSpec:
    return make_spec("dada", **{**Dada.quick_hyperparameters, **settings})


def _policy(spec: RunSpec, settings: ExecutionSettings, *, blacken_test: bool = False) -> Tensor:
    data = load_dataset(spec.dataset, settings.data)
    if blacken_test:
        data = replace(data, test=Split(torch.zeros_like(data.test.images), data.test.labels))
    trainer = new_trainer(spec, data, torch.device("cpu"))
    trainer._search(Mock())
    assert isinstance(trainer.method, Dada)
    return torch.cat([tensor.flatten().float() for tensor in trainer.method.learnable.values()])


@pytest.mark.usefixtures("few_digits")
def test_the_seed_of_the_run_decides_the_policy_and_test_images_do_not(
    make_spec: MakeSpec, settings: ExecutionSettings
) -> None:
    first = _policy(_trainer_spec(make_spec, seed=0), settings)
    assert torch.equal(_policy(_trainer_spec(make_spec, seed=0), settings, blacken_test=True), first)
    assert not torch.equal(_policy(_trainer_spec(make_spec, seed=1), settings), first)


@pytest.mark.usefixtures("few_digits")
def test_a_run_that_is_stopped_in_search_and_training_ends_as_one_that_is_not(
    make_spec: MakeSpec,
    make_folder: MakeFolder,
    settings: ExecutionSettings,
    stop: StopSignal,
    stop_after: Callable[[int], StopSignal],
    outcome: Callable[[RunFolder], dict[str, Any]],
) -> None:
    spec = _trainer_spec(make_spec, epochs=2)
    whole, parts = make_folder(spec), make_folder(spec)
    assert execute(whole, settings, stop) is RunState.DONE, whole.read_status()
    for questions in (1, 4, 6):  # in the search, after its two steps and two of the training, in the second epoch
        assert execute(parts, settings, stop_after(questions)) is RunState.CANCELLED
        torch.manual_seed(questions)
    assert execute(parts, settings, stop) is RunState.DONE
    assert outcome(parts) == outcome(whole)


@pytest.mark.usefixtures("few_digits")
def test_the_search_is_clocked_and_counted_and_the_policy_stays_as_it_found_it(
    make_spec: MakeSpec, make_folder: MakeFolder, settings: ExecutionSettings, stop: StopSignal
) -> None:
    spec = _trainer_spec(make_spec, epochs=2, search_epochs=3)
    folder = make_folder(spec)
    assert execute(folder, settings, stop) is RunState.DONE, folder.read_status()
    result = folder.read_result()
    assert result is not None
    (seconds,) = result["seconds"].values()
    assert seconds["search"] > 0
    assert result["image_passes"]["search"] == 3 * 30 + (16 + 14) * 3  # 3 images of each class in either half
    assert result["image_passes"]["training"] == 2 * 400
    found = _policy(spec, settings)
    model = torch.load(folder.model, weights_only=True)
    assert torch.equal(torch.cat([t.flatten().float() for t in model["method"]["learnable"].values()]), found)
    assert sum(result["learned"][f"probability/{block}"] for block in BLOCKS) > 0
