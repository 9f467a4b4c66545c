"""SCALE: stochastic compositional augmentation learning by transformed risk minimisation."""

from collections.abc import Mapping
from typing import TypeVar

import torch
from pydantic import Field, model_validator
from torch import Tensor

from augbench.bench.augmentation.affine_space import Draw
from augbench.bench.augmentation.policy_description import BLOCKS, AffinePolicy, BlockLaw
from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, RunContext, SharedSpaceMethod
from augbench.bench.contract.search_space import tunable
from augbench.bench.registry.registry import register
from augbench.methods.scale_estimators import Estimator, probability_gradient
from augbench.methods.scale_regulariser import parameter_free_divergence, parametric_divergence

SMALLEST_MARGIN = 1e-6


class DistributionHyperparameters(Hyperparameters):
    """Hyperparameters of every learner of (π, α); defaults are SCALE's where its paper states them.

    Rates to try: the paper's is for 200 epochs of gradient steps; fewer steps need larger rates.
    """

    copies: int = Field(4, ge=1, le=64, description="augmented copies M of each image in a batch")
    estimator: Estimator = Field("pooled", description="estimator of the gradient of the probabilities π")
    learning_rate: float = tunable(
        0.001, low=0.0003, high=0.1, log=True, gt=0, le=1, description="rate for π and α in the first epoch; falls to 0"
    )
    joint_share: float = Field(1.0, gt=0, le=1, description="share of the epochs, from the first, in which π, α learn")
    initial_range: float = Field(0.1, gt=0, le=0.69, description="range α of every continuous block at the start")
    clamp: float = Field(0.4, ge=0, lt=1, description="π is kept in [c, 1−c]; c falls from this over 7 to 0")

    @model_validator(mode="after")
    def _enough_copies(self) -> "DistributionHyperparameters":
        if self.estimator == "rloo" and self.copies < 2:
            raise ValueError("the estimator 'rloo' needs copies of at least 2")
        return self


class ScaleHyperparameters(DistributionHyperparameters):
    """Hyperparameters of SCALE.

    Weights to be tried: the theory says 1/√n, 0.004 for 60,000 images, and the paper takes 0.006 to 0.02; smaller data
    ask for more.
    """

    regularisation: float = tunable(
        0.006, low=0.001, high=0.1, log=True, ge=0, le=10, description="weight λ_reg of the PAC-Bayes regulariser"
    )
    prior: float = Field(0.01, gt=0, lt=1, description="β: the prior leaves a block out with this probability")


D = TypeVar("D", bound=DistributionHyperparameters)

DISTRIBUTION_DEVIATIONS: tuple[str, ...] = (
    "The paper's estimator for π, read literally, takes an empty group's mean as zero and is biased towards ½; "
    "the default pools the groups over the mini-batch (`per-image-zero` is the literal reading).",
    "The paper states neither the maxima A nor the support of the crop: the affine space decides both.",
    "α keeps a floor of A/1000, since SCALE's regulariser diverges at 0.",
    "A block about which a mini-batch says nothing keeps its π in that step.",
    "The paper states no learning rate for α; it is that of π.",
    "The paper leaves open how images are resampled (here bilinear, black outside, align_corners=False), in which "
    "order the matrices of the blocks multiply (here as it writes them), and what test-time draws average (here "
    "probabilities).",
)


