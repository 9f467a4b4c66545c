"""Checks that a run can be interrupted: what a method is can be saved, and a resumed run ends the same."""

from typing import Any

import torch
from torch import Tensor

from augbench.bench.common.randomness import generator
from augbench.bench.conformance.augmentation import DRAWING_HOOKS, draw
from augbench.bench.conformance.outcome import ConformanceError, DoesNotApplyError
from augbench.bench.conformance.problem import EPOCHS, GREY
from augbench.bench.conformance.states import first_difference, seed_globally, through_a_file
from augbench.bench.conformance.subject import StoppingObserver, Subject, train
from augbench.bench.contract.method import Method

ADVICE = (
    "Put everything that changes in a run into `learnable` or `optimizers`, or save it in `state_dict` and restore it "
    "in `load_state_dict`; compute schedules from the epoch that `start_epoch` is given, never from a counter; "
    "gradients are not saved: clear them in `after_backward`."
)
NOT_REPEATABLE = ("seconds",)


def state(subject: Subject) -> None:
    """After a run, what was saved makes a new instance the same: state, learned numbers and draws."""
    trainer = subject.run.trainer
    saved = through_a_file(trainer.method.state_dict())
    fresh = subject.trainer(GREY).method
    fresh.load_state_dict(saved)
    place = first_difference(saved, through_a_file(fresh.state_dict()))
    if place:
        raise ConformanceError(
            f"After loading a state, the method returns a different one: {place} differs.",
            "Make `load_state_dict` restore all that `state_dict` returns.",
        )
    before, after = (_asked(method, trainer.data.train.images[:20]) for method in (trainer.method, fresh))
    for name, value in before.items():
        if first_difference(value, after[name]):
            raise ConformanceError(f"After a state was loaded into a new instance, {name} differs.", ADVICE)


def _asked(method: Method[Any], images: Tensor) -> dict[str, object]:
    """What a method answers: first as in an evaluation right after loading, then as in the last epoch."""
    answers: dict[str, object] = {"what `learned` says": dict(method.learned())}
    for hook in reversed(DRAWING_HOOKS):
        if hook == "augment":
            method.start_epoch(EPOCHS - 1)
        seed_globally(0)
        with torch.no_grad():
            drawn = draw(method, hook, images.clone(), generator(0, "check", images.device))
        answers[f"what `{hook}` draws"] = drawn
    return answers


def resume(subject: Subject) -> None:
    """A run that stops and goes on in a new process, at whatever step, ends bit for bit as one in one go."""
    if subject.device.type != "cpu":
        raise DoesNotApplyError("bit for bit on a CPU only")
    end = _repeatable(subject.run.end)
    for step, checkpoint in subject.run.recorder.checkpoints.items():
        seed_globally(100 + step)  # another process would not have this one's
        trainer = subject.trainer(GREY)
        trainer.load_state_dict(through_a_file(checkpoint))
        train(trainer, StoppingObserver())
        place = first_difference(end, _repeatable(trainer.state_dict()))
        if place:
            raise ConformanceError(
                f"A run stopped after step {step} of {trainer.total_steps} and resumed ends differently from an "
                f"uninterrupted one: {place} differs.",
                ADVICE,
            )


def _repeatable(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name not in NOT_REPEATABLE}
