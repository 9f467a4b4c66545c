"""Checks of loss, training and what is learned."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from augbench.bench.common.randomness import generator
from augbench.bench.conformance.outcome import ConformanceError, DoesNotApplyError
from augbench.bench.conformance.problem import BATCH_SIZE, GREY
from augbench.bench.conformance.states import first_difference
from augbench.bench.conformance.subject import StoppingObserver, Subject, train
from augbench.bench.contract.method import Method, single_number

SHARES = "probability/"
NAMED = (SHARES, "range/")


def loss(subject: Subject) -> None:
    """It has a number for each copy of each image, and a gradient."""
    trainer = subject.ready(GREY)
    method, part = trainer.method, trainer.data.train
    method.augment(part.images[:BATCH_SIZE].clone(), generator(0, "check", subject.device))
    shape = (method.copies, BATCH_SIZE)
    logits = torch.randn(
        *shape, trainer.data.classes, device=subject.device, generator=generator(0, "logits", subject.device)
    )
    losses = method.loss(logits.requires_grad_(), part.labels[:BATCH_SIZE])
    if not isinstance(losses, Tensor):
        raise ConformanceError(f"`loss` returned {type(losses).__name__}.", "Return a tensor, (copies, images).")
    if tuple(losses.shape) != shape:
        raise ConformanceError(
            f"`loss` returned the shape {tuple(losses.shape)} for {shape[0]} copies of {shape[1]} images.",
            'Return (copies, images), with reduction="none"; the training loop takes the mean.',
        )
    if not losses.isfinite().all():
        raise ConformanceError("`loss` returned numbers that are not finite.", "Take log_softmax of the logits.")
    if not losses.requires_grad:
        raise ConformanceError(
            "`loss` has no gradient.", "Leave out .detach(), .item() and torch.no_grad() on the way from the logits."
        )
    losses.mean().backward()
    if logits.grad is None or not logits.grad.isfinite().all() or not logits.grad.any():
        raise ConformanceError(
            "The gradient of `loss` in the logits is missing, 0 or not finite.", "Compute it from all of the logits."
        )


def regulariser(subject: Subject) -> None:
    """It is one number as a tensor, or None."""
    trainer = subject.ready(GREY)
    trainer.method.augment(trainer.data.train.images[:BATCH_SIZE].clone(), generator(0, "check", subject.device))
    given = trainer.method.regulariser()
    value = given if isinstance(given, np.ndarray) else single_number(given)  # an array cannot be added to the loss
    if value is not None and not isinstance(value, int | float):
        shape = f" of shape {tuple(value.shape)}" if isinstance(value, Tensor) else ""
        raise ConformanceError(
            f"`regulariser` returned {type(value).__name__}{shape}.",
            "Return one number as a tensor, which is added to the mean loss, or None: take the sum or the mean.",
        )
    if value is not None and not math.isfinite(value):
        raise ConformanceError(f"`regulariser` returned {value}.", "Look for divisions by 0 and logarithms of 0.")


def step(subject: Subject) -> None:
    """Steps of training go through, for grey and for colour images."""
    train(subject.ready(GREY), StoppingObserver(steps=2))
    subject.run_in_colour()


def learned_numbers(subject: Subject) -> None:
    """What `learned` names are finite numbers, and probabilities are in [0, 1]."""
    trainer = subject.ready(GREY)
    before = trainer.method.learned()
    train(trainer, StoppingObserver(steps=2))
    for said in (before, trainer.method.learned()):
        if not isinstance(said, Mapping):
            raise ConformanceError(
                f"`learned` returned {type(said).__name__}.",
                'Return a dictionary of names and numbers, as in {"strength": self.strength.item()}.',
            )
        for key, value in said.items():
            _check_learned(key, value)


def _check_learned(key: object, value: object) -> None:
    if not isinstance(key, str) or not key.strip() or "\n" in key or key in NAMED:
        raise ConformanceError(
            f"{key!r} is no name of a learned number.", "Use `probability/<block>`, `range/<block>` or a short text."
        )
    value = single_number(value)  # as runs do
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConformanceError(
            f"The learned number {key!r} is of type {type(value).__name__}.",
            "Return Python floats: `.item()` or `.tolist()` makes them of a tensor.",
        )
    if not math.isfinite(value):
        raise ConformanceError(
            f"The learned number {key!r} is {value}.",
            "Find out where it leaves its range; a run with such a number ends as diverged.",
        )
    if key.startswith(SHARES) and not 0 <= value <= 1:
        raise ConformanceError(
            f"The learned number {key!r} is {value:.4g}, not in [0, 1].", "Clamp it, or name it in another way."
        )
    if key.startswith("range/") and value < 0:
        raise ConformanceError(
            f"The learned number {key!r} is {value:.4g}, below 0.", "Return the half-width of the block's distribution."
        )


def training(subject: Subject) -> None:
    """A whole run ends without an exception and without numbers that are not finite."""
    run = subject.run
    for name, tensor in run.trainer.method.learnable.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ConformanceError(
                f"learnable[{name!r}] is not finite after training.", "Keep it in its range after each step."
            )


def gradients(subject: Subject) -> None:
    """Whatever in `learnable` requires a gradient has moved, or got one."""
    run = subject.run
    learnable = run.trainer.method.learnable
    wanted = [name for name, tensor in learnable.items() if tensor.requires_grad]
    if not wanted:
        raise DoesNotApplyError("nothing in `learnable` requires a gradient")
    for name in wanted:
        stayed = not first_difference(run.learnable_at_start.get(name), run.learnable_at_end.get(name))
        if stayed and name not in run.recorder.reached:
            raise ConformanceError(
                f"learnable[{name!r}] requires a gradient, but in a whole run its gradient was 0 or missing, and its "
                "value did not change.",
                "Let the images, the loss or the regulariser depend on this very tensor: no .detach(), .item(), "
                "torch.no_grad() or torch.tensor(…) on the way.",
            )


def _is_to_learn(subject: Subject) -> bool:
    """Whether anything says that `learnable` is to change: a gradient, a search that used networks, a step."""
    target = subject.target
    searched = target.searches and subject.searched(GREY).forwarded > 0
    steps = target.after_backward is not Method.after_backward or target.after_epoch is not Method.after_epoch
    return searched or steps or any(tensor.requires_grad for tensor in subject.run.trainer.method.learnable.values())


def learning(subject: Subject) -> None:
    """A run changes what is learned, and what `learned` says of it."""
    run = subject.run
    if not run.trainer.method.learnable:
        raise DoesNotApplyError("nothing is in `learnable`")
    if not first_difference(run.learnable_at_start, run.learnable_at_end):
        if not _is_to_learn(subject):
            raise DoesNotApplyError("everything in `learnable` is given: no gradient, search or step changes it")
        raise ConformanceError(
            "A whole run left everything in `learnable` unchanged.",
            "Step it in `after_backward`, for instance with an optimiser of your own in `optimizers`, or set it in "
            "`search`.",
        )
    now = run.trainer.method.learned()
    if now and not first_difference(run.learned_at_start, now):
        raise ConformanceError(
            "`learned` returns the same before and after a whole run, although `learnable` has changed.",
            "Read the numbers from what is in `learnable` each time.",
        )
