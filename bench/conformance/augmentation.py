"""Checks of the images that a method makes."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from itertools import product
from typing import Any

import torch
from torch import Tensor

from augbench.bench.common.randomness import generator
from augbench.bench.conformance.outcome import WORK_ON_A_COPY, ConformanceError
from augbench.bench.conformance.problem import BATCH_SIZE, GREY, PROBLEMS, Problem
from augbench.bench.conformance.states import first_difference, global_states, seed_globally
from augbench.bench.conformance.subject import Subject
from augbench.bench.contract.method import AugmentedBatch, Method, Policy

BATCH_SIZES = (BATCH_SIZE, 7, 1)
DRAWING_HOOKS = ("augment", "test_policy", "sample_transforms")
DRAWING_ADVICE = (
    "Draw with torch and pass `generator=generator` each time; for other libraries, draw a seed for them from it."
)
ROUNDING = 1e-5  # by which interpolation may leave [0, 1]


def images(subject: Subject) -> None:
    """As many copies as announced come back, for grey and colour images and for batches of any size."""
    for method, batch, copies in _augmented(subject):
        if not isinstance(copies, AugmentedBatch) or not isinstance(copies.images, Tensor):
            what = (
                f"AugmentedBatch with {type(copies.images).__name__}"
                if isinstance(copies, AugmentedBatch)
                else type(copies).__name__
            )
            raise ConformanceError(f"`augment` returned {what}.", "Return AugmentedBatch(images) with a tensor.")
        expected = (method.copies * len(batch), *batch.shape[1:])
        if tuple(copies.images.shape) != expected:
            raise ConformanceError(
                f"`augment` made {tuple(copies.images.shape)} of a batch {tuple(batch.shape)} with {method.copies} "
                f"copies of each image, not {expected}.",
                "Start from `repeat(images, self.copies)` and keep the size of the images.",
            )
        if copies.draw is not None and len(copies.draw) != expected[0]:
            raise ConformanceError(
                f"`augment` returned {len(copies.draw)} draws with {expected[0]} images.",
                "Return the draw that made these images, one for each copy, or none.",
            )


def order(subject: Subject) -> None:
    """Copy m of image b is number m·B + b: another image in its place changes these copies and no others."""
    for problem in PROBLEMS:
        trainer = subject.ready(problem)
        images, other = trainer.data.train.images[:BATCH_SIZE], trainer.data.train.images[BATCH_SIZE]
        state = deepcopy(trainer.method.state_dict())
        before = _copies_of(trainer.method, images, state, subject)
        for place in (0, len(images) // 2 + 1):
            exchanged = images.clone()
            exchanged[place] = 255 - other
            changed = (_copies_of(trainer.method, exchanged, state, subject) != before).flatten(2).any(2)
            changed[:, place] = False  # as it should be
            if changed.any():
                copy, image = changed.nonzero().tolist()[0]
                raise ConformanceError(
                    f"Another image in place {place} of a batch of {len(images)} changed copy {copy} of image {image}.",
                    "Keep the order of `repeat(images, self.copies)`: all images once, then all of them again; "
                    "`repeat_interleave` has another one.",
                )


def _copies_of(method: Method[Any], images: Tensor, state: Mapping[str, Any], subject: Subject) -> Tensor:
    """Augment images with the same randomness each time; (M, B, C, H, W)."""
    method.load_state_dict(deepcopy(state))
    with torch.no_grad():
        made = method.augment(images.clone(), generator(0, "order", subject.device)).images
    return made.view(method.copies, *images.shape)


def _augmented(subject: Subject) -> Iterator[tuple[Method[Any], Tensor, AugmentedBatch]]:
    """Augment a batch of each size of each kind of images."""
    for problem in PROBLEMS:
        trainer = subject.ready(problem)
        for size in BATCH_SIZES:
            batch = trainer.data.train.images[:size].clone()
            yield trainer.method, batch, trainer.method.augment(batch, generator(size, "check", subject.device))


def values(subject: Subject) -> None:
    """They are 32-bit floats in [0, 1] on the device of the batch."""
    for _, batch, copies in _augmented(subject):
        check_values(copies.images, batch.device, "`augment`")


def check_values(made: Tensor, device: torch.device, what: str) -> None:
    """Check type, device and range of images (N, C, H, W) that `what` has made."""
    if made.dtype != torch.float32:
        raise ConformanceError(
            f"{what} made images of type {str(made.dtype).removeprefix('torch.')}.",
            "Make float32 in [0, 1]: `to_unit_interval(images)` converts uint8.",
        )
    if made.device != device:
        raise ConformanceError(
            f"{what} made images on {made.device} from images on {device}.", "Make every tensor on the images' device."
        )
    if not made.isfinite().all():
        raise ConformanceError(f"{what} made images with values that are not finite.", "Look for divisions by 0.")
    low, high = made.min().item(), made.max().item()
    if low < -ROUNDING or high > 1 + ROUNDING:
        raise ConformanceError(
            f"{what} made values from {low:.4g} to {high:.4g}.",
            "Keep images in [0, 1], for instance with `.clamp(0, 1)`; the network normalises them itself.",
        )


def inputs(subject: Subject) -> None:
    """The batch itself stays as it is."""
    for problem in PROBLEMS:
        trainer = subject.ready(problem)
        batch = trainer.data.train.images[:BATCH_SIZE].clone()
        before = batch.clone()
        trainer.method.augment(batch, generator(0, "check", subject.device))
        if not torch.equal(batch, before):
            raise ConformanceError(
                "`augment` changed the batch that it was given.",
                WORK_ON_A_COPY,
            )


def seed(subject: Subject) -> None:
    """The generator's seed decides what is drawn, in training, for a test and of the transforms."""
    for hook in DRAWING_HOOKS:
        first, second = (_draw(subject, hook) for _ in range(2))
        if first_difference(first, second):
            raise ConformanceError(
                f"`{hook}` drew something else with the same seed.",
                "Pass the generator to every function that draws, and let nothing depend on time, on the order of a "
                "set or on earlier calls.",
            )


