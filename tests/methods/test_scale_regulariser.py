"""SCALE's regulariser against divergences computed from the distributions themselves."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from torch import Tensor
from torch.distributions import Bernoulli, Uniform, kl_divergence

from augbench.methods.scale_regulariser import bernoulli_divergence, parameter_free_divergence, parametric_divergence

PROBABILITIES = st.floats(1e-6, 1 - 1e-6)
PRIORS = st.floats(1e-3, 0.999)
MAXIMA = st.floats(0.01, 10)
SHARES = st.floats(1e-3, 1)  # α/A


def _double(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


def _parametric(probability: float, alpha: float, maximum: float, prior: float) -> float:
    return float(parametric_divergence(_double(probability), _double(alpha), _double(maximum), prior))


def _parameter_free(probability: float, support: int, prior: float) -> float:
    return float(parameter_free_divergence(_double(probability), _double(support), prior))


# A block with a learned range: mass 1 − π at the identity, density π/(2α) on [−α, α]


@pytest.mark.parametrize(
    ("probability", "alpha", "maximum", "prior"),
    [(1 / 7, 0.1, math.pi, 0.01), (0.6, 0.4, math.log(2), 0.01), (0.99, 1.0, 1.0, 0.01), (0.3, 0.05, 2.0, 0.4)],
)
def test_parametric_form_is_the_divergence_of_the_mixed_distributions_integrated_numerically(
    probability: float, alpha: float, maximum: float, prior: float
) -> None:
    density, reference = probability / (2 * alpha), (1 - prior) / (2 * maximum)
    spread, _ = integrate.quad(lambda _: density * math.log(density / reference), -alpha, alpha)
    at_identity = (1 - probability) * math.log((1 - probability) / prior)
    assert _parametric(probability, alpha, maximum, prior) == pytest.approx(at_identity + spread, rel=1e-9)


@settings(deadline=None)
@given(probability=PROBABILITIES, fraction=SHARES, maximum=MAXIMA, prior=PRIORS)
def test_parametric_form_is_the_sum_of_the_divergences_of_torch(
    probability: float, fraction: float, maximum: float, prior: float
) -> None:
    alpha, pi, limit = fraction * maximum, _double(probability), _double(maximum)
    chosen = kl_divergence(Bernoulli(pi), Bernoulli(_double(1 - prior)))
    strength = kl_divergence(Uniform(-alpha, _double(alpha)), Uniform(-limit * (1 + 1e-15), limit * (1 + 1e-15)))
    expected = float(chosen + pi * strength)
    assert _parametric(probability, alpha, maximum, prior) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@settings(deadline=None)
@given(probability=st.floats(0, 1), fraction=SHARES, maximum=MAXIMA, prior=PRIORS)
def test_parametric_form_is_never_negative(probability: float, fraction: float, maximum: float, prior: float) -> None:
    assert _parametric(probability, fraction * maximum, maximum, prior) >= -1e-12


def test_parametric_form_is_0_at_the_prior_and_nowhere_near_it() -> None:
    assert _parametric(0.99, 1.5, 1.5, 0.01) == pytest.approx(0, abs=1e-12)
    assert _parametric(0.9, 1.5, 1.5, 0.01) > 1e-3
    assert _parametric(0.99, 1.4, 1.5, 0.01) > 1e-3


def test_parametric_form_is_finite_at_probabilities_0_and_1() -> None:
    assert _parametric(0, 0.1, 1.0, 0.01) == pytest.approx(math.log(100))
    assert _parametric(1, 0.1, 1.0, 0.01) == pytest.approx(math.log(1 / 0.99) + math.log(10))


# A block that is uniform on N elements: mass 1 − π + π/N at the identity, π/N at each other one


@settings(deadline=None)
@given(probability=st.floats(1e-6, 1), support=st.integers(2, 100), prior=PRIORS)
def test_parameter_free_form_is_the_sum_over_all_elements(probability: float, support: int, prior: float) -> None:
    def masses(pi: float) -> list[float]:
        return [1 - pi + pi / support] + [pi / support] * (support - 1)

    pairs = zip(masses(probability), masses(1 - prior), strict=True)
    expected = math.fsum(mass * math.log(mass / reference) for mass, reference in pairs)
    assert _parameter_free(probability, support, prior) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_parameter_free_form_is_finite_at_probabilities_0_and_1_and_0_at_the_prior() -> None:
    reference = 1 - 0.99 * 80 / 81
    assert _parameter_free(0, 81, 0.01) == pytest.approx(-math.log(reference))
    certain = 80 / 81 * math.log(1 / 0.99) + 1 / 81 * math.log(1 / 81 / reference)
    assert _parameter_free(1, 81, 0.01) == pytest.approx(certain)
    assert _parameter_free(0.99, 81, 0.01) == pytest.approx(0, abs=1e-12)
    assert _parameter_free(0.9, 81, 0.01) > 1e-3


def test_every_block_has_its_own_divergence() -> None:
    pi, supports = torch.tensor([0.2, 0.5, 0.9]).double(), torch.tensor([2.0, 2.0, 81.0]).double()
    found = parameter_free_divergence(pi, supports, 0.01).tolist()
    assert found == pytest.approx([_parameter_free(float(p), int(n), 0.01) for p, n in zip(pi, supports, strict=True)])
    alpha, maxima = torch.tensor([0.1, 0.2, 0.3]).double(), torch.tensor([1.0, 2.0, 3.0]).double()
    found = parametric_divergence(pi, alpha, maxima, 0.01).tolist()
    triples = zip(pi.tolist(), alpha.tolist(), maxima.tolist(), strict=True)
    assert found == pytest.approx([_parametric(p, a, limit, 0.01) for p, a, limit in triples])


@settings(deadline=None)
@given(probability=PROBABILITIES, failure=PRIORS)
def test_bernoulli_divergence_is_that_of_torch_for_numbers_and_tensors(probability: float, failure: float) -> None:
    expected = kl_divergence(Bernoulli(_double(probability)), Bernoulli(_double(1 - failure)))
    for given_failure in (failure, _double(failure)):
        found = bernoulli_divergence(_double(probability), given_failure)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


# Gradients


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


@settings(deadline=None)
@given(probability=st.floats(0.01, 0.99), fraction=SHARES, maximum=MAXIMA, prior=PRIORS)
def test_gradient_of_the_parametric_form(probability: float, fraction: float, maximum: float, prior: float) -> None:
    pi, alpha = _double(probability).requires_grad_(), _double(fraction * maximum).requires_grad_()
    parametric_divergence(pi, alpha, _double(maximum), prior).sum().backward()
    assert pi.grad is not None
    assert alpha.grad is not None
    expected = _logit(probability) - _logit(1 - prior) + math.log(1 / fraction)
    assert float(pi.grad) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert float(alpha.grad) == pytest.approx(-probability / (fraction * maximum), rel=1e-6)


@settings(deadline=None)
@given(probability=st.floats(0.01, 0.99), support=st.integers(2, 100), prior=PRIORS)
def test_gradient_of_the_parameter_free_form(probability: float, support: int, prior: float) -> None:
    pi = _double(probability).requires_grad_()
    parameter_free_divergence(pi, _double(support), prior).sum().backward()
    assert pi.grad is not None
    moved = 1 - 1 / support
    expected = moved * (_logit(moved * probability) - _logit(moved * (1 - prior)))
    assert float(pi.grad) == pytest.approx(expected, rel=1e-6, abs=1e-9)
