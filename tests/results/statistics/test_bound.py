"""The PAC-Bayes bound against numbers worked out by hand, other formulas for the same terms, and finished runs."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from torch.distributions import Independent, Normal, kl_divergence
from torch.nn import functional as F

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder
from augbench.bench.training.trainer import new_trainer
from augbench.bench.training.worker import load_dataset
from augbench.methods.scale import Scale
from augbench.results.statistics.bound import (
    Assumptions,
    Measured,
    PacBayesBound,
    PriorMean,
    best_posterior_deviation,
    bound,
)
from augbench.results.studies.bound_of_run import pac_bayes_bound

MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]
CommandLine = Callable[..., tuple[int, str, str]]
WriteRun = Callable[..., RunFolder]

CPU, NOWHERE = torch.device("cpu"), Path("/nowhere")
MEASURED = Measured(
    images=4, weights=4, squared_distance=8.0, divergence=3.0, empirical_risk=0.5, standard_error=0.01, draws=8
)
ASSUMPTIONS = Assumptions(lipschitz=0.75, loss_range=(0.0, 4.0), delta=0.05, prior_deviation=1.0)

positive = st.floats(0.01, 100)
counts = st.integers(1, 10**6)


# The terms


def test_every_term_is_that_worked_out_by_hand() -> None:
    found = bound(MEASURED, ASSUMPTIONS)
    # L√(n/p) = 3/4, hence √(9/16 + 1) = 5/4 and σ = 1/(5/4 + 3/4) = 1/2; √n = 2
    assert found.posterior_deviation == pytest.approx(1 / 2)
    assert found.empirical_risk == 0.5
    assert found.distance == pytest.approx(8 / 2 / 2)
    assert found.augmentation == pytest.approx(3 / 2)
    assert found.spread == pytest.approx((4 * math.log(2) - 4 / 2 + 4 * (1 / 4) / 2) / 2)
    assert found.confidence == pytest.approx(math.log(20) / 2)
    assert found.concentration == pytest.approx(16 / 8 / 2)
    assert found.smoothing == pytest.approx(2 * 0.75 * 2 * 0.5)
    assert found.remainder == pytest.approx(2 * math.log(2) - 0.75 + math.log(20) / 2 + 1 + 1.5)
    assert found.total == pytest.approx(0.5 + 2 + 1.5 + found.remainder)


@given(positive, positive, st.integers(1, 6), st.floats(0, 50), st.integers(1, 10**6))
def test_distance_and_spread_are_the_divergence_of_the_two_normal_laws(
    lipschitz: float, deviation: float, weights: int, squared_distance: float, images: int
) -> None:
    measured = replace(MEASURED, images=images, weights=weights, squared_distance=squared_distance)
    found = bound(measured, Assumptions(lipschitz, (0, 1), prior_deviation=deviation))
    mean = torch.zeros(weights, dtype=torch.float64)
    mean[0] = math.sqrt(squared_distance)
    posterior = Independent(Normal(mean, found.posterior_deviation), 1)
    prior = Independent(Normal(torch.zeros_like(mean), deviation), 1)
    divergence = kl_divergence(posterior, prior).item() / math.sqrt(images)
    assert found.distance + found.spread == pytest.approx(divergence, rel=1e-6, abs=1e-9)


def _terms_of_sigma(sigma: float, lipschitz: float, deviation: float, weights: int, images: int) -> float:
    """The terms of the bound that depend on σ, as the proof writes them with λ = √n."""
    root = math.sqrt(images)
    quadratic = weights / (2 * root * deviation**2) * sigma**2
    return -weights / root * math.log(sigma) + quadratic + 2 * lipschitz * math.sqrt(weights) * sigma


@given(positive, positive, counts, counts)
def test_no_other_posterior_deviation_makes_the_bound_smaller(
    lipschitz: float, deviation: float, weights: int, images: int
) -> None:
    best = best_posterior_deviation(images, weights, lipschitz, deviation)
    arguments = (lipschitz, deviation, weights, images)
    found = minimize_scalar(
        lambda log: _terms_of_sigma(math.exp(log), *arguments), bounds=(math.log(best) - 3, math.log(best) + 3)
    )
    least = _terms_of_sigma(best, *arguments)
    assert least <= found.fun + 1e-9 * abs(found.fun)
    assert math.log(best) == pytest.approx(found.x, abs=0.01)


def _published_remainder(found: PacBayesBound) -> float:
    """c_n as the paper writes it, for σ = √p/(2L√n), with (b − a)²/8 of its lemma for bounded losses."""
    n, p = found.measured.images, found.measured.weights
    lipschitz, s = found.assumptions.lipschitz, found.assumptions.prior_deviation
    lower, upper = found.assumptions.loss_range
    of_weights = p * math.log(2 * lipschitz * s * math.sqrt(n / p)) + p**2 / (8 * n * lipschitz**2 * s**2) + p / 2
    return (of_weights + math.log(1 / found.assumptions.delta) + (upper - lower) ** 2 / 8) / math.sqrt(n)


@given(positive, positive, counts, counts)
def test_remainder_is_at_most_the_published_one(lipschitz: float, deviation: float, weights: int, images: int) -> None:
    measured = replace(MEASURED, images=images, weights=weights)
    found = bound(measured, Assumptions(lipschitz, (0, 3), prior_deviation=deviation))
    assert found.remainder <= _published_remainder(found) * (1 + 1e-9) + 1e-9


def test_remainder_comes_to_the_published_one_where_its_approximation_holds() -> None:
    found = bound(replace(MEASURED, images=10**8, weights=10), Assumptions(5.0, (0, 3), 0.01, 2.0))
    assert found.remainder == pytest.approx(_published_remainder(found), rel=1e-4)


# What makes it larger


def _total(**changes: Any) -> float:
    measured = {key: value for key, value in changes.items() if hasattr(MEASURED, key)}
    assumed = {key: value for key, value in changes.items() if hasattr(ASSUMPTIONS, key)}
    return bound(replace(MEASURED, **measured), replace(ASSUMPTIONS, **assumed)).total


@given(positive, counts, st.integers(1, 10**6), st.floats(0.001, 0.5), st.floats(1.01, 1.9))
def test_whatever_is_worse_makes_it_larger(
    lipschitz: float, images: int, weights: int, delta: float, factor: float
) -> None:
    given_ = {"lipschitz": lipschitz, "images": images + 1, "weights": weights, "delta": delta}
    larger = {"lipschitz": lipschitz * factor, "images": images, "delta": delta / factor}
    for name, value in [*larger.items(), ("squared_distance", 9.0), ("divergence", 3.5), ("empirical_risk", 1.0)]:
        assert _total(**given_ | {name: value}) > _total(**given_), name


# In words


def test_a_vacuous_bound_says_so_in_words() -> None:
    found = bound(MEASURED, ASSUMPTIONS)
    assert found.total > 4 and found.vacuous
    assert bound(replace(MEASURED, empirical_risk=math.nan), ASSUMPTIONS).vacuous
    words = found.summary()
    assert "This bound is vacuous" in words
    assert "at most 4 by its clipping alone" in words
    assert "says nothing about unseen images" in words
    for caveat in ("with probability 0.95", "0.75-Lipschitz in the 4 weights", "standard error of 0.01", "4 training"):
        assert caveat in words


def test_a_bound_below_the_loss_range_is_not_called_vacuous() -> None:
    measured = replace(MEASURED, images=10**8, weights=2, squared_distance=0.1)
    found = bound(measured, Assumptions(0.01, (0, 4)))
    assert 0.5 < found.total < 1
    assert not found.vacuous
    assert "This bound is not vacuous: it lies below 4" in found.summary()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("lipschitz", (0.0, -1.0, math.inf, math.nan)),
        ("prior_deviation", (0.0, 1e-200)),
        ("delta", (0.0, 1.0, math.nan)),
        ("loss_range", ((1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan, 1.0))),
    ],
)
def test_assumptions_out_of_range_are_refused(name: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(UserError, match="--" + name.replace("_", "-")):
            replace(ASSUMPTIONS, **{name: value})


# Finished runs


def _divergence_by_enumeration(learned: dict[str, float], prior: float) -> float:
    """Reg(θ) from the learned numbers: the theorem's first form, and sums over all elements of the discrete blocks."""
    maxima = {"rotation": math.pi, "x-scale": math.log(2), "y-scale": math.log(2), "x-shear": 1.0}
    total = 0.0
    for name, maximum in maxima.items():
        pi, alpha = learned[f"probability/{name}"], learned[f"range/{name}"]
        total += math.log((1 - pi) / prior)
        total += pi * math.log(pi * maximum * prior / ((1 - pi) * alpha * (1 - prior)))
    for name, size in {"half-turn": 2, "flip": 2, "crop": 25}.items():
        posterior, law = (
            np.array([1 - fraction + fraction / size, *[fraction / size] * (size - 1)])
            for fraction in (learned[f"probability/{name}"], 1 - prior)
        )
        total += float((posterior * np.log(posterior / law)).sum())
    return total


