"""The search of Faster AutoAugment (Hataya et al., ECCV 2020): a policy is learned by gradients against a critic.

While it is learned, every stage of a sub-policy returns the mixture of all its operations' outputs, so that weights,
probabilities and magnitudes have gradients. The critic is a Wasserstein critic with a gradient penalty, and a
classifier on the same features keeps the augmented images in their classes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import islice

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.augmentation.image_operations import OPERATIONS, ImageSpace
from augbench.bench.contract.method import Hyperparameters, RunContext
from augbench.bench.contract.search import SearchProblem, shuffled_batches
from augbench.bench.contract.search_space import tunable
from augbench.bench.data.dataset import Split
from augbench.bench.experiment.catalogues import NetworkName
from augbench.methods.subpolicies import SEARCHED, STAGES, LevelMapping

FEATURES = 64
BETAS = (0.0, 0.999)
PROBABILITY_MARGIN = 1e-3

NO_GRADIENT_IN_IMAGES = ("Posterize", "Equalize")
NO_GRADIENT_IN_LEVELS = ("Posterize", "Solarize", "Cutout")


class AdversarialSearchHyperparameters(Hyperparameters):
    """Hyperparameters of policy and search; defaults are those of the authors' code.

    Values to be tried reach from well below to well above the authors', who vary none of them.
    """

    sub_policies: int = Field(10, ge=1, le=1000, description="sub-policies of the policy")
    weight_temperature: float = tunable(
        0.05, low=0.02, high=0.5, log=True, gt=0, le=100, description="temperature of the softmax over operations"
    )
    probability_temperature: float = Field(0.1, gt=0, le=100, description="temperature of the relaxed coins")
    search_images: int = Field(4000, ge=2, description="training images, classes balanced, that the search uses")
    search_network: NetworkName | None = Field(None, description="trunk of critic and classifier; the run's by default")
    search_epochs: int = Field(20, ge=1, description="epochs of the search")
    search_batch_size: int = Field(128, ge=2, multiple_of=2, description="images in a batch: half real, half augmented")
    search_learning_rate: float = tunable(
        1e-3, low=1e-4, high=1e-2, log=True, gt=0, le=1, description="rate of Adam for the critic and the policy"
    )
    chunks: int = Field(8, ge=1, description="parts of the augmented half-batch that get a sub-policy each")
    class_weight: float = tunable(
        0.1, low=0.01, high=1.0, log=True, ge=0, le=1000, description="weight of the cross-entropies beside the critic"
    )
    penalty_weight: float = Field(10.0, ge=0, le=1000, description="weight of the critic's gradient penalty")


@dataclass(frozen=True)
class MixturePolicy:
    """What is learned: numbers of each of O operations in each of 2 stages of S sub-policies; (S, 2, O) each.

    Attributes:
        weights: Their softmax, at a low temperature, chooses the operation.
        probabilities: Of applying the operation where it is chosen, in [0, 1].
        levels: Its strength, in [0, 1].
    """

    weights: Tensor
    probabilities: Tensor
    levels: Tensor

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """All three."""
        return self.weights, self.probabilities, self.levels

    def subset(self, chosen: Tensor) -> "MixturePolicy":
        """Return the chosen sub-policies."""
        return MixturePolicy(*(tensor[chosen] for tensor in self.tensors()))

    def choice(self, temperature: float) -> Tensor:
        """Probability of choosing each operation; (S, 2, O)."""
        return (self.weights / temperature).softmax(-1)

    @torch.no_grad()
    def project(self) -> None:
        """Bring probabilities and levels back into their ranges.

        Probabilities keep a margin, since at 0 and 1 a relaxed coin has no gradient.
        """
        self.probabilities.clamp_(PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN)
        self.levels.clamp_(0, 1)


def start_policy(sub_policies: int, generator: torch.Generator) -> MixturePolicy:
    """Draw everything uniformly from [0, 1], to be learned from there."""
    shape = (3, sub_policies, STAGES, len(SEARCHED))
    policy = MixturePolicy(*torch.rand(shape, device=generator.device, generator=generator))
    policy.project()
    return MixturePolicy(*(tensor.clone().requires_grad_() for tensor in policy.tensors()))


@dataclass(frozen=True)
class AdversarialSearch:
    """A search with operations of `space`, at levels that mean what `mapping` says."""

    hyperparameters: AdversarialSearchHyperparameters
    problem: SearchProblem
    space: ImageSpace
    mapping: LevelMapping
    context: RunContext

    def search(self) -> MixturePolicy:
        """Learn a policy: one step of the critic and one of the policy for each batch."""
        settings, generator = self.hyperparameters, self.problem.generator
        images = self.problem.reduced(settings.search_images)
        size = min(settings.search_batch_size, len(images))
        policy = start_policy(settings.sub_policies, generator)
        critic = Critic(self.problem.build_network(settings.search_network, FEATURES), self.context.classes)
        critic.to(self.context.device).train()
        rate = settings.search_learning_rate
        policy_optimizer = torch.optim.Adam(policy.tensors(), lr=rate, betas=BETAS)
        critic_optimizer = torch.optim.Adam(critic.parameters(), lr=rate, betas=BETAS)
        full = (batch for batch in shuffled_batches(images, size, generator) if len(batch) == size)
        for batch in islice(full, settings.search_epochs * (len(images) // size)):
            real, other = halves(Split(self.problem.base.before(batch.images), batch.labels))
            augmented = self.augment(policy, other.images)
            step(critic_optimizer, self.critic_loss(critic, real, augmented.detach()))
            critic.requires_grad_(False)
            step(policy_optimizer, self.policy_loss(critic, augmented, other.labels))
            critic.requires_grad_(True)
            policy.project()
            self.problem.count_passes(4 * len(real))
        return policy

    def critic_loss(self, critic: "Critic", real: Split, augmented: Tensor) -> Tensor:
        """0.1·CE(real) − D(real) + D(augmented) + 10·penalty."""
        images = to_unit_interval(real.images)
        logits, score = critic(images)
        _, augmented_score = critic(augmented)
        penalty = gradient_penalty(lambda images: critic(images)[1], images, augmented, self.problem.generator)
        distance = score.mean() - augmented_score.mean()
        loss: Tensor = self.hyperparameters.class_weight * F.cross_entropy(logits, real.labels) - distance
        return loss + self.hyperparameters.penalty_weight * penalty

    def policy_loss(self, critic: "Critic", augmented: Tensor, labels: Tensor) -> Tensor:
        """0.1·CE(augmented) − D(augmented)."""
        logits, score = critic(augmented)
        loss: Tensor = self.hyperparameters.class_weight * F.cross_entropy(logits, labels) - score.mean()
        return loss

    def augment(self, policy: MixturePolicy, images: Tensor) -> Tensor:
        """Augment images (N, C, H, W) by mixtures, chunk by chunk a sub-policy; float in [0, 1], with gradients."""
        generator, chunks = self.problem.generator, self.hyperparameters.chunks
        chosen = torch.randint(len(policy.weights), (chunks,), device=generator.device, generator=generator)
        drawn = policy.subset(chosen.repeat_interleave(-(-len(images) // chunks))[: len(images)])
        fractions = drawn.choice(self.hyperparameters.weight_temperature)
        images = to_unit_interval(images)
        for stage in range(STAGES):
            coins = relaxed_coins(
                drawn.probabilities[:, stage], self.hyperparameters.probability_temperature, generator
            )
            outputs = operation_outputs(images, drawn.levels[:, stage], self.space, self.mapping, generator)
            images = mixture(images, outputs, fractions[:, stage], coins)
        return images


def halves(batch: Split) -> tuple[Split, Split]:
    """Split a batch into two of the same size that share no image, without the last image where that is odd."""
    half = len(batch) // 2
    first, second = (Split(batch.images[part], batch.labels[part]) for part in (slice(half), slice(half, 2 * half)))
    return first, second


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Take one step down a loss."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


class Critic(nn.Module):
    """A trunk, from images (N, C, H, W) in [0, 1] to features (N, 64), with two heads: a classifier and a critic."""

    def __init__(self, trunk: nn.Module, classes: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.classifier = nn.Linear(FEATURES, classes)
        self.critic = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU(), nn.Linear(FEATURES, 1))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits (N, classes) and the critic's score D (N,)."""
        features = self.trunk(images)
        return self.classifier(features), self.critic(features)[:, 0]


