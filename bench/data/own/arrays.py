"""Archives of arrays, `.npz`, with the names of MedMNIST or Keras, or given ones; images are read piece by piece."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError, check_known
from augbench.bench.common.files import UNREADABLE_ARRAYS
from augbench.bench.common.wording import few_names, listed
from augbench.bench.data.own.examples import HELD_OUT, TEST, TRAIN, Content, Examples, names_of_rows
from augbench.bench.data.own.labels import number_labels, whole_numbers_or_texts
from augbench.bench.data.own.settings import OwnSettings

ALIASES: Mapping[str, tuple[str, ...]] = {
    "train_images": ("train_images", "x_train", "images"),
    "train_labels": ("train_labels", "y_train", "labels"),
    "val_images": ("val_images", "x_val"),
    "val_labels": ("val_labels", "y_val"),
    "test_images": ("test_images", "x_test"),
    "test_labels": ("test_labels", "y_test"),
}
"""Our names, which are those of MedMNIST, and what else arrays are called."""

PARTS = {"train": TRAIN, "val": HELD_OUT, "test": TEST}
CHANNEL_COUNTS = (1, 3, 4)  # grey, colour, colour with alpha
TYPES = ("uint8", "uint16")
PIECE = 1 << 22  # bytes of an array that are read at a time, about


@dataclass(frozen=True)
class _Images:
    """An array of images in the archive.

    Attributes:
        name: Its name there.
        part: Its part of the data set.
        shape: Its shape.
        dtype: Its type: uint8 or uint16.
        by_column: Whether it is stored column by column.
        channels: Where its channels are; None if it has no axis for them.
    """

    name: str
    part: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_column: bool
    channels: str | None

    @property
    def size(self) -> tuple[int, int, int]:
        """Height, width and number of channels."""
        if self.channels == "first":
            return self.shape[2], self.shape[3], self.shape[1]
        return self.shape[1], self.shape[2], 1 if self.channels is None else self.shape[3]

    def last(self, images: NDArray[Any]) -> NDArray[Any]:
        """Return images as (N, H, W, C)."""
        if self.channels is None:
            return images[..., None]
        return images.transpose(0, 2, 3, 1) if self.channels == "first" else images


def read_arrays(path: Path, settings: OwnSettings) -> Examples:
    """Read the labels and shapes of an archive of arrays.

    Raises:
        UserError: If it is damaged, or has other arrays than it should have.
    """
    if not path.is_file():
        raise UserError(f"{path} is a folder. Give an .npz file.")
    images, values = _checked_arrays(path, settings)
    side = _common_side(path, images, settings.side)
    labels, class_names = number_labels(np.concatenate(values), settings.leave_out)
    kept = labels >= 0
    counts = [one.shape[0] for one in images]
    parts, rows = np.repeat([one.part for one in images], counts), np.flatnonzero(kept)
    name_of = names_of_rows([one.name for one in images], counts)
    return Examples(
        labels=labels[kept],
        class_names=class_names,
        parts=parts[kept].astype(np.int8),
        contents=lambda: _contents(path, images, kept),
        name_of=lambda index: name_of(int(rows[index])),
        side=side,
        channels=1 if all(one.size[2] == 1 for one in images) else 3,
    )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors of a damaged archive into one paragraph."""
    try:
        yield
    except UNREADABLE_ARRAYS as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error or type(error).__name__).split())
        raise UserError(
            f"{path} cannot be read as an .npz file of plain arrays: {reason}. `numpy.savez` writes one; arrays of "
            "Python objects are refused, since reading them could run any program."
        ) from None


def _checked_arrays(path: Path, settings: OwnSettings) -> tuple[list[_Images], list[NDArray[Any]]]:
    """Return the arrays of images, and the labels of each."""
    with _readable(path), zipfile.ZipFile(path) as archive:
        there = [name.removesuffix(".npy") for name in archive.namelist()]
        names = _names(path, there, settings)
        images, values = [], []
        for stem, part in PARTS.items():
            if f"{stem}_images" in names:
                images.append(_images(path, archive, names[f"{stem}_images"], part, settings.channels))
                values.append(_labels(path, archive, names[f"{stem}_labels"], images[-1]))
    if len({value.dtype.kind for value in values}) > 1:
        raise UserError(f"{path} has numbers as labels in one array, and texts in another. Make them the same.")
    return images, values


