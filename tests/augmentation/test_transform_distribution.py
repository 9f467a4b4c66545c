"""Laws in coordinates: the decomposition, distances worked out by hand and by SciPy, and the score of a learner."""

import math
from functools import reduce

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy.optimize import linear_sum_assignment, minimize_scalar
from scipy.stats import wasserstein_distance

from augbench.bench.augmentation import transform_distribution as module
from augbench.bench.augmentation.affine_space import Space, shared_space
from augbench.bench.augmentation.transform_distribution import (
    COORDINATES,
    RECOVERY_DRAWS,
    Atoms,
    PlantedDistribution,
    decompose,
    recovery,
    recovery_error,
    wasserstein,
)

Array = NDArray[np.float64]
SPACE = shared_space(28)
CIRCLE = 2 * math.pi


def composed(turn: float, x_scale: float, y_scale: float, shear: float, flip: float, x: float, y: float) -> Array:
    """Write one map as a matrix, block by block; (2, 3)."""
    rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    scales = np.diag([math.exp(x_scale), 1]), np.diag([1, math.exp(y_scale)])
    blocks = (rotation, *scales, np.array([[1, shear], [0, 1]]), np.diag([-1.0 if flip else 1.0, 1.0]))
    linear = reduce(np.matmul, blocks)
    return np.column_stack((linear, linear @ np.array([x, y])))


@given(
    st.tuples(
        st.floats(-3.14159, 3.14159),
        st.floats(-2, 2),
        st.floats(-2, 2),
        st.floats(-3, 3),
        st.sampled_from([0.0, 1.0]),
        st.floats(-2, 2),
        st.floats(-2, 2),
    )
)
def test_the_coordinates_of_a_composed_map_are_those_it_was_composed_of(values: tuple[float, ...]) -> None:
    (found,) = decompose(torch.from_numpy(composed(*values))[None])
    assert found == pytest.approx(values, abs=1e-9)


def test_the_decomposition_is_the_qr_decomposition_with_a_positive_diagonal() -> None:
    maps = np.random.default_rng(0).normal(size=(200, 2, 3))
    for found, matrix in zip(decompose(torch.from_numpy(maps)), maps, strict=True):
        mirror = np.diag([np.sign(np.linalg.det(matrix[:, :2])), 1])
        q, r = scipy.linalg.qr(matrix[:, :2] @ mirror)
        signs = np.diag(np.sign(np.diag(r)))
        q, r = q @ signs, signs @ r
        expected = (math.atan2(q[1, 0], q[0, 0]), math.log(r[0, 0]), math.log(r[1, 1]), r[0, 1] / r[0, 0])
        assert found[:4] == pytest.approx(expected, abs=1e-9)
        assert found[4] == (mirror[0, 0] < 0)
        assert matrix[:, :2] @ found[5:] == pytest.approx(matrix[:, 2], abs=1e-9)


def test_a_half_turn_is_plus_pi_whatever_the_sign_of_zero() -> None:
    half_turns = torch.tensor([[[-1.0, 0, 0], [zero, -1, 0]] for zero in (0.0, -0.0)])
    assert decompose(half_turns)[:, 0].tolist() == [math.pi, math.pi]


def test_draws_from_the_shared_space_come_apart_into_what_was_drawn() -> None:
    draw = SPACE.sample(500, torch.full((7,), 0.5), SPACE.maxima(), torch.Generator().manual_seed(0))
    found = torch.from_numpy(decompose(SPACE.matrices(draw)))
    used = draw.magnitudes * draw.active[:, :4]
    turn = used[:, 0] + math.pi * (draw.half_turn & draw.active[:, 4])
    assert torch.allclose(found[:, 0].cos(), turn.cos().double(), atol=1e-5)
    assert torch.allclose(found[:, 0].sin(), turn.sin().double(), atol=1e-5)
    assert torch.allclose(found[:, 1:4], used[:, 1:].double(), atol=1e-5)
    assert torch.equal(found[:, 4].bool(), draw.flip & draw.active[:, 5])
    pixels = torch.where(draw.active[:, 6:], SPACE.padding - draw.offsets.flip(1), 0).double()
    assert torch.allclose(found[:, 5:], pixels * 2 / 28.0, atol=1e-5)


@pytest.mark.parametrize("bad", [[[1.0, 0, 0], [2, 0, 0]], [[1.0, 0, math.nan], [0, 1, 0]]])
def test_maps_that_cannot_be_decomposed_are_refused(bad: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="finite and invertible"):
        decompose(torch.tensor([bad]))


# Distances


def still(at: float = 0.0) -> Atoms:
    return Atoms.of(np.array([at]))


def uniform(extent: float, steps: int = 20_000) -> Atoms:
    return Atoms.of(np.linspace(-extent, extent, steps + 1)[:-1] + extent / steps)


