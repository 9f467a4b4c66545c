"""Images as the learners augment them in the end, put into the page itself."""

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.image import imsave
from numpy.typing import NDArray

from augbench.bench.training.examples import Examples
from augbench.results.figures.style import figure_style
from augbench.results.model.frame import Runs
from augbench.results.report.units import done

BUDGET = 4_000_000
"""Bytes that all images of a page may take together, encoded; with more learners each gets fewer draws."""

SIZES = ((6, 6), (5, 5), (4, 4), (3, 3), (2, 2))
"""Images and draws of each that are tried in turn, until all fit."""

GAP = 1  # pixels between images


@dataclass(frozen=True)
class Picture:
    """Images of one method on one data set, side by side.

    Attributes:
        comparison: The data set.
        label: The method.
        seed: Seed of the run.
        images: Rows: an image as it is, then its draws.
        draws: Draws of each image.
        address: The picture as a `data:` address.
        width: Pixels.
        height: Pixels.
    """

    comparison: str
    label: str
    seed: int
    images: int
    draws: int
    address: str
    width: int
    height: int

    @property
    def description(self) -> str:
        """The content of the picture, for screen readers."""
        return (
            f"{self.images} training images of {self.comparison} in the first column, and beside each {self.draws} "
            f"draws from what {self.label} learned."
        )


@dataclass(frozen=True)
class Gallery:
    """All pictures of a page, ordered by data set and method, and how many more had no room."""

    pictures: tuple[Picture, ...]
    left_out: int = 0


def gallery(runs: Runs, budget: int = BUDGET) -> Gallery:
    """Show one run of each method on each data set: the first seed that has stored images.

    Args:
        runs: All runs.
        budget: Bytes that all pictures may take together; those that do not fit at the smallest size are left out.
    """
    found = list(_examples(runs))
    made: list[Picture] = []
    for images, draws in SIZES:
        made = [_picture(names, examples, images, draws) for names, examples in found]
        if sum(len(picture.address) for picture in made) <= budget:
            return Gallery(tuple(made))
    ends = np.cumsum([len(picture.address) for picture in made])
    kept = tuple(picture for picture, end in zip(made, ends, strict=True) if end <= budget)
    return Gallery(kept, len(made) - len(kept))


def _examples(runs: Runs) -> Iterator[tuple[tuple[str, str, int], Examples]]:
    for (comparison, label), inside in done(runs).groupby(["comparison", "label"], sort=False):
        for folder, seed in inside[["folder", "seed"]].itertuples(index=False):
            examples = runs.examples(folder)
            if examples is not None and examples.originals.size and examples.drawn.size:
                yield (str(comparison), str(label), int(seed)), examples
                break


def _picture(names: tuple[str, str, int], examples: Examples, images: int, draws: int) -> Picture:
    originals, drawn = examples.originals[:images], examples.drawn[:images, :draws]
    pixels = montage(np.concatenate([originals[:, None], drawn], axis=1))
    buffer = io.BytesIO()
    without_version: dict[str, Any] = {"Software": None}
    with figure_style():
        imsave(buffer, pixels, format="png", metadata=without_version)
    address = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    height, width = pixels.shape[:2]
    return Picture(*names, len(originals), drawn.shape[1], address, width, height)


def montage(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Put images side by side, with the first column set apart and transparent gaps.

    Args:
        images: (rows, columns, C, H, W) in [0, 255]; the first three of C are red, green and blue; of fewer, the first
            is grey.

    Returns:
        (height, width, 4), with the opacity last.
    """
    rows, columns, channels, height, width = images.shape
    coloured = np.repeat(images[:, :, :1], 3, axis=2) if channels < 3 else images[:, :, :3]
    apart = 3 * GAP
    canvas = np.zeros((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP + apart, 4), dtype=np.uint8)
    for row in range(rows):
        for column in range(columns):
            top, left = row * (height + GAP), column * (width + GAP) + (apart if column else 0)
            tile = canvas[top : top + height, left : left + width]
            tile[..., :3], tile[..., 3] = coloured[row, column].transpose(1, 2, 0), 255
    return canvas
