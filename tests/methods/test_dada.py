"""DADA as a learner: its sub-policies and final policy, what it draws and reports, and whole runs."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from method_factories import make_method, seeded
from scipy import stats

from augbench.bench.augmentation.affine_space import Draw
from augbench.bench.conformance.problem import GREY
from augbench.bench.conformance.subject import Subject
from augbench.methods.dada import Dada, largest

BLOCKS = ("rotation", "x-scale", "y-scale", "x-shear", "half-turn", "flip", "crop")
PAIRS = list(combinations(BLOCKS, 2))
MAXIMA = {"rotation": math.pi, "x-scale": math.log(2), "y-scale": math.log(2), "x-shear": 1.0}


def _dada(**settings: Any) -> Dada:
    return make_method(Dada, settings=settings)


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


@pytest.mark.parametrize("kept", [1, 5, 100])
def test_a_search_keeps_the_sub_policies_with_the_largest_weights(kept: int) -> None:
    subject = Subject(Dada, {**Dada.quick_hyperparameters, "kept": kept}, torch.device("cpu"))
    learnable = subject.searched(GREY).trainer.method.learnable
    assert learnable["logits"].any()
    assert torch.equal(learnable["kept"], learnable["logits"].argsort(descending=True, stable=True)[:kept])


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
    observed = _patterns(found.draw(count, seeded(1)))
    assert set(observed) == set(expected)
    keys = list(expected)
    test = stats.chisquare([observed[key] for key in keys], [expected[key] for key in keys])
    assert test.pvalue > 1e-3


def test_magnitudes_are_shares_of_the_maxima_with_a_random_sign(found: Dada) -> None:
    draw = found.draw(20_000, seeded(2))
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


# Whole runs