def mixed(fraction: float, first: Atoms, second: Atoms) -> Atoms:
    weights = np.concatenate((fraction * first.weights, (1 - fraction) * second.weights))
    return Atoms(np.concatenate((first.points, second.points)), weights)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        (still(), still(), 0),
        (still(), uniform(0.6), 0.3),
        (uniform(0.2), uniform(0.6), 0.2),
        (still(), mixed(0.25, uniform(0.6), still()), 0.25 * 0.3),
        (mixed(0.75, uniform(0.6), still()), mixed(0.25, uniform(0.6), still()), 0.5 * 0.3),
        (still(1), mixed(0.3, still(1), still(0)), 0.7),
        # the uniform halves cancel, so half of the mass moves by half of the range
        (mixed(0.5, uniform(0.4), still()), uniform(0.4), 0.1),
    ],
)
def test_distances_on_the_line(first: Atoms, second: Atoms, distance: float) -> None:
    assert wasserstein(first, second) == pytest.approx(distance, abs=1e-4)
    assert wasserstein(second, first) == pytest.approx(distance, abs=1e-4)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        (still(), still(CIRCLE), 0),
        (still(), still(math.pi), math.pi),
        (still(0.1), still(CIRCLE - 0.1), 0.2),
        (still(), uniform(math.pi), math.pi / 2),
        (mixed(0.5, still(), still(math.pi)), uniform(math.pi), math.pi / 4),
        (still(), uniform(math.pi / 2), math.pi / 4),
        (uniform(math.pi / 2), uniform(math.pi), math.pi / 4),
    ],
)
def test_distances_on_the_circle(first: Atoms, second: Atoms, distance: float) -> None:
    assert wasserstein(first, second, CIRCLE) == pytest.approx(distance, abs=1e-3)
    turned = Atoms(first.points + 2, first.weights), Atoms(second.points + 2, second.weights)
    assert wasserstein(*turned, CIRCLE) == pytest.approx(distance, abs=1e-3)


def random_atoms(seed: int, count: int) -> Atoms:
    random = np.random.default_rng(seed)
    return Atoms(random.normal(size=count), random.dirichlet(np.ones(count)))


@given(st.integers(0, 2**31), st.integers(1, 30), st.integers(1, 30))
def test_distances_on_the_line_are_those_of_scipy(seed: int, count: int, other_count: int) -> None:
    first, second = random_atoms(seed, count), random_atoms(seed + 1, other_count)
    expected = wasserstein_distance(first.points, second.points, first.weights, second.weights)
    assert wasserstein(first, second) == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_distances_on_the_circle_are_those_of_the_cheapest_assignment(seed: int) -> None:
    points = np.random.default_rng(seed).uniform(-math.pi, math.pi, size=(2, 12))
    gaps = abs(points[0][:, None] - points[1])
    cost = np.minimum(gaps, CIRCLE - gaps)
    rows, columns = linear_sum_assignment(cost)
    expected = cost[rows, columns].mean()
    assert wasserstein(Atoms.of(points[0]), Atoms.of(points[1]), CIRCLE) == pytest.approx(expected, abs=1e-12)


def test_the_constant_on_the_circle_is_the_best_one() -> None:
    first, second = random_atoms(0, 40), random_atoms(1, 40)
    grid = np.linspace(0, CIRCLE, 200_001)[:-1]

    def distribution(law: Atoms) -> Array:
        order = np.argsort(law.points % CIRCLE)
        heights = np.append(0, law.weights[order].cumsum())
        return np.asarray(heights[np.searchsorted((law.points % CIRCLE)[order], grid, side="right")])

    difference = distribution(first) - distribution(second)
    best = minimize_scalar(lambda c: abs(difference - c).mean() * CIRCLE, bounds=(-1, 1), method="bounded")
    assert wasserstein(first, second, CIRCLE) == pytest.approx(best.fun, abs=1e-3)


# The planted law


def drawn(
    probabilities: dict[str, float], ranges: dict[str, float], seed: int = 0, space: Space = SPACE
) -> torch.Tensor:
    law = torch.tensor([probabilities.get(block.name, 0.0) for block in space.blocks])
    extents = torch.tensor([ranges.get(name, 0.0) for name in continuous_blocks(space)])
    draw = space.sample(RECOVERY_DRAWS, law, extents, torch.Generator().manual_seed(seed))
    return space.matrices(draw)


def continuous_blocks(space: Space) -> tuple[str, ...]:
    return tuple(block.name for block in space.blocks if block.maximum is not None)


def identities() -> torch.Tensor:
    return torch.eye(2, 3).expand(10, 2, 3)


def test_the_law_names_the_blocks_of_the_space_in_their_order() -> None:
    assert module.CONTINUOUS_BLOCKS == continuous_blocks(SPACE)


EVERYTHING = PlantedDistribution(
    rotation=45.0, rotation_share=0.5, x_scale=0.3, y_scale=0.6, y_scale_share=0.7, x_shear=0.8, half_turn=0.2, flip=0.4
)