def gradient_penalty(
    score: Callable[[Tensor], Tensor], real: Tensor, augmented: Tensor, generator: torch.Generator
) -> Tensor:
    """Mean of (‖∇D(x)‖ − 1)² over images x between real and augmented ones (Gulrajani et al., NeurIPS 2017).

    The norm is that of the gradient of the critic D, `score`, in a whole image. Images are (N, C, H, W), in [0, 1]; the
    result is a scalar with gradients for the critic.
    """
    place = torch.rand(len(real), 1, 1, 1, device=real.device, dtype=real.dtype, generator=generator)
    between = torch.lerp(augmented, real, place).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(score(between).sum(), between, create_graph=True)
    norms: Tensor = torch.linalg.vector_norm(gradient.flatten(1), dim=1)
    return (norms - 1).square().mean()


def relaxed_coins(probabilities: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """Draw from the relaxed Bernoulli law: in (0, 1), the closer to a coin the lower the temperature.

    Probabilities are in (0, 1) and of any shape, which is that of the result; it is differentiable in them.
    """
    uniform = torch.rand(probabilities.shape, device=probabilities.device, generator=generator)
    noise = uniform.clamp(1e-6, 1 - 1e-6).logit()
    return ((probabilities.logit() + noise) / temperature).sigmoid()


def operation_outputs(
    images: Tensor, levels: Tensor, space: ImageSpace, mapping: LevelMapping, generator: torch.Generator
) -> Tensor:
    """Apply all O operations to every image: (N, C, H, W) and levels (N, O), both in [0, 1], to (N, O, C, H, W).

    Where an operation has no gradient, a straight-through one takes its place: 1 from every pixel to the level, and
    that of the identity to the images.
    """
    operations = _searched(images.device).expand_as(levels)
    magnitudes = mapping.magnitudes(operations, levels, generator)
    copies = images[:, None].expand(-1, len(SEARCHED), -1, -1, -1).flatten(0, 1)
    outputs = space.apply(copies, operations.flatten(), magnitudes.flatten(), generator)
    outputs = outputs.unflatten(0, levels.shape)
    through_images = (images - images.detach())[:, None]
    through_levels = (levels - levels.detach())[..., None, None, None]
    outputs = torch.where(_listed(NO_GRADIENT_IN_IMAGES, images.device), outputs.detach() + through_images, outputs)
    return torch.where(_listed(NO_GRADIENT_IN_LEVELS, images.device), outputs + through_levels, outputs)


@cache
def _searched(device: torch.device) -> Tensor:
    """Operations of the search, in their order; (O,)."""
    return torch.tensor(SEARCHED, device=device)


@cache
def _listed(names: tuple[str, ...], device: torch.device) -> Tensor:
    """Which operations are among those named; (O, 1, 1, 1) bool."""
    listed = [OPERATIONS[index] in names for index in SEARCHED]
    return torch.tensor(listed, device=device)[:, None, None, None]


def mixture(images: Tensor, outputs: Tensor, fractions: Tensor, coins: Tensor) -> Tensor:
    """Mix what the operations of a stage return: Σ fraction·(coin·output + (1 − coin)·image).

    Outputs are (N, O, C, H, W); fractions, with the sum 1 for each image, and coins in [0, 1] are (N, O).
    """
    applied = fractions * coins
    kept = 1 - applied.sum(1)
    return torch.einsum("no,nochw->nchw", applied, outputs) + kept[:, None, None, None] * images
