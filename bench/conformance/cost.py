"""What a training step costs, against the baseline on as many images: reported, and no fault unless absurd."""

from statistics import median

from augbench.bench.conformance.outcome import ConformanceError
from augbench.bench.conformance.problem import GREY
from augbench.bench.conformance.subject import StoppingObserver, Subject, train
from augbench.bench.experiment.spec import method_component
from augbench.bench.training.trainer import Trainer, new_trainer

STEPS = 9
ABSURD = 200.0


def cost(subject: Subject) -> str:
    """A step takes a sensible time."""
    mine = subject.ready(GREY)
    theirs = _baseline(subject, mine.method.copies)
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(STEPS):  # in turn, so that whatever else the machine does concerns both
        for trainer, taken in zip((mine, theirs), seconds, strict=True):
            taken.append(_one_step(trainer))
    own, baseline = (median(taken) for taken in seconds)
    text = f"{own / baseline:.1f} × the step of `none` on as many images ({own * 1e3:.1f} and {baseline * 1e3:.1f} ms)"
    if own > ABSURD * baseline:
        raise ConformanceError(f"A step takes {text}.", "Transform the images of a batch together, not one by one.")
    return text


def _baseline(subject: Subject, copies: int) -> Trainer:
    spec = subject.spec(GREY)
    budget = spec.budget.model_copy(update={"baseline_copies": copies})
    baseline = spec.model_copy(update={"budget": budget, "method": method_component("none", {}, "the check")})
    return new_trainer(baseline, GREY.data(), subject.device)


def _one_step(trainer: Trainer) -> float:
    def taken() -> float:
        return sum(phases["training"] for phases in trainer.cost.seconds.values())

    before = taken()
    if trainer.step == trainer.total_steps:
        trainer.step = 0
    train(trainer, StoppingObserver(steps=1))
    return taken() - before
