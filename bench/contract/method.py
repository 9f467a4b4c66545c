"""The contract of an augmentation learner. Every hook has a default, so a method overrides only what it is about."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import Draw, Space, to_unit_interval
from augbench.bench.augmentation.image_operations import ImageSpace
from augbench.bench.augmentation.network_input import NetworkInput
from augbench.bench.augmentation.policy_description import PolicyDescription
from augbench.bench.common.errors import UserError, shortened
from augbench.bench.contract.search import SearchProblem

Policy = Callable[[Tensor, torch.Generator], Tensor]
"""Draws one transform for each of N images (N, C, H, W), uint8, and returns them transformed, float in [0, 1]."""


class Hyperparameters(BaseModel):
    """Base of a method's hyperparameters. Each has a type, limits and a description; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


H = TypeVar("H", bound=Hyperparameters)


@dataclass(frozen=True)
class RunContext:
    """What a method may know of the run that it is part of; `augbench.small_context` makes one for tests.

    Attributes:
        space: The affine space at the size of the images.
        channels: Colour channels of the images; image operations take 1 or 3.
        classes: Number of classes.
        train_size: Number of training images.
        epochs: Epochs of the training phase; where a budget is equal in image passes, those of the method's copies.
        baseline_copies: Copies of each image in a batch for methods that have no number of their own.
        device: Where images, network and learned parameters live.
        network_input: What the network takes; given where the training loop takes normalised images too.
        label_smoothing: Share of each training label that is spread evenly over all classes.
    """

    space: Space
    channels: int
    classes: int
    train_size: int
    epochs: int
    baseline_copies: int
    device: torch.device
    network_input: NetworkInput | None = None
    label_smoothing: float = 0.0

    @property
    def image_space(self) -> ImageSpace:
        """The space of image operations at the size of the images."""
        return ImageSpace(self.space.image_size)


@dataclass(frozen=True)
class AugmentedBatch:
    """Augmented copies of a batch.

    They stand copy by copy: two copies of the images a, b, c are the rows a₀ b₀ c₀ a₁ b₁ c₁, as `repeat` makes them.

    Attributes:
        images: M copies of B images, float in [0, 1] or normalised; (M·B, C, H, W).
        draw: The M·B draws that made them, if they came from the affine space.
        normalised: Whether images are as `RunContext.network_input` says, instead of in [0, 1].
    """

    images: Tensor
    draw: Draw | None = None
    normalised: bool = False


