"""Checks of a search before training."""

from augbench.bench.conformance.outcome import WORK_ON_A_COPY, ConformanceError, DoesNotApplyError
from augbench.bench.conformance.problem import GREY, PROBLEMS
from augbench.bench.conformance.states import first_difference
from augbench.bench.conformance.subject import Subject


def search(subject: Subject) -> None:
    """It goes through, for grey and for colour images, and says how many images it passed through networks."""
    _only_where_searched(subject)
    for problem in PROBLEMS:
        found = subject.searched(problem)
        if found.counted != found.forwarded:
            raise ConformanceError(
                f"The search reported {found.counted} images to `count_passes`, but passed {found.forwarded} through "
                "the networks.",
                "Call `problem.count_passes(len(images))` for each batch that goes forward through a network.",
            )


def _only_where_searched(subject: Subject) -> None:
    if not subject.target.searches:
        raise DoesNotApplyError("it has no search phase")


def search_inputs(subject: Subject) -> None:
    """It leaves its training and validation images as they are."""
    _only_where_searched(subject)
    for problem in PROBLEMS:
        changed = subject.searched(problem).changed
        if changed:
            raise ConformanceError(
                f"The search changed its {' and '.join(changed)}.",
                WORK_ON_A_COPY,
            )


def search_seed(subject: Subject) -> None:
    """The seed decides what it finds, bit for bit, and the test images play no part in it."""
    _only_where_searched(subject)
    if subject.device.type != "cpu":
        raise DoesNotApplyError("bit for bit on a CPU only")
    first = subject.searched(GREY).found
    place = first_difference(first, subject.run.recorder.found)  # the same seed and training images, other test images
    if not place:
        return
    if first_difference(first, subject.search(GREY, seed=3).found):
        raise ConformanceError(
            f"Two searches with the same seed found different things: {place} differs.",
            "Draw with torch from `problem.generator` only; let nothing depend on time or on the order of a set.",
        )
    raise ConformanceError(
        f"The search depends on the test images: with others, {place} differs.",
        "Use `problem.train` and `problem.validation` only.",
    )