def _draw(subject: Subject, hook: str) -> object:
    trainer = subject.ready(GREY)
    seed_globally(0)
    with torch.no_grad():
        return draw(trainer.method, hook, trainer.data.train.images.clone(), generator(0, "check", subject.device))


def global_randomness(subject: Subject) -> None:
    """No global generator is used: not torch's own, not NumPy's, not Python's."""
    for problem, hook in product(PROBLEMS, DRAWING_HOOKS):
        first, second = (_watched_draw(subject, problem, hook, number) for number in (1, 2))
        if first_difference(first, second):
            raise ConformanceError(f"What `{hook}` draws depends on the state of a global generator.", DRAWING_ADVICE)


def _watched_draw(subject: Subject, problem: Problem, hook: str, global_seed: int) -> object:
    trainer = subject.ready(problem)
    images = trainer.data.train.images.clone()
    seed_globally(global_seed)
    before = global_states()
    with torch.no_grad():
        drawn = draw(trainer.method, hook, images, generator(0, "check", subject.device))
    used = [name for name, state in global_states().items() if first_difference(state, before[name])]
    if used:
        raise ConformanceError(f"`{hook}` draws from the global generator of {' and '.join(used)}.", DRAWING_ADVICE)
    return drawn


def draw(method: Method[Any], hook: str, images: Tensor, source: torch.Generator) -> object:
    """Call one of `DRAWING_HOOKS` on images (N, C, H, W), uint8."""
    if hook == "augment":
        return method.augment(images, source).images
    if hook == "sample_transforms":
        return method.sample_transforms(len(images), source)
    policy = test_policy(method)
    return None if policy is None else policy(images, source)


def test_policy(method: Method[Any]) -> Policy | None:
    """Ask a method for its test policy, and check that it is a function or None."""
    policy = method.test_policy()
    if policy is not None and not callable(policy):
        raise ConformanceError(
            f"`test_policy` returned {type(policy).__name__}.",
            "Return a function of images and generator that returns the transformed images, or None.",
        )
    return policy