class LearnedDistribution(SharedSpaceMethod[D]):
    """Learns the probability π of every block and the range α of every continuous one, along with the network.

    α is reparametrised, π has an estimator of its own, and both take the projected gradient steps of algorithm 1.
    Subclasses choose the regulariser.
    """

    def __init__(self, hyperparameters: D, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        device, space = context.device, context.space
        self.maxima, self.supports = space.maxima(device), space.supports(device)
        blocks = len(space.blocks)
        self.probabilities = torch.full((blocks,), 1 / blocks, device=device).requires_grad_()
        start = self.maxima.clamp(max=hyperparameters.initial_range)
        self.ranges = start.clone().requires_grad_()
        self.learnable = {"probabilities": self.probabilities, "ranges": self.ranges}
        self.start_epoch(0)

    @property
    def copies(self) -> int:
        """Augmented copies M of each image."""
        return self.hyperparameters.copies

    def start_epoch(self, epoch: int) -> None:
        """Anneal the rate and the clamp linearly; both reach 0 when the joint epochs are over."""
        joint_epochs = max(1, round(self.hyperparameters.joint_share * self.context.epochs))
        remaining = max(0.0, 1 - epoch / joint_epochs)
        self.rate = self.hyperparameters.learning_rate * remaining
        # at 0 and 1 the regulariser's gradient is infinite, so the margin closes only when π stops learning
        margin = self.hyperparameters.clamp / len(self.probabilities) * remaining
        self.margin = max(margin, SMALLEST_MARGIN) if remaining > 0 else 0.0

    def draw(self, count: int, generator: torch.Generator) -> Draw:
        """Draw from the learned distribution Q_θ, differentiable in the ranges while they are learned."""
        ranges = self.ranges if self.rate > 0 else self.ranges.detach()
        return self.context.space.sample(count, self.probabilities, ranges, generator)

    def divergence(self, prior: float) -> Tensor:
        """Reg(π, α) of theorem 3.1, with gradients for both; `prior` is β in (0, 1)."""
        continuous = len(self.ranges)
        first, rest = self.probabilities[:continuous], self.probabilities[continuous:]
        parametric = parametric_divergence(first, self.ranges, self.maxima, prior).sum()
        return parametric + parameter_free_divergence(rest, self.supports, prior).sum()

    @torch.no_grad()
    def after_backward(self, losses: Tensor, copies: AugmentedBatch) -> None:
        """Take the projected gradient step of algorithm 1 for π and α."""
        if self.rate == 0 or copies.draw is None:
            return
        active = copies.draw.active.view(*losses.shape, -1)
        estimate = probability_gradient(losses, active, self.probabilities, self.hyperparameters.estimator)
        gradient = torch.where(estimate.informative, _gradient(self.probabilities) + estimate.value, 0)
        self.probabilities.sub_(self.rate * gradient).clamp_(self.margin, 1 - self.margin)
        self.ranges.sub_(self.rate * _gradient(self.ranges))
        self.ranges.copy_(torch.minimum(torch.maximum(self.ranges, 1e-3 * self.maxima), self.maxima))
        self.probabilities.grad = self.ranges.grad = None

    def learned(self) -> dict[str, float]:
        """π of every block and α of every continuous one."""
        blocks = self.context.space.blocks
        numbers = {
            f"probability/{block.name}": probability
            for block, probability in zip(blocks, self.probabilities.tolist(), strict=True)
        }
        continuous = [block for block in blocks if block.maximum is not None]
        ranges = zip(continuous, self.ranges.tolist(), strict=True)
        return numbers | {f"range/{block.name}": value for block, value in ranges}

    def describe_policy(self) -> AffinePolicy:
        """The learned distribution."""
        return self.policy_of(self.learned())

    def policy_of(self, learned: Mapping[str, float]) -> AffinePolicy:
        """Describe the distribution with these learned numbers, as `learned` names them."""
        blocks = tuple(
            BlockLaw(block=name, probability=learned[f"probability/{name}"], range=learned.get(f"range/{name}", 0.0))
            for name in BLOCKS
        )
        return AffinePolicy.of((blocks,), self.context.space)


@register("scale")
class Scale(LearnedDistribution[ScaleHyperparameters]):
    """Learns probabilities π and ranges α; the objective is the loss + λ_reg·Reg(π, α) (theorem 3.1)."""

    title = "probabilities and ranges of seven blocks, PAC-Bayes regulariser"
    paper = "Learning Augmentation Distributions using Transformed Risk Minimization (TMLR 2023)"
    deviations = DISTRIBUTION_DEVIATIONS
    hyperparameters_type = ScaleHyperparameters

    def regulariser(self) -> Tensor | None:
        """λ_reg·Reg(π, α), with gradients for both."""
        if self.rate == 0:
            return None
        return self.hyperparameters.regularisation * self.divergence(self.hyperparameters.prior)


def _gradient(tensor: Tensor) -> Tensor:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