def _names(path: Path, there: Sequence[str], settings: OwnSettings) -> dict[str, str]:
    """Find for each of our names the array in the archive."""
    given = dict(settings.arrays)
    check_known("array for --array", given, ALIASES)
    check_known(f"array in {path}", given.values(), there)
    names = dict(given)
    for ours, aliases in ALIASES.items():
        found = [alias for alias in aliases if alias in there and alias not in given.values()]
        if ours not in given and len(found) > 1:
            raise UserError(f"{path} has {listed(found)}. Choose one: --array {ours}={found[0]}.")
        if ours not in given and found:
            names[ours] = found[0]
    for stem in PARTS:
        pair = [f"{stem}_images", f"{stem}_labels"]
        lacking = [name for name in pair if name not in names]
        if len(lacking) == 1 or (lacking and stem == "train"):
            raise UserError(
                f"{path} has no {listed(lacking)}, but {few_names(there) or 'nothing'}. Name the arrays: --array "
                f"{lacking[0]}=NAME, and so on; the names are {listed(list(ALIASES))}."
            )
    return names


def _images(path: Path, archive: zipfile.ZipFile, name: str, part: int, channels: str | None) -> _Images:
    with archive.open(f"{name}.npy") as file:
        shape, by_column, dtype = _header(file)
    if dtype.name not in TYPES:
        raise UserError(
            f"{path} has the array {name} of type {dtype.name}; images must be uint8, from 0 to 255, or uint16, from 0 "
            "to 65535. Scale them to one of these, round and save them again."
        )
    if len(shape) not in (3, 4) or 0 in shape:
        raise UserError(f"{path} has the array {name} of shape {shape}; images must be N×H×W, N×H×W×C or N×C×H×W.")
    return _Images(name, part, shape, dtype, by_column, _channel_axis(path, name, shape, channels))


def _channel_axis(path: Path, name: str, shape: tuple[int, ...], given: str | None) -> str | None:
    """Tell where the channels are; shapes that leave it open are refused unless the user says it."""
    if len(shape) == 3:
        return None
    possible = {"first": shape[1], "last": shape[3]}
    wanted = [axis for axis, count in possible.items() if count in CHANNEL_COUNTS and given in (None, axis)]
    if len(wanted) == 1:
        return wanted[0]
    way_on = (
        "Say where the channels are: --channels first or --channels last"
        if wanted
        else "Save it as N×H×W, N×H×W×C or N×C×H×W"
    )
    counts = listed([str(count) for count in CHANNEL_COUNTS], "or")
    which = "both the second axis and the last" if wanted else "neither the second axis nor the last"
    raise UserError(
        f"{path} has the array {name} of shape {shape}: {which} can be that of {counts} channels. {way_on}."
    )


def _labels(path: Path, archive: zipfile.ZipFile, name: str, images: _Images) -> NDArray[Any]:
    with archive.open(f"{name}.npy") as file:
        values: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    count = images.shape[0]
    if values.shape not in ((count,), (count, 1)):
        more = " Several labels of an image are not supported." if values.ndim == 2 else ""
        raise UserError(
            f"{path} has the array {name} of shape {values.shape}; it must be ({count},) or ({count}, 1), a label for "
            f"each image in {images.name}.{more}"
        )
    try:
        return whole_numbers_or_texts(values.ravel())
    except ValueError as error:
        raise UserError(f"{path} has labels that cannot be used: those in {name} {error}.") from None


def _common_side(path: Path, images: Sequence[_Images], given: int | None) -> int | None:
    """Return the side that all images have; None if they are no such squares and the user gives another side."""
    sizes = {one.size[:2] for one in images}
    height, width = next(iter(sizes))
    if len(sizes) == 1 and height == width:
        return height
    if given is None:
        shapes = listed([f"{one.name} {one.shape}" for one in images])
        raise UserError(f"{path} has images that are not squares of one size: {shapes}. Choose a size with --side.")
    return None


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_column, dtype = read(file)
    return shape, by_column, dtype


def _contents(path: Path, images: Sequence[_Images], kept: NDArray[np.bool_]) -> Iterator[Content]:
    """Yield the images that are kept, (H, W) or (H, W, C)."""
    position = 0
    for one in images:
        for piece in _pieces(path, one):
            pixels = one.last(piece)
            if pixels.dtype != np.uint8:
                pixels = np.round(pixels * (255 / 65_535)).astype(np.uint8)
            for image in pixels:
                if kept[position]:
                    yield image[..., 0] if image.shape[-1] == 1 else image
                position += 1


def _pieces(path: Path, images: _Images) -> Iterator[NDArray[Any]]:
    """Yield a few images at a time, (n, …), in order."""
    row = int(np.prod(images.shape[1:])) * images.dtype.itemsize
    at_once = max(1, PIECE // row)
    with _readable(path), zipfile.ZipFile(path) as archive, archive.open(f"{images.name}.npy") as file:
        if images.by_column:
            yield npy.read_array(file, allow_pickle=False)
            return
        _header(file)
        for begin in range(0, images.shape[0], at_once):
            count = min(at_once, images.shape[0] - begin)
            content = file.read(count * row)
            yield np.frombuffer(content, images.dtype).reshape(count, *images.shape[1:])