def test_what_is_measured_of_a_run_equals_what_its_files_say(
    finished: Callable[..., RunFolder], settings: ExecutionSettings
) -> None:
    folder = finished("scale", prior=0.02, learning_rate=0.05, initial_range=0.2)
    found = pac_bayes_bound(folder, Assumptions(1.0, (0, 3)), data=settings.data, device=CPU, draws=2)
    result = folder.read_result()
    assert result is not None
    assert found.measured.images == result["train_images"] == 400
    assert found.measured.weights == 26_394
    divergence = _divergence_by_enumeration(result["learned"], 0.02)
    assert found.measured.divergence == pytest.approx(divergence, rel=1e-4)
    assert found.augmentation == pytest.approx(divergence / 20, rel=1e-4)
    spec = folder.read_spec()
    network = new_trainer(spec, load_dataset(spec.dataset, settings.data), CPU).network
    trained = torch.load(folder.model, weights_only=True)["network"]
    start = {name: weight.detach() for name, weight in network.named_parameters()}
    distance = sum((trained[name] - weight).double().square().sum().item() for name, weight in start.items())
    assert distance > 0.1
    assert found.measured.squared_distance == pytest.approx(distance, rel=1e-6)
    assumptions = Assumptions(1.0, (0, 3), prior_mean=PriorMean.ZERO)
    zero = pac_bayes_bound(folder, assumptions, data=settings.data, device=CPU, draws=2)
    norm = sum(trained[name].double().square().sum().item() for name in start)
    assert zero.measured.squared_distance == pytest.approx(norm, rel=1e-6)
    assert replace(zero.measured, squared_distance=0) == replace(found.measured, squared_distance=0)


