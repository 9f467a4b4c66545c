"""The advice in words: Markdown that says what to use, what that rests on, and what it leaves open."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from augbench.bench.common.wording import counted, few_names, listed, two_digits
from augbench.results.statistics.bootstrap import Interval
from augbench.results.statistics.moderated import LEAST_SEEDS
from augbench.results.statistics.resolution import POWER
from augbench.results.studies.advice import FLIP_AND_CROP, NOTHING, Advice, Contrast

IN_WORDS = {
    NOTHING: "no augmentation",
    FLIP_AND_CROP: "flip and crop (`fixed`)",
}
SMALLEST_P = 0.001
OPEN_ENDS = (
    "This holds for this network and this short training. Longer training and larger networks often gain more from "
    "augmentation."
)


@dataclass(frozen=True)
class Setting:
    """What the runs were made with.

    Attributes:
        data: What the data set is called.
        train_images: Number of training images.
        network: Name of the network.
        passes: Passes of all training images in each run, a copy counted as an image.
        more: Command that runs more seeds.
        again: Command that words the advice again.
        reasons: Why learners have no result, a sentence each.
    """

    data: str
    train_images: int
    network: str
    passes: int
    more: str
    again: str
    reasons: Sequence[str] = ()


def advice_text(advice: Advice, setting: Setting, found: Sequence[str], files: Sequence[str]) -> str:
    """Word the advice.

    Args:
        advice: The decision.
        setting: What the runs were made with.
        found: Sentences on what the learners found about the images.
        files: Sentences on what lies beside the text.
    """
    parts = [
        f"# Which augmentation for {setting.data}?",
        f"**{headline(advice)}**",
        " ".join(_grounds(advice, setting)),
    ]
    if advice.accuracies:
        parts.append("\n".join(_table(advice)))
        parts.append(
            "Brackets: 95 % intervals over seeds and test images, for each number alone. p: paired test over seeds, "
            f"with Holm's correction for all {_pairs(advice)} pairs."
        )
    parts += ["## What was found about the images", "\n".join(f"- {sentence}" for sentence in found)] if found else []
    parts += ["## What is open", " ".join(_open(advice, setting))]
    parts += ["## Files", "\n".join(f"- {sentence}" for sentence in files)]
    return "\n\n".join(parts) + "\n"


def headline(advice: Advice) -> str:
    """Say in one sentence what to use."""
    if advice.recommended is None:
        return "No recommendation: too few learners have a result."
    if advice.recommended != NOTHING:
        return f"Use {named(advice.recommended)}."
    if not advice.is_tested:
        return f"Use no augmentation: {counted(advice.seeds, 'seed')} cannot show that anything is better."
    worse = [label for label in advice.accuracies if advice.shows_better(NOTHING, label)]
    if len(worse) == len(advice.accuracies) - 1:
        return "Use no augmentation: every learner is worse."
    return "Use no augmentation: nothing is shown to be better, and it costs least."


def named(label: str) -> str:
    """Name a learner in a sentence."""
    return IN_WORDS.get(label, f"`{label}`")


def _grounds(advice: Advice, setting: Setting) -> Iterator[str]:
    """Say what was run, how much better the recommended learner is, and than which it is not shown to be."""
    if not advice.accuracies:
        yield "No learner has a result with every seed."
    else:
        passes = "1 pass" if setting.passes == 1 else f"{setting.passes} passes"
        yield (
            f"{counted(len(advice.accuracies), 'learner')} trained `{setting.network}` with "
            f"{counted(advice.seeds, 'seed')} each: {passes} of {counted(setting.train_images, 'training image')}, "
            f"tested on {counted(advice.images, 'image')}."
        )
    if advice.left_out:
        names = few_names([f"{named(label)} ({count} seeds)" for label, count in advice.left_out.items()])
        yield f"Left out, since some of their runs have no result: {names}."
    yield from setting.reasons
    chosen = advice.recommended
    if chosen is None:
        return
    if chosen != NOTHING:
        yield f"It is {_than(advice, chosen, NOTHING)}."
    if FLIP_AND_CROP in advice.accuracies and chosen != FLIP_AND_CROP:
        yield f"It is {_than(advice, chosen, FLIP_AND_CROP)}."
    if chosen != NOTHING:
        yield from _beside(advice, chosen)


def _than(advice: Advice, first: str, second: str) -> str:
    """Say by how much one learner is better or worse than another one, and whether that is shown."""
    contrast = advice.contrasts[first, second]
    if advice.shows_better(first, second):
        return f"better than {named(second)} by {_points(contrast)}"
    if advice.shows_better(second, first):
        return f"worse than {named(second)} by {_points(contrast.reversed())}"
    return f"not told apart from {named(second)}: {_points(contrast)}"


def _points(contrast: Contrast) -> str:
    p_value = contrast.p_adjusted
    about = "" if p_value is None else f"; p {'' if p_value < SMALLEST_P else '= '}{p_text(p_value)}"
    return f"{_with_ends(contrast.interval, sign='+')} points{about}"


def p_text(p_value: float) -> str:
    """Write a p-value with three decimals."""
    return f"< {SMALLEST_P}" if p_value < SMALLEST_P else f"{p_value:.3f}"


def _beside(advice: Advice, chosen: str) -> Iterator[str]:
    """Name the learners that may be as good, and say why this one is recommended."""
    others = [label for label in advice.open_against(chosen) if label not in (NOTHING, FLIP_AND_CROP)]
    better = [label for label in others if advice.shows_better(label, NOTHING)]
    if better:
        were = "is" if len(better) == 1 else "are"
        yield (
            f"{_capital(listed([named(label) for label in better]))} {were} better than no augmentation, too, and not "
            f"told apart from {named(chosen)}, which trains faster."
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _with_ends(interval: Interval, sign: str = "") -> str:
    """Write a share as percent, with the ends of its interval."""
    ends = [end for end in (interval.low, interval.high) if end is not None]
    middle, *between = (f"{round(100 * end, 1) + 0.0:{sign}.1f}" for end in (interval.estimate, *ends))  # no -0.0
    return f"{middle} [{', '.join(between)}]" if between else middle


def _table(advice: Advice) -> Iterator[str]:
    yield "| learner | accuracy (%) | against no augmentation (points) | p | training (s) |"
    yield "| --- | --- | --- | --- | ---: |"
    for label, interval in advice.accuracies.items():
        contrast = advice.contrasts.get((label, NOTHING))
        difference = _with_ends(contrast.interval, "+") if contrast else "–"
        p_value = "–" if contrast is None or contrast.p_adjusted is None else p_text(contrast.p_adjusted)
        name = f"**{label}**" if label == advice.recommended else label
        yield f"| {name} | {_with_ends(interval)} | {difference} | {p_value} | {advice.seconds[label]:.0f} |"


def _pairs(advice: Advice) -> int:
    return len(advice.accuracies) * (len(advice.accuracies) - 1) // 2


def _open(advice: Advice, setting: Setting) -> Iterator[str]:
    yield OPEN_ENDS
    if advice.recommended is not None:
        if not advice.is_tested:
            yield f"A test takes at least {LEAST_SEEDS} seeds."
        others = advice.open_against(advice.recommended)
        if others and advice.is_tested:
            yield f"Not told apart from {named(advice.recommended)}: {listed([named(other) for other in others])}."
            widest = max(_half_width(advice.contrasts[advice.recommended, other]) for other in others)
            yield from _resolution(advice, widest)
    yield f"More seeds: `{setting.more}`, then `{setting.again}`."


def _resolution(advice: Advice, widest: float) -> Iterator[str]:
    """Say which differences could have been shown; `widest` is the longest half of an interval of those left open."""
    if advice.smallest is None or 100 * widest < 0.05:  # then all are as good as can be on these test images
        return
    yield (
        f"With {counted(advice.seeds, 'seed')}, the test finds a difference of about "
        f"{two_digits(100 * advice.smallest)} points with a probability of {100 * POWER:.0f} %; with more seeds, "
        "smaller ones. The intervals, which allow for other test images and must leave out 0, too, reach up to "
        f"{two_digits(100 * widest)} points to either side with {counted(advice.images, 'test image')}."
    )


def _half_width(contrast: Contrast) -> float:
    low, high = contrast.interval.low, contrast.interval.high
    return 0.0 if low is None or high is None else (high - low) / 2
