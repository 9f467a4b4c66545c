"""DADA's estimator against the exact gradient of a problem small enough to enumerate, and by hand."""

from copy import deepcopy
from functools import cache

import pytest
import torch
from method_factories import seeded
from scipy import stats
from torch import Tensor, nn

from augbench.methods.dada_estimator import ControlVariate, GradientEstimates, RelaxedSample, draw_sample, relax

LOGITS = torch.tensor([0.3, -0.5, 0.1], dtype=torch.float64)
PROBABILITIES = torch.tensor([[0.3, 0.8], [0.6, 0.15], [0.5, 0.4]], dtype=torch.float64)
REWARDS = torch.tensor(  # of each sub-policy and its two outcomes
    [[[1.0, -2.0], [0.5, 3.0]], [[-1.0, 0.2], [2.5, -0.3]], [[4.0, 1.0], [-2.0, 0.7]]], dtype=torch.float64
)
TEMPERATURE = 0.5


def _sample(count: int, seed: int = 0) -> RelaxedSample:
    return draw_sample(LOGITS, PROBABILITIES, count, seeded(seed))


def _rewards(sample: RelaxedSample) -> Tensor:
    first, second = sample.applied.long().unbind(1)
    return REWARDS[sample.choice, first, second]


@cache
def _control(kind: str) -> nn.Module:
    """No control variate, one whose weights mean nothing, or one that has learned."""
    control = ControlVariate(3, seeded(1), units=20).double()
    if kind == "random":
        nn.init.normal_(control.output.weight, std=0.5, generator=seeded(2))
        nn.init.constant_(control.output.bias, 0.7)
    if kind == "learned":
        optimizer = torch.optim.Adam(control.parameters(), lr=0.02)
        for step in range(100):
            sample = _sample(256, seed=100 + step)
            optimizer.zero_grad()
            relax(sample, _rewards(sample), control, TEMPERATURE).second_moment().backward()
            optimizer.step()
    return control


def _flat(estimate: GradientEstimates) -> Tensor:
    """Rows of all estimated numbers; (N, 9)."""
    return torch.cat((estimate.logits, estimate.probabilities.flatten(1)), dim=1).detach()


def _estimates(kind: str, count: int, seed: int = 3) -> Tensor:
    sample = _sample(count, seed)
    return _flat(relax(sample, _rewards(sample), _control(kind), TEMPERATURE))


def _exact() -> Tensor:
    """Gradient of the expected reward, summed over all sub-policies and outcomes; (9,)."""
    logits, probabilities = LOGITS.clone().requires_grad_(), PROBABILITIES.clone().requires_grad_()
    total = torch.zeros((), dtype=torch.float64)
    for choice, weight in enumerate(logits.exp() / logits.exp().sum()):
        for first in (0, 1):
            for second in (0, 1):
                p, q = probabilities[choice]
                outcome = (p if first else 1 - p) * (q if second else 1 - q)
                total = total + weight * outcome * REWARDS[choice, first, second]
    gradients = torch.autograd.grad(total, (logits, probabilities))
    return torch.cat([gradient.flatten() for gradient in gradients])


# Expectation and variance


@pytest.mark.parametrize("kind", ["none", "random", pytest.param("learned", marks=pytest.mark.slow)])
def test_mean_of_many_estimates_is_the_exact_gradient_whatever_the_control_variate(kind: str) -> None:
    estimates = _estimates(kind, count=60_000)
    error = estimates.std(0) / len(estimates) ** 0.5
    exact = _exact()
    assert exact.abs().min() > 0.02
    assert ((estimates.mean(0) - exact).abs() < 4 * error).all()
    assert (error < 0.05).all(), "small enough to tell a wrong factor"


def test_a_control_variate_that_has_learned_lowers_the_variance() -> None:
    without, with_learned = (_estimates(kind, count=20_000).var(0).sum() for kind in ("none", "learned"))
    assert with_learned < 0.85 * without


def test_second_moment_is_the_variance_but_for_what_no_control_variate_changes() -> None:
    sample = _sample(60_000, seed=4)
    estimate = relax(sample, _rewards(sample), _control("random"), TEMPERATURE)
    expected = _flat(estimate).var(0).sum() + _exact().square().sum()
    assert float(estimate.second_moment().detach()) == pytest.approx(float(expected), rel=0.02)


@pytest.mark.parametrize("parameter", ["hidden.weight", "hidden.bias", "output.weight", "output.bias"])
def test_control_variate_gets_the_gradient_of_that_second_moment(parameter: str) -> None:
    control = deepcopy(_control("random"))
    sample = _sample(200, seed=5)

    def moment() -> Tensor:
        return relax(sample, _rewards(sample), control, TEMPERATURE).second_moment()

    tensor = control.get_parameter(parameter)
    (gradient,) = torch.autograd.grad(moment(), tensor)
    direction = torch.randn(tensor.shape, generator=seeded(6), dtype=torch.float64)
    values = []
    for step in (1e-5, -1e-5):
        with torch.no_grad():
            tensor.add_(direction, alpha=step)
        values.append(float(moment().detach()))
        with torch.no_grad():
            tensor.sub_(direction, alpha=step)
    assert float((gradient * direction).sum()) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5, abs=1e-9)


