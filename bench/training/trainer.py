"""The one training loop. It can stop after any step and go on from there, bit for bit."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from augbench.bench.augmentation import fused_resampling
from augbench.bench.augmentation.base import BaseAugmentation
from augbench.bench.augmentation.network_input import NetworkInput
from augbench.bench.common.errors import DivergedError, RetryableError
from augbench.bench.common.randomness import (
    derived_seed,
    epoch_order,
    generator,
    global_state,
    restore_global_state,
    seed_globally,
)
from augbench.bench.contract.method import (
    Method,
    RunContext,
    SharedSpaceMethod,
    check_label_smoothing,
    learned_numbers,
)
from augbench.bench.contract.search import SearchProblem
from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.acceleration import Acceleration
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.predictors.base import Predictor
from augbench.bench.training.base import augmented, new_base
from augbench.bench.training.building import build_network, mean_over_members, new_predictor
from augbench.bench.training.cost import Cost
from augbench.bench.training.epoch_sums import EpochSums, new_sums, restored_sums
from augbench.bench.training.evaluation import predict
from augbench.bench.training.forward_pass import ForwardPass
from augbench.bench.training.lookahead import Lookahead
from augbench.bench.training.optimizer import clip_gradient, network_optimizer, set_learning_rate


class Observer(Protocol):
    """Follows a run's progress. `after_step` and `during_search` may raise StopRequested."""

    def during_search(self, trainer: "Trainer") -> None:
        """Some images have gone through a network in the search phase; nothing of it can be saved yet."""

    def after_step(self, trainer: "Trainer") -> None:
        """A step is done."""

    def after_phase(self, trainer: "Trainer") -> None:
        """The search or an epoch is over: a good moment to save the state."""


