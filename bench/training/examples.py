"""Some training images as a learner augments them, kept with the run for people to look at."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from augbench.bench.common.files import UNREADABLE_ARRAYS, atomic_write
from augbench.bench.runs.run_folder import DamagedError, RunFolder

if TYPE_CHECKING:  # whoever only looks at results needs neither torch nor training code
    from torch import Tensor

    from augbench.bench.data.dataset import Split
    from augbench.bench.training.trainer import Trainer

MOST_IMAGES = 6  # one of each of the first classes
DRAWS = 6  # of each image

Images = NDArray[np.uint8]


@dataclass(frozen=True)
class Examples:
    """Images as they are and as they are augmented at the end of training, all in [0, 255].

    Attributes:
        originals: (K, C, H, W).
        drawn: Draws of each image; (K, D, C, H, W).
    """

    originals: Images
    drawn: Images


def draw_examples(trainer: "Trainer") -> Examples:
    """Augment a few training images as the next step of training would."""
    import torch

    from augbench.bench.common.randomness import generator
    from augbench.bench.training.base import shown

    images = _one_of_each_class(trainer.data.train)
    source = generator(trainer.spec.seed, "examples", trainer.device)
    base = replace(trainer.base, source=source)
    drawn: list[Tensor] = []
    with torch.no_grad():
        while len(drawn) < DRAWS:
            drawn += shown(trainer.method, base, images, source).reshape(-1, *images.shape)
    stacked = torch.stack(drawn[:DRAWS], dim=1).clamp(0, 1).mul(255).round()
    return Examples(images.cpu().numpy(), stacked.to(torch.uint8).cpu().numpy())


def _one_of_each_class(split: "Split") -> "Tensor":
    """Take the first image of each of the first classes; (K, C, H, W)."""
    first = [int((split.labels == label).nonzero()[0]) for label in split.labels.unique()[:MOST_IMAGES]]
    return split.images[first]


def write_examples(folder: RunFolder, examples: Examples) -> None:
    """Keep examples in a run folder."""
    with atomic_write(folder.examples) as file:
        np.savez_compressed(file, originals=examples.originals, drawn=examples.drawn)


def read_examples(folder: RunFolder) -> Examples | None:
    """Read the examples of a run; None where it kept none.

    Raises:
        DamagedError: If the file is damaged.
    """
    if not folder.examples.exists():
        return None
    try:
        with folder.examples.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            examples = Examples(arrays["originals"], arrays["drawn"])
        if examples.originals.dtype != np.uint8 or examples.drawn.dtype != np.uint8:
            raise ValueError("it holds no images")
        if examples.originals.shape != examples.drawn.shape[:1] + examples.drawn.shape[2:]:
            raise ValueError("its images have different shapes")
    except UNREADABLE_ARRAYS as error:
        raise DamagedError(
            f"{folder.examples} is damaged: {error}. Delete it: no table needs it; the other runs are not affected."
        ) from None
    return examples
