"""Images that a run keeps to be looked at."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import DamagedError, RunFolder, RunState
from augbench.bench.training.examples import DRAWS, MOST_IMAGES, draw_examples, read_examples
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.trainer import new_trainer
from augbench.bench.training.worker import execute, load_dataset

MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]


@pytest.mark.usefixtures("few_digits")
@pytest.mark.parametrize("method", ["none", "scale", "trivialaugment"])
def test_a_run_keeps_examples_of_each_class(
    method: str, make_spec: MakeSpec, make_folder: MakeFolder, settings: ExecutionSettings, stop: StopSignal
) -> None:
    spec = make_spec(method)
    folder = make_folder(spec)
    assert execute(folder, settings, stop) is RunState.DONE
    examples = read_examples(folder)
    assert examples is not None
    train = load_dataset(spec.dataset, settings.data).train
    for label, image in enumerate(examples.originals):
        assert np.array_equal(image, train.images[train.labels == label][0].numpy())
    assert examples.drawn.shape == (MOST_IMAGES, DRAWS, *train.images.shape[1:])
    unchanged = (examples.drawn == examples.originals[:, None]).all()
    assert unchanged == (method == "none")


@pytest.mark.usefixtures("few_digits")
def test_draws_belong_to_their_images_and_repeat(make_spec: MakeSpec, settings: ExecutionSettings) -> None:
    """With four copies of each image, the draws of an image are its own and differ from one another."""
    spec = make_spec("scale")
    trainer = new_trainer(spec, load_dataset(spec.dataset, settings.data), torch.device("cpu"))
    trainer.method.start_epoch(0)
    examples, again = draw_examples(trainer), draw_examples(trainer)
    assert np.array_equal(examples.drawn, again.drawn)
    distances = np.abs(examples.drawn.astype(float)[:, :, None] - examples.originals[:, None, None].swapaxes(0, 2))
    nearest = distances.mean((3, 4, 5)).argmin(2)
    own = np.arange(MOST_IMAGES)[:, None]
    assert (nearest == own).mean() > 0.8
    assert len({draw.tobytes() for image in examples.drawn for draw in image}) > MOST_IMAGES * (DRAWS - 3)


def test_there_may_be_none_or_damaged_ones(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert read_examples(folder) is None
    folder.examples.write_bytes(b"PK not an archive")
    with pytest.raises(DamagedError, match=r"examples\.npz is damaged.*Delete it"):
        read_examples(folder)
    np.savez(folder.examples, originals=np.zeros((2, 1, 3, 3), np.uint8), drawn=np.zeros((3, 4, 1, 3, 3), np.uint8))
    with pytest.raises(DamagedError, match="different shapes"):
        read_examples(folder)