@pytest.mark.slow
def test_empirical_risk_is_the_clipped_loss_under_the_learned_augmentation(
    finished: Callable[..., RunFolder], settings: ExecutionSettings
) -> None:
    folder = finished("scale")
    spec = folder.read_spec()
    trainer = new_trainer(spec, load_dataset(spec.dataset, settings.data), CPU)
    state = torch.load(folder.model, weights_only=True)
    trainer.network.load_state_dict(state["network"])
    trainer.method.load_state_dict(state["method"])
    assert isinstance(trainer.method, Scale)
    policy, train = trainer.method.test_policy(), trainer.data.train
    assert policy is not None
    trainer.network.eval()
    source = torch.Generator().manual_seed(123)
    with torch.no_grad():
        losses = [
            F.cross_entropy(trainer.network(policy(train.images, source)), train.labels, reduction="none")
            for _ in range(30)
        ]
    for upper in (0.5, 20.0):
        expected = torch.stack(losses).clamp(0.25, upper)
        found = pac_bayes_bound(
            folder, Assumptions(1.0, (0.25, upper)), data=settings.data, device=CPU, draws=20
        ).measured
        error = expected.var(0).mean().sqrt().item() / math.sqrt(20 * 400)
        assert found.standard_error == pytest.approx(error, rel=0.2)
        assert found.empirical_risk == pytest.approx(expected.mean().item(), abs=6 * error)
        assert 0.25 <= found.empirical_risk <= upper


def test_a_loss_that_is_no_number_counts_as_the_largest_one(
    finished: Callable[..., RunFolder], settings: ExecutionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = finished("scale")
    monkeypatch.setattr(Scale, "loss", lambda self, logits, labels: torch.full(logits.shape[:2], math.nan))
    found = pac_bayes_bound(folder, Assumptions(1.0, (0, 3)), data=settings.data, device=CPU, draws=2)
    assert found.empirical_risk == 3


def test_a_run_of_the_norm_ablation_needs_a_prior(
    finished: Callable[..., RunFolder], settings: ExecutionSettings
) -> None:
    folder = finished("scale-norm")
    with pytest.raises(UserError, match=r"'scale-norm' is trained without a prior .*--prior 0\.01"):
        pac_bayes_bound(folder, ASSUMPTIONS, data=settings.data, device=CPU)
    found = pac_bayes_bound(folder, replace(ASSUMPTIONS, prior=0.05), data=settings.data, device=CPU)
    result = folder.read_result()
    assert result is not None
    expected = _divergence_by_enumeration(result["learned"], 0.05)
    assert found.measured.divergence == pytest.approx(expected, rel=1e-4)
