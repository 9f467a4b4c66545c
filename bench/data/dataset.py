"""Data sets: uint8 images and labels, their statistics and splits, and where they come from."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from augbench.bench.augmentation.affine_space import IMAGES_AT_A_TIME
from augbench.bench.augmentation.transform_distribution import PlantedDistribution
from augbench.bench.data.source_files import FileResolver

VALIDATION_SHARE = 0.2
VALIDATION_SEED = 0


@dataclass(frozen=True)
class Split:
    """Images and labels.

    Attributes:
        images: uint8; (N, C, H, W).
        labels: int64; (N,).
    """

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return self.images.shape[0]

    def to(self, device: torch.device) -> "Split":
        """Return the split on a device."""
        return Split(self.images.to(device), self.labels.to(device))

    def subset(self, indices: Tensor) -> "Split":
        """Return the images with some indices, (K,); faster than indexing with them."""
        return Split(self.images.index_select(0, indices), self.labels.index_select(0, indices))

    def divide(self, mask: Tensor) -> "tuple[Split, Split]":
        """Return the images where a mask (N,) is False, and those where it is True."""
        return self.subset((~mask).nonzero()[:, 0]), self.subset(mask.nonzero()[:, 0])


@dataclass(frozen=True)
class ImageData:
    """A loaded data set.

    Attributes:
        train: Training images; final runs train on all of them.
        test: Test images.
        classes: Number of classes.
        provenance: One line on where the data came from.
        planted: Distribution of the transforms that the data set applied to each image; None if it is unknown.
        held_out: Which training images the publishers hold out for validation; None if they do not say; (N,) bool.
        upright_test: The test images before the data set transformed or shrank them; None if it did not. Their side is
            a multiple of `image_size`.
    """

    train: Split
    test: Split
    classes: int
    provenance: str
    planted: PlantedDistribution | None = None
    held_out: Tensor | None = None
    upright_test: Split | None = None

    @property
    def probe_images(self) -> Split:
        """Test images for probes, which transform all of them by the same transform and shrink them to `image_size`.

        These are the images before the data set transformed them. Images that were rotated by random angles would look
        the same after one more rotation, whatever the network does; and rotating images that were shrunk before would
        blur them more than the images of a rotated data set.
        """
        return self.test if self.upright_test is None else self.upright_test

    @property
    def image_size(self) -> int:
        """Height and width in pixels."""
        return int(self.train.images.shape[-1])

    @property
    def channels(self) -> int:
        """Colour channels."""
        return int(self.train.images.shape[1])

    def validation_mask(self) -> Tensor:
        """Return the training images held out for searches and tuning, which final runs train on, too; (N,) bool."""
        if self.held_out is not None:
            return self.held_out
        return class_shares_mask(self.train.labels, VALIDATION_SHARE, VALIDATION_SEED)

    def for_tuning(self) -> "ImageData":
        """Return the data set that hyperparameters are tuned on, with the validation split in place of the test images.

        Its training images, and with them its channel statistics, are the rest of the training images. A search holds
        out a split of its own from them.
        """
        train, validation = self.train.divide(self.validation_mask())
        return replace(
            self,
            train=train,
            test=validation,
            provenance=f"{self.provenance}; without its test images, evaluated on the validation split",
            held_out=None,
            upright_test=None,
        )

    @cached_property
    def mean_and_deviation(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each channel of the training images, in [0, 1]; (C,) each."""
        counts = grey_level_counts(self.train.images).double()
        levels = torch.arange(256, dtype=torch.float64, device=counts.device) / 255
        fractions = counts / counts.sum(1, keepdim=True)
        mean = fractions @ levels
        deviation = (fractions * (levels - mean[:, None]) ** 2).sum(1).sqrt()
        return mean.float(), deviation.float()

    def to(self, device: torch.device) -> "ImageData":
        """Return the data set on a device."""
        parts = {name: getattr(self, name) for name in ("train", "test", "held_out", "upright_test")}
        return replace(self, **{name: part.to(device) for name, part in parts.items() if part is not None})


def grey_level_counts(images: Tensor) -> Tensor:
    """Count how often each grey level occurs in each channel, in chunks of images to save memory.

    Args:
        images: uint8; (N, C, H, W).

    Returns:
        int64; (C, 256).
    """
    channels = images.shape[1]
    counts = torch.zeros(channels, 256, dtype=torch.int64, device=images.device)
    for chunk in images.split(IMAGES_AT_A_TIME):
        counts += torch.stack([chunk[:, channel].flatten().bincount(minlength=256) for channel in range(channels)])
    return counts