def test_a_learner_with_the_planted_law_scores_zero_up_to_sampling() -> None:
    probabilities = {"rotation": 0.5, "x-scale": 1, "y-scale": 0.7, "x-shear": 1, "half-turn": 0.4, "flip": 0.8}
    ranges = {"rotation": math.pi / 4, "x-scale": 0.3, "y-scale": 0.6, "x-shear": 0.8}
    scores = recovery(drawn(probabilities, ranges), EVERYTHING, SPACE)
    assert list(scores) == list(COORDINATES)
    assert all(0 <= score < 0.006 for score in scores.values())
    assert 0 < recovery_error(scores) < 0.003


def test_quarter_turns_with_half_turns_are_all_rotations() -> None:
    stand_in = drawn({"rotation": 1, "half-turn": 1}, {"rotation": math.pi / 2})
    assert recovery(stand_in, PlantedDistribution(rotation=180.0), SPACE)["turn"] < 0.004
    all_rotations = drawn({"rotation": 1}, {"rotation": math.pi})
    assert recovery(all_rotations, PlantedDistribution(rotation=90.0, half_turn=0.5), SPACE)["turn"] < 0.004
    assert recovery(all_rotations, PlantedDistribution(rotation=90.0), SPACE)["turn"] == pytest.approx(0.25, abs=0.004)


@pytest.mark.parametrize(
    ("law", "missed"),
    [
        (PlantedDistribution(), {}),
        (PlantedDistribution(rotation=180.0), {"turn": 0.5}),
        (PlantedDistribution(rotation=45.0), {"turn": 0.125}),
        (PlantedDistribution(rotation=45.0, rotation_share=0.5), {"turn": 0.0625}),
        (PlantedDistribution(half_turn=0.5), {"turn": 0.5}),
        (PlantedDistribution(flip=0.5), {"flip": 0.5}),
        (PlantedDistribution(flip=1.0), {"flip": 1.0}),
        (PlantedDistribution(x_scale=math.log(2)), {"x-scale": 0.5}),
        (PlantedDistribution(y_scale=math.log(2) / 2), {"y-scale": 0.25}),
        (PlantedDistribution(x_shear=0.4), {"x-shear": 0.2}),
    ],
)
def test_what_is_missed_by_leaving_images_alone(law: PlantedDistribution, missed: dict[str, float]) -> None:
    scores = recovery(identities(), law, SPACE)
    assert scores == pytest.approx(dict.fromkeys(COORDINATES, 0.0) | missed, abs=1e-4)
    assert law.coordinates == tuple(missed)
    assert recovery_error(scores) == pytest.approx(sum(missed.values()) / 7, abs=1e-4)


def test_maxima_are_those_of_the_protocol_and_shifts_count_too() -> None:
    small = Space(14, padding=2, maximum_log_scale=0.2, maximum_shear=0.5)
    wide = drawn({"x-scale": 1, "x-shear": 1}, {"x-scale": 0.1, "x-shear": 0.25}, space=small)
    scores = recovery(wide, PlantedDistribution(), small)
    assert (scores["x-scale"], scores["x-shear"]) == pytest.approx((0.25, 0.25), abs=0.004)
    # offsets −2…2 of at most 2 pixels: the mean distance from 0 is 6/5 pixels
    cropped = recovery(drawn({"crop": 1}, {}, space=small), PlantedDistribution(), small)
    assert (cropped["x-shift"], cropped["y-shift"]) == pytest.approx((0.6, 0.6), abs=0.004)


@pytest.mark.parametrize(
    ("law", "label"),
    [
        (PlantedDistribution(), "none"),
        (PlantedDistribution(rotation=45.0), "rotation ±45°"),
        (PlantedDistribution(rotation=33.3, flip=0.5), "rotation ±33.3° + flip"),
        (PlantedDistribution(flip=0.25, half_turn=0.5), "half-turn + flip (share 0.25)"),
        (PlantedDistribution(x_scale=0.485, y_scale=0.5, x_shear=1), "x-scale ±0.485 + y-scale ±0.5 + x-shear ±1"),
        (PlantedDistribution(rotation=90, rotation_share=0.5), "rotation ±90° (share 0.5)"),
    ],
)
def test_names(law: PlantedDistribution, label: str) -> None:
    assert law.label == label


def test_laws_that_differ_have_different_names() -> None:
    laws = [
        PlantedDistribution(rotation=r, flip=f, x_scale=x)
        for r in (0, 45, 45.0001)
        for f in (0, 0.5, 1)
        for x in (0, 0.1)
    ]
    assert len({law.label for law in laws}) == len(laws)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"rotation": 181.0}, "less than or equal to 180"),
        ({"rotation": math.nan}, "rotation"),
        ({"x_scale": 0.7}, "x_scale"),
        ({"x_shear": 1.1}, "x_shear"),
        ({"flip": -0.1}, "flip"),
        ({"flip": True}, "flip"),
        ({"rotation": 45.0, "rotation_share": 0.0}, "rotation_share"),
        ({"y_scale_share": 0.5}, "y_scale_share changes nothing without y_scale"),
        ({"crop": 1.0}, "crop"),
    ],
)
def test_laws_outside_the_space_are_refused(values: dict[str, float], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        PlantedDistribution.model_validate(values)
