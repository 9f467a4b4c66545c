"""What became of each test image of a run: right or wrong, and how confident the network was, by test-time draws."""

import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from augbench.bench.common.files import UNREADABLE_ARRAYS
from augbench.bench.runs.completeness import END_OF_ZIP
from augbench.bench.training.metrics import ReliabilityBins, check_probabilities, equal_width_bins

FIRST_BYTES = 512  # that have the shape of the first array in them
LABELS = b"labels.npy"
SHAPE = re.compile(rb"'shape': \((\d{1,12}),\)")
# Of a zip archive (PKWARE's APPNOTE.TXT)
LOCAL_HEADER = struct.Struct("<4s4xH16xHH")


@dataclass(frozen=True)
class DrawnOutcomes:
    """Outcomes with one number of test-time draws.

    Attributes:
        repeats: Independent repeats, R.
        images: Test images, N.
        bits: Whether each image was classified right, a bit for each of (R, N), packed as by `numpy.packbits`.
        bins: Images of all repeats by confidence.
    """

    repeats: int
    images: int
    bits: bytes
    bins: ReliabilityBins

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether each image was classified right; (R, N)."""
        count = self.repeats * self.images
        flat = np.unpackbits(np.frombuffer(self.bits, dtype=np.uint8), count=count)
        return flat.reshape(self.repeats, self.images).astype(bool)


Outcomes = Mapping[int, DrawnOutcomes]
"""By number of test-time draws, 0 for none."""


REDUCED = ("right", "repeats", "bin_count", "bin_confidence", "bin_accuracy")
"""Arrays of reduced predictions for each number of test-time draws: `right_0`, `right_8` and so on."""


class Kept(NamedTuple):
    """Probabilities (N, C) of the test images without test-time draws, and their labels (N,)."""

    probabilities: NDArray[np.floating[Any]]
    labels: NDArray[np.int64]


def read_outcomes(path: Path, bins: int) -> Outcomes:
    """Reduce the predictions of a run to what became of each image.

    Args:
        path: `predictions.npz`.
        bins: Bins of equal width that images are grouped into by their confidence.

    Raises:
        ValueError: If the file is missing or damaged.
    """
    with _opened(path) as arrays:
        labels = arrays["labels"]
        if "right_0" in arrays.files:
            return _reduced(arrays, len(labels))
        draws = sorted(int(name.removeprefix("draws_")) for name in arrays.files if name.startswith("draws_"))
        if 0 not in draws:
            raise ValueError("it has no predictions without test-time draws")
        return {count: outcomes_of(arrays[f"draws_{count}"], labels, bins) for count in draws}


def reduced_predictions(outcomes: Outcomes) -> dict[str, NDArray[Any]]:
    """Make the arrays of a `predictions.npz` of what became of each image, where the probabilities are not known.

    Its labels are as many as there are images, and all -1, since they are not known either.
    """
    arrays: dict[str, NDArray[Any]] = {"labels": np.full(outcomes[0].images, -1, dtype=np.int64)}
    for draws, one in outcomes.items():
        right, bins = np.frombuffer(one.bits, dtype=np.uint8), (one.bins.count, one.bins.confidence, one.bins.accuracy)
        parts = zip(REDUCED, (right, np.array(one.repeats), *bins), strict=True)
        arrays |= {f"{name}_{draws}": part for name, part in parts}
    return arrays


def _reduced(arrays: Any, images: int) -> Outcomes:
    draws = sorted(int(name.removeprefix("right_")) for name in arrays.files if name.startswith("right_"))
    found = {}
    for count in draws:
        right, repeats, *bins = (arrays[f"{name}_{count}"] for name in REDUCED)
        found[count] = checked_outcomes(int(repeats), images, right.tobytes(), ReliabilityBins(*bins))
    return found


def checked_outcomes(repeats: int, images: int, bits: bytes, bins: ReliabilityBins) -> DrawnOutcomes:
    """Make outcomes of what is stored.

    Raises:
        ValueError: If it contradicts itself.
    """
    if min(images, repeats) < 1 or len(bits) != -(-images * repeats // 8):
        raise ValueError(f"{len(bits)} bytes for {repeats} × {images} images")
    is_whole = len(bins.count) == len(bins.confidence) == len(bins.accuracy)
    if not is_whole or bins.count.min() < 0 or bins.count.sum() != images * repeats:
        raise ValueError(f"bins that do not hold {repeats} × {images} images")
    return DrawnOutcomes(repeats, images, bits, bins)


def read_kept(path: Path) -> Kept | None:
    """Read the probabilities of a run without test-time draws; None where only outcomes are known.

    Args:
        path: `predictions.npz`.

    Raises:
        ValueError: If the file is missing or damaged.
    """
    with _opened(path) as arrays:
        if "right_0" in arrays.files:
            return None
        (probabilities,), labels = arrays["draws_0"], arrays["labels"]
        check_probabilities(probabilities, labels)
        return Kept(probabilities, labels)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open an archive of arrays, as a file here, since NumPy leaves one open that is no archive."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            yield arrays
    except UNREADABLE_ARRAYS as error:
        raise ValueError(str(error) or type(error).__name__) from None


def outcomes_of(probabilities: NDArray[np.floating[Any]], labels: NDArray[np.int64], bins: int) -> DrawnOutcomes:
    """Reduce the probabilities (R, N, C) of all repeats.

    Raises:
        ValueError: If they are none.
    """
    if probabilities.ndim != 3:
        raise ValueError(f"it holds predictions of the shape {probabilities.shape}")
    repeats, images, classes = probabilities.shape
    pooled, pooled_labels = probabilities.reshape(repeats * images, classes), np.tile(labels, repeats)
    check_probabilities(pooled, pooled_labels)
    right = pooled.argmax(axis=1) == pooled_labels
    return DrawnOutcomes(repeats, images, np.packbits(right).tobytes(), equal_width_bins(pooled, pooled_labels, bins))


class Glance(NamedTuple):
    """What is seen of `predictions.npz` without reading what was predicted: number of test images, and bytes."""

    images: int
    size: int


def glance(path: Path) -> Glance:
    """Look whether `predictions.npz` is whole, and how much it holds.

    Raises:
        ValueError: If the file is missing, truncated or something else.
    """
    try:
        found = _quick_glance(path)
        if found is not None:
            return found
        with zipfile.ZipFile(path) as archive, archive.open("labels.npy") as file:
            np.lib.format.read_magic(file)
            shape, _, _ = np.lib.format.read_array_header_1_0(file)
        if len(shape) != 1:
            raise ValueError(f"its labels have the shape {shape}")
        return Glance(int(shape[0]), path.stat().st_size)
    except FileNotFoundError:
        raise ValueError("it is missing") from None
    except UNREADABLE_ARRAYS as error:
        raise ValueError(str(error) or type(error).__name__) from None


def _quick_glance(path: Path) -> Glance | None:
    """Look at a file as quickly as can be, since there may be ten thousand.

    Returns:
        None unless the file is a whole archive that begins with them, as those that augbench has written do.
    """
    with path.open("rb") as file:
        head = file.read(FIRST_BYTES)
        end = file.seek(0, os.SEEK_END)
        file.seek(-min(end, END_OF_ZIP.size), os.SEEK_END)
        tail = file.read()
    if len(tail) != END_OF_ZIP.size or len(head) < LOCAL_HEADER.size:
        return None
    last, *_, directory, start, comment = END_OF_ZIP.unpack(tail)
    first, method, name, extra = LOCAL_HEADER.unpack_from(head)
    whole = last == b"PK\x05\x06" and comment == 0 and directory + start + END_OF_ZIP.size == end
    begin = LOCAL_HEADER.size + name
    if not whole or first != b"PK\x03\x04" or method != zipfile.ZIP_DEFLATED or head[begin - name : begin] != LABELS:
        return None
    unpacked = zlib.decompressobj(-zlib.MAX_WBITS).decompress(head[begin + extra :], FIRST_BYTES)
    shape = SHAPE.search(unpacked)
    return Glance(int(shape[1]), end) if shape else None
