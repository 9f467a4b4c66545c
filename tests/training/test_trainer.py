"""The method contract: everything that a learner may need, in one made-up learner, saved and resumed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from short_runs import Runs, result_of
from torch import Tensor, nn
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.common.errors import UserError
from augbench.bench.conformance.subject import StoppingObserver, train
from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, Method, Policy, RunContext, repeat
from augbench.bench.contract.search import SearchProblem
from augbench.bench.data.dataset import Split, split_off_validation
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.suite import parse_suite
from augbench.bench.registry.registry import Entry
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.frame import load_runs


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


@pytest.mark.slow
@pytest.mark.usefixtures("everything")
def test_a_learner_that_uses_every_hook_can_be_interrupted_anywhere(
    runs: Runs, outcome: Callable[[RunFolder], dict[str, Any]]
) -> None:
    whole = runs.done("everything", epochs=2)
    assert outcome(runs.in_parts(runs.spec("everything", epochs=2), 3, 4, 6, 2)) == outcome(whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "passes", "steps", "epochs"),
    [  # of none with one copy and of scale with four, by hand, for 400 images
        ({}, (1600, 6400), (40, 40), (4, 4)),
        ({"equal": "passes"}, (1600, 1600), (40, 10), (4, 1)),
        ({"copies_in_batch": True}, (1600, 6400), (40, 160), (4, 4)),
        ({"equal": "passes", "copies_in_batch": True}, (1600, 1600), (40, 40), (4, 1)),
    ],
)
def test_what_budgets_have_equal(
    tmp_path: Path,
    runs: Runs,
    budget: dict[str, Any],
    passes: tuple[int, int],
    steps: tuple[int, int],
    epochs: tuple[int, int],
) -> None:
    for number, method in enumerate(("none", "scale")):
        spec = runs.spec(method).model_copy(update={"budget": Budget(epochs=4, batch_size=40, **budget)})
        folder = RunFolder(tmp_path / "runs" / spec.folder_name)
        folder.write_spec(spec)
        assert runs.execute(folder) is RunState.DONE
        assert result_of(folder)["image_passes"]["training"] == passes[number]
        assert runs.trainer(spec).total_steps == steps[number]
        assert len(folder.read_metrics()) == epochs[number]
    finished = load_runs(tmp_path).finished()
    assert finished["comparison"].nunique() == 1 and len(finished) == 2


@pytest.mark.parametrize("copies", range(1, 9))
def test_copies_that_do_not_divide_are_rounded(copies: int) -> None:
    budget = Budget(epochs=10, batch_size=4, equal="passes", copies_in_batch=True)
    assert 10 <= copies * budget.epochs_with(copies) < 10 + copies
    assert budget.images_in_batch(copies) == max(1, 4 // copies)


def test_a_method_knows_how_many_epochs_it_has(runs: Runs) -> None:
    spec = runs.spec("scale", copies=2, joint_share=0.5)
    trainer = runs.trainer(spec.model_copy(update={"budget": Budget(epochs=8, equal="passes")}))
    assert trainer.method.context.epochs == trainer.epochs == 4
    other = runs.trainer(spec.model_copy(update={"budget": Budget(epochs=4)}))
    weights = zip(trainer.network.state_dict().values(), other.network.state_dict().values(), strict=True)
    assert all(torch.equal(one, two) for one, two in weights), "starts are the same whatever is equal"


@pytest.mark.usefixtures("everything")
def test_a_search_that_is_over_is_not_repeated_after_a_kill(runs: Runs) -> None:
    folder = runs.folder("everything")
    for questions, searched in ((2, False), (3, True)):  # in the search, of which nothing is kept; after the first step
        assert runs.execute(folder, questions) is RunState.CANCELLED
        assert torch.load(folder.checkpoint, weights_only=True)["searched"] is searched
    assert runs.execute(folder) is RunState.DONE
    # what was lost is not counted, as steps after a checkpoint are not
    assert result_of(folder)["image_passes"]["search"] == 80


@pytest.mark.usefixtures("everything")
def test_a_learned_tensor_of_another_shape_is_not_restored(runs: Runs) -> None:
    method = runs.trainer("everything").method
    state = method.state_dict()
    state["learnable"]["found"] = torch.zeros(())
    with pytest.raises(ValueError, match="found was saved with shape"):
        method.load_state_dict(state)


@pytest.mark.usefixtures("everything")
def test_a_network_of_the_method_itself_depends_on_nothing_but_the_seed(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, seen = runs.data(), []

    def start(self: Everything, hyperparameters: Hyperparameters, context: RunContext) -> None:
        Method.__init__(self, hyperparameters, context)
        seen.append(torch.rand(()).item())

    monkeypatch.setattr(Everything, "__init__", start)
    for seed in (0, 0, 1):
        torch.rand(1)  # what an earlier run in the same process has drawn
        runs.trainer("everything", data, seed=seed)
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.usefixtures("everything")
def test_search_training_and_evaluation_are_counted_apart(runs: Runs) -> None:
    result = result_of(runs.done("everything"))
    evaluated = 100 * (1 + 2 * 2 + 3)
    assert result["image_passes"] == {"search": 80, "training": 1200, "evaluation": evaluated, "compilation": 0}
    (seconds,) = result["seconds"].values()
    assert all(seconds[phase] > 0 for phase in ("search", "training", "evaluation"))
    assert seconds["compilation"] == 0
    assert result["learned"]["found"] > 1, "the search's finding is kept"
    assert result["search_images"]["images"] == 400, "it looks at training and validation images"
    mean, deviation = runs.data().mean_and_deviation
    assert result["channels"] == {"mean": mean.tolist(), "deviation": deviation.tolist()}
    assert result["learned"]["brightness"] != 0.5


@pytest.mark.usefixtures("everything")
def test_a_search_sees_training_images_only(runs: Runs) -> None:
    trainer = runs.trainer("everything")
    train_images = trainer.data.train.images
    seen: list[SearchProblem] = []
    trainer.method.search = seen.append  # type: ignore[method-assign]
    train(trainer, StoppingObserver(search_only=True))
    (problem,) = seen
    assert problem.images.images.data_ptr() == train_images.data_ptr(), "no copy on the way"
    both = torch.cat((problem.train.images, problem.validation.images)).flatten(1)
    assert torch.equal(torch.unique(both, dim=0), torch.unique(train_images.flatten(1), dim=0))
    assert len(both) == len(train_images)


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


class OwnLoss(Method[Hyperparameters]):
    """Says nothing of smoothed labels, though its loss is its own."""

    name = "own-loss"

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Double the cross-entropy."""
        return 2 * super().loss(logits, labels)


class SmoothLoss(OwnLoss):
    """Says that it smooths labels."""

    smooths_labels = True


def test_a_loss_of_its_own_does_not_silently_lose_smoothed_labels(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = """
        name = "smooth"
        title = "Smooth"
        seeds = [0]
        [[comparisons]]
        datasets = [{ name = "mnist5k", options = { size = 14 } }]
        methods = [{ name = "own-loss" }]
        network = "tiny"
        budget = { epochs = 1, label_smoothing = 0.1 }
    """
    monkeypatch.setitem(methods().entries, "own-loss", Entry("own-loss", SmoothLoss, "a test"))
    (spec,) = parse_suite(suite, "a test").specs()
    assert runs.trainer(spec).method.context.label_smoothing == 0.1
    monkeypatch.setitem(methods().entries, "own-loss", Entry("own-loss", OwnLoss, "a test"))
    for refused in (parse_suite(suite, "a test").specs, lambda: runs.trainer(spec)):
        with pytest.raises(UserError, match=r"'own-loss' has a `loss` of its own.*smooths_labels = True"):
            refused()
    assert parse_suite(suite.replace(", label_smoothing = 0.1", ""), "a test").specs()
