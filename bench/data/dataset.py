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
        """Return the chosen images."""
        return Split(self.images[indices], self.labels[indices])


@dataclass(frozen=True)
class ImageData:
    """A loaded data set.

    Attributes:
        train: Training images; final runs train on all of them.
        test: Test images, read once for each evaluation.
        classes: Number of classes.
        provenance: Where the data came from, in words.
        planted: Law of the transforms that every image went through once, where it is known.
        held_out: Which training images the publishers of the data set hold out for validation, where they say so;
            (N,) bool.
        upright_test: The test images as they were before the data set turned, shrank or otherwise transformed each of
            them, where it did. Their side is a multiple of `image_size`.
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
        """Test images for probes, which transform all of them alike and then shrink them to `image_size`.

        Images that were turned by every angle before look the same after one more turn, so that no network would seem
        to mind; and images that were shrunk before are blurred by a turn as none of a turned data set is. So those from
        before are taken.
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
        """Which training images are held out for searches and tuning; final runs train on them too; (N,) bool."""
        if self.held_out is not None:
            return self.held_out
        return class_shares_mask(self.train.labels, VALIDATION_SHARE, VALIDATION_SEED)

    def for_tuning(self) -> "ImageData":
        """Return the data set that values are tuned on: the fixed validation split stands where the test images stood.

        Training images, and with them the channel statistics, are the others. The test images are not in it. A search
        holds out a split of its own of the training images that are left.
        """
        held_out = self.validation_mask()
        return replace(
            self,
            train=self.train.subset((~held_out).nonzero()[:, 0]),
            test=self.train.subset(held_out.nonzero()[:, 0]),
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
        held_out = None if self.held_out is None else self.held_out.to(device)
        upright = None if self.upright_test is None else self.upright_test.to(device)
        return replace(
            self, train=self.train.to(device), test=self.test.to(device), held_out=held_out, upright_test=upright
        )


def grey_level_counts(images: Tensor) -> Tensor:
    """Count how often each grey level occurs in each channel, a few images at a time to save memory.

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
        version: To be raised whenever images, labels or splits change; part of a run's identity.
        title: One line for tables and lists.
        checksum: Checksum of the source files, `md5:…` or `sha256:…`, where it does not depend on options.
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
        """Make once what `load` needs, which may download files; most data sets that come with a package need nothing.

        Args:
            resolver: Where files may come from, with the folder of data sets.

        Returns:
            The folder with what was made, or nothing if nothing is needed.

        Raises:
            UserError: If a file is missing or damaged, or something cannot be written.
        """
        return None

    def base(self, options: DatasetOptions) -> "tuple[DatasetSource, DatasetOptions] | None":
        """Return the data set, with its options, that this one is made from when it is loaded, if there is one.

        Before a launch, that one is loaded and checked in its place.
        """
        return None

    def check(self, options: DatasetOptions, root: Path) -> None:  # noqa: B027 - most have nothing to look for
        """Look before any run starts for damage that loading does not find; nothing is downloaded or prepared.

        Whoever calls it loads the data set next, and what is loaded is checked in any case.

        Raises:
            UserError: If a file is missing or damaged.
        """


def class_shares_mask(labels: Tensor, fraction: float, seed: int, least: int = 0) -> Tensor:
    """Choose a share of the images of each class.

    Args:
        labels: (N,).
        fraction: In [0, 1]; rounded to a whole number of images in each class.
        seed: Seed of the choice.
        least: Images of each class that are chosen at least, where it has as many.

    Returns:
        Which images are chosen; (N,) bool, on the device of the labels.
    """
    sizes = np.unique(labels.cpu().numpy(), return_counts=True)[1]
    return _mask_of_each_class(labels, [max(least, round(fraction * size)) for size in sizes.tolist()], seed)


def split_off_validation(train: Split, fraction: float, seed: int) -> tuple[Split, Split]:
    """Cut a fixed validation split from the training images, for searches and tuning only.

    Args:
        train: Training images.
        fraction: Share of the images of each class that is held out, in (0, 1).
        seed: Seed of the choice.

    Returns:
        The images to fit on and the images held out; together they are `train`, class shares are kept.
    """
    held_out = class_shares_mask(train.labels, fraction, seed)
    return train.subset((~held_out).nonzero()[:, 0]), train.subset(held_out.nonzero()[:, 0])


def class_balanced_subset(labels: Tensor, count: int, seed: int) -> Tensor:
    """Choose exactly `count` images, class shares kept as closely as whole numbers allow (largest remainders).

    No class is lost where `count` is enough for all: one whose share is less than an image gets one, at the cost of the
    class that is furthest above its share.

    Args:
        labels: (N,).
        count: Number of images, at most N.
        seed: Seed of the choice.

    Returns:
        Indices of the chosen images, rising; (count,).
    """
    sizes = np.unique(labels.cpu().numpy(), return_counts=True)[1]
    wanted = sizes * count / len(labels)
    taken = np.floor(wanted).astype(int)
    taken[np.argsort(taken - wanted, kind="stable")[: count - taken.sum()]] += 1
    for lost in np.flatnonzero(taken == 0) if count >= len(sizes) else ():
        taken[np.argmax(np.where(taken > 1, taken - wanted, -np.inf))] -= 1
        taken[lost] = 1
    return _mask_of_each_class(labels, taken.tolist(), seed).nonzero()[:, 0]


def _mask_of_each_class(labels: Tensor, numbers: list[int], seed: int) -> Tensor:
    """Choose so many images of each class that occurs, in the order of the labels; (N,) bool."""
    random = np.random.RandomState(seed)  # the one NumPy generator whose stream is frozen
    known = labels.cpu().numpy()
    chosen = np.zeros(len(known), dtype=bool)
    for label, number in zip(np.unique(known), numbers, strict=True):
        chosen[random.permutation(np.flatnonzero(known == label))[:number]] = True
    return torch.from_numpy(chosen).to(labels.device)
