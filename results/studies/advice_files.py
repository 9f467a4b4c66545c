"""Writes the advice that the runs of an output folder give: text, picture and report."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from augbench.bench.common.files import write_text
from augbench.bench.common.wording import counted
from augbench.bench.planning.short_comparison import MORE_FILE, ShortComparison
from augbench.bench.runs.run_folder import RunState
from augbench.bench.training.examples import Examples
from augbench.results.figures import write_figure
from augbench.results.figures.style import method_looks
from augbench.results.model.frame import Runs
from augbench.results.studies.advice import NOTHING, Advice, advice_of
from augbench.results.studies.advice_figure import advice_figure
from augbench.results.studies.advice_text import Setting, advice_text, named
from augbench.results.studies.symmetries import symmetry_sentences, width_sentence

TEXT, FIGURE, POLICY = "recommendation.md", "recommendation", "policy.py"
COMPOSING, WIDENING = "scale", "augerino"
"""The learners whose learned numbers are put into words."""


@dataclass(frozen=True)
class Commands:
    """Commands to go on with.

    Attributes:
        more: Runs more seeds.
        again: Words the advice again.
    """

    more: str
    again: str


def write_advice(
    out: Path, runs: Runs, comparison: ShortComparison, commands: Commands, export: Callable[[str, Path], None]
) -> tuple[Advice, str]:
    """Write the text and the picture of the advice beside the runs.

    Args:
        out: Output folder.
        runs: Its runs, of which at least one is finished.
        comparison: What it compares.
        commands: What the text names.
        export: Writes the policy of a learner to a file.

    Returns:
        The advice, and the text.

    Raises:
        UserError: If the folder cannot be written to.
    """
    advice = advice_of(runs, comparison.seeds)
    setting = _setting(runs, comparison, commands)
    files = ["`report.html`: every number, chart and environment, for a browser.", f"`{MORE_FILE}`: more seeds."]
    if advice.accuracies:
        drawn_by = _drawn_by(advice)
        figure = advice_figure(
            advice, method_looks(runs.runs), _note(advice, setting), drawn_by, _examples(runs, drawn_by)
        )
        write_figure(figure, out / FIGURE, ["png"])
        files.append(f"`{FIGURE}.png`: accuracies, and images as `{drawn_by}` draws them.")
    (out / POLICY).unlink(missing_ok=True)  # of earlier advice, with fewer seeds
    if advice.recommended not in (None, NOTHING):
        export(str(advice.recommended), out / POLICY)
        files.append(
            f"`{POLICY}`: what `{advice.recommended}` draws, with its lowest seed, as a transform of torchvision."
        )
    text = advice_text(advice, setting, list(found_about_images(runs, advice)), files)
    write_text(out / TEXT, text)
    return advice, text


def found_about_images(runs: Runs, advice: Advice) -> Iterator[str]:
    """Say what learners found in the images; nothing of one that is left out.

    What a learner found says little about the images if training with it was worse than without.
    """
    spoken = False
    for label, numbers in runs.learned.groupby("label", sort=False):
        method = runs.runs.loc[runs.runs["label"] == label, "method"].iloc[0]
        if method not in (COMPOSING, WIDENING) or label not in advice.accuracies or NOTHING not in advice.accuracies:
            continue
        name = named(str(label))
        most = advice.contrasts[str(label), NOTHING].interval.high
        if most is not None and most < 0:  # whether or not a test shows it
            yield f"{name} did worse than no augmentation here, so what it learned says little about the images."
            continue
        yield from symmetry_sentences(numbers, name) if method == COMPOSING else [width_sentence(numbers, name)]
        spoken = True
    if spoken:
        yield (
            "A learner keeps what does not make images harder to classify in its short training. That is a hint at a "
            "symmetry of the images, and no proof."
        )


def _setting(runs: Runs, comparison: ShortComparison, commands: Commands) -> Setting:
    finished = runs.runs[runs.runs["state"] == RunState.DONE]
    failed = runs.runs[runs.runs["state"] == RunState.FAILED].drop_duplicates("label")
    return Setting(
        data=str(finished["dataset_label"].iloc[0]),
        train_images=int(finished["train_images"].iloc[0]),
        network=comparison.network,
        passes=comparison.epochs,
        more=commands.more,
        again=commands.again,
        reasons=[
            f"{named(str(label))} failed: {str(reason).rstrip('.')}."
            for label, reason in zip(failed["label"], failed["reason"], strict=True)
        ],
    )


def _note(advice: Advice, setting: Setting) -> str:
    return (
        f"{setting.data}: {setting.passes} passes of {counted(setting.train_images, 'training image')} with "
        f"{setting.network}, {counted(advice.seeds, 'seed')}, {counted(advice.images, 'test image')}."
    )


def _drawn_by(advice: Advice) -> str:
    """Show what SCALE draws, which tells most about the images; else what the last learner does."""
    return COMPOSING if COMPOSING in advice.accuracies else list(advice.accuracies)[-1]


def _examples(runs: Runs, label: str) -> Examples | None:
    """Read the examples of the first finished run of a learner."""
    chosen = runs.runs[(runs.runs["label"] == label) & (runs.runs["state"] == RunState.DONE)]
    return None if chosen.empty else runs.examples(str(chosen["folder"].iloc[0]))
