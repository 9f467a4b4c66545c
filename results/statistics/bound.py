"""The PAC-Bayes bound of SCALE (theorem 3.1 and its proof), term by term."""

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from augbench.bench.common.errors import UserError

LARGEST = 1e30  # of an assumption, so that no term overflows


class PriorMean(StrEnum):
    """Where the prior of the weights has its mean w₀."""

    INITIAL = "initial"
    ZERO = "zero"


@dataclass(frozen=True)
class Assumptions:
    """Assumptions of the theorem that a run cannot tell; choose them before looking at the run.

    Attributes:
        lipschitz: L: the clipped loss of any image is L-Lipschitz in the weights w. Nothing here checks it.
        loss_range: (a, b): the loss is clipped to this interval.
        delta: δ: the bound may fail with this probability over the draw of the training images.
        prior_deviation: s: the prior of the weights is N(w₀, s²I).
        prior_mean: w₀: the weights that the run's seed starts the network with, or 0.
        prior: β of the augmentation's prior; None for that which SCALE was trained with.

    Raises:
        UserError: If a value is out of range.
    """

    lipschitz: float
    loss_range: tuple[float, float]
    delta: float = 0.05
    prior_deviation: float = 1.0
    prior_mean: PriorMean = PriorMean.INITIAL
    prior: float | None = None

    def __post_init__(self) -> None:
        lower, upper = self.loss_range
        if not -LARGEST <= lower < upper <= LARGEST:
            raise UserError(
                f"--loss-range {lower:g} {upper:g} is no interval. Give two finite numbers, the lower one first, such "
                "as 0 5; the cross-entropy of each image is clipped to them."
            )
        for option, value in (("--lipschitz", self.lipschitz), ("--prior-deviation", self.prior_deviation)):
            if not 1 / LARGEST <= value <= LARGEST:
                raise UserError(
                    f"{option} {value:g} is out of range: give a positive number, from {1 / LARGEST:g} to {LARGEST:g}."
                )
        if not 0 < self.delta < 1:
            raise UserError(
                f"--delta {self.delta:g} is out of range: it is the probability with which the bound may fail. Give a "
                "number strictly between 0 and 1, such as 0.05."
            )
        if self.prior is not None and not 0 < self.prior < 1:
            raise UserError(
                f"--prior {self.prior:g} is out of range: give a number strictly between 0 and 1, such as 0.01."
            )


@dataclass(frozen=True)
class Measured:
    """What is read off a run.

    Attributes:
        images: n, the training images.
        weights: p, the learned weights of the network.
        squared_distance: ‖w − w₀‖².
        divergence: Reg(θ) = KL(Q_θ‖P), in nats.
        empirical_risk: R_TRM,n, estimated: the clipped loss averaged over the training images and draws from Q_θ.
        standard_error: Standard error of that estimate, from the draws alone.
        draws: Transforms drawn for each training image in it.
    """

    images: int
    weights: int
    squared_distance: float
    divergence: float
    empirical_risk: float
    standard_error: float
    draws: int


