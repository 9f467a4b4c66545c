"""Checks of what a data set returns; the error names the first array that is wrong, and what it must be.

The checks are cheap enough for every load: they read all labels, but only as many images as it takes to see that each
channel has more than one grey level.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from augbench.bench.augmentation.transform_distribution import PlantedDistribution
from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import DatasetOptions, DatasetSource, ImageData, Split

CHANNELS_OF_FILES = (1, 3, 4)  # grey, colour, colour with alpha
MOST_NAMED = 10  # labels in one message


class UnusableDataError(UserError):
    """A data set returns an array that runs cannot use; `what` says what is wrong."""

    def __init__(self, dataset: str, what: str, hook: str) -> None:
        super().__init__(
            f"The data set {dataset!r} cannot be used: {what}. Correct its `{hook}`, then give the same command again."
        )
        self.what = what


def load_checked(source: DatasetSource, options: DatasetOptions, root: Path) -> ImageData:
    """Load a data set and make sure that runs can use it; all code loads data sets with this function.

    Raises:
        UserError: If a file is missing or damaged, or `load` returns something unusable.
    """
    data = source.load(options, root)
    check_loaded(source.name, data)
    return data


def check_loaded(name: str, data: ImageData) -> None:
    """Make sure that runs can use what `load` of the data set `name` has returned.

    Raises:
        UnusableDataError: If they cannot.
    """
    check_instance(name, "load", "what `load` returns", data, ImageData)
    check_instance(name, "load", "`provenance`", data.provenance, str)
    if data.planted is not None:
        check_instance(name, "load", "`planted`", data.planted, PlantedDistribution)
    arrays = {"held_out": NamedArray(name, "held_out", data.held_out, Tensor)}
    for part in ("train", "test", "upright_test"):
        split = getattr(data, part)
        if part != "upright_test" or split is not None:
            check_instance(name, "load", f"`{part}`", split, Split)
        for kind in ("images", "labels"):
            arrays[f"{part}_{kind}"] = NamedArray(name, f"{part}.{kind}", getattr(split, kind, None), Tensor)
    check_arrays_fit(name, arrays, data.classes)


def check_instance(dataset: str, hook: str, what: str, value: object, kind: type) -> None:
    """Make sure that a hook of a data set has returned an object of the right type.

    Raises:
        UnusableDataError: If it has not.
    """
    if not isinstance(value, kind):
        needed = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        raise UnusableDataError(dataset, f"{what} is of type {type(value).__name__}; it must be of type {needed}", hook)


@dataclass(frozen=True)
class NamedArray:
    """An array of a data set.

    Attributes:
        dataset: Name of the data set.
        name: What its author calls the array.
        value: The array, or whatever was returned in its place.
        kind: Type that it must have: `Tensor` from `load`, `ndarray` from `read`.
    """

    dataset: str
    name: str
    value: Any
    kind: type

    @property
    def hook(self) -> str:
        """Name of the function of its data set that returns it."""
        return "load" if self.kind is Tensor else "read"

    def error(self, found: str, needed: str) -> UnusableDataError:
        """Make the error that says what is wrong with it and what it must be."""
        return UnusableDataError(self.dataset, f"`{self.name}` {found}; {needed}", self.hook)

    def check_type(self, dtype: str, how: str) -> None:
        """Make sure that it is an array of this type; `how` says how to convert it."""
        check_instance(self.dataset, self.hook, f"`{self.name}`", self.value, self.kind)
        found = str(self.value.dtype).removeprefix("torch.")
        if found != dtype:
            raise self.error(f"is {found}", f"it must be {dtype}. {how}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.value.shape)

    @property
    def array(self) -> NDArray[Any]:
        """Its values, which are copied only from a GPU."""
        array: NDArray[Any] = self.value.cpu().numpy() if isinstance(self.value, Tensor) else self.value
        return array


def check_arrays_fit(dataset: str, arrays: Mapping[str, NamedArray], classes: object) -> None:
    """Make sure that the arrays of a data set have the right types, shapes and values, and fit together.

    `train_images`, `train_labels`, `test_images` and `test_labels` are needed; `held_out`, `upright_test_images` and
    `upright_test_labels` may be missing or have the value None.

    Raises:
        UnusableDataError: If one is wrong.
    """
    if not isinstance(classes, int) or classes < 2:
        raise UnusableDataError(dataset, f"`classes` is {classes!r}; it must be an int of at least 2", "classes")
    train, labels, test, test_labels = (
        arrays[f"{part}_{kind}"] for part in ("train", "test") for kind in ("images", "labels")
    )
    for images, of_images in ((train, labels), (test, test_labels)):
        _check_images(images)
        _check_labels(of_images, images.shape[0], classes)
    if test.shape[1:] != train.shape[1:]:
        needed = f"channels, height and width must be those of `{train.name}`, {train.shape[1:]}"
        raise test.error(f"has the shape {test.shape}", needed)
    _check_every_class(labels, test_labels, classes)
    _check_grey_levels(train)
    given = {name: array for name, array in arrays.items() if array.value is not None}
    if held_out := given.get("held_out"):
        held_out.check_type("bool", "True stands for an image that is held out")
        _check_length(held_out, train.shape[0], "training image")
    if upright := given.get("upright_test_images"):
        _check_upright(upright, test)
    if upright_labels := given.get("upright_test_labels"):
        _check_labels(upright_labels, test.shape[0], classes)
        if not np.array_equal(upright_labels.array, test_labels.array):
            raise upright_labels.error(f"differs from `{test_labels.name}`", "both must be the same")


def _check_images(images: NamedArray) -> None:
    images.check_type("uint8", "Scale grey levels to 0 to 255 and round them before the conversion")
    shape = images.shape
    axes = "it must be (N, C, H, W): images, channels, height, width"
    if len(shape) != 4:
        raise images.error(f"has the shape {shape}", f"{axes}. Grey images have one channel: `[:, None]` adds it")
    if 0 in shape:
        raise images.error(f"has the shape {shape}", "there must be at least one image, channel and pixel")
    height, width = shape[2:]
    if height != width:
        order = "permute" if images.kind is Tensor else "transpose"
        last = f". If channels come last, `.{order}(0, 3, 1, 2)` puts them second" if width in CHANNELS_OF_FILES else ""
        needed = f"{axes}, and images must be square, since the affine space transforms squares{last}"
        raise images.error(f"has the shape {shape}, which is {height}×{width} pixels", needed)


def _check_labels(labels: NamedArray, images: int, classes: int) -> None:
    labels.check_type("int64", "`.long()` converts a tensor, `.astype('int64')` an array of NumPy")
    _check_length(labels, images, "image")
    least, most = int(labels.array.min()), int(labels.array.max())
    if least < 0 or most >= classes:
        advice = f". Subtract {least}, if labels count from there" if least > 0 else ""
        needed = f"labels must run from 0 to {classes - 1}, since the data set has {classes} classes{advice}"
        raise labels.error(f"has values from {least} to {most}", needed)


def _check_length(field: NamedArray, count: int, of_what: str) -> None:
    if field.shape != (count,):
        needed = f"it must be ({count},), one value for each {of_what}"
        raise field.error(f"has the shape {field.shape}", needed)


def _check_every_class(labels: NamedArray, test_labels: NamedArray, classes: int) -> None:
    lacking = np.flatnonzero(np.bincount(labels.array, minlength=classes) == 0).tolist()
    if lacking:
        tested = int(np.isin(test_labels.array, lacking).sum())
        named = ", ".join(map(str, lacking[:MOST_NAMED])) + (", …" if len(lacking) > MOST_NAMED else "")
        found = f"has no image of {len(lacking)} of the {classes} classes ({named})"
        also = f", of which `{test_labels.name}` has {tested}" if tested else ""
        raise labels.error(found + also, "a network cannot learn a class without training images")


def _check_grey_levels(images: NamedArray) -> None:
    array, channels = images.array, images.shape[1]
    for channel in range(channels):
        level = array[0, channel, 0, 0]
        if all((image == level).all() for image in array[:, channel]):
            found = f"has the value {level} everywhere in channel {channel + 1} of {channels}"
            needed = (
                "a constant channel, such as an opaque alpha channel, cannot be standardised. Leave it out; if only "
                f"these {len(array)} images are so much alike, choose more of them"
            )
            raise images.error(found, needed)
    if all(image.max() <= 1 for image in array):
        raise images.error("has no value above 1", "grey levels must run from 0 to 255: multiply values in [0, 1]")


def _check_upright(upright: NamedArray, test: NamedArray) -> None:
    """Check the test images from before the data set transformed them, which may be larger than `test`."""
    _check_images(upright)
    side = test.shape[-1]
    if upright.shape[:2] != test.shape[:2] or upright.shape[-1] % side:
        needed = (
            f"it must be ({test.shape[0]}, {test.shape[1]}, S, S) as `{test.name}`, with S a whole multiple of {side}"
        )
        raise upright.error(f"has the shape {upright.shape}", needed)


def check_for_tuning(name: str, data: ImageData) -> None:
    """Make sure that hyperparameters can be tuned on the training images of a data set.

    Raises:
        UserError: If no image is held out for validation, or a class has no image but those.
    """
    held_out, labels = data.validation_mask(), data.train.labels
    fitted, validated = labels[~held_out].unique().numel(), int(held_out.sum())
    if validated and fitted == data.classes:
        return
    which = "the images that `held_out` names" if data.held_out is not None else "a fifth of each class, rounded"
    raise UserError(
        f"Hyperparameters cannot be tuned on the data set {name!r}: {validated} of its {len(labels)} training images "
        f"are held out for validation ({which}), and {fitted} of its {data.classes} classes have others to train on. "
        "Choose more training images, three of each class at least, then give the same command again."
    )
