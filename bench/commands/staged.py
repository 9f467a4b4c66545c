"""The stages of a suite with `[tuning]` in words: what is tried, how far it is, and which values were chosen."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import typer

from augbench.bench.commands.plain import tell_notes
from augbench.bench.common.wording import counted, listed
from augbench.bench.experiment.spec import settings_in_words
from augbench.bench.experiment.suite import Suite
from augbench.bench.planning.plan import Plan, counts_in_words, runs_in_words
from augbench.bench.tuning.stages import Search, Stages
from augbench.results.statistics.moderated import LEAST_SEEDS

SECONDS_IN_AN_HOUR = 3600
TUNED_COSTS = (
    "all trials of a method and data set count as one kind of run, and so do its final runs, whatever their values."
)
"""What sums and estimates of a plan mean where values are not known yet."""


def stage_in_words(stages: Stages) -> str:
    """Name the present stage, to append to a title; empty where nothing is tuned."""
    if not stages.searches:
        return ""
    ended = all(search.ended for search in stages.searches)
    return ", stage 2 of 2 (final runs)" if ended else ", stage 1 of 2 (trials, and runs that wait for none)"


def tell_about_tuning(suite: Suite, stages: Stages) -> None:
    """Say what is tuned and how far that is, if anything is."""
    for line in stage_lines(suite, stages):
        typer.echo(line)
    tell_notes(_few_seeds(stages))


def stage_lines(suite: Suite, stages: Stages) -> Iterator[str]:
    """Describe both stages, a line each, and who keeps its values."""
    if suite.tuning is None or not stages.searches:
        return
    trials, final = Plan(stages.trials), Plan(stages.final)
    yield f"Stage 1, trials on validation images: {_effort(suite, stages)}. {_counts(trials)}"
    later = f" {runs_in_words(len(stages.waiting))} wait for their values." if stages.waiting else ""
    yield f"Stage 2, the comparison: {_counts(final)}{later}"
    by_reason: dict[str, list[str]] = {}
    for name, reason in stages.untuned.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        yield f"Not tuned, with the values of the suite: {listed(names)} ({reason})."


def _counts(plan: Plan) -> str:
    return counts_in_words(plan.counts()) if plan.runs else "no run yet."


def _effort(suite: Suite, stages: Stages) -> str:
    """Say how many trials each method has, and who has fewer or more."""
    numbers = Counter(search.tuning.trials for search in stages.searches)
    usual = suite.tuning.trials if suite.tuning and suite.tuning.trials in numbers else max(numbers)
    others = dict.fromkeys(
        f"{search.tuning.base.method.name} {search.tuning.trials}{_why(suite, search)}"
        for search in stages.searches
        if search.tuning.trials != usual
    )
    tuning = stages.searches[0].tuning
    repeats = f", {runs_in_words(tuning.repeats)} each" if tuning.repeats > 1 else ""
    more = f"; {', '.join(others)}" if others else ""
    return f"{counted(usual, 'trial')} for each method and data set ({tuning.search}{repeats}){more}"


def _why(suite: Suite, search: Search) -> str:
    asked = suite.tuning.trials_of(search.tuning.base.method.name) if suite.tuning else 0
    return " (it has no more values)" if asked > search.tuning.trials else ""


def _few_seeds(stages: Stages) -> Iterator[str]:
    """Warn that the comparison that is paid for cannot be tested."""
    runs = [*stages.final, *stages.waiting]
    seeds = Counter(run.spec.configuration for run in runs)
    least = min(seeds.values(), default=LEAST_SEEDS)
    if stages.searches and least < LEAST_SEEDS:
        yield (
            f"the suite has {counted(least, 'seed')}, and a test takes {LEAST_SEEDS} at least, so tables will test "
            "nothing. Seeds can be added to the suite at any time."
        )


def value_lines(stages: Stages) -> Iterator[str]:
    """Say which values were chosen, a line for each method and data set, and budget where there are several."""
    several = Counter(search.name for search in stages.searches)
    for search in stages.searches:
        if search.best is None or search.chosen is None:
            continue
        best, first, trials = search.best, search.outcomes[0].accuracy, len(search.outcomes)
        untuned = f", untuned {100 * first:.2f} %" if first is not None else ""
        hours = stages.costs[search.chosen.configuration].seconds.items()  # never summed over devices
        spent = " + ".join(f"{seconds / SECONDS_IN_AN_HOUR:.2g} h on {device}" for device, seconds in hours)
        equal = f", equal {search.tuning.base.budget.equal}" if several[search.name] > 1 else ""
        yield (
            f"{search.name}{equal}: {settings_in_words(best.trial.values)} (trial {best.trial.number} of {trials}, "
            f"{100 * (best.accuracy or 0):.2f} % of the validation images{untuned}; {spent or 'no time known'})."
        )


def tell_values(stages: Stages) -> None:
    """Say which values were chosen, if any were."""
    lines = list(value_lines(stages))
    if lines:
        typer.echo("\n  ".join(["Best values:", *lines]))


def stages_as_json(stages: Stages) -> dict[str, Any]:
    """Describe the stages for `plan --json`."""
    return {
        "trials": len(stages.trials),
        "final": len(stages.final),
        "waiting": len(stages.waiting),
        "untuned": dict(stages.untuned),
        "searches": [
            {
                "method": search.tuning.base.learner_label,
                "dataset": search.tuning.base.dataset.label,
                "search": search.tuning.search,
                "trials": search.tuning.trials,
                "ended": search.ended,
                "values": search.best.trial.values if search.best else None,
            }
            for search in stages.searches
        ],
    }