@dataclass
class Trainer:
    """A run in the course of training.

    Attributes:
        spec: What the run is.
        data: The data set, on the device.
        network: The network, which takes images in [0, 1].
        forward_pass: The network as a training step runs it.
        method: The augmentation learner.
        predictor: What the network was made into.
        optimizer: Optimiser of the network.
        lookahead: The average that the network is moved to, if its budget asks for one.
        augmentation: Source of the augmentation's randomness.
        base: What is done to every image whichever the method, with a source of its own.
        cost: Clocks and counters.
        step: Steps done.
        searched: Whether the search phase is over.
        search_images: How many training images the search asked for and a checksum of which; empty without a search.
        rows: One row of numbers for each finished epoch.
        learned_at_start: Learned numbers before the first step, for the record; empty where they are searched for.
    """

    spec: RunSpec
    data: ImageData
    network: nn.Module
    forward_pass: ForwardPass
    method: Method[Any]
    predictor: Predictor[Any]
    optimizer: torch.optim.Optimizer
    lookahead: Lookahead | None
    augmentation: torch.Generator
    base: BaseAugmentation
    cost: Cost
    sums: EpochSums
    step: int = 0
    searched: bool = False
    search_images: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    learned_at_start: dict[str, float] = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        """Passes over the training images, each with as many copies as the method makes, for each member."""
        return self.spec.budget.epochs_with(self.method.copies * self.predictor.members)

    @property
    def batch_size(self) -> int:
        """Different images in a batch."""
        return self.spec.budget.images_in_batch(self.method.copies)

    @property
    def steps_per_epoch(self) -> int:
        """Batches in an epoch; the last one may be smaller."""
        return math.ceil(len(self.data.train) / self.batch_size)

    @property
    def total_steps(self) -> int:
        """Steps of the whole training phase."""
        return self.steps_per_epoch * self.epochs

    @property
    def device(self) -> torch.device:
        """Where everything lives."""
        return self.cost.device

    def train(self, observer: Observer) -> None:
        """Search where the method does, then train to the end of the budget.

        Raises:
            RetryableError: If the budget asks for what the device cannot do.
            DivergedError: If the mean loss of an epoch or a learned number is not finite.
            StopRequested: Where the observer asks for it.
        """
        if self.method.searches and not self.searched:
            self._search(observer)
            observer.after_phase(self)
        if self.step < self.total_steps:
            self.compile()
        while self.step < self.total_steps:
            with self.cost.phase("training"):
                self._train_epoch(observer)
            if self.spec.protocol.evaluated_on == "validation":
                self._validate()
            observer.after_phase(self)
            observer.after_step(self)

    def _validate(self) -> None:
        """Add to the last epoch's row its accuracy on the validation images, by which a tuning can stop a run early."""
        self.network.eval()
        held_out = self.data.test
        with self.cost.phase("evaluation"):
            right = predict(self.network, held_out.images).argmax(-1) == held_out.labels
            self.rows[-1]["validation_accuracy"] = right.float().mean().item()
        self.cost.count("evaluation", len(held_out))

    def _search(self, observer: Observer) -> None:
        def count(images: int) -> None:
            self.cost.count("search", images)
            observer.during_search(self)

        # Networks of a search start, and drop out, from a stream of their own: the same if it is begun again.
        self.cost.forget("search")
        forked = torch.random.fork_rng([self.device] if self.device.type == "cuda" else [])
        with self.cost.phase("search"), forked:
            seed_globally(derived_seed(self.spec.seed, "networks of the search"), self.device)
            problem = SearchProblem(
                images=self.data.train,
                held_out=self.data.validation_mask(),
                build_network=self._build_network,
                generator=generator(self.spec.seed, "search", self.device),
                count_passes=count,
                base=replace(self.base, source=generator(self.spec.seed, "base of the search", self.device)),
            )
            self.method.search(problem)
        self.search_images = problem.asked_for()
        self.searched = True

    def _build_network(self, name: str | None = None, outputs: int | None = None) -> nn.Module:
        channels_last = self.spec.budget.acceleration.channels_last
        return build_network(name or self.spec.network.name, self.data, self.device, outputs, channels_last)

    @property
    def compiles(self) -> bool:
        """Whether there is something to be compiled before the first step."""
        return self.spec.budget.acceleration.is_prepared or self._has_kernels

    @property
    def _has_kernels(self) -> bool:
        """Whether Triton's kernels resample the images."""
        return isinstance(self.method, SharedSpaceMethod) and fused_resampling.usable(self.device)

    def compile(self) -> None:
        """Compile the kernels of a GPU's resampling and what the budget has compiled, on a clock of its own.

        `train` does it before its first step. What training ends with depends on it through the kernels alone.

        Raises:
            RetryableError: If the budget asks for what the device cannot do.
        """
        if not self.compiles:
            return
        images, context = self.data.train.images, self.method.context
        with self.cost.phase("compilation"):
            if self._has_kernels:
                fused_resampling.compile_kernels(images, context.space.padding, context.network_input)
            if self.spec.budget.acceleration.is_prepared:
                self._prepare_passes()

    def _prepare_passes(self) -> None:
        """Augment a real batch and put it through the network; the smaller, last one of an epoch is not compiled for.

        The batch is one of the first epoch, also where a run goes on, so that it has the same program as before: images
        have a gradient as long as transforms are learned.
        """
        with self._restoring_state():
            self.method.start_epoch(0)
            self.network.train()
            images = self.data.train.images
            batch = torch.arange(min(self.batch_size, len(images)), device=self.device)
            source = generator(self.spec.seed, "compilation", self.device)
            base = replace(self.base, source=source)
            self.forward_pass.prepare(augmented(self.method, base, images, batch, source)[1])

    @contextmanager
    def _restoring_state(self) -> Iterator[None]:
        """Set back what passes through network and method change: random state, buffers, gradients, learned state."""
        buffers = [buffer.clone() for buffer in self.network.buffers()]
        random, learner = global_state(self.device), self.method.state_dict()
        yield
        for buffer, before in zip(self.network.buffers(), buffers, strict=True):
            buffer.copy_(before)
        self.optimizer.zero_grad(set_to_none=True)
        self.method.load_state_dict(learner)
        restore_global_state(random, self.device)

    def _train_epoch(self, observer: Observer) -> None:
        epoch, done = divmod(self.step, self.steps_per_epoch)
        self.method.start_epoch(epoch)
        self.network.train()
        if not done:
            self.predictor.start_epoch()
        order = epoch_order(self.spec.seed, epoch, len(self.data.train)).to(self.device, non_blocking=True)
        for batch in order.split(self.batch_size)[done:]:
            self.train_step(batch)
            self.step += 1
            if self.step % self.steps_per_epoch:  # the last step's state is complete only once the epoch is closed
                observer.after_step(self)
        self._close_epoch(epoch)

    def train_step(self, batch: Tensor) -> None:
        """Take one optimisation step on the training images with these indices; (B,)."""
        labels = self.data.train.labels[batch]
        self.optimizer.zero_grad(set_to_none=True)
        copies, seen = augmented(self.method, self.base, self.data.train.images, batch, self.augmentation)
        logits = self.forward_pass(seen).view(self.predictor.members, -1, len(batch), self.data.classes)
        losses = mean_over_members([self.method.loss(of_member, labels) for of_member in logits])
        progress = (self.step + 1) / self.total_steps
        regularisers = self.method.regulariser(), self.predictor.regulariser(progress)
        objective = sum((one for one in regularisers if one is not None), start=losses.mean())
        objective.backward()
        self.method.after_backward(losses.detach(), copies)
        set_learning_rate(self.optimizer, self.spec.budget.learning_rate_at(self.step, self.total_steps))
        clip_gradient(self.network, self.spec.budget)
        self.optimizer.step()
        if self.lookahead is not None:
            self.lookahead.after_step(self.step + 1, self.total_steps)
        self.cost.count("training", len(copies.images))
        self.sums.add(losses, logits.flatten(0, 1), labels, objective)

    def _close_epoch(self, epoch: int) -> None:
        self.method.after_epoch(epoch)
        loss, correct = self.sums.means()
        learned = learned_numbers(self.method)
        if not all(map(math.isfinite, (loss, *learned.values()))):
            raise DivergedError(
                f"Training diverged in epoch {epoch + 1} of {self.epochs}: the loss or a learned number is "
                "not finite. Lower the learning rate of the budget or of the method in the suite and run it again."
            )
        self.rows.append({"epoch": epoch + 1, "loss": loss, "accuracy": correct, "learned": learned})
        self.sums = new_sums(self.device)

    def state_dict(self) -> dict[str, Any]:
        """Everything that `load_state_dict` needs to go on bit for bit."""
        return {
            "identity": self.spec.identity,
            "device_type": self.device.type,
            "step": self.step,
            "searched": self.searched,
            "search_images": self.search_images,
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "method": self.method.state_dict(),
            "augmentation": self.augmentation.get_state(),
            "global": global_state(self.device),
            "base": self.base.source.get_state(),
            "sums": self.sums.state_dict(),
            "rows": self.rows,
            **({} if self.lookahead is None else {"lookahead": self.lookahead.average}),
            **self.cost.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            RetryableError: If it was saved on another type of device, whose random generators cannot go on here.
        """
        if state["device_type"] != self.device.type:
            raise RetryableError(
                f"The run started on {state['device_type']} and cannot resume on {self.device.type}, since random "
                f"numbers differ. Repeat the command with --device {state['device_type']}, or delete its folder to "
                "start over."
            )
        self.step, self.searched, self.rows = state["step"], state["searched"], list(state["rows"])
        self.search_images = state["search_images"]
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.method.load_state_dict(state["method"])
        if self.lookahead is not None:
            self.lookahead.load(state["lookahead"])
        self.augmentation.set_state(state["augmentation"].cpu())
        restore_global_state({name: value.cpu() for name, value in state["global"].items()}, self.device)
        if "base" in state:  # not in those of versions without one
            self.base.source.set_state(state["base"].cpu())
        self.sums = restored_sums(state["sums"], self.device)
        self.cost.load_state_dict(state)


def new_trainer(spec: RunSpec, data: ImageData, device: torch.device) -> Trainer:
    """Build a run at its beginning; the same seed gives the same network and data order for every method.

    Args:
        spec: What the run is.
        data: Its whole data set; a trial of a tuning gets its training images alone.
        device: Where everything is to live.
    """
    data = (data.for_tuning() if spec.protocol.evaluated_on == "validation" else data).to(device)
    method_type = methods().get(spec.method.name)
    check_label_smoothing(method_type, spec.budget.label_smoothing)
    context = RunContext(
        space=spec.protocol.space(data.image_size),
        channels=data.channels,
        classes=data.classes,
        train_size=len(data.train),
        epochs=spec.budget.epochs,
        baseline_copies=spec.budget.baseline_copies,
        device=device,
        network_input=_network_input(method_type, data, spec.budget.acceleration),
        label_smoothing=spec.budget.label_smoothing,
    )
    method = _new_method(spec, method_type, context)
    predictor = new_predictor(spec, data.image_size, data, method.copies)
    if (epochs := spec.budget.epochs_with(method.copies * predictor.members)) != context.epochs:
        method = _new_method(spec, method_type, replace(context, epochs=epochs))
    seed_globally(derived_seed(spec.seed, "network"), device)  # whatever the method's own start has drawn
    acceleration = spec.budget.acceleration
    plain = build_network(
        spec.network.name, data, device, channels_last=acceleration.channels_last, convert=predictor.convert
    )
    network = method.wrap_network(plain).to(device)
    return Trainer(
        spec=spec,
        data=data,
        network=network,
        forward_pass=ForwardPass(network, acceleration, device),
        method=method,
        predictor=predictor,
        optimizer=network_optimizer(network, spec.budget),
        lookahead=Lookahead(network) if spec.budget.lookahead else None,
        augmentation=generator(spec.seed, "augmentation", device),
        base=new_base(spec, data),
        cost=Cost(
            device,
            passes_of_an_image={"training": predictor.members, "evaluation": predictor.evaluation_passes},
        ),
        sums=new_sums(device),
        learned_at_start={} if method.searches else method.learned(),
    )


def _new_method(spec: RunSpec, method_type: type[Method[Any]], context: RunContext) -> Method[Any]:
    seed_globally(derived_seed(spec.seed, "method"), context.device)
    return method_type(method_type.hyperparameters_type.model_validate(spec.method.all_settings), context)


def _network_input(method_type: type[Method[Any]], data: ImageData, acceleration: Acceleration) -> NetworkInput | None:
    """Return what the network takes if one kernel can resample and normalise the images; else None."""
    wraps = method_type.wrap_network is not Method.wrap_network
    if wraps or not fused_resampling.usable(data.train.images.device):
        return None
    dtype = torch.bfloat16 if acceleration.precision == "bfloat16" else torch.float32
    return NetworkInput(*data.mean_and_deviation, dtype)
