"""The toy problem: the planted law, the three ways of training, and what they end with."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn import functional as F

from augbench.bench.common.randomness import generator
from augbench.results.studies.toy import (
    COPIES,
    DISTRIBUTION_RATE,
    RADIAL_NOISE,
    REGULARISATION,
    TRAINING_POINTS,
    PointRotations,
    Points,
    ToyRun,
    Way,
    harmless_range,
    rotate,
    sample_points,
    train,
)

CLASS_OF_ARC = {(1.0, 0): 0, (1.5, 0): 1, (2.0, 0): 0, (1.0, 180): 1, (1.5, 180): 0, (2.0, 180): 1}
INITIAL_RANGE = 0.1


def _polar(points: Points) -> tuple[np.ndarray, np.ndarray]:
    """Radius and direction in degrees."""
    x, y = points.places.double().numpy().T
    return np.hypot(x, y), np.degrees(np.arctan2(y, x))


def _at(*radius_and_degrees: tuple[float, float]) -> Tensor:
    return torch.tensor([[r * math.cos(math.radians(a)), r * math.sin(math.radians(a))] for r, a in radius_and_degrees])


def test_the_classes_alternate_over_rings_and_sides() -> None:
    points = sample_points(40, generator(0, "a test"))
    radius, direction = _polar(points)
    ring = np.array([1.0, 1.5, 2.0])[np.abs(radius[:, None] - [1.0, 1.5, 2.0]).argmin(1)]
    side = np.where(np.abs(direction) < 90, 0, 180)
    arcs = list(zip(ring.tolist(), side.tolist(), strict=True))
    assert points.labels.tolist() == [CLASS_OF_ARC[arc] for arc in arcs]
    assert {arc: arcs.count(arc) for arc in arcs} == dict.fromkeys(CLASS_OF_ARC, 40)


@pytest.mark.parametrize("planted", [30, 45])
def test_angles_and_radii_follow_the_planted_law(planted: float) -> None:
    points = sample_points(500, generator(1, "a test"), math.radians(planted))
    radius, direction = _polar(points)
    from_centre = np.where(np.abs(direction) < 90, direction, (direction + 360) % 360 - 180)
    assert stats.kstest(from_centre, stats.uniform(-planted, 2 * planted).cdf).pvalue > 0.01
    noise = radius - np.array([1.0, 1.5, 2.0]).repeat(1000)
    assert stats.kstest(noise, stats.norm(0, RADIAL_NOISE).cdf).pvalue > 0.01
    assert abs(stats.spearmanr(from_centre, noise).statistic) < 0.06  # 3 standard deviations


def test_a_rotation_keeps_the_radius_and_adds_to_the_angle() -> None:
    places = _at((1.0, 20), (2.0, -170), (0.5, 90))
    rotated = rotate(places, torch.tensor([math.radians(a) for a in (30, -40, 180)]))
    assert rotated == pytest.approx(_at((1.0, 50), (2.0, 150), (0.5, 270)), abs=1e-6)


def test_the_harmless_range_is_half_the_smallest_gap_on_a_ring() -> None:
    # rivals on the inner ring are 140°, 130° apart; the outer ring's point at 12° has none at its radius
    places = _at((1.0, 10), (1.03, 150), (0.96, -120), (2.0, 12))
    points = Points(places, torch.tensor([0, 1, 1, 1]))
    assert math.degrees(harmless_range(points)) == pytest.approx(65, abs=1e-3)
    across = Points(_at((1.5, 170), (1.5, -150)), torch.tensor([0, 1]))  # over ±180°
    assert math.degrees(harmless_range(across)) == pytest.approx(20, abs=1e-3)


@pytest.mark.parametrize(("planted", "harmless"), [(45, 45), (30, 60)])
def test_many_points_allow_what_the_arcs_leave_free(planted: float, harmless: float) -> None:
    points = sample_points(300, generator(2, "a test"), math.radians(planted))
    assert harmless < math.degrees(harmless_range(points)) < harmless + 0.5


def _loss(ranges: Tensor, network: nn.Module, points: Points) -> Tensor:
    """Mean loss of rotated copies in double precision, with what the first step of a training with seed 0 draws."""
    draw = PointRotations().sample(COPIES * len(points), torch.ones(1), ranges, generator(0, "augmentation"))
    places = PointRotations().apply(points.places.double().repeat(COPIES, 1), draw)
    return F.cross_entropy(network(places), points.labels.repeat(COPIES))


def _slope(range_: float, network: nn.Module, points: Points) -> float:
    """Slope of the mean loss in α by central differences."""
    step = 1e-6
    ranges = torch.tensor([[range_ + step], [range_ - step]], dtype=torch.float64)
    above, below = (float(_loss(one, network, points).detach()) for one in ranges)
    return (above - below) / (2 * step)


def test_the_gradient_of_the_range_is_that_of_finite_differences() -> None:
    run = train(Way.RM, 0, steps=100)
    network = run.network.double()
    for degrees in (20, 60, 120):
        ranges = torch.tensor([math.radians(degrees)], dtype=torch.float64)
        _loss(ranges.requires_grad_(), network, run.training).backward()
        assert ranges.grad is not None
        assert abs(float(ranges.grad)) > 0.01
        assert float(ranges.grad) == pytest.approx(_slope(math.radians(degrees), network, run.training), rel=1e-4)


def test_the_first_step_of_the_range_descends_loss_and_regulariser() -> None:
    start, after = train(Way.TRM, 0, steps=0), train(Way.TRM, 0, steps=1)
    # the regulariser's part is λ·π·log(A/α), and π = 1/K = 1 at the start
    slope = _slope(INITIAL_RANGE, start.network.double(), start.training) - REGULARISATION / INITIAL_RANGE
    expected = INITIAL_RANGE - DISTRIBUTION_RATE * slope
    assert math.radians(after.result.range_degrees) == pytest.approx(expected, abs=1e-6)
    assert after.result.probability == pytest.approx(0.6)  # projected to the clamp


def test_all_ways_start_alike_and_see_the_same_points() -> None:
    runs = [train(way, 3, steps=0) for way in Way]
    weights = [nn.utils.parameters_to_vector(run.network.parameters()) for run in runs]
    for run, theirs in zip(runs[1:], weights[1:], strict=True):
        assert torch.equal(theirs, weights[0])
        assert torch.equal(run.training.places, runs[0].training.places)
        assert torch.equal(run.test.places, runs[0].test.places)
    other = train(Way.RM, 4, steps=0)
    assert not torch.equal(other.training.places, runs[0].training.places)
    assert not torch.equal(nn.utils.parameters_to_vector(other.network.parameters()), weights[0])


@pytest.mark.parametrize("way", list(Way))
def test_the_same_seed_gives_the_same_bits(way: Way) -> None:
    state = torch.get_rng_state()
    first, second = train(way, 5, steps=30), train(way, 5, steps=30)
    assert torch.equal(torch.get_rng_state(), state)
    assert first.result == second.result
    assert first.result != replace(train(way, 6, steps=30).result, seed=5)
    for ours, theirs in zip(first.network.parameters(), second.network.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_each_way_trains_on_the_copies_that_it_should() -> None:
    for way, spread in ((Way.RM, 0.0), (Way.FIXED, 180.0)):
        run = train(way, 0, steps=0)
        copies = run.augmented(400)
        assert len(copies) == 400 * 6 * TRAINING_POINTS
        radius, direction = _polar(copies)
        first_radius, first_direction = _polar(run.training)
        assert radius == pytest.approx(np.tile(first_radius, 400), abs=1e-5)
        assert torch.equal(copies.labels, run.training.labels.repeat(400))
        turned = (direction - np.tile(first_direction, 400) + 180) % 360 - 180
        if spread == 0:
            assert turned == pytest.approx(0, abs=1e-9)
        else:
            assert stats.kstest(turned, stats.uniform(-spread, 2 * spread).cdf).pvalue > 0.01


def test_the_trajectory_is_that_of_the_learned_distribution() -> None:
    run = train(Way.TRM, 0, steps=100)
    steps, probabilities, ranges = zip(*run.result.trajectory, strict=True)
    assert list(steps) == list(range(0, 101, 2))
    assert (probabilities[0], ranges[0]) == (1, pytest.approx(math.degrees(INITIAL_RANGE)))
    assert (probabilities[-1], ranges[-1]) == (run.result.probability, run.result.range_degrees)
    assert all(0 <= probability <= 1 for probability in probabilities)
    assert all(0.18 <= range_ <= 180 for range_ in ranges)
    assert train(Way.RM, 0, steps=1).result.trajectory == ()


def _accuracies(runs: list[dict[Way, ToyRun]], way: Way) -> list[float]:
    return [run[way].result.test_accuracy for run in runs]


@pytest.mark.slow
def test_learning_the_range_beats_no_augmentation_and_too_much_of_it() -> None:
    runs = [{way: train(way, seed) for way in Way} for seed in range(3)]
    assert all(accuracy > 0.99 for accuracy in _accuracies(runs, Way.TRM))
    assert all(0.75 < accuracy < 0.99 for accuracy in _accuracies(runs, Way.RM))
    assert np.mean(_accuracies(runs, Way.FIXED)) == pytest.approx(0.5, abs=0.06)
    for run in runs:
        learned = run[Way.TRM].result
        assert learned.probability > 0.9
        assert 40 < learned.range_degrees < 60
        assert learned.range_degrees == pytest.approx(learned.harmless_degrees, abs=4)


@pytest.mark.slow
def test_wider_gaps_between_the_classes_give_a_wider_range() -> None:
    learned = train(Way.TRM, 1, planted_range=math.radians(30)).result
    assert 55 < learned.range_degrees < 70
    assert learned.range_degrees == pytest.approx(learned.harmless_degrees, abs=4)
