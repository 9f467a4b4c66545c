"""The gradient of a mean reward in DADA's weights and probabilities: RELAX (Grathwohl et al., ICLR 2018).

Each image has a sub-policy k, drawn from softmax(logits), and two outcomes t, Bernoulli with the probabilities of k.
The estimate is (f(k, t) − c(x̃))·∇log q(k, t) + ∇c(x) − ∇c(x̃): x is a relaxed sample whose rounding gives (k, t),
x̃ is drawn from the distribution of x given (k, t), and c is any function. Its expectation is ∇E[f]; c decides the
variance.

Here x̃ is x itself, which is a draw from that distribution, but differentiated through the conditional one. Thus c(x̃)
= c(x) and the outcomes of sub-policies that were not chosen get a gradient of exactly zero.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

SMALLEST = 1e-6  # logarithms of noise are taken of nothing smaller


@dataclass(frozen=True)
class RelaxedSample:
    """Sub-policies and outcomes of N images, their noise, and parameters of their own for each image.

    Attributes:
        choice: Index of the sub-policy; (N,) long.
        applied: Outcomes of its two blocks; (N, 2) bool.
        logits: The logits, once for each image, leaves of the graph; (N, K).
        probabilities: The probabilities, once for each image, leaves of the graph; (N, K, 2).
        exponential: Noise of the choice: sub-policy k with weight π arrives at time `exponential[k]`/π[k], and the
            first to arrive is chosen; (N, K).
        uniform: Noise of the outcomes: a block is applied where it is below the probability; (N, K, 2).
    """

    choice: Tensor
    applied: Tensor
    logits: Tensor
    probabilities: Tensor
    exponential: Tensor
    uniform: Tensor

    @property
    def parameters(self) -> tuple[Tensor, Tensor]:
        """What estimates are gradients in."""
        return self.logits, self.probabilities

    @property
    def chosen(self) -> Tensor:
        """Whether a sub-policy is the chosen one; (N, K) bool."""
        return torch.arange(self.logits.shape[1], device=self.choice.device) == self.choice[:, None]

    def log_likelihood(self) -> Tensor:
        """Logarithm of the probability of choice and outcomes; (N,)."""
        rows = torch.arange(len(self.choice), device=self.choice.device)
        probabilities = self.probabilities[rows, self.choice]
        outcomes = torch.where(self.applied, probabilities, 1 - probabilities)
        return self.logits.log_softmax(1)[rows, self.choice] + outcomes.log().sum(1)

    def table(self, temperature: float) -> Tensor:
        """The relaxed sample x as a function of the parameters and the noise; (N, K, 3)."""
        times = self.exponential.log() - self.logits.log_softmax(1)
        return _relaxed(times, self.probabilities, self.uniform, temperature)

    def conditional_table(self, temperature: float) -> Tensor:
        """The same numbers, as a function of the parameters and of noise that is independent of choice and outcomes.

        The first arrival is exponential of rate 1 whichever it is, and after it the others wait anew. Given its
        outcome, a block's uniform noise is uniform below or above the probability.
        """
        weights, chosen = self.logits.softmax(1), self.chosen
        fixed = weights.detach()
        first = (self.exponential / fixed).amin(1, keepdim=True)
        waits = (self.exponential - first * fixed).clamp(min=0).masked_fill(chosen, 0)
        times = (first + waits / weights).log()
        uniform = torch.where(chosen[:, :, None], self._conditional_uniform(), self.uniform)
        return _relaxed(times, self.probabilities, uniform, temperature)

    def _conditional_uniform(self) -> Tensor:
        below, moving = self.uniform < self.probabilities.detach(), self.probabilities
        fixed = moving.detach()
        share_below, share_above = self.uniform / fixed, (self.uniform - fixed) / (1 - fixed)
        return torch.where(below, moving * share_below, moving + (1 - moving) * share_above)


@dataclass(frozen=True)
class GradientEstimates:
    """Estimated gradients, one for each image, differentiable in the parameters of the control variate.

    Attributes:
        logits: (N, K).
        probabilities: (N, K, 2).
    """

    logits: Tensor
    probabilities: Tensor

    def second_moment(self) -> Tensor:
        """Mean squared length over the images.

        The mean of an estimate does not depend on the control variate, so the gradient of this in the parameters of
        the control variate is an unbiased estimate of the gradient of the variance.
        """
        return self.logits.square().sum(1).mean() + self.probabilities.square().sum((1, 2)).mean()


class ControlVariate(nn.Module):
    """The function c: one hidden layer of tanh units on the relaxed table, 0 everywhere at the start.

    Args:
        sub_policies: Number of sub-policies K.
        generator: Source of randomness for the weights; the network lives on its device.
        units: Number of hidden units.
    """

    def __init__(self, sub_policies: int, generator: torch.Generator, units: int = 100) -> None:
        super().__init__()
        self.hidden = nn.Linear(3 * sub_policies, units, device=generator.device)
        self.output = nn.Linear(units, 1, device=generator.device)
        bound = 1 / math.sqrt(3 * sub_policies)
        for parameter in self.hidden.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        for parameter in self.output.parameters():
            nn.init.zeros_(parameter)

    def forward(self, table: Tensor) -> Tensor:
        """Map relaxed tables (N, K, 3) to numbers (N,)."""
        values: Tensor = self.output(self.hidden(table.flatten(1)).tanh())
        return values[:, 0]


def draw_sample(logits: Tensor, probabilities: Tensor, count: int, generator: torch.Generator) -> RelaxedSample:
    """Draw sub-policies and outcomes for `count` images, from logits (K,) and probabilities in (0, 1), (K, 2)."""
    noise = torch.rand(count, len(logits), 3, device=logits.device, dtype=logits.dtype, generator=generator).clamp(
        SMALLEST, 1 - SMALLEST
    )
    exponential, uniform = -noise[:, :, 0].log(), noise[:, :, 1:]
    choice = (exponential / logits.softmax(0)).argmin(1)
    rows = torch.arange(count, device=logits.device)
    return RelaxedSample(
        choice=choice,
        applied=(uniform < probabilities)[rows, choice],
        logits=logits.detach().repeat(count, 1).requires_grad_(),
        probabilities=probabilities.detach().repeat(count, 1, 1).requires_grad_(),
        exponential=exponential,
        uniform=uniform,
    )


def relax(sample: RelaxedSample, rewards: Tensor, control: nn.Module, temperature: float) -> GradientEstimates:
    """Estimate the gradient of each image's expected reward.

    Args:
        sample: Choices and outcomes of N images.
        rewards: What they led to, f(k, t); (N,).
        control: The function c, from tables (N, K, 3) to (N,).
        temperature: That of the relaxation, above 0.
    """
    free, bound = control(sample.table(temperature)), control(sample.conditional_table(temperature))
    scores = _gradients(sample.log_likelihood(), sample.parameters)
    paths = _gradients(free - bound, sample.parameters)
    advantage = rewards.detach() - bound
    logits = advantage[:, None] * scores[0] + paths[0]
    return GradientEstimates(logits, advantage[:, None, None] * scores[1] + paths[1])


def _gradients(values: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(values.sum(), parameters, create_graph=True)


def _relaxed(times: Tensor, probabilities: Tensor, uniform: Tensor, temperature: float) -> Tensor:
    """Relax arrival times, given as logarithms (N, K), and outcomes (N, K, 2); (N, K, 3).

    The first column is near 1 for the sub-policy that arrives first and near 0 for the others; the two others are that
    times a number near 1 where the block is applied and near −1 where it is not.
    """
    weights = (-times / temperature).softmax(1)[:, :, None]
    outcomes = ((probabilities.logit() - uniform.logit()) / temperature).sigmoid()
    return torch.cat((weights, weights * (2 * outcomes - 1)), dim=2)
