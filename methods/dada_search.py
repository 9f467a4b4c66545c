"""DADA's search: a small network learns on augmented images while the policy learns to make its steps good ones.

A policy is good if the loss on validation images is small after one step of the network's weights on augmented
training images (the one-step unrolled bilevel problem of DARTS). The step that is looked through is the step that is
taken, with its momentum, weight decay and clipping, and its gradient is exact: no finite differences. Validation images
are not augmented, not by a base either. Both batches go through the network in training mode, each with its own batch
statistics.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.augmentation.base import BaseAugmentation
from augbench.bench.common.errors import DivergedError
from augbench.bench.contract.method import Hyperparameters
from augbench.bench.contract.search import SearchProblem, shuffled_batches
from augbench.bench.contract.search_space import tunable
from augbench.bench.data.dataset import Split
from augbench.bench.experiment.catalogues import NetworkName
from augbench.methods.dada_estimator import ControlVariate, draw_sample, relax
from augbench.methods.dada_policy import BlockPairs

SMALLEST_PROBABILITY = 0.05  # of a block and of leaving it out: the score is as large as the inverse of this

Weights = dict[str, Tensor]


class SearchHyperparameters(Hyperparameters):
    """Hyperparameters of the search; defaults are those of the reference code for CIFAR-10.

    Values to try: the authors' published policies come from network rates between 0.00125 (SVHN) and 0.1. They do not
    vary the rate and temperature of the policy, so those ranges reach from well below to well above their values.
    """

    search_network: NetworkName | None = Field(None, description="network of the search; the run's own by default")
    search_images: int = Field(
        4000, ge=2, description="images of the search, half to fit on and half held out if there are enough"
    )
    search_epochs: int = Field(20, ge=1, le=10_000, description="passes over the images to fit on")
    search_batch_size: int = Field(128, ge=1, le=65_536, description="images in a batch of the search, of either half")
    search_learning_rate: float = tunable(
        0.1, low=0.001, high=0.2, log=True, gt=0, le=10, description="rate of the network at the start"
    )
    search_final_rate: float = Field(0.001, ge=0, le=10, description="rate of the network at the end, along a cosine")
    search_momentum: float = Field(0.9, ge=0, lt=1, description="momentum of the network's steps")
    search_weight_decay: float = Field(2e-4, ge=0, le=1, description="weight decay of the network")
    search_clip: float = Field(5.0, gt=0, description="largest length of the network's gradient")
    policy_learning_rate: float = tunable(
        0.005, low=0.001, high=0.05, log=True, gt=0, le=1, description="rate of Adam for policy and control variate"
    )
    temperature: float = tunable(
        0.5, low=0.1, high=1.0, log=True, gt=0, le=10, description="temperature of the relaxed sample"
    )


@dataclass(frozen=True)
class WeightStep:
    """A step of SGD with momentum and weight decay on clipped gradients.

    Attributes:
        rate: Learning rate.
        momentum: Share of the velocity that is kept.
        weight_decay: Times the weights, added to the clipped gradients.
        clip: Largest length of all gradients together.
    """

    rate: float
    momentum: float
    weight_decay: float
    clip: float

    def take(self, weights: Weights, velocity: Weights, gradients: Weights) -> tuple[Weights, Weights]:
        """Return new weights and velocity, differentiable in the gradients."""
        length = torch.stack([gradient.norm() for gradient in gradients.values()]).norm()
        factor = (self.clip / (length + 1e-6)).clamp(max=1)
        velocity = {
            name: self.momentum * velocity[name] + factor * gradients[name] + self.weight_decay * weight
            for name, weight in weights.items()
        }
        return {name: weight - self.rate * velocity[name] for name, weight in weights.items()}, velocity


@dataclass(frozen=True)
class Unrolled:
    """A step of the weights that was taken, and what the validation loss after it owes to the augmentation.

    Both effects are divided by the learning rate.

    Attributes:
        weights: After the step.
        velocity: After the step.
        image_effects: Derivative of the validation loss in the weight of each image's training loss; (N,).
        magnitude_gradient: Derivative of the validation loss in the magnitudes.
    """

    weights: Weights
    velocity: Weights
    image_effects: Tensor
    magnitude_gradient: Tensor


def unroll(
    network: nn.Module,
    weights: Weights,
    velocity: Weights,
    step: WeightStep,
    train: tuple[Tensor, Tensor],
    validation: tuple[Tensor, Tensor],
    magnitudes: Tensor,
) -> Unrolled:
    """Take a step on the mean training loss and differentiate the validation loss after it.

    The chain rule, from the back: a = ∂L_val/∂G at the step's gradient G, with clipping, and then the derivative of
    ⟨a, Σᵢ uᵢ·∇l_i⟩ in the weights uᵢ = 1/N of the images and in the magnitudes, which the images depend on.

    Args:
        network: The network, whose own weights are not used.
        weights: The weights w by name.
        velocity: Their velocity.
        step: The step.
        train: Augmented images (N, C, H, W) in [0, 1], with the graph to `magnitudes`, and labels (N,).
        validation: Images (V, C, H, W) in [0, 1] and labels (V,).
        magnitudes: A leaf that the training images depend on.
    """
    images, labels = train
    weights = _leaves(weights)
    fractions = torch.full((len(labels),), 1 / len(labels), device=images.device, dtype=images.dtype).requires_grad_()
    losses = F.cross_entropy(functional_call(network, weights, (images,)), labels, reduction="none")
    gradients = torch.autograd.grad(
        fractions @ losses, list(weights.values()), create_graph=True, materialize_grads=True
    )
    constants = _leaves(dict(zip(weights, gradients, strict=True)))
    updated, velocity = step.take(_constants(weights), velocity, constants)
    outer = F.cross_entropy(functional_call(network, updated, (validation[0],)), validation[1])
    directions = torch.autograd.grad(outer, list(constants.values()), materialize_grads=True)
    inner = torch.stack([(gradient * a).sum() for gradient, a in zip(gradients, directions, strict=True)]).sum()
    image_effects, magnitude_gradient = torch.autograd.grad(inner / step.rate, (fractions, magnitudes))
    return Unrolled(_constants(updated), _constants(velocity), image_effects, magnitude_gradient)


class PolicySearch:
    """The policy in the course of a search, learned in place from where it stands."""

    def __init__(
        self,
        policies: BlockPairs,
        hyperparameters: SearchHyperparameters,
        generator: torch.Generator,
        base: BaseAugmentation | None = None,
    ) -> None:
        self.policies, self.hyperparameters, self.generator = policies, hyperparameters, generator
        self.base = base or BaseAugmentation()
        self.control = ControlVariate(len(policies.logits), generator)
        learned = [policies.logits, policies.probabilities, policies.magnitudes, *self.control.parameters()]
        self.optimizer = torch.optim.Adam(learned, lr=hyperparameters.policy_learning_rate, betas=(0.5, 0.999))

    def step(
        self,
        network: nn.Module,
        weights: Weights,
        velocity: Weights,
        step: WeightStep,
        train: Split,
        validation: Split,
    ) -> tuple[Weights, Weights]:
        """Take one step of the network's weights and one of the policy; return weights and velocity."""
        policies = self.policies
        sample = draw_sample(policies.logits, policies.probabilities, len(train), self.generator)
        magnitudes = policies.magnitudes.clone().requires_grad_()
        draw = policies.draw(sample.choice, sample.applied, self.generator, magnitudes)
        images = self.base.after(policies.space.apply(self.base.before(train.images), draw))
        held_out = to_unit_interval(validation.images), validation.labels
        unrolled = unroll(network, weights, velocity, step, (images, train.labels), held_out, magnitudes)
        estimate = relax(sample, unrolled.image_effects, self.control, self.hyperparameters.temperature)
        policies.logits.grad = estimate.logits.detach().mean(0)
        policies.probabilities.grad = estimate.probabilities.detach().mean(0)
        policies.magnitudes.grad = unrolled.magnitude_gradient
        control = list(self.control.parameters())
        for parameter, gradient in zip(control, torch.autograd.grad(estimate.second_moment(), control), strict=True):
            parameter.grad = gradient
        self.optimizer.step()
        policies.probabilities.clamp_(SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
        policies.magnitudes.clamp_(0, 1)
        return unrolled.weights, unrolled.velocity


def search_policy(policies: BlockPairs, problem: SearchProblem, hyperparameters: SearchHyperparameters) -> None:
    """Learn a policy, in place, from its start.

    Raises:
        DivergedError: If a learned number is not finite in the end.
        UserError: If there are too few images.
    """
    policies.start()
    _run(policies, problem, hyperparameters)
    learned = torch.cat([policies.logits, policies.probabilities.flatten(), policies.magnitudes.flatten()])
    if not learned.isfinite().all():
        raise DivergedError(
            "The search diverged: a weight, probability or magnitude is not finite. Lower the method's "
            f"search_learning_rate (now {hyperparameters.search_learning_rate:g}) in the suite and run it again."
        )


def _run(policies: BlockPairs, problem: SearchProblem, hyperparameters: SearchHyperparameters) -> None:
    fit, held_out = problem.reduced_halves(hyperparameters.search_images)
    network = problem.build_network(hyperparameters.search_network).train()
    weights: Weights = dict(network.named_parameters())
    velocity = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    size, generator = hyperparameters.search_batch_size, problem.generator
    learner = PolicySearch(policies, hyperparameters, generator, problem.base)
    steps = hyperparameters.search_epochs * math.ceil(len(fit) / size)
    batches = zip(shuffled_batches(fit, size, generator), shuffled_batches(held_out, size, generator), strict=False)
    for index, (train, validation) in zip(range(steps), batches, strict=False):
        step = weight_step(hyperparameters, index / steps)
        weights, velocity = learner.step(network, weights, velocity, step, train, validation)
        problem.count_passes(len(train) + len(validation))


def weight_step(hyperparameters: SearchHyperparameters, progress: float) -> WeightStep:
    """Return the network's step at a fraction of the search, in [0, 1): its rate falls along a cosine."""
    first, last = hyperparameters.search_learning_rate, hyperparameters.search_final_rate
    rate = last + (first - last) * (1 + math.cos(math.pi * progress)) / 2
    return WeightStep(
        rate, hyperparameters.search_momentum, hyperparameters.search_weight_decay, hyperparameters.search_clip
    )


def _leaves(tensors: Mapping[str, Tensor]) -> Weights:
    return {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}


def _constants(tensors: Mapping[str, Tensor]) -> Weights:
    return {name: tensor.detach() for name, tensor in tensors.items()}
