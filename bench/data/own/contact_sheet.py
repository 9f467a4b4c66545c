"""A picture of a few prepared images of each class, so that people see what networks will see."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from augbench.bench.common.plain_text import safe

SHEET = "images.png"
MOST_CLASSES = 24
PER_CLASS = 10
CELL = 64  # pixels; small images are enlarged by whole numbers, large ones shrunk
GAP = 4
NAME_WIDTH = 180
LONGEST_NAME = 22  # characters
TEXT_SIZE = 14


def draw_sheet(images: NDArray[np.uint8], labels: NDArray[np.int64], class_names: Sequence[str], path: Path) -> None:
    """Draw the first images of each class, of long lists of classes only the first ones.

    Args:
        images: uint8; (N, C, S, S).
        labels: (N,).
        class_names: Names of the classes.
        path: The PNG to write.
    """
    shown = class_names[:MOST_CLASSES]
    side = max(1, CELL // images.shape[-1]) * images.shape[-1] if images.shape[-1] <= CELL else CELL
    step = side + GAP
    more = len(class_names) - len(shown)
    width, height = NAME_WIDTH + PER_CLASS * step + GAP, (len(shown) + bool(more)) * step + GAP
    sheet = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(sheet), _font()
    for row, name in enumerate(shown):
        middle = GAP + row * step + side / 2
        draw.text((GAP, middle), _brief(name), "black", font, anchor="lm")
        for column, index in enumerate(np.flatnonzero(labels == row)[:PER_CLASS]):
            picture = _picture(images[index]).resize(
                (side, side), Image.Resampling.NEAREST if side >= images.shape[-1] else Image.Resampling.BICUBIC
            )
            sheet.paste(picture, (NAME_WIDTH + column * step, GAP + row * step))
    if more:
        draw.text((GAP, height - step / 2), f"and {more:,} more classes", "black", font, anchor="lm")
    sheet.save(path, "PNG")


def _picture(image: NDArray[np.uint8]) -> Image.Image:
    """Make a picture of an image (C, S, S)."""
    return Image.fromarray(np.ascontiguousarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)))


def _brief(name: str) -> str:
    line = " ".join(safe(name).split())
    return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"


def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return the font that comes with matplotlib, which has more letters than Pillow's, without importing it."""
    found = find_spec("matplotlib")
    if found is None or found.origin is None:
        return ImageFont.load_default(TEXT_SIZE)
    return ImageFont.truetype(Path(found.origin).parent / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf", TEXT_SIZE)
