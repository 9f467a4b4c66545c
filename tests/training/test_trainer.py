"""The method contract: everything that a learner may need, in one made-up learner, saved and resumed."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, Method, Policy, RunContext, repeat
from augbench.bench.contract.search import SearchProblem
from augbench.bench.data.dataset import Split, split_off_validation
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.registry.registry import Entry
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.trainer import new_trainer
from augbench.bench.training.worker import execute, load_dataset
from augbench.results.model.frame import load_runs

pytestmark = pytest.mark.usefixtures("few_digits", "everything")

MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]


class Ensemble(nn.Module):
    """Two networks whose logits are averaged, with dropout, which draws from the global generator."""

    def __init__(self, members: list[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.dropout = nn.Dropout(0.1)

    def forward(self, images: Tensor) -> Tensor:
        """Average the members' logits (N, classes)."""
        return self.dropout(torch.stack([member(images) for member in self.members])).mean(0)


class Everything(Method[Hyperparameters]):
    """Searches, wraps the network, makes several copies, and learns a brightness with an optimiser of its own."""

    name = "everything"
    searches = True

    def __init__(self, hyperparameters: Hyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.brightness = torch.tensor(0.5, device=context.device, requires_grad=True)
        self.found = torch.zeros(1, device=context.device)
        self.learnable = {"brightness": self.brightness, "found": self.found}
        self.optimizers = {"brightness": torch.optim.Adam([self.brightness], lr=0.01)}

    @property
    def copies(self) -> int:
        """Three copies."""
        return 3

    def search(self, problem: SearchProblem) -> None:
        """Remember the loss of an untrained network on the validation images."""
        self.sizes = len(problem.train), len(problem.validation)
        logits = problem.build_network()(to_unit_interval(problem.validation.images))
        problem.count_passes(len(problem.validation))
        self.found.fill_(F.cross_entropy(logits, problem.validation.labels).item())

    def wrap_network(self, network: nn.Module) -> nn.Module:
        """Make an ensemble of two that start apart."""
        other = nn.Sequential(nn.Flatten(), nn.Linear(14 * 14, 10))
        return Ensemble([network, other])

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Change the brightness by a random share of what is learned."""
        images = to_unit_interval(repeat(images, self.copies))
        noise = torch.rand(len(images), 1, 1, 1, device=images.device, generator=generator)
        return AugmentedBatch(images * (1 + self.brightness * noise))

    def regulariser(self) -> Tensor:
        """Reward brightness."""
        return -0.1 * self.brightness

    def after_backward(self, losses: Tensor, copies: AugmentedBatch) -> None:
        """Step the brightness."""
        assert losses.shape == (self.copies, len(copies.images) // self.copies)
        assert self.brightness.grad is not None
        self.optimizers["brightness"].step()
        self.optimizers["brightness"].zero_grad()

    def test_policy(self) -> Policy:
        """Draw as in training."""
        return lambda images, generator: to_unit_interval(images) * (1 + self.brightness.detach() * 0.5)

    def learned(self) -> dict[str, float]:
        """Brightness and what the search found."""
        return {"brightness": self.brightness.item(), "found": self.found.item()}


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the made-up learner for one test."""
    monkeypatch.setitem(methods().entries, "everything", Entry("everything", Everything, "a test"))


def result_of(folder: RunFolder) -> dict[str, Any]:
    result = folder.read_result()
    assert result is not None
    return {key: value for key, value in result.items() if key not in ("seconds", "attempts")}


def test_a_learner_that_uses_every_hook_can_be_interrupted_anywhere(
    make_spec: MakeSpec,
    make_folder: MakeFolder,
    settings: ExecutionSettings,
    stop: StopSignal,
    stop_after: Callable[[int], StopSignal],
) -> None:
    spec = make_spec("everything", epochs=2)
    whole, parts = make_folder(spec), make_folder(spec)
    assert execute(whole, settings, stop) is RunState.DONE, whole.read_status()
    for questions in (3, 4, 6, 2):
        assert execute(parts, settings, stop_after(questions)) is RunState.CANCELLED
        torch.manual_seed(123)
    assert execute(parts, settings, stop) is RunState.DONE
    assert result_of(parts) == result_of(whole)
    with np.load(parts.predictions) as first, np.load(whole.predictions) as second:
        assert all(np.array_equal(first[name], second[name]) for name in second)


@pytest.mark.parametrize(
    ("budget", "passes", "steps", "epochs"),
    [  # of none with one copy and of scale with four, by hand, for 400 images
        ({}, (3200, 12800), (80, 80), (8, 8)),
        ({"equal": "passes"}, (3200, 3200), (80, 20), (8, 2)),
        ({"copies_in_batch": True}, (3200, 12800), (80, 320), (8, 8)),
        ({"equal": "passes", "copies_in_batch": True}, (3200, 3200), (80, 80), (8, 2)),
    ],
)
def test_what_budgets_have_equal(
    tmp_path: Path,
    make_spec: MakeSpec,
    settings: ExecutionSettings,
    stop: StopSignal,
    budget: dict[str, Any],
    passes: tuple[int, int],
    steps: tuple[int, int],
    epochs: tuple[int, int],
) -> None:
    for number, method in enumerate(("none", "scale")):
        spec = make_spec(method).model_copy(update={"budget": Budget(epochs=8, batch_size=40, **budget)})
        folder = RunFolder(tmp_path / "runs" / spec.folder_name)
        folder.write_spec(spec)
        assert execute(folder, settings, stop) is RunState.DONE
        assert result_of(folder)["image_passes"]["training"] == passes[number]
        data = load_dataset(spec.dataset, settings.data)
        assert new_trainer(spec, data, torch.device("cpu")).total_steps == steps[number]
        assert len(folder.read_metrics()) == epochs[number]
    finished = load_runs(tmp_path).finished()
    assert finished["comparison"].nunique() == 1 and len(finished) == 2


@pytest.mark.parametrize("copies", range(1, 9))
def test_copies_that_do_not_divide_are_rounded(copies: int) -> None:
    budget = Budget(epochs=10, batch_size=4, equal="passes", copies_in_batch=True)
    assert 10 <= copies * budget.epochs_with(copies) < 10 + copies
    assert budget.images_in_batch(copies) == max(1, 4 // copies)


def test_a_method_knows_how_many_epochs_it_has(make_spec: MakeSpec) -> None:
    spec = make_spec("scale", copies=2, joint_share=0.5)
    spec = spec.model_copy(update={"budget": Budget(epochs=8, equal="passes")})
    data = load_dataset(spec.dataset, Path())
    trainer = new_trainer(spec, data, torch.device("cpu"))
    assert trainer.method.context.epochs == trainer.epochs == 4
    same = spec.model_copy(update={"budget": Budget(epochs=4)})
    other = new_trainer(same, data, torch.device("cpu"))
    weights = zip(trainer.network.state_dict().values(), other.network.state_dict().values(), strict=True)
    assert all(torch.equal(one, two) for one, two in weights), "starts are the same whatever is equal"


def test_a_search_that_is_over_is_not_repeated_after_a_kill(
    make_spec: MakeSpec,
    make_folder: MakeFolder,
    settings: ExecutionSettings,
    stop: StopSignal,
    stop_after: Callable[[int], StopSignal],
) -> None:
    folder = make_folder(make_spec("everything"))
    assert execute(folder, settings, stop_after(2)) is RunState.CANCELLED  # in the search: nothing of it is kept
    assert torch.load(folder.checkpoint, weights_only=True)["searched"] is False
    assert execute(folder, settings, stop_after(3)) is RunState.CANCELLED  # after the first step
    assert torch.load(folder.checkpoint, weights_only=True)["searched"] is True
    execute(folder, settings, stop)
    result = folder.read_result()
    assert result is not None
    assert result["image_passes"]["search"] == 80  # what was lost is not counted, as steps after a checkpoint are not


def test_a_learned_tensor_of_another_shape_is_not_restored(make_spec: MakeSpec, settings: ExecutionSettings) -> None:
    data = load_dataset(make_spec().dataset, settings.data)
    method = new_trainer(make_spec("everything"), data, torch.device("cpu")).method
    state = method.state_dict()
    state["learnable"]["found"] = torch.zeros(())
    with pytest.raises(ValueError, match="found was saved with shape"):
        method.load_state_dict(state)


def test_a_network_of_the_method_itself_depends_on_nothing_but_the_seed(
    make_spec: MakeSpec, settings: ExecutionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load_dataset(make_spec().dataset, settings.data)
    seen = []

    def start(self: Everything, hyperparameters: Hyperparameters, context: RunContext) -> None:
        Method.__init__(self, hyperparameters, context)
        seen.append(torch.rand(()).item())

    monkeypatch.setattr(Everything, "__init__", start)
    for seed in (0, 0, 1):
        torch.rand(1)  # what an earlier run in the same process has drawn
        new_trainer(make_spec("everything", seed=seed), data, torch.device("cpu"))
    assert seen[0] == seen[1] != seen[2]


def test_search_training_and_evaluation_are_counted_apart(
    make_spec: MakeSpec, make_folder: MakeFolder, settings: ExecutionSettings, stop: StopSignal
) -> None:
    folder = make_folder(make_spec("everything", epochs=1))
    execute(folder, settings, stop)
    result = folder.read_result()
    assert result is not None
    assert result["image_passes"] == {
        "search": 80,
        "training": 3 * 400,
        "evaluation": 100 * (1 + 2 * 2 + 3),
        "compilation": 0,
    }
    (seconds,) = result["seconds"].values()
    assert all(seconds[phase] > 0 for phase in ("search", "training", "evaluation"))
    assert seconds["compilation"] == 0
    assert result["learned"]["found"] > 1, "the search's finding is kept"
    assert result["search_images"]["images"] == 400, "it looks at training and validation images"
    mean, deviation = load_dataset(folder.read_spec().dataset, settings.data).mean_and_deviation
    assert result["channels"] == {"mean": mean.tolist(), "deviation": deviation.tolist()}
    assert result["learned"]["brightness"] != 0.5


def test_a_search_sees_training_images_only(make_spec: MakeSpec, settings: ExecutionSettings) -> None:
    spec = make_spec("everything")
    data = load_dataset(spec.dataset, settings.data)
    trainer = new_trainer(spec, data, torch.device("cpu"))
    seen: list[SearchProblem] = []
    trainer.method.search = seen.append  # type: ignore[method-assign]
    trainer._search(Mock())
    (problem,) = seen
    assert problem.images.images.data_ptr() == data.train.images.data_ptr(), "no copy on the way"
    both = torch.cat((problem.train.images, problem.validation.images)).flatten(1)
    assert torch.equal(torch.unique(both, dim=0), torch.unique(data.train.images.flatten(1), dim=0))
    assert len(both) == len(data.train)


def test_the_validation_split_is_fixed_disjoint_and_keeps_the_classes() -> None:
    labels = torch.arange(10).repeat_interleave(40)
    train = Split(torch.arange(400).to(torch.uint8).view(400, 1, 1, 1), labels)
    rest, validation = split_off_validation(train, 0.25, seed=3)
    assert validation.labels.bincount().tolist() == [10] * 10
    assert rest.labels.bincount().tolist() == [30] * 10
    again = split_off_validation(train, 0.25, seed=3)[1]
    other = split_off_validation(train, 0.25, seed=4)[1]
    assert torch.equal(validation.images, again.images)
    assert not torch.equal(validation.images, other.images)


def test_statistics_are_those_of_the_training_images(make_spec: MakeSpec, settings: ExecutionSettings) -> None:
    data = load_dataset(make_spec().dataset, settings.data)
    mean, deviation = data.mean_and_deviation
    pixels = data.train.images.numpy() / 255
    assert math.isclose(mean.item(), pixels.mean(), rel_tol=1e-6)
    assert math.isclose(deviation.item(), pixels.std(), rel_tol=1e-6)
