"""Any data set with a planted symmetry: each image is transformed once by a draw from a known distribution."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field, ValidationInfo, field_validator

from augbench.bench.augmentation.affine_space import Draw, Space, shared_space, shrink, transform_and_shrink
from augbench.bench.augmentation.transform_distribution import PlantedDistribution
from augbench.bench.common.errors import UserError, one_of
from augbench.bench.data.dataset import DatasetOptions, DatasetSource, ImageData, Split
from augbench.bench.data.dataset_checks import load_checked
from augbench.bench.experiment.catalogues import dataset_and_options, datasets
from augbench.bench.experiment.spec import Component, canonical_json, dataset_component
from augbench.bench.registry.registry import register

PLANTING_SEED = 20250321


class PlantedOptions(PlantedDistribution, DatasetOptions):
    """Options of a planted data set: the base and the distribution.

    Attributes:
        base_options: Options that differ from the base's defaults, so that one data set has one identity.
    """

    base: str = Field("mnist5k", description="registered data set whose images are transformed")
    base_options: dict[str, Any] = Field({}, description="options of that data set")
    shrink: Literal[1, 2] = Field(1, description="2 averages squares of 2×2 pixels after planting")

    @field_validator("base")
    @classmethod
    def _known_base(cls, name: str) -> str:
        catalogue = datasets()
        bases = [entry.name for entry in catalogue if not issubclass(entry.target, Planted)]
        if name in bases:
            return name
        if name in catalogue.entries:
            raise ValueError("a planted data set cannot be planted again; describe both symmetries in one")
        raise ValueError(" ".join([one_of("data set", name, bases), *map(str, catalogue.broken)]).rstrip("."))

    @field_validator("shrink", mode="before")
    @classmethod
    def _no_truth_value(cls, factor: object) -> object:
        if isinstance(factor, bool):  # which equals 1
            raise ValueError("must be 1 or 2")
        return factor

    @field_validator("base_options")
    @classmethod
    def _options_of_base(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "base" not in info.data:  # it was wrong itself
            return options
        try:
            return dataset_component(info.data["base"], options, "base_options").settings
        except UserError as error:
            raise ValueError(str(error).rstrip(".")) from None

    @property
    def distribution(self) -> PlantedDistribution:
        """Distribution of the transforms."""
        return PlantedDistribution.model_validate(self.model_dump(include=set(PlantedDistribution.model_fields)))

    @property
    def base_component(self) -> Component:
        """Identify the base, with its version and checksum."""
        return dataset_component(self.base, self.base_options, "base_options")


@register("planted")
class Planted(DatasetSource):
    """Images of another data set, train and test, each transformed once by a seeded draw from a known distribution.

    What a learner finds can then be compared with what was planted. Images are resampled as augmented images are, then
    rounded to whole grey levels. An image whose draw is the identity stays as it is.
    """

    title = "another data set, each image transformed once by a known distribution"
    version = 2  # probes turn the images as they were before
    options_type = PlantedOptions

    def load(self, options: DatasetOptions, root: Path) -> ImageData:
        """Load the base, transform its images and shrink them."""
        options = _planted(options)
        base, base_options = self.base(options)
        data, planted = load_checked(base, base_options, root), options.distribution
        _check_size(data, options)
        random = np.random.RandomState(PLANTING_SEED)  # the one NumPy generator whose stream is frozen
        train, test = (_plant(split, planted, random, options.shrink) for split in (data.train, data.test))
        before = data.probe_images
        upright = Split(shrink(before.images, data.image_size), before.labels)  # the size at which it is planted
        provenance = f"{data.provenance}; planted: {planted.label}"
        return replace(data, train=train, test=test, provenance=provenance, planted=planted, upright_test=upright)

    def image_size(self, options: DatasetOptions, base_size: int) -> int:
        """Return the side of the images."""
        return base_size // _planted(options).shrink

    def base(self, options: DatasetOptions) -> tuple[DatasetSource, DatasetOptions]:
        """Return the base."""
        options = _planted(options)
        return dataset_and_options(options.base, options.base_options)

    def source_checksum(self, options: DatasetOptions) -> str:
        """Return the checksum of all that identifies the base: name, version, every option and its own checksum."""
        content = canonical_json(_planted(options).base_component.model_dump(mode="json"))
        return "sha256:" + hashlib.sha256(content.encode()).hexdigest()

    def check(self, options: DatasetOptions, root: Path) -> None:
        """Check the base, and that its images can be shrunk."""
        options = _planted(options)
        base, base_options = self.base(options)
        base.check(base_options, root)
        if options.shrink > 1:
            _check_size(load_checked(base, base_options, root), options)


def _check_size(data: ImageData, options: PlantedOptions) -> None:
    if data.image_size % options.shrink:
        raise UserError(
            f"The images of {options.base!r} have {data.image_size} pixels a side, which cannot be halved. Leave out "
            "shrink = 2 of the data set 'planted'."
        )


def _planted(options: DatasetOptions) -> PlantedOptions:
    return PlantedOptions.model_validate(options.model_dump())


def _plant(split: Split, planted: PlantedDistribution, random: np.random.RandomState, factor: int) -> Split:
    space = shared_space(split.images.shape[-1])
    inverse = space.inverse_matrices(draw(len(split), planted, space, random)).float()
    return Split(transform_and_shrink(split.images, inverse, space.image_size // factor), split.labels)


def draw(count: int, planted: PlantedDistribution, space: Space, random: np.random.RandomState) -> Draw:
    """Draw transforms from a planted distribution.

    Each image gets the same random numbers whatever the distribution, so that distributions can be compared in pairs.
    """
    active = random.uniform(size=(count, len(planted.fractions))) < planted.fractions
    magnitudes = random.uniform(-1, 1, size=(count, len(planted.ranges))) * planted.ranges
    always = torch.ones(count, dtype=torch.bool)
    return Draw(
        active=torch.from_numpy(np.pad(active, ((0, 0), (0, 1)))),  # never a crop
        magnitudes=torch.from_numpy(magnitudes),
        half_turn=always,  # the fraction says how many images change, so the drawn element is never the identity
        flip=always,
        offsets=torch.full((count, 2), space.padding),
    )
