"""The method that is checked, and the few runs of it that the checks look at."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from augbench.bench.conformance.problem import BUDGET, COLOUR, GREY, NETWORK, PROTOCOL, Problem, small_context
from augbench.bench.conformance.states import copied, seed_globally
from augbench.bench.contract.method import Method
from augbench.bench.contract.search import BuildNetwork, SearchProblem
from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import Component, RunSpec, method_component, network_component
from augbench.bench.registry.registry import Entry
from augbench.bench.training.stopping import StopRequested
from augbench.bench.training.trainer import Trainer, new_trainer


class StoppingObserver:
    """An observer of training that asks it to stop after so many steps, or once the search is over."""

    def __init__(self, steps: int | None = None, *, search_only: bool = False) -> None:
        self.left = steps
        self.search_only = search_only

    def during_search(self, trainer: Trainer) -> None:
        """Let it go on."""

    def after_step(self, trainer: Trainer) -> None:
        """Stop after the last step that is wanted."""
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                raise StopRequested

    def after_phase(self, trainer: Trainer) -> None:
        """Stop where only the search is wanted."""
        if self.search_only:
            raise StopRequested


def train(trainer: Trainer, observer: StoppingObserver) -> None:
    """Train until the end or until the observer asks to stop."""
    try:
        trainer.train(observer)
    except StopRequested:
        pass


@dataclass
class Search:
    """A search that was watched.

    Attributes:
        trainer: The run, its search over.
        found: State of the method right after the search.
        counted: Images that the method says went through a network.
        forwarded: Images that did go through the networks that it was given.
        changed: Which of its inputs it has changed.
    """

    trainer: Trainer
    found: dict[str, Any]
    counted: int
    forwarded: int
    changed: list[str]


class Recorder(StoppingObserver):
    """Copies a run's state at some steps and remembers which learned tensors got a gradient."""

    def __init__(self, wanted: tuple[int, ...]) -> None:
        super().__init__()
        self.wanted = wanted
        self.found: dict[str, Any] = {}
        self.checkpoints: dict[int, dict[str, Any]] = {}
        self.reached: set[str] = set()

    def watch(self, learnable: Mapping[str, Tensor]) -> None:
        """Be told of gradients."""
        for name, tensor in learnable.items():
            if tensor.requires_grad:
                tensor.register_hook(lambda gradient, name=name: self._note(name, gradient))

    def _note(self, name: str, gradient: Tensor) -> None:
        if gradient.isfinite().all() and gradient.count_nonzero() > 0:
            self.reached.add(name)

    def after_phase(self, trainer: Trainer) -> None:
        """Note what a search has found and watch what there is to be trained."""
        if trainer.step == 0:
            self.found = copied(trainer.method.state_dict())
            self.watch(trainer.method.learnable)

    def after_step(self, trainer: Trainer) -> None:
        """Copy the state where it is wanted."""
        if trainer.step in self.wanted:
            self.checkpoints[trainer.step] = copied(trainer.state_dict())


@dataclass
class Run:
    """A whole run, search and training, that was recorded.

    Attributes:
        trainer: The run at its end.
        data_before: Copy of the data set as it was before.
        learnable_at_start: What it was to learn, at the beginning.
        learnable_at_end: The same at the end.
        learned_at_start: What it called learned then.
        recorder: What was recorded on the way.
        end: State of the run at its end.
    """

    trainer: Trainer
    data_before: ImageData
    learnable_at_start: dict[str, Tensor]
    learnable_at_end: dict[str, Tensor]
    learned_at_start: dict[str, float]
    recorder: Recorder
    end: dict[str, Any]


