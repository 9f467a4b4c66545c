"""The PAC-Bayes bound of SCALE (theorem 3.1 and its proof), term by term, for a finished run."""

import math
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from augbench.bench.catalogues import methods
from augbench.bench.errors import UserError
from augbench.bench.randomness import generator
from augbench.bench.run_folder import DamagedError, RunFolder, is_run_folder
from augbench.bench.spec import RunSpec
from augbench.bench.trained import THEN, finished_spec, load_trained_state
from augbench.bench.training import Trainer, new_trainer
from augbench.bench.worker import load_dataset
from augbench.methods.scale import LearnedDistribution

LARGEST = 1e30  # of an assumption, so that no term overflows
CHUNK = 1000  # images in one forward pass


class PriorMean(StrEnum):
    """Where the prior of the weights has its mean w₀."""

    INITIAL = "initial"
    ZERO = "zero"


@dataclass(frozen=True)
class Assumptions:
    """What the theorem supposes and a run cannot tell; to be chosen before looking at the run.

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
                f"--loss-range {lower:g} {upper:g} is no interval: give two finite numbers, the lower one first, such "
                "as 0 5. The cross-entropy of each image is clipped to it."
            )
        for option, value in (("--lipschitz", self.lipschitz), ("--prior-deviation", self.prior_deviation)):
            if not 1 / LARGEST <= value <= LARGEST:
                raise UserError(
                    f"{option} {value:g} is out of range: give a positive number, from {1 / LARGEST:g} to {LARGEST:g}."
                )
        if not 0 < self.delta < 1:
            raise UserError(
                f"--delta {self.delta:g} is out of range: it is the probability with which the bound may fail. Give a "
                "number between 0 and 1, both left out, such as 0.05."
            )
        if self.prior is not None and not 0 < self.prior < 1:
            raise UserError(
                f"--prior {self.prior:g} is out of range: give a number between 0 and 1, both left out, such as 0.01."
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
            "in_words": self.in_words(),
        }

    def in_words(self) -> str:
        """Say in one paragraph what the number means, what it is worth and what it rests on."""
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


def pac_bayes_bound(
    run: RunFolder,
    assumptions: Assumptions,
    *,
    data: Path,
    device: torch.device,
    draws: int = 8,
) -> PacBayesBound:
    """Evaluate the bound for a finished run of a method that learns (π, α).

    The loss that a run records was measured while the weights still moved and is not bounded, so that the empirical
    risk is measured anew: the network at the end, in evaluation mode, on augmented training images.

    Args:
        run: The run's folder.
        assumptions: What the theorem supposes.
        data: Folder of downloaded data sets.
        device: Where the network is to run.
        draws: Transforms drawn for each training image, at least 2.

    Returns:
        The bound; its assumptions name the prior of the augmentation even if those that were given did not.

    Raises:
        UserError: If there is no such run, it is not finished, of another method or version, or damaged, or if an
            argument is out of range.
    """
    if draws < 2:
        raise UserError(f"--draws must be at least 2, not {draws}.")
    spec = _finished_spec(run)
    prior = _prior(spec) if assumptions.prior is None else assumptions.prior
    trainer = new_trainer(spec, load_dataset(spec.dataset, data), device)
    initial = assumptions.prior_mean is PriorMean.INITIAL
    start = [weight.detach().clone() * initial for weight in trainer.network.parameters()]
    load_trained_state(run, trainer)
    learner = cast("LearnedDistribution[Any]", trainer.method)  # as `_finished_spec` has made sure
    losses = _clipped_losses(trainer, learner, assumptions.loss_range, draws)
    measured = Measured(
        images=len(trainer.data.train),
        weights=sum(weight.numel() for weight in start),
        squared_distance=_squared_distance(trainer.network, start),
        divergence=learner.divergence(prior).item(),
        empirical_risk=losses.mean().item(),
        standard_error=math.sqrt(losses.var(dim=0).mean().item() / losses.numel()),
        draws=draws,
    )
    return bound(measured, replace(assumptions, prior=prior))


def _finished_spec(run: RunFolder) -> RunSpec:
    """Read what a run is and make sure that the bound is about it."""
    if not is_run_folder(run.path):
        raise UserError(f"{run.path} is no run folder. Give that of one run, OUT/runs/NAME, with OUT as in --out OUT.")
    try:
        _check_learner(run, run.read_spec())
        return finished_spec(run)
    except DamagedError as error:
        raise UserError(str(error).replace("give the same command again", f"run the suite again, {THEN}")) from None


def _check_learner(run: RunFolder, spec: RunSpec) -> None:
    if not issubclass(methods().get(spec.method.name), LearnedDistribution):
        known = [entry.name for entry in methods() if issubclass(entry.target, LearnedDistribution)]
        raise UserError(
            f"The bound is about methods that learn (π, α) of the shared space; the run in {run.path} is of "
            f"{spec.method.name!r}. Give a run of one of these: {', '.join(known)}."
        )


def _prior(spec: RunSpec) -> float:
    """β of the prior that the run was trained with."""
    prior = spec.method.all_settings.get("prior")
    if not isinstance(prior, float):
        raise UserError(
            f"{spec.method.name!r} is trained without a prior of the augmentation. Give one with --prior, such as "
            "--prior 0.01, which is SCALE's."
        )
    return prior


@torch.no_grad()
def _clipped_losses(
    trainer: Trainer, learner: LearnedDistribution[Any], loss_range: tuple[float, float], draws: int
) -> Tensor:
    """Clipped loss of the network in evaluation mode for every draw of every training image; (draws, N).

    A loss that is no number counts as the largest one.
    """
    train, space = trainer.data.train, learner.setting.space
    trainer.network.eval()
    source = generator(trainer.spec.seed, "bound", trainer.device)
    losses = []
    for _ in range(draws):
        for images, labels in zip(train.images.split(CHUNK), train.labels.split(CHUNK), strict=True):
            logits = trainer.network(space.apply(images, learner.draw(len(images), source)))
            losses.append(learner.loss(logits[None], labels)[0])
    clipped = torch.cat(losses).double().nan_to_num(nan=loss_range[1]).clamp(*loss_range)
    return clipped.view(draws, len(train))


def _squared_distance(network: nn.Module, start: list[Tensor]) -> float:
    pairs = zip(network.parameters(), start, strict=True)
    return sum((weight.detach().double() - origin.double()).square().sum().item() for weight, origin in pairs)