class Method(Generic[H]):
    """An augmentation learner.

    The training loop calls its hooks in this order::

        wrap_network, search (if `searches`)
        each epoch:  start_epoch
            each step:  augment, loss, regulariser, after_backward
            after_epoch
        evaluation:  test_policy, sample_transforms, describe_policy

    What the method learns goes into `learnable`, optimisers of its own into `optimizers`: both are saved and restored
    with the run.

    Attributes:
        name: The registered name; set by the decorator.
        version: To be raised whenever results change; part of a run's identity.
        title: One line for tables and lists.
        paper: Where the method was published.
        deviations: What differs from the paper or its code, and why.
        searches: Whether there is a search phase before training.
        own_base: Steps of a budget's `base` that the method itself applies to every image, such as `("flip",)`: a plan
            says it if the base has them, too.
        hyperparameters_type: The class of its hyperparameters.
        quick_hyperparameters: Values with which a search takes seconds, for `augbench check method` and tests.
        smooths_labels: Whether a `loss` of its own takes account of `context.label_smoothing`; else budgets with label
            smoothing are refused.

    Examples:
        A method that darkens each copy at random:

        >>> import torch
        >>> from augbench import AugmentedBatch, Hyperparameters, Method, repeat, small_context, to_unit_interval
        >>> class Darkened(Method[Hyperparameters]):
        ...     def augment(self, images, generator):
        ...         copies = to_unit_interval(repeat(images, self.copies))
        ...         return AugmentedBatch(copies * torch.rand(len(copies), 1, 1, 1, generator=generator))
        >>> method = Darkened(Hyperparameters(), small_context(copies=2))
        >>> images = torch.zeros(8, 1, 14, 14, dtype=torch.uint8)
        >>> method.augment(images, torch.Generator()).images.shape
        torch.Size([16, 1, 14, 14])
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    title: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    deviations: ClassVar[tuple[str, ...]] = ()
    searches: ClassVar[bool] = False
    own_base: ClassVar[tuple[str, ...]] = ()
    hyperparameters_type: ClassVar[type[Hyperparameters]] = Hyperparameters
    quick_hyperparameters: ClassVar[Mapping[str, Any]] = {}
    smooths_labels: ClassVar[bool] = False

    def __init__(self, hyperparameters: H, context: RunContext) -> None:
        self.hyperparameters = hyperparameters
        self.context = context
        self.learnable: dict[str, Tensor] = {}
        self.optimizers: dict[str, torch.optim.Optimizer] = {}

    @property
    def copies(self) -> int:
        """Augmented copies M of each image in a batch."""
        return self.context.baseline_copies

    def search(self, problem: SearchProblem) -> None:
        """Search for a policy before training; what is found goes into `learnable`."""

    def wrap_network(self, network: nn.Module) -> nn.Module:
        """Return the network to train, for methods that change or multiply it."""
        return network

    def start_epoch(self, epoch: int) -> None:
        """Anneal; `epoch` counts from 0. Depend on nothing but the epoch, so that a run can be resumed."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Make the augmented copies of a batch.

        Args:
            images: (B, C, H, W), uint8.
            generator: Source of randomness on the images' device.
        """
        return AugmentedBatch(to_unit_interval(repeat(images, self.copies)))

    def augment_indexed(self, images: Tensor, indices: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Make the copies of the images with these indices, as the training loop asks for them.

        Override it only to spare the gather; it must make and draw the same as `augment`.

        Args:
            images: All training images; (N, C, H, W), uint8.
            indices: Which of them are in the batch; (B,).
            generator: Source of randomness on the images' device.
        """
        return self.augment(images.index_select(0, indices), generator)  # faster than images[indices]

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Loss of each copy, here cross-entropy with the budget's label smoothing.

        Override it with `smooths_labels` if yours smooths labels too.

        Args:
            logits: (M, B, classes).
            labels: (B,).

        Returns:
            (M, B).
        """
        copies, batch, classes = logits.shape
        smoothing = self.context.label_smoothing
        repeated = labels.repeat(copies)
        flat = F.cross_entropy(logits.reshape(-1, classes), repeated, reduction="none", label_smoothing=smoothing)
        return flat.view(copies, batch)

    def regulariser(self) -> Tensor | None:
        """Return what is added to the mean loss before the backward pass, a scalar, or nothing."""
        return None

    def after_backward(self, losses: Tensor, copies: AugmentedBatch) -> None:
        """Step the learned parameters; gradients of `learnable` are there.

        Args:
            losses: Loss of each copy, without gradient; (M, B).
            copies: What `augment` returned.
        """

    def after_epoch(self, epoch: int) -> None:
        """End an epoch; `epoch` counts from 0."""

    def test_policy(self) -> Policy | None:
        """Return what test-time augmentation draws from, or None for methods without a policy to draw from."""
        return None

    def sample_transforms(self, count: int, generator: torch.Generator) -> Tensor | None:
        """Draw from the distribution of the method's transforms of the plane: what a planted symmetry is compared with.

        Args:
            count: Number of draws N.
            generator: Source of randomness on the context's device.

        Returns:
            Affine maps g in the coordinates of `Space`, (N, 2, 3), with (g I)(x) = I(g⁻¹x); None for methods whose
            images are not those of a map of the plane.
        """
        return None

    def describe_policy(self) -> PolicyDescription | None:
        """Describe the policy in numbers: what `augbench export` writes for use elsewhere.

        Draws from the description must have the law of the method's own draws; `augbench check method` compares them.

        Returns:
            An `AffinePolicy` or an `OperationPolicy`; None for methods that have no policy, or one that neither of them
            can describe.
        """
        return None

    def learned(self) -> dict[str, float]:
        """Name the learned numbers for the trajectory.

        Keys are `probability/<block>` in [0, 1] and `range/<block>`, the half-width of a symmetric uniform
        distribution in the unit of the block; other keys are kept as they are, and drawn over the epochs where
        training learns them.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed run needs of the method, as tensors and plain values."""
        return {
            "learnable": {name: tensor.detach().clone() for name, tensor in self.learnable.items()},
            "optimizers": {name: deepcopy(optimizer.state_dict()) for name, optimizer in self.optimizers.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            ValueError: If a tensor of `learnable` had another shape when it was saved. A method whose search decides
                on shapes restores them itself, in an override of this function.
        """
        with torch.no_grad():
            for name, tensor in self.learnable.items():
                saved = state["learnable"][name]
                if saved.shape != tensor.shape:
                    raise ValueError(f"{name} was saved with shape {tuple(saved.shape)}, not {tuple(tensor.shape)}.")
                tensor.copy_(saved)
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])


