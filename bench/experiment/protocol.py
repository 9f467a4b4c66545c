"""The decisions of a comparison that belong to no method: space, evaluation, training budget."""

import math
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from augbench.bench.experiment.acceleration import Acceleration
from augbench.bench.experiment.base import Base

if TYPE_CHECKING:
    from augbench.bench.augmentation.affine_space import Space

PROTOCOL_VERSION = 1
"""To be raised whenever old and new results must not appear in one table."""


class Protocol(BaseModel):
    """Decisions shared by every run of a comparison; a suite can override each."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    maximum_rotation: float = Field(math.pi, gt=0, le=math.pi, description="largest rotation, radians")
    maximum_log_scale: float = Field(math.log(2), gt=0, le=3, description="largest log factor of an axis")
    maximum_shear: float = Field(1.0, gt=0, le=3, description="largest shear")
    test_time_draws: tuple[int, ...] = Field(
        (4, 8), strict=False, description="numbers of test-time draws, from 1 to 1024, rising"
    )
    test_time_repeats: int = Field(5, ge=1, le=100, description="independent repeats of test-time augmentation")
    calibration_bins: int = Field(15, ge=1, le=1000, description="bins of the calibration errors")
    probe_angles: int = Field(24, ge=0, le=360, description="angles of the rotation probe, evenly spaced over 360°")
    shift: Literal["corruptions", "corruptions-bar"] | None = Field(
        None, description="corruptions of the test images that finished networks are scored on; none by default"
    )
    evaluated_on: Literal["test", "validation"] = Field(
        "test", description="what is evaluated: test images, or the part of the training images that tuning holds out"
    )

    @field_validator("test_time_draws")
    @classmethod
    def _rising(cls, counts: tuple[int, ...]) -> tuple[int, ...]:
        if list(counts) != sorted({count for count in counts if 1 <= count <= 1024}):
            raise ValueError("must rise from at least 1 to at most 1024")
        return counts

    @property
    def probed_angles(self) -> int:
        """Angles of the rotation probe; none on validation images, whose unrotated originals are not kept."""
        return self.probe_angles if self.evaluated_on == "test" else 0

    @property
    def probed_shift(self) -> str | None:
        """Set of corruptions to score on; none on validation images."""
        return self.shift if self.evaluated_on == "test" else None

    def space(self, image_size: int) -> "Space":
        """Build the shared space at an image size."""
        # here, since reading records needs no torch
        from augbench.bench.augmentation.affine_space import Space, shared_space

        space = shared_space(image_size)
        return Space(image_size, space.padding, self.maximum_rotation, self.maximum_log_scale, self.maximum_shear)


class Budget(BaseModel):
    """Training length and optimiser of a network; belongs to data set and network, not to a method."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    epochs: int = Field(ge=1, le=100_000, description="passes over the training images")
    batch_size: int = Field(128, ge=1, le=65_536, description="images in a batch")
    equal: Literal["epochs", "passes"] = Field(
        "epochs",
        description="what is equal for all methods: epochs, or image passes (an epoch with M copies of each image, or "
        "with M members of a predictor, counts as M epochs)",
    )
    copies_in_batch: bool = Field(False, description="whether batch_size counts copies instead of images")
    optimizer: Literal["adam", "sgd"] = Field("adam", description="optimiser of the network")
    learning_rate: float = Field(0.01, gt=0, le=100, description="peak learning rate")
    schedule: Literal["constant", "cosine", "linear", "one-cycle", "step"] = Field(
        "one-cycle", description="course of the learning rate"
    )
    warm_up: float = Field(
        0.0, description="share of the training, such as 0.025, in which the learning rate first rises along a line"
    )
    warm_up_start: float = Field(
        0.0, ge=0, le=1, description="learning rate where the warm-up starts, as a share of the peak"
    )
    milestones: tuple[float, ...] = Field(
        (), strict=False, description="shares of the training, such as [0.3, 0.6], after which a step is taken"
    )
    step_factor: float = Field(0.1, gt=0, lt=1, description="factor of the learning rate at each milestone")
    weight_decay: float = Field(0.0, ge=0, le=1, description="weight decay of the network")
    decayed: Literal["all", "all but norms", "weights"] = Field(
        "all",
        description="which parameters decay: all, all but those of normalisation layers, or neither these nor biases",
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum (Nesterov) of sgd")
    gradient_clip: float | None = Field(
        None, gt=0, description="largest norm of the network's gradient, to which a longer one is shortened"
    )
    norm_bias_rate: float = Field(
        1.0,
        gt=0,
        le=1000,
        description="factor of the learning rate of the biases of normalisation layers",
    )
    lookahead: bool = Field(
        False, description="whether every fifth step moves the network to a running average of itself"
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="share of each training label that is spread evenly over all classes"
    )
    baseline_copies: int = Field(
        1, ge=1, le=64, description="copies of each image for methods with no number of their own"
    )
    base: Base = Field(
        (), description="the usual augmentation of every training image, under all methods: crop, flip, cutout"
    )
    acceleration: Acceleration = Field(Acceleration(), description="how a training step is made faster")

    @field_validator("warm_up")
    @classmethod
    def _a_share(cls, share: float) -> float:
        if not 0 <= share < 1:
            raise ValueError("must be a share of the training, from 0 to below 1: 0.025 for 5 of 200 epochs")
        return share

    @field_validator("milestones")
    @classmethod
    def _rising_shares(cls, shares: tuple[float, ...]) -> tuple[float, ...]:
        if list(shares) != sorted({share for share in shares if 0 < share < 1}):
            raise ValueError("must be shares of the training, rising between 0 and 1: [0.3, 0.6] for 60 and 120 of 200")
        return shares

    @model_validator(mode="after")
    def _one_course(self) -> "Budget":
        if (self.schedule == "step") != bool(self.milestones):
            raise ValueError('`milestones` and `schedule = "step"` need each other, as in milestones = [0.3, 0.6, 0.8]')
        if self.step_factor != Budget.model_fields["step_factor"].default and not self.milestones:
            raise ValueError('`step_factor` means something with `schedule = "step"` only: leave it out')
        if self.warm_up_start and not self.warm_up:
            raise ValueError("`warm_up_start` means something with `warm_up` only: leave it out, or give both")
        if self.warm_up and self.schedule == "one-cycle":
            raise ValueError('`schedule = "one-cycle"` has a warm-up of its own: leave out `warm_up`, or take "cosine"')
        return self

    def epochs_with(self, copies: int) -> int:
        """Return the epochs of a method that sees this many copies of each image, rounded up."""
        return -(-self.epochs // copies) if self.equal == "passes" else self.epochs

    def images_in_batch(self, copies: int) -> int:
        """Return the distinct images in a batch of a method that sees this many copies of each; at least 1."""
        return max(1, self.batch_size // copies) if self.copies_in_batch else self.batch_size

    def learning_rate_at(self, step: int, steps: int) -> float:
        """Return the learning rate of step `step` of `steps`, counted from 0.

        A warm-up, and each milestone, lasts to the nearest whole step. `cosine` falls from the peak after the warm-up
        to 0 at the end, `linear` falls in the same way along a line, `step` is the peak times a factor for each
        milestone that has passed since the very beginning. `one-cycle` equals torch's `OneCycleLR`: up from
        1/25 of the peak over the first 30 % of the steps, then down to 4e-6 of it, both along a cosine.
        """
        rising = round(self.warm_up * steps)
        if step < rising:
            return self.learning_rate * (self.warm_up_start + (1 - self.warm_up_start) * step / rising)
        if self.schedule == "constant":
            return self.learning_rate
        if self.schedule == "cosine":
            return _along_cosine(self.learning_rate, 0, (step - rising) / (steps - rising))
        if self.schedule == "linear":
            return self.learning_rate * (steps - step) / (steps - rising)
        if self.schedule == "step":
            passed = sum(round(milestone * steps) <= step for milestone in self.milestones)
            return float(self.learning_rate * self.step_factor**passed)
        start, end, turn = self.learning_rate / 25, self.learning_rate / 25 / 1e4, 0.3 * steps - 1
        if step <= turn:
            return _along_cosine(start, self.learning_rate, step / turn)
        return _along_cosine(self.learning_rate, end, (step - turn) / max(steps - 1 - turn, 1e-9))


def _along_cosine(start: float, end: float, fraction: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * fraction)) / 2
