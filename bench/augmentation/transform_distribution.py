"""The distribution of a random map of the plane, in coordinates that no learner's parametrisation decides.

Every affine map with an invertible linear part A is g(x) = A(x + t) with exactly one

    A = R(turn)·Sx(e^x-scale)·Sy(e^y-scale)·H(x-shear)·F,

where F mirrors left and right if det A < 0 and is the identity otherwise: the QR decomposition of A·F with a positive
diagonal. `turn` is an angle on the circle and takes in both the rotation and the half-turn of the affine space. The two
can stand in for each other, since rotations within ±90° with a half-turn in half of the draws are the same
distribution as rotations within ±180°; so distributions are compared in these coordinates and not block by block.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:  # whoever reads records of recovery needs no torch
    from torch import Tensor

    from augbench.bench.augmentation.affine_space import Space

COORDINATES = ("turn", "x-scale", "y-scale", "x-shear", "flip", "x-shift", "y-shift")
"""Angle in (−π, π], two log factors, an off-diagonal entry, 0 or 1, and two shifts in half images."""

RECOVERY_DRAWS = 100_000
"""Draws from a learned law: chance alone gives an exact learner about 0.002, seldom 0.005, in a coordinate."""

CONTINUOUS_BLOCKS = ("rotation", *COORDINATES[1:4])
"""Blocks of the affine space whose magnitudes a planted distribution draws, in the order of the space."""

STEPS = 10_000  # points that stand for a uniform law: they are off by a 20,000th of its range

Array = NDArray[np.float64]


def decompose(transforms: "Tensor") -> Array:
    """Write affine maps in `COORDINATES`.

    Args:
        transforms: Maps g as matrices [A | A·t]; (N, 2, 3).

    Returns:
        (N, 7).

    Raises:
        ValueError: If a map is not finite or cannot be inverted.
    """
    maps = transforms.detach().cpu().double().numpy()
    (a, b), (c, d) = maps[:, 0, :2].T, maps[:, 1, :2].T
    determinant = a * d - b * c
    if not (np.isfinite(maps).all() and determinant.all()):
        raise ValueError("The transforms of the plane are not all finite and invertible.")
    shift = np.linalg.solve(maps[:, :, :2], maps[:, :, 2:])[:, :, 0]
    flip = determinant < 0
    a, c = np.where(flip, -a, a), np.where(flip, -c, c)  # A·F
    length = np.hypot(a, c)
    turn = np.arctan2(c, a)
    shear = (a * b + c * d) / length**2
    linear = (np.where(turn == -math.pi, math.pi, turn), np.log(length), np.log(abs(determinant) / length), shear, flip)
    return np.stack((*linear, *shift.T), axis=1)


@dataclass(frozen=True)
class Atoms:
    """A distribution on the line or the circle as weighted points.

    Attributes:
        points: (K,).
        weights: Not negative, their sum is 1; (K,).
    """

    points: Array
    weights: Array

    @classmethod
    def of(cls, samples: Array) -> "Atoms":
        """Make the distribution of samples (N,), each with the same weight."""
        return cls(samples, np.full(len(samples), 1 / len(samples)))


def wasserstein(first: Atoms, second: Atoms, period: float | None = None) -> float:
    """1-Wasserstein distance of two laws: the least mean distance by which the one is moved to become the other.

    On the line it is ∫|F − G| with the distribution functions F and G. On a circle it is the least of ∫|F − G − c| over
    all c (Rabin, Delon and Gousseau, 2011), which the median of F − G attains.

    Args:
        first: A distribution.
        second: Another one.
        period: Length of the circle, None for the line.
    """
    points = np.concatenate((first.points, second.points))
    if period is not None:
        points = points % period
    order = np.argsort(points)
    difference = np.concatenate((first.weights, -second.weights))[order].cumsum()
    points = points[order]
    if period is None:
        return float((abs(difference[:-1]) * np.diff(points)).sum())
    lengths = np.diff(points, append=points[0] + period)
    return float((abs(difference - _weighted_median(difference, lengths)) * lengths).sum())


def _weighted_median(values: Array, weights: Array) -> float:
    order = np.argsort(values)
    cumulative = weights[order].cumsum()
    return float(values[order][np.searchsorted(cumulative, cumulative[-1] / 2)])


class PlantedDistribution(BaseModel):
    """A known distribution of transforms: independent blocks of the affine space, each changing some of the images.

    A continuous block draws its magnitude from (1−s)·δ₀ + s·U[−r, r] with range r and share s; the half-turn and the
    flip change an image with probability s. So a flip of 0.5 is the symmetric distribution that mirrors every other
    image, which a learner in the affine space has where its flip block has probability 1. The crop is not planted:
    what it cuts off is lost, so it is no map of the plane.

    Attributes:
        rotation: In degrees, as people write it; all others are in the units of the space.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    rotation: float = Field(0.0, ge=0, le=180, description="range r of the rotation: uniform in ±r degrees")
    x_scale: float = Field(0.0, ge=0, le=math.log(2), description="range of the log factor along x, at most ln 2")
    y_scale: float = Field(0.0, ge=0, le=math.log(2), description="range of the log factor along y, at most ln 2")
    x_shear: float = Field(0.0, ge=0, le=1, description="range of the shear along x")
    half_turn: float = Field(0.0, ge=0, le=1, description="share of the images turned by 180°")
    flip: float = Field(0.0, ge=0, le=1, description="share of the images mirrored left to right")
    rotation_share: float = Field(1.0, gt=0, le=1, description="share of the images that are rotated")
    x_scale_share: float = Field(1.0, gt=0, le=1, description="share of the images that are scaled along x")
    y_scale_share: float = Field(1.0, gt=0, le=1, description="share of the images that are scaled along y")
    x_shear_share: float = Field(1.0, gt=0, le=1, description="share of the images that are sheared")

    @model_validator(mode="after")
    def _shares_have_ranges(self) -> "PlantedDistribution":
        for block, extent, fraction in zip(CONTINUOUS_BLOCKS, self.ranges, self.fractions, strict=False):
            if extent == 0 and fraction != 1:
                name = block.replace("-", "_")
                raise ValueError(f"{name}_share changes nothing without {name}")
        return self

    @property
    def ranges(self) -> tuple[float, float, float, float]:
        """Ranges of the continuous blocks in the order and the units of the space: radians, log factors, shear."""
        return math.radians(self.rotation), self.x_scale, self.y_scale, self.x_shear

    @property
    def fractions(self) -> tuple[float, ...]:
        """Share of the images that each affine block changes, in the order of the space; (6,)."""
        fractions = (self.rotation_share, self.x_scale_share, self.y_scale_share, self.x_shear_share)
        return *fractions, self.half_turn, self.flip

    @property
    def label(self) -> str:
        """Name for tables, such as "rotation ±45° + flip"; distributions that differ have different names."""
        extents = (f"±{_plain(self.rotation)}°", *(f"±{_plain(extent)}" for extent in self.ranges[1:]))
        names = [f"{name} {extent}" for name, extent in zip(CONTINUOUS_BLOCKS, extents, strict=True)]
        usual, present = (1, 1, 1, 1, 0.5, 0.5), (*self.ranges, self.half_turn, self.flip)
        parts = [
            name if fraction == norm else f"{name} (share {_plain(fraction)})"
            for name, fraction, norm, there in zip(
                (*names, "half-turn", "flip"), self.fractions, usual, present, strict=True
            )
            if there
        ]
        return " + ".join(parts) or "none"

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The coordinates in which something is planted."""
        return tuple(name for name, law in self.marginals().items() if (law.points[law.weights > 0] != 0).any())

    def marginals(self) -> dict[str, Atoms]:
        """Distribution of each coordinate."""
        continuous = [_mixture(fraction, extent) for fraction, extent in zip(self.fractions, self.ranges, strict=False)]
        turn, still = continuous[0], Atoms(np.zeros(1), np.ones(1))
        upside_down = Atoms(
            np.concatenate((turn.points, turn.points + math.pi)),
            np.concatenate((turn.weights * (1 - self.half_turn), turn.weights * self.half_turn)),
        )
        mirrored = Atoms(np.array([0.0, 1.0]), np.array([1 - self.flip, self.flip]))
        return dict(zip(COORDINATES, (upside_down, *continuous[1:], mirrored, still, still), strict=True))


def _plain(number: float) -> str:
    return repr(number).removesuffix(".0")


def _mixture(fraction: float, extent: float) -> Atoms:
    """(1−share)·δ₀ + share·U[−extent, extent]."""
    points = extent * ((2 * np.arange(STEPS) + 1) / STEPS - 1)
    return Atoms(np.append(points, 0.0), np.append(np.full(STEPS, fraction / STEPS), 1 - fraction))


def recovery(transforms: "Tensor", law: PlantedDistribution, space: "Space") -> dict[str, float]:
    """Distance of a learned distribution from the planted one in each coordinate; 0 is exact.

    Each is the 1-Wasserstein distance of the two marginal distributions, divided by the coordinate's maximum in the
    affine space: π for the turn, which is compared on the circle, 1 for the flip, the crop's largest shift for the
    shifts. A learner that stays within the space hardly gets above 1; one that misses a symmetry planted up to its
    maximum gets 0.5 there.

    Args:
        transforms: Draws from the learned distribution, see `Method.sample_transforms`; (N, 2, 3).
        law: The planted distribution.
        space: The protocol's space at the size of the images, which has the maxima.

    Raises:
        ValueError: If a map is not finite or cannot be inverted.
    """
    shift = 2 * space.padding / space.image_size
    scale = space.maximum_log_scale
    maxima = (math.pi, scale, scale, space.maximum_shear, 1.0, shift, shift)
    samples, planted = decompose(transforms).T, law.marginals()
    return {
        name: wasserstein(Atoms.of(values), planted[name], 2 * math.pi if name == "turn" else None) / maximum
        for name, values, maximum in zip(COORDINATES, samples, maxima, strict=True)
    }


def recovery_error(distances: Mapping[str, float]) -> float:
    """Mean over the coordinates: how far a learner is from what was planted, in one number.

    Over all coordinates it also counts what a learner found beyond that, such as symmetries that the images had before;
    over `PlantedDistribution.coordinates` alone how far off it is in what was planted, too little or too much.
    """
    return sum(distances.values()) / len(distances)