class DatasetOptions(BaseModel):
    """Base of a data set's options; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class DatasetSource(ABC):
    """A data set that can be loaded by name.

    Attributes:
        name: The registered name; set by the decorator.
        version: Part of a run's identity. Raise it whenever images, labels or splits change.
        title: One line for tables and lists.
        checksum: Checksum of the source files, `md5:…` or `sha256:…`. If it depends on options, override
            `source_checksum` instead.
        options_type: The class of its options.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    title: ClassVar[str] = ""
    checksum: ClassVar[str]
    options_type: ClassVar[type[DatasetOptions]] = DatasetOptions

    @abstractmethod
    def load(self, options: DatasetOptions, root: Path) -> ImageData:
        """Load the data set.

        Args:
            options: An instance of `options_type`.
            root: Folder of data sets.

        Raises:
            UserError: If a file is missing or damaged.
        """

    def source_checksum(self, options: DatasetOptions) -> str:
        """Return the checksum of the source files, which is part of a run's identity."""
        return self.checksum

    def prepare(self, resolver: FileResolver) -> Path | None:
        """Make once what `load` needs, which may download files.

        Args:
            resolver: Finds files, and has the folder of data sets.

        Returns:
            The folder that was made; None if `load` needs no preparation.

        Raises:
            UserError: If a file is missing or damaged, or a file cannot be written.
        """
        return None

    def base(self, options: DatasetOptions) -> "tuple[DatasetSource, DatasetOptions] | None":
        """Return the data set, with its options, that `load` makes this one from; None if there is none.

        Before a launch, that data set is loaded and checked in place of this one.
        """
        return None

    def image_size(self, options: DatasetOptions, base_size: int) -> int:
        """Return the side of the images that `load` makes from those of its base, which have `base_size` pixels."""
        return base_size

    def check(self, options: DatasetOptions, root: Path) -> None:  # noqa: B027 - most have nothing to check
        """Find damage that `load` does not find, before any run starts; nothing is downloaded or prepared.

        The caller loads the data set next, which checks the loaded arrays.

        Raises:
            UserError: If a file is missing or damaged.
        """


def class_shares_mask(labels: Tensor, fraction: float, seed: int, least: int = 0) -> Tensor:
    """Choose a fraction of the images of each class.

    Args:
        labels: (N,).
        fraction: In [0, 1]; rounded to a whole number of images in each class.
        seed: Seed of the choice.
        least: Minimum number of images of each class that has that many.

    Returns:
        Which images are chosen; (N,) bool, on the device of the labels.
    """
    sizes = np.unique(labels.cpu().numpy(), return_counts=True)[1]
    return mask_of_each_class(labels, [max(least, round(fraction * size)) for size in sizes.tolist()], seed)


def split_off_validation(train: Split, fraction: float, seed: int) -> tuple[Split, Split]:
    """Split training images into images to fit on and images held out, with the classes in the same proportions.

    Args:
        train: Training images.
        fraction: Fraction of the images of each class that is held out, in (0, 1).
        seed: Seed of the choice.

    Returns:
        The images to fit on and the images held out.
    """
    return train.divide(class_shares_mask(train.labels, fraction, seed))


def class_balanced_subset(labels: Tensor, count: int, seed: int) -> Tensor:
    """Choose exactly `count` images, with the classes in the same proportions as far as whole numbers allow.

    Remainders are rounded by the largest-remainder method. If `count` is enough for all classes, none is lost: a class
    that would get none gets one image, at the cost of the class that is furthest above its proportion.

    Args:
        labels: (N,).
        count: Number of images, at most N.
        seed: Seed of the choice.

    Returns:
        Sorted indices of the chosen images; (count,).
    """
    sizes = np.unique(labels.cpu().numpy(), return_counts=True)[1]
    wanted = sizes * count / len(labels)
    taken = np.floor(wanted).astype(int)
    taken[np.argsort(taken - wanted, kind="stable")[: count - taken.sum()]] += 1
    for lost in np.flatnonzero(taken == 0) if count >= len(sizes) else ():
        taken[np.argmax(np.where(taken > 1, taken - wanted, -np.inf))] -= 1
        taken[lost] = 1
    return mask_of_each_class(labels, taken.tolist(), seed).nonzero()[:, 0]


def mask_of_each_class(labels: Tensor, numbers: list[int], seed: int) -> Tensor:
    """Choose a number of images of each class that occurs, classes in rising order; (N,) bool."""
    random = np.random.RandomState(seed)  # the one NumPy generator whose stream is frozen
    known = labels.cpu().numpy()
    chosen = np.zeros(len(known), dtype=bool)
    for label, number in zip(np.unique(known), numbers, strict=True):
        chosen[random.permutation(np.flatnonzero(known == label))[:number]] = True
    return torch.from_numpy(chosen).to(labels.device)
