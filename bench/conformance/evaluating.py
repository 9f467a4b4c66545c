"""Checks that the data stay as they are, and that evaluation changes nothing."""

from copy import deepcopy

import torch
from torch import Tensor

from augbench.bench.common.randomness import generator
from augbench.bench.conformance.augmentation import check_values, test_policy
from augbench.bench.conformance.outcome import WORK_ON_A_COPY, ConformanceError, DoesNotApplyError
from augbench.bench.conformance.problem import PROBLEMS
from augbench.bench.conformance.states import copied, first_difference
from augbench.bench.conformance.subject import Subject
from augbench.bench.data.dataset import ImageData
from augbench.bench.training.evaluation import evaluate

SAMPLES = 17


def policy(subject: Subject) -> None:
    """Test-time draws are images like those of training, without gradients."""
    for problem in PROBLEMS:
        trainer = subject.ready(problem)
        draw = test_policy(trainer.method)
        if draw is None:
            raise DoesNotApplyError("it has no test policy")
        batch = trainer.data.test.images[:SAMPLES].clone()
        before = batch.clone()
        with torch.no_grad():
            made = draw(batch, generator(0, "check", subject.device))
            if not isinstance(made, Tensor):
                raise ConformanceError(
                    f"What `test_policy` returned made {type(made).__name__} of a batch.",
                    "Return a tensor with one transformed image for each.",
                )
            if made.shape != batch.shape:
                raise ConformanceError(
                    f"`test_policy` made {tuple(made.shape)} of a batch {tuple(batch.shape)}.",
                    "Return one transformed image for each, of the same size.",
                )
            check_values(made, batch.device, "`test_policy`")
            if made.requires_grad:
                raise ConformanceError("`test_policy` draws with gradients.", "Leave out torch.enable_grad().")
            if not torch.equal(batch, before):
                raise ConformanceError(
                    "`test_policy` changed the images that it was given.",
                    WORK_ON_A_COPY,
                )


def evaluation(subject: Subject) -> None:
    """An evaluation leaves the method, the network and the images as they were."""
    trainer = subject.run.trainer
    spec, test = trainer.spec, trainer.data.test
    method, network = copied(trainer.method.state_dict()), copied(trainer.network.state_dict())
    data, learned = deepcopy(trainer.data), dict(trainer.method.learned())
    evaluate(trainer.network, trainer.method.test_policy(), test, spec.protocol, spec.seed, trainer.cost)
    place = first_difference(method, trainer.method.state_dict())
    if place or first_difference(learned, trainer.method.learned()):
        raise ConformanceError(
            f"Test-time draws changed what was learned: {place or 'what `learned` says'} differs.",
            "Let `test_policy` only read what was learned.",
        )
    place = first_difference(network, trainer.network.state_dict())
    if place:
        raise ConformanceError(
            f"Test-time draws changed the network: {place} differs.",
            "Do not use the network in `test_policy`, or call its `eval()` first.",
        )
    _check_unchanged(data, trainer.data, "An evaluation")


def data(subject: Subject) -> None:
    """Training and test images and labels are the same before and after search and training."""
    _check_unchanged(subject.run.data_before, subject.run.trainer.data, "Search or training")


def _check_unchanged(before: ImageData, now: ImageData, what: str) -> None:
    for name in ("train", "test"):
        first, second = getattr(before, name), getattr(now, name)
        if not torch.equal(first.images, second.images) or not torch.equal(first.labels, second.labels):
            raise ConformanceError(
                f"{what} changed the {name} images or labels.",
                "Work on copies of what the method is given, and on nothing else.",
            )


def transforms(subject: Subject) -> None:
    """Transforms of the plane, where there are any, are finite 2×3 matrices without gradients."""
    for problem in PROBLEMS:
        method = subject.ready(problem).method
        drawn = method.sample_transforms(SAMPLES, generator(0, "check", subject.device))
        if drawn is None:
            raise DoesNotApplyError("its images are not those of a map of the plane, or it does not say so")
        if not isinstance(drawn, Tensor):
            raise ConformanceError(
                f"`sample_transforms` returned {type(drawn).__name__}.", f"Return a tensor, ({SAMPLES}, 2, 3), or None."
            )
        if tuple(drawn.shape) != (SAMPLES, 2, 3) or not drawn.is_floating_point():
            raise ConformanceError(
                f"`sample_transforms` returned {tuple(drawn.shape)} of type {drawn.dtype} for {SAMPLES} draws.",
                f"Return float matrices, ({SAMPLES}, 2, 3).",
            )
        if not drawn.isfinite().all() or drawn.requires_grad:
            raise ConformanceError(
                "`sample_transforms` returned matrices that are not finite or carry a gradient.",
                "Detach them, and look for divisions by 0.",
            )