class SharedSpaceMethod(Method[H]):
    """A learner whose transforms are draws from the affine space: `draw` says which, the rest follows.

    Examples:
        A method that mirrors every other copy, torchvision's `RandomHorizontalFlip(p=0.5)`:

        >>> import torch
        >>> from augbench import Hyperparameters, SharedSpaceMethod, small_context
        >>> class Flipped(SharedSpaceMethod[Hyperparameters]):
        ...     def draw(self, count, generator):
        ...         space = self.context.space
        ...         flip = torch.tensor([float(block.name == "flip") for block in space.blocks])
        ...         return space.sample(count, flip, space.maxima(), generator)
        >>> method = Flipped(Hyperparameters(), small_context())
        >>> method.sample_transforms(5, torch.Generator()).shape
        torch.Size([5, 2, 3])
    """

    def draw(self, count: int, generator: torch.Generator) -> Draw:
        """Draw `count` transforms, one for each image, differentiable in what is learned by gradients."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to draw: override `draw`.")

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Make the augmented copies, each with a draw of its own."""
        draw = self.draw(self.copies * len(images), generator)
        return AugmentedBatch(self.context.space.apply(images, draw), draw)

    def augment_indexed(self, images: Tensor, indices: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Make the same copies at once, normalised where the training loop takes that."""
        if type(self).augment is not SharedSpaceMethod.augment:
            return super().augment_indexed(images, indices, generator)
        space, form = self.context.space, self.context.network_input
        draw = self.draw(self.copies * len(indices), generator)
        output = space.apply(images, draw, indices=indices, network_input=form)
        return AugmentedBatch(output, draw, normalised=form is not None)

    def test_policy(self) -> Policy | None:
        """Draw as in training, without gradients."""

        @torch.no_grad()
        def transform(images: Tensor, generator: torch.Generator) -> Tensor:
            return self.context.space.apply(images, self.draw(len(images), generator))

        return transform

    def sample_transforms(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw as in training."""
        return self.context.space.matrices(self.draw(count, generator)).detach()


def check_label_smoothing(method_type: type[Method[Any]], smoothing: float) -> None:
    """Make sure that a method's own loss does not silently lose a budget's label smoothing.

    Raises:
        UserError: If it would.
    """
    if smoothing and method_type.loss is not Method.loss and not method_type.smooths_labels:
        raise UserError(
            f"The method {method_type.name!r} has a `loss` of its own, which label_smoothing = {smoothing:g} does not "
            "reach. Leave label_smoothing out of the budget; or, if the `loss` calls `super().loss` or looks at "
            "`self.context.label_smoothing` itself, say so in its class: smooths_labels = True."
        )


def learned_numbers(method: Method[Any], said: Mapping[str, Any] | None = None) -> dict[str, float]:
    """Return what a method has learned as Python numbers.

    Args:
        method: The method.
        said: What its `learned` has returned; asked now by default.

    Raises:
        UserError: If a value is not one number.
    """
    numbers = {key: single_number(value) for key, value in (method.learned() if said is None else said).items()}
    for key, value in numbers.items():
        if not isinstance(value, int | float):
            raise UserError(
                f"`learned` of the method {method.name!r} says {shortened(repr(value))} for {key!r}, a "
                f"{type(value).__name__}. Return one number for each name: a Python number, or an array or tensor with "
                "one element."
            )
    return numbers


def single_number(value: Any) -> Any:
    """Take the number out of a NumPy array or a tensor with one element; leave everything else as it is."""
    return value.item() if isinstance(value, np.generic | np.ndarray | Tensor) and np.prod(value.shape) == 1 else value


def repeat(images: Tensor, copies: int) -> Tensor:
    """Repeat a batch copy by copy: (B, …) becomes (M·B, …)."""
    return images if copies == 1 else images.repeat(copies, *(1,) * (images.ndim - 1))
