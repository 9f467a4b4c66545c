"""The base of a budget in runs: where it comes, that its random stream is its own, and that a run is resumed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from method_factories import required
from short_runs import Runs
from torch import Tensor

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.augmentation.network_input import NetworkInput
from augbench.bench.augmentation.resampling import normalised
from augbench.bench.common.errors import UserError
from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, Method, SharedSpaceMethod, repeat
from augbench.bench.data.dataset import ImageData, Split
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.registry.registry import Entry
from augbench.bench.runs.run_folder import RunFolder
from augbench.bench.training.base import augmented, shown
from augbench.bench.training.trainer import Trainer

BASE = [{"name": "crop", "pixels": 2}, "flip", {"name": "cutout", "pixels": 5}]
BATCH = torch.arange(12)
OURS = sorted(entry.name for entry in methods() if entry.name != "policy")


def based(spec: RunSpec, base: Any = BASE, **changes: Any) -> RunSpec:
    """Give the budget of a run a base, and other things."""
    budget = type(spec.budget).model_validate(spec.budget.model_dump() | {"base": base} | changes)
    return spec.model_copy(update={"budget": budget})


@pytest.fixture(scope="module")
def digits() -> ImageData:
    """Make 200 images of 14 pixels."""
    source = torch.Generator().manual_seed(0)
    images = torch.randint(1, 256, (250, 1, 14, 14), dtype=torch.uint8, generator=source)
    labels = torch.arange(250) % 10
    return ImageData(Split(images[:200], labels[:200]), Split(images[200:], labels[200:]), 10, "made up")


def step_images(trainer: Trainer) -> tuple[AugmentedBatch, AugmentedBatch]:
    """Make the copies of a batch as a training step does."""
    return augmented(trainer.method, trainer.base, trainer.data.train.images, BATCH, trainer.augmentation)


def test_no_augmentation_with_a_base_trains_on_crop_flip_and_cutout(runs: Runs, digits: ImageData) -> None:
    spec = based(runs.spec(), baseline_copies=3)
    trainer, again = runs.trainer(spec, digits), runs.trainer(spec, digits)
    returned, seen = step_images(trainer)
    moved = to_unit_interval(again.base.before(digits.train.images[:12], 3))
    assert torch.equal(returned.images, moved)
    assert torch.equal(seen.images, again.base.after(moved))
    first, second, third = seen.images.view(3, 12, 14, 14)
    assert not torch.equal(first, second) and not torch.equal(second, third)


@pytest.mark.parametrize("method", ["scale", "trivialaugment-wide", "augerino"])
def test_crop_and_flip_come_before_a_method_and_cutout_after_it(method: str, runs: Runs, digits: ImageData) -> None:
    trainer, again = (runs.trainer(based(runs.spec(method)), digits) for _ in range(2))
    returned, seen = step_images(trainer)
    moved = again.base.before(digits.train.images[:12], again.method.copies)
    plain = runs.trainer(method, digits).method
    draws = again.augmentation
    expected = _each_by_its_own_draw(plain, moved, draws)
    assert torch.equal(returned.images, expected)
    assert torch.equal(seen.images, again.base.after(expected))
    assert seen.images.requires_grad == returned.images.requires_grad


def _each_by_its_own_draw(method: Method[Any], images: Tensor, source: torch.Generator) -> Tensor:
    """Have a method transform images without copying them, whatever it announces."""
    if isinstance(method, SharedSpaceMethod):
        return method.context.space.apply(images, method.draw(len(images), source))
    assert method.copies == 1
    return method.augment(images, source).images


def test_the_base_draws_the_same_for_all_methods_and_changes_neither_their_draws_nor_the_order(
    runs: Runs, digits: ImageData
) -> None:
    plain, none, wide = (
        runs.trainer(spec, digits)
        for spec in (runs.spec("trivialaugment-wide"), based(runs.spec()), based(runs.spec("trivialaugment-wide")))
    )
    for trainer in (plain, none, wide):
        trainer.train_step(BATCH)
    assert torch.equal(none.base.source.get_state(), wide.base.source.get_state())
    assert torch.equal(plain.augmentation.get_state(), wide.augmentation.get_state())
    assert not torch.equal(plain.base.source.get_state(), wide.base.source.get_state())


def test_a_cutout_after_normalised_images_is_that_of_the_definition(runs: Runs, digits: ImageData) -> None:
    trainer, fused = (runs.trainer(based(runs.spec("scale")), digits) for _ in range(2))
    form = NetworkInput(*digits.mean_and_deviation, torch.float32)
    fused.method.context = replace(fused.method.context, network_input=form)
    _, seen = step_images(trainer)
    _, ready = step_images(fused)
    assert ready.normalised and not seen.normalised
    assert torch.equal(ready.images, normalised(seen.images, form))


def test_examples_are_in_the_unit_interval_whatever_the_network_takes(runs: Runs, digits: ImageData) -> None:
    trainer, fused = (runs.trainer(based(runs.spec("scale")), digits) for _ in range(2))
    fused.method.context = replace(
        fused.method.context, network_input=NetworkInput(*digits.mean_and_deviation, torch.float32)
    )
    images = digits.train.images[:5]
    made = [shown(each.method, each.base, images, each.augmentation) for each in (trainer, fused)]
    assert torch.equal(*made)
    assert made[0].shape == (4 * 5, 1, 14, 14)


class Stubborn(Method[Hyperparameters]):
    """Makes two copies whatever `copies` says."""

    name = "stubborn"

    @property
    def copies(self) -> int:
        """Two copies."""
        return 2

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Copy."""
        return AugmentedBatch(to_unit_interval(repeat(images, 2)))


