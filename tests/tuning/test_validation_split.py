"""What a trial of a tuning sees: no test images, but the validation split in their place."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from run_here import Here

from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import ImageData, Split
from augbench.bench.experiment.protocol import Protocol
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training import worker
from augbench.bench.training.trained import load_network
from augbench.bench.training.worker import execute, load_dataset
from augbench.datasets.mnist5k import Mnist5k, RotMnist5k

MakeSpec = Callable[..., RunSpec]
Outcome = Callable[[RunFolder], dict[str, Any]]


def made_here(held_out: torch.Tensor | None = None) -> ImageData:
    """100 images of two classes, 60 and 40; each image has the grey level of its number."""
    images = torch.arange(100, dtype=torch.uint8).view(100, 1, 1, 1).expand(100, 1, 4, 4).contiguous()
    train = Split(images, torch.tensor([0] * 60 + [1] * 40))
    test = Split(torch.full((7, 1, 4, 4), 255, dtype=torch.uint8), torch.zeros(7, dtype=torch.long))
    return ImageData(train, test, classes=2, provenance="made here", held_out=held_out, upright_test=test)


def numbers(split: Split) -> list[int]:
    return split.images[:, 0, 0, 0].tolist()


def test_a_fifth_of_each_class_stands_where_the_test_images_stood() -> None:
    whole = made_here()
    data = whole.for_tuning()
    assert data.test.labels.bincount().tolist() == [12, 8]
    assert sorted(numbers(data.train) + numbers(data.test)) == list(range(100))
    assert numbers(data.test) == whole.validation_mask().nonzero()[:, 0].tolist()
    assert data.upright_test is None
    assert data.probe_images is data.test
    assert "validation" in data.provenance


def test_images_that_the_publishers_hold_out_are_taken_where_there_are_any() -> None:
    held_out = torch.zeros(100, dtype=torch.bool)
    held_out[90:] = True
    data = made_here(held_out).for_tuning()
    assert numbers(data.test) == list(range(90, 100))
    assert len(data.train) == 90
    assert int(data.validation_mask().sum()) == 12 + 6  # a search's own fifth of the 60 and the 30 that are left


def test_channel_statistics_are_those_of_the_images_that_are_trained_on() -> None:
    whole = made_here()
    before = whole.mean_and_deviation  # kept with the data set that it belongs to
    data = whole.for_tuning()
    mean, deviation = data.mean_and_deviation
    shades = np.array(numbers(data.train)) / 255
    np.testing.assert_allclose([mean.item(), deviation.item()], [shades.mean(), shades.std()], rtol=1e-5)
    assert mean != before[0]


def for_tuning(spec: RunSpec) -> RunSpec:
    return spec.model_copy(update={"protocol": spec.protocol.model_copy(update={"evaluated_on": "validation"})})


def test_only_another_choice_than_the_test_images_is_part_of_the_identity(make_spec: MakeSpec) -> None:
    spec = make_spec()
    assert spec.protocol == Protocol.model_validate({**spec.protocol.model_dump(), "evaluated_on": "test"})
    assert for_tuning(spec).identity != spec.identity
    assert "evaluated_on" not in spec.protocol.model_dump(exclude_defaults=True)


class Poison(Split):
    """Images that nobody may look at."""

    def __init__(self) -> None:
        pass

    def __getattribute__(self, name: str) -> Any:
        if name in ("images", "labels", "to", "subset"):
            raise AssertionError("a trial has looked at the test images")
        return super().__getattribute__(name)

    def __len__(self) -> int:
        raise AssertionError("a trial has counted the test images")


@pytest.mark.usefixtures("few_digits")
@pytest.mark.parametrize(("source", "method"), [(Mnist5k, "dada"), (RotMnist5k, "scale")])
def test_a_trial_is_the_same_whatever_the_test_images_are(
    source: type[Mnist5k], method: str, here: Here, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {"search_epochs": 1, "search_images": 64, "search_batch_size": 16} if method == "dada" else {}
    spec = for_tuning(here.make_spec(method, epochs=2, **quick))
    if source is RotMnist5k:
        spec = spec.model_copy(update={"dataset": spec.dataset.model_copy(update={"name": "rotmnist5k"})})
    first, second = here.make_folder(spec), here.make_folder(spec)
    assert here.run(first) is RunState.DONE, first.read_status()

    def poisoned(*arguments: Any) -> ImageData:
        return replace(load_dataset(*arguments), test=Poison(), upright_test=Poison())

    monkeypatch.setattr(worker, "load_dataset", poisoned)
    assert here.run(second) is RunState.DONE, second.read_status()
    assert outcome(second) == outcome(first)


@pytest.mark.usefixtures("few_digits")
def test_accuracy_on_the_validation_images_is_known_after_each_epoch_and_no_network_is_to_be_probed(here: Here) -> None:
    tried, ordinary = here.make_folder(for_tuning(here.make_spec(epochs=3))), here.folder()
    assert [here.run(folder) for folder in (tried, ordinary)] == [RunState.DONE] * 2
    accuracies = [row["validation_accuracy"] for row in tried.read_metrics()]
    result = tried.read_result()
    assert result is not None
    assert len(set(accuracies)) > 1
    assert accuracies[-1] == pytest.approx(result["metrics"]["0"]["accuracy"]["mean"])
    assert (result["train_images"], result["test_images"]) == (320, 80)
    assert result["image_passes"]["evaluation"] >= 3 * 80
    assert not any("validation_accuracy" in row for row in ordinary.read_metrics())
    with pytest.raises(UserError, match="is a trial of a tuning"):
        load_network(tried, here.settings.data, torch.device("cpu"))


@pytest.mark.slow
@pytest.mark.usefixtures("few_digits")
def test_measuring_it_changes_nothing_in_training_and_a_trial_resumes_bit_for_bit(here: Here, outcome: Outcome) -> None:
    spec = for_tuning(here.make_spec("scale", epochs=2))
    whole, interrupted = here.make_folder(spec), here.make_folder(spec)
    assert here.run(whole) is RunState.DONE
    assert execute(interrupted, here.settings, here.stop_after(8)) is RunState.CANCELLED
    assert len(interrupted.read_metrics()) == 1
    assert here.run(interrupted) is RunState.DONE
    assert outcome(interrupted) == outcome(whole)