@dataclass
class Subject:
    """A method with its hyperparameters on a device; what is costly is done once and kept.

    Attributes:
        target: The class.
        settings: Hyperparameters that differ from their defaults.
        device: Where it is checked.
        searches: The searches that were watched, by the kind of images.
        changed: Settings of the process that it has changed.
        threads: Threads that it has left behind.
    """

    target: type[Method[Any]]
    settings: Mapping[str, Any]
    device: torch.device
    searches: dict[str, Search] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    threads: list[str] = field(default_factory=list)

    @property
    def entry(self) -> Entry[Method[Any]]:
        """How catalogues are to list the class while it is checked."""
        return Entry(self.target.name, self.target, "the class that is checked")

    def alone(self, problem: Problem) -> Method[Any]:
        """Make the method as a run does, without the run."""
        context = small_context(problem.channels, problem.image_size, BUDGET.baseline_copies, str(self.device))
        settings = self.spec(problem).method.all_settings
        return self.target(self.target.hyperparameters_type.model_validate(settings), context)

    def spec(self, problem: Problem) -> RunSpec:
        """Specify a short run."""
        with methods().holding(self.entry):
            method = method_component(self.target.name, self.settings, "the check")
        dataset = Component(name=f"conformance-{problem.name}", version=1)
        network = network_component(NETWORK)
        return RunSpec(protocol=PROTOCOL, method=method, dataset=dataset, network=network, budget=BUDGET, seed=0)

    def trainer(self, problem: Problem, data: ImageData | None = None) -> Trainer:
        """Start a run."""
        with methods().holding(self.entry):
            return new_trainer(self.spec(problem), data or problem.data(), self.device)

    def ready(self, problem: Problem) -> Trainer:
        """Start a run, up to the first step; a method that searches has searched once, for all checks."""
        trainer = self.searched(problem).trainer if self.target.searches else self.trainer(problem)
        trainer.method.start_epoch(0)
        return trainer

    def searched(self, problem: Problem) -> Search:
        """Search once and watch it."""
        if problem.name not in self.searches:
            self.searches[problem.name] = self.search(problem, seed=1)
        return self.searches[problem.name]

    def search(self, problem: Problem, *, seed: int) -> Search:
        """Start a run and have it search; the seed of the global generators should make no difference."""
        seed_globally(seed)
        trainer = self.trainer(problem)
        watch = SearchSpy(trainer.method.search)
        trainer.method.search = watch.search  # type: ignore[method-assign]
        train(trainer, StoppingObserver(search_only=True))
        counted = trainer.cost.image_passes["search"]
        return Search(trainer, copied(trainer.method.state_dict()), counted, sum(watch.forwarded), watch.changed)

    @cached_property
    def run(self) -> Run:
        """Train once, on grey images, with other test images than elsewhere, and record it."""
        seed_globally(2)
        trainer = self.trainer(GREY, GREY.data(test_seed=2))
        steps = trainer.steps_per_epoch
        recorder = Recorder((2, steps, steps + 2))
        recorder.watch(trainer.method.learnable)
        before, start = deepcopy(trainer.data), _values(trainer.method.learnable)
        learned = dict(trainer.method.learned())
        train(trainer, recorder)
        end = _values(trainer.method.learnable)
        return Run(trainer, before, start, end, learned, recorder, copied(trainer.state_dict()))

    def run_in_colour(self) -> None:
        """Train for two steps on colour images."""
        train(self.ready(COLOUR), StoppingObserver(steps=2))


def _values(learnable: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in learnable.items()}


class SearchSpy:
    """Stands before a method's search, to see what it does with what it is given."""

    def __init__(self, search: Any) -> None:
        self.original = search
        self.forwarded: list[int] = []
        self.changed: list[str] = []

    def search(self, problem: SearchProblem) -> None:
        """Search and compare the inputs before and after."""
        problem = replace(problem, build_network=self._counting(problem.build_network))
        parts = {"training images": problem.train.images, "training labels": problem.train.labels}
        parts |= {"validation images": problem.validation.images, "validation labels": problem.validation.labels}
        before = {name: part.clone() for name, part in parts.items()}
        self.original(problem)
        self.changed = [name for name, part in parts.items() if not torch.equal(part, before[name])]

    def _counting(self, build: BuildNetwork) -> BuildNetwork:
        forwarded = self.forwarded

        # a function and no method of this class, since copies of a network copy whatever its hooks belong to
        def count(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            forwarded.append(len(inputs[0]))

        def build_network(name: str | None = None, outputs: int | None = None) -> nn.Module:
            network = build(name, outputs)
            network.register_forward_pre_hook(count)
            return network

        return build_network