def test_a_method_that_does_not_ask_how_many_copies_is_refused_under_a_base(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, digits: ImageData
) -> None:
    monkeypatch.setitem(methods().entries, "stubborn", Entry("stubborn", Stubborn, "a test"))
    with pytest.raises(UserError, match=r"'stubborn' made 48 images of 24.*`self.copies` of each image"):
        runs.trainer(based(runs.spec("stubborn")), digits).train_step(BATCH)
    runs.trainer(based(runs.spec("stubborn"), BASE[2:]), digits).train_step(BATCH)  # a cutout alone moves nothing


def test_plain_names_are_refused_for_images_of_another_size(runs: Runs, digits: ImageData) -> None:
    with pytest.raises(
        UserError, match=r"'mnist5k \(size=14\)', whose images have 14 pixels .* pixels = 2 }, \"flip\""
    ):
        runs.trainer(based(runs.spec(), ["crop", "flip"]), digits)


@pytest.mark.parametrize("method", OURS)
def test_every_method_takes_a_step_with_a_base(method: str, runs: Runs, digits: ImageData) -> None:
    quick = {**required(methods().get(method)), **methods().get(method).quick_hyperparameters}
    trainer = runs.trainer(based(runs.spec(method, **quick)), digits)
    before = [parameter.detach().clone() for parameter in trainer.network.parameters()]
    trainer.method.start_epoch(0)
    trainer.train_step(BATCH)
    assert any(not torch.equal(*pair) for pair in zip(before, trainer.network.parameters(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["scale", "trivialaugment-wide"])
def test_a_run_with_a_base_is_resumed_bit_for_bit(
    method: str, runs: Runs, outcome: Callable[[RunFolder], dict[str, Any]]
) -> None:
    spec = based(runs.spec(method, epochs=2))
    whole = runs.done(spec)
    assert outcome(runs.in_parts(spec, 4, 3, 6)) == outcome(whole)
    plain = runs.done(spec.model_copy(update={"budget": based(spec, []).budget}))
    assert outcome(plain)["weights"] != outcome(whole)["weights"]
