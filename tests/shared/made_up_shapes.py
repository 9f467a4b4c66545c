"""Made-up colour images: pieces of square cells, turned by any angle or upright, on noise. The same ones every time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]

SHAPES = ("xxxx", "xx/xx", "xxx/.x.", "xxx/x..")
"""A bar, a square, a T and an L: turned by any angle each keeps its class."""

CORNERS = ("xx/x.", "xx/.x", "x./xx", ".x/xx")
"""One corner in four directions: turned by a quarter, upside down or mirrored, each becomes another one."""

OTHER_SHAPES = ("xxxxx", ".x./xxx/.x.", "x.x/xxx", "xx/xx/x.")
"""Pieces of five cells; the settings of the suite `recommend` were chosen on these, turned."""

OTHER_CORNERS = (".x./xxx", "xxx/.x.", "x./xx/x.", ".x/xx/.x")
"""One T in four directions; the settings of the suite `recommend` were chosen on these, upright."""

FINE = 2  # points along each side of a pixel


def made_up_shapes(
    pieces: Sequence[str], count: int, seed: int, *, turned: bool, side: int = 32, noise: float = 24
) -> tuple[Images, Labels]:
    """Draw images of pieces, in classes of equal size.

    Colours, brightness, size and place differ from image to image, and there is noise; only the shape tells the class.

    Args:
        pieces: The piece of each class: rows of cells, `x` for a filled one, separated by `/`.
        count: Number of images.
        seed: Decides everything that is random.
        turned: Whether each image is turned by a random angle; else all are upright.
        side: Height and width, in pixels.
        noise: Standard deviation of the noise, grey levels.

    Returns:
        Images (N, S, S, 3) and labels (N,).
    """
    random = np.random.default_rng([seed, turned, side])
    labels = np.arange(count) % len(pieces)
    images = np.empty((count, side, side, 3), dtype=np.uint8)
    for number, label in enumerate(labels):
        angle = random.uniform(0, 2 * np.pi) if turned else 0.0
        inside = _inside(pieces[label], angle, random, side)[..., None]
        back, front = _colours(random)
        grain = random.normal(0, noise, (side, side, 3))
        images[number] = (back * (1 - inside) + front * inside + grain).clip(0, 255).round()
    return images, labels.astype(np.int64)


def _inside(piece: str, angle: float, random: np.random.Generator, side: int) -> NDArray[np.float64]:
    """Share of each pixel that a piece covers; (S, S)."""
    filled = np.array([[cell == "x" for cell in row] for row in piece.split("/")])
    cell = side * random.uniform(0.16, 0.2)
    middle = (side - 1) / 2 + random.uniform(-0.06, 0.06, 2) * side
    points = (np.arange(side * FINE) + 0.5) / FINE - 0.5
    x, y = np.meshgrid(points - middle[0], points - middle[1])
    rows, columns = filled.shape
    column = (np.cos(angle) * x + np.sin(angle) * y) / cell + columns / 2
    row = (-np.sin(angle) * x + np.cos(angle) * y) / cell + rows / 2
    there = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
    covered = there & filled[row.astype(int).clip(0, rows - 1), column.astype(int).clip(0, columns - 1)]
    return covered.reshape(side, FINE, side, FINE).mean((1, 3))


def _colours(random: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw the colours of a background and of a piece that stands out from it, brighter or darker."""
    while True:
        back, front = random.uniform(20, 235, (2, 3))
        if abs(back.mean() - front.mean()) > 35:
            return back, front


def write_as_folders(folder: Path, images: Images, labels: Labels) -> Path:
    """Write images as PNG files, a folder for each class, as people keep them."""
    from PIL import Image

    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        of_class = folder / f"class-{label}"
        of_class.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(of_class / f"{number:05d}.png")
    return folder