@dataclass(frozen=True)
class PacBayesBound:
    """Right-hand side of the theorem, with λ = √n as in the paper: its terms add up to `total`.

    Attributes:
        assumptions: What is supposed.
        measured: What is read off the run.
        posterior_deviation: σ of the posterior N(w, σ²I), the one that makes the bound smallest.
        empirical_risk: R_TRM,n.
        distance: ‖w − w₀‖²/(2s²√n).
        augmentation: Reg(θ)/√n.
        spread: (p·log(s/σ) − p/2 + p·σ²/(2s²))/√n, the rest of KL(N(w, σ²I)‖N(w₀, s²I)).
        confidence: log(1/δ)/√n.
        concentration: (b − a)²/(8√n), by Hoeffding's lemma.
        smoothing: 2L√p·σ, for going from the posterior to w and back.
    """

    assumptions: Assumptions
    measured: Measured
    posterior_deviation: float
    empirical_risk: float
    distance: float
    augmentation: float
    spread: float
    confidence: float
    concentration: float
    smoothing: float

    @property
    def remainder(self) -> float:
        """The theorem's c_n."""
        return self.spread + self.confidence + self.concentration + self.smoothing

    @property
    def total(self) -> float:
        """What the transformed risk is at most."""
        return self.empirical_risk + self.distance + self.augmentation + self.remainder

    @property
    def vacuous(self) -> bool:
        """Whether the loss range alone says as much."""
        return not self.total < self.assumptions.loss_range[1]

    def as_dict(self) -> dict[str, Any]:
        """Every number by its name, for JSON."""
        return asdict(self) | {
            "remainder": self.remainder,
            "total": self.total,
            "vacuous": self.vacuous,
            "in_words": self.summary(),
        }

    def summary(self) -> str:
        """Explain in one paragraph what the number means and what it assumes."""
        lower, upper = self.assumptions.loss_range
        if self.vacuous:
            worth = (
                f"This bound is vacuous: the loss is at most {upper:g} by its clipping alone, so that {self.total:.4g} "
                "says nothing about unseen images."
            )
        else:
            worth = f"This bound is not vacuous: it lies below {upper:g}, which the clipping alone guarantees."
        return (
            f"If the assumptions hold, then with probability {1 - self.assumptions.delta:g} over the draw of the "
            f"{self.measured.images:,} training images, the expected loss of the trained network on a new image under "
            f"the learned augmentation, clipped to [{lower:g}, {upper:g}], is at most {self.total:.4g}. {worth} "
            f"{self._caveats()}"
        )

    def _caveats(self) -> str:
        measured = self.measured
        return (
            "The empirical risk is an estimate from random draws, with a standard error of "
            f"{measured.standard_error:.2g} that is not added. Nobody has checked that the loss is "
            f"{self.assumptions.lipschitz:g}-Lipschitz in the {measured.weights:,} weights: deep networks have no such "
            "constant for all weights, and a smaller one makes the bound smaller without making it true. Statistics of "
            "the training images that the network keeps (normalisation of the pixels and of batches) count as fixed "
            "beforehand."
        )


def bound(measured: Measured, assumptions: Assumptions) -> PacBayesBound:
    """Evaluate the bound of step 4 of the proof with λ = √n and the best σ.

    The c_n that the paper writes down has the approximation σ ≈ √p/(2L√n), which never makes the bound smaller, and
    s²/2, the term of a sub-Gaussian loss, where its "improved lemma" for a loss in [a, b] has (b − a)²/8.
    """
    root, weights, deviation = math.sqrt(measured.images), measured.weights, assumptions.prior_deviation
    lower, upper = assumptions.loss_range
    sigma = best_posterior_deviation(measured.images, weights, assumptions.lipschitz, deviation)
    spread = math.log(deviation / sigma) - 0.5 + (sigma / deviation) ** 2 / 2
    return PacBayesBound(
        assumptions=assumptions,
        measured=measured,
        posterior_deviation=sigma,
        empirical_risk=measured.empirical_risk,
        distance=measured.squared_distance / (2 * deviation**2 * root),
        augmentation=measured.divergence / root,
        spread=weights * spread / root,
        confidence=-math.log(assumptions.delta) / root,
        concentration=(upper - lower) ** 2 / (8 * root),
        smoothing=2 * assumptions.lipschitz * math.sqrt(weights) * sigma,
    )


def best_posterior_deviation(images: int, weights: int, lipschitz: float, prior_deviation: float) -> float:
    """σ* = 1/(√(nL²/p + 1/s²) + L√n/√p), where the bound is smallest over σ for λ = √n.

    It depends on nothing that was learned, so that the bound holds with it.
    """
    slope = lipschitz * math.sqrt(images / weights)
    return 1 / (math.hypot(slope, 1 / prior_deviation) + slope)
