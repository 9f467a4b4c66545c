"""Hours of search and training, and those beyond the hours of `none`, for each device apart."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from augbench.results.model.costs import SECONDS_IN_AN_HOUR, plain_training
from augbench.results.model.table import Cell, Column, mean_cell, signed

HOURS_DEFINITION = (
    "Hours, or minutes if they are few: search and training of one run, wall clock, without compilation, evaluation "
    "and tuning; GPU-hours if the device is a GPU. Extra: hours more than none, one copy of each image, with the same "
    "seed, data, network, budget and device. (k/N): only k of the N seeds ran on that one device from start to end; "
    "for extra, those of none too."
)
MINUTES_UP_TO = 0.5  # hours
Hours = dict[str, "pd.Series[float]"]


def hours_rows(group: pd.DataFrame, asked: int) -> Iterator[tuple[Column, dict[str, Cell]]]:
    """Make two rows for each device: hours of each method, and hours beyond those of `none`.

    Args:
        group: Finished runs of one comparison.
        asked: Number of requested seeds.

    Yields:
        The measure of a row, and its cells by label. Cells hold hours, even if their texts are in minutes.
    """
    timed = group[["seconds_search", "seconds_training"]].notna().all(axis=1)
    for device, here in group[timed].groupby("device"):
        hours = hours_by_label(here)
        longest = max(float(of_label.mean()) for of_label in hours.values())
        minutes = longest < MINUTES_UP_TO
        factor = 60 if minutes else 1
        digits = max(1, 1 - math.floor(math.log10(longest * factor))) if longest else 1
        unit = "minutes" if minutes else "hours"
        unit = f"GPU-{unit}" if here["on_gpu"].eq(True).all() else unit
        where = f", {device}" if group["device"].nunique() > 1 else ""
        rows = ((unit[0].upper() + unit[1:], "hours", hours), (f"Extra {unit}", "extra_hours", extra_hours(here)))
        for heading, metric, values in rows:
            cells = {label: mean_cell(of_label, factor, digits) for label, of_label in values.items()}
            if metric == "extra_hours":
                cells = {label: replace(cell, text=signed(cell.text)) for label, cell in cells.items()}
            placed = {label: replace(cell, device=str(device)).of(asked) for label, cell in cells.items()}
            yield Column(f"{heading}{where}", metric, None, "hours"), placed


def hours_by_label(here: pd.DataFrame) -> Hours:
    """Add up search and training of runs on one device: for each label its hours by seed."""
    timed = here.assign(hours=(here["seconds_search"] + here["seconds_training"]) / SECONDS_IN_AN_HOUR)
    return {str(label): inside.set_index("seed")["hours"] for label, inside in timed.groupby("label", sort=False)}


def extra_hours(here: pd.DataFrame) -> Hours:
    """Subtract the hours of `none` with the same seed, on one device; empty without exactly one such method."""
    hours, baselines = hours_by_label(here), set(plain_training(here)["label"])
    if len(baselines) != 1:
        return {}
    (none,) = baselines
    extra = {label: (of_label - hours[none]).dropna() for label, of_label in hours.items() if label != none}
    return {label: of_label for label, of_label in extra.items() if len(of_label)}
