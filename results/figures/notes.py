"""Sentences below figures: how many seeds there are, what lines and bands mean, and what to know besides."""

import pandas as pd

from augbench.bench.common.wording import counted, few_names
from augbench.results.model.cells import is_single_epoch
from augbench.results.model.frame import Runs

MOST_WARNINGS = 3
"""Warnings below a figure; of more, their number is given."""


def seeds_text(frame: pd.DataFrame) -> str:
    """Count the seeds behind the means, such as "n = 5 seeds", and name the methods that have fewer.

    Args:
        frame: What is drawn, with the columns `comparison`, `label` and `seed`.
    """
    counts = frame.groupby(["comparison", "label"], sort=False)["seed"].nunique()
    least, most = int(counts.min()), int(counts.max())
    if least == most:
        return f"n = {counted(most, 'seed')}"
    fewer = [
        f"{label} on {comparison}" if frame["comparison"].nunique() > 1 else label
        for comparison, label in counts[counts < most].index
    ]
    return f"n = {most} seeds ({least} or more of {few_names(fewer)})"


def means_text(frame: pd.DataFrame) -> str:
    """Tell what a mark or bar stands for: "means of n = 5 seeds", or "n = 1 seed", which is no mean."""
    seeds = seeds_text(frame)
    return seeds if seeds == "n = 1 seed" else f"means of {seeds}"


def lines_text(frame: pd.DataFrame) -> str:
    """Tell in a sentence what thick and thin lines are."""
    means = means_text(frame)
    return f"Thick lines: {means}; thin lines: single seeds." if means.startswith("means") else f"{means}."


def caveats(runs: Runs) -> list[str]:
    """List in sentences what is missing, mixed or meaningless in the runs of a figure."""
    finished = runs.finished()
    trials = [str(name) for name, group in finished.groupby("comparison", sort=False) if is_single_epoch(group)]
    nothing = [f"Trained for one epoch, so that accuracies mean nothing: {few_names(trials)}."] if trials else []
    found = [*nothing, *runs.warnings()]
    more = len(found) - MOST_WARNINGS
    return found if more <= 0 else [*found[:MOST_WARNINGS], f"{more} more warnings stand below the tables."]
