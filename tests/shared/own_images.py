"""Folders, archives and tables of made-up images, and their preparation."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from augbench.bench.data.downloads import ProgressCallback
from augbench.bench.data.own.preparing import PreparedOwn, prepare_own
from augbench.bench.data.own.settings import Kind, OwnSettings
from augbench.bench.data.own.stored import read_own_manifest


def noise(seed: int, width: int = 40, height: int = 30) -> Image.Image:
    """Draw random pixels in colour."""
    values = np.random.RandomState(seed).randint(0, 256, (height, width, 3))
    return Image.fromarray(values.astype(np.uint8))


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """Write an image as the bytes of a file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def write_images(folder: Path, counts: Mapping[str, int], seed: int = 0) -> Path:
    """Write so many PNG files into each folder below one, `0.png` and so on, no two alike."""
    for number, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            noise(seed + 1000 * number + index).save(folder / name / f"{index}.png")
    return folder


def prepared(kind: Kind, path: Path, root: Path, **settings: Any) -> PreparedOwn:
    """Prepare a data set of one's own."""
    return prepare_own(kind, path, OwnSettings(**settings), root, ProgressCallback(), taken=["mnist"])


def counts_of(made: PreparedOwn) -> dict[str, tuple[int, int, int]]:
    """Numbers of training, held-out and test images by class."""
    return {one.name: (one.train, one.held_out, one.test) for one in made.report.classes}


def class_names(made: PreparedOwn, root: Path) -> list[str]:
    """Names of the classes as they are stored."""
    return list(read_own_manifest(made.prepared, root).class_names)


def nothing_left(root: Path) -> bool:
    """Make sure that no folder, whole or half-written, is below a folder of data sets."""
    found = [path for path in root.rglob("*") if path.name.endswith(".npy") or ".tmp" in path.name]
    assert not found
    return True
