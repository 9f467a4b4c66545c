"""Images that a run keeps to be looked at."""

from pathlib import Path

import numpy as np
import pytest
from short_runs import Runs

from augbench.bench.runs.run_folder import DamagedError, RunFolder
from augbench.bench.training.examples import DRAWS, MOST_IMAGES, draw_examples, read_examples


@pytest.mark.parametrize("method", ["none", "scale", "trivialaugment"])
def test_a_run_keeps_examples_of_each_class(method: str, runs: Runs) -> None:
    examples, train = read_examples(runs.done(method)), runs.data().train
    assert examples is not None
    for label, image in enumerate(examples.originals):
        assert np.array_equal(image, train.images[train.labels == label][0].numpy())
    assert examples.drawn.shape == (MOST_IMAGES, DRAWS, *train.images.shape[1:])
    unchanged = (examples.drawn == examples.originals[:, None]).all()
    assert unchanged == (method == "none")


def test_draws_belong_to_their_images_and_repeat(runs: Runs) -> None:
    """With four copies of each image, the draws of an image are its own and differ from one another."""
    trainer = runs.trainer("scale")
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
