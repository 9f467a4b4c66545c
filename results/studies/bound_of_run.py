"""The PAC-Bayes bound of SCALE for a finished run."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from augbench.bench.common.errors import UserError
from augbench.bench.common.randomness import generator
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.output_folder import is_run_folder
from augbench.bench.runs.run_folder import DamagedError, RunFolder
from augbench.bench.training.trained import THEN, finished_spec, load_trained_state
from augbench.bench.training.trainer import Trainer, new_trainer
from augbench.bench.training.worker import load_dataset
from augbench.methods.scale import LearnedDistribution
from augbench.results.statistics.bound import Assumptions, Measured, PacBayesBound, PriorMean, bound

CHUNK = 1000  # images in one forward pass


def pac_bayes_bound(
    run: RunFolder,
    assumptions: Assumptions,
    *,
    data: Path,
    device: torch.device,
    draws: int = 8,
) -> PacBayesBound:
    """Evaluate the bound for a finished run of a method that learns (π, α).

    The recorded loss was measured while the weights still moved, and is not bounded. So the empirical risk is measured
    again: the final network, in evaluation mode, on augmented training images.

    Args:
        run: The run's folder.
        assumptions: What the theorem supposes.
        data: Folder of downloaded data sets.
        device: Where the network is to run.
        draws: Transforms drawn for each training image, at least 2.

    Returns:
        The bound; its assumptions name the prior of the augmentation even if the given ones did not.

    Raises:
        UserError: If there is no such run, it is not finished, of another method or version, or damaged, or an argument
            is out of range.
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
    """Read the specification of a run, and check that the bound applies to it."""
    if not is_run_folder(run.path):
        raise UserError(f"{run.path} is no run folder. Give that of one run, OUT/runs/NAME, with OUT as in --out OUT.")
    try:
        _check_learner(run, run.read_spec())
        return finished_spec(run)
    except DamagedError as error:
        raise UserError(str(error).replace("give the same command again", f"run the suite again, {THEN}")) from None


def _check_learner(run: RunFolder, spec: RunSpec) -> None:
    if spec.predictor is not None:
        raise UserError(
            f"The bound is about a single network; the run in {run.path} has the predictor {spec.predictor.name!r}. "
            "Give a run without one."
        )
    if not issubclass(methods().get(spec.method.name), LearnedDistribution):
        known = [entry.name for entry in methods() if issubclass(entry.target, LearnedDistribution)]
        raise UserError(
            f"The bound is about methods that learn (π, α) of the affine space; the run in {run.path} is of "
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
    train, space = trainer.data.train, learner.context.space
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