# What enters


def test_without_control_variate_it_is_reward_times_score_worked_out_by_hand() -> None:
    sample = _sample(50, seed=7)
    rewards = _rewards(sample)
    estimate = relax(sample, rewards, _control("none"), TEMPERATURE)
    softmax = LOGITS.exp() / LOGITS.exp().sum()
    for row, choice in enumerate(sample.choice.tolist()):
        unit = torch.eye(3, dtype=torch.float64)[choice]
        torch.testing.assert_close(estimate.logits[row].detach(), rewards[row] * (unit - softmax))
        score = torch.zeros(3, 2, dtype=torch.float64)
        for column, applied in enumerate(sample.applied[row].tolist()):
            p = PROBABILITIES[choice, column]
            score[choice, column] = 1 / p if applied else -1 / (1 - p)
        torch.testing.assert_close(estimate.probabilities[row].detach(), rewards[row] * score)


@pytest.mark.parametrize("kind", ["none", "random"])
def test_outcomes_of_sub_policies_that_were_not_chosen_do_not_enter(kind: str) -> None:
    sample = _sample(500, seed=8)
    estimate = relax(sample, _rewards(sample), _control(kind), TEMPERATURE).probabilities.detach()
    chosen = sample.chosen[:, :, None].expand_as(estimate)
    assert estimate[~chosen].abs().max() < 1e-9
    assert estimate[chosen].abs().min() > 1e-4


def test_estimate_is_one_row_for_each_image_so_rewards_of_others_do_not_enter() -> None:
    sample, control = _sample(10, seed=9), _control("random")
    rewards = _rewards(sample)
    changed = rewards.clone()
    changed[3] += 5
    first, second = (_flat(relax(sample, values, control, TEMPERATURE)) for values in (rewards, changed))
    assert ((first != second).any(1)).tolist() == [row == 3 for row in range(10)]


# Samples


def test_sub_policies_and_outcomes_have_their_probabilities() -> None:
    sample = _sample(40_000, seed=10)
    counts = torch.bincount(sample.choice, minlength=3)
    expected = LOGITS.softmax(0) * len(sample.choice)
    assert stats.chisquare(counts.numpy(), expected.numpy()).pvalue > 1e-3
    for choice in range(3):
        outcomes = sample.applied[sample.choice == choice]
        for column in (0, 1):
            p = float(PROBABILITIES[choice, column])
            assert stats.binomtest(int(outcomes[:, column].sum()), len(outcomes), p).pvalue > 1e-3


def test_relaxed_table_rounds_to_the_hard_sample_and_sharpens_as_the_temperature_falls() -> None:
    sample = _sample(300, seed=11)
    rows = torch.arange(300)
    for temperature in (0.5, 1e-4):
        table = sample.table(temperature).detach()
        assert torch.equal(table[:, :, 0].argmax(1), sample.choice)
        assert torch.equal(table[rows, sample.choice, 1:] > 0, sample.applied)
    hard = torch.zeros(300, 3, 3, dtype=torch.float64)
    hard[rows, sample.choice] = torch.cat((torch.ones(300, 1), 2.0 * sample.applied - 1), 1).double()
    assert (table - hard).abs().amax((1, 2)).quantile(0.95) < 1e-3


def test_conditional_table_has_the_same_numbers_but_other_derivatives() -> None:
    sample = _sample(300, seed=12)
    free, bound = sample.table(TEMPERATURE), sample.conditional_table(TEMPERATURE)
    torch.testing.assert_close(free, bound)
    for parameters in sample.parameters:
        first, second = (torch.autograd.grad(t.square().sum(), parameters, retain_graph=True)[0] for t in (free, bound))
        assert (first - second).abs().max() > 0.01


def test_noise_behind_the_conditional_table_is_independent_of_what_it_is_conditioned_on() -> None:
    sample = _sample(40_000, seed=13)
    weights = LOGITS.softmax(0)
    first = (sample.exponential / weights).amin(1)
    for choice in range(3):
        chosen = sample.choice == choice
        assert stats.kstest(first[chosen].numpy(), "expon").pvalue > 1e-3
        other = (choice + 1) % 3
        waits = (sample.exponential[:, other] - first * weights[other])[chosen]
        assert stats.kstest(waits.numpy(), "expon").pvalue > 1e-3


# Control variate


def test_control_variate_is_0_at_the_start_and_its_generator_decides_it() -> None:
    first, again, other = (ControlVariate(3, seeded(seed)) for seed in (0, 0, 1))
    table = torch.rand(5, 3, 3, generator=seeded(14))
    assert torch.equal(first(table), torch.zeros(5))
    assert torch.equal(first.hidden.weight, again.hidden.weight)
    assert not torch.equal(first.hidden.weight, other.hidden.weight)
    assert first.hidden.weight.abs().max() > 0
