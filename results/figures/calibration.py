"""Expected calibration error against classification error, with their spread and what others have published."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from augbench.bench.common.errors import UserError
from augbench.bench.common.wording import counted, few_names
from augbench.results.figures.notes import caveats, means_text
from augbench.results.figures.panels import new_panels
from augbench.results.figures.style import Colour, Look, figure_style, in_front, method_looks
from augbench.results.model.frame import Runs
from augbench.results.published import load_published
from augbench.results.statistics.summary import summarise

SEEDS, REPEATS = "seeds", "repeats"
_MOST_DRAWS = 3  # numbers of test-time draws in a panel; of more only the largest is drawn
_CROWD = 10  # methods in a panel: marks are easier to tell apart than lines
_ALWAYS_NEAR = 0.02  # shares; farther, published points are drawn up to the extent of our own from these
_TRIANGLES = ("^", "v", "<", ">")
_EDGE, _NUMBER_COLOUR = "0.15", "0.3"


@dataclass(frozen=True)
class Spot:
    """Where a method is in the plane of error and calibration.

    Attributes:
        label: The method.
        draws: Number of test-time draws.
        error: Mean fraction of test images classified wrong, over seeds.
        ece: Mean expected calibration error, over seeds.
        error_sd: Standard deviation of the error, None for a single value.
        ece_sd: Standard deviation of the calibration error.
        over: What the standard deviations are over: `SEEDS`, `REPEATS` of the draws of a single seed, or None.
        seeds: Error and calibration error of each seed.
    """

    label: str
    draws: int
    error: float
    ece: float
    error_sd: float | None
    ece_sd: float | None
    over: str | None
    seeds: tuple[tuple[float, float], ...] = ()

    @property
    def extent(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Lowest and highest error, and calibration error, of the ellipse and the seeds."""
        wide, high = self.error_sd or 0.0, self.ece_sd or 0.0
        errors, eces = (self.error, *(x for x, _ in self.seeds)), (self.ece, *(y for _, y in self.seeds))
        return (
            (min(*errors, self.error - wide), max(*errors, self.error + wide)),
            (min(*eces, self.ece - high), max(*eces, self.ece + high)),
        )


def spots(runs: Runs, comparison: str) -> list[Spot]:
    """Average error and calibration error of each method and number of test-time draws on one data set.

    Standard deviations are over seeds (n − 1 in the divisor), or, for a single seed, over the repeats of its test-time
    draws, if there are several.
    """
    scores = runs.scores[(runs.scores["comparison"] == comparison) & runs.scores["metric"].isin(("accuracy", "ece"))]
    found = []
    for _, inside in scores.groupby(["label", "draws"], sort=False):
        label, draws = str(inside["label"].iloc[0]), int(inside["draws"].iloc[0])
        accuracy, ece = (inside[inside["metric"] == metric] for metric in ("accuracy", "ece"))
        if len(accuracy) != len(ece):
            continue
        right, wide = summarise(accuracy["value"]), summarise(ece["value"])
        deviations, over = (right.sd, wide.sd), SEEDS if right.n > 1 else None
        if right.n == 1 and not inside["sd_repeats"].isna().any():
            deviations, over = (float(accuracy["sd_repeats"].iloc[0]), float(ece["sd_repeats"].iloc[0])), REPEATS
        wide_by_seed = ece.set_index("seed")["value"]
        seeds = tuple(
            (1 - value, wide_by_seed[seed]) for seed, value in zip(accuracy["seed"], accuracy["value"], strict=True)
        )
        found.append(Spot(label, draws, 1 - right.mean, wide.mean, *deviations, over, seeds))
    return found


def has_calibration(runs: Runs) -> bool:
    """Whether a finished run has an expected calibration error."""
    return bool((runs.scores["metric"] == "ece").any())


def of_data_sets(runs: Runs) -> tuple[Runs, list[str]]:
    """Make comparisons one that differ in nothing but their budget; a letter in each label then tells the budget.

    Returns:
        The runs, with comparisons such as "cifar10" and labels such as "scale [a]" where budgets differ, and what the
        letters stand for, such as "[a] 200 epochs".
    """
    frame = runs.runs
    several = frame.groupby(["dataset_label", "network", "protocol"])["budget"].transform("nunique") > 1
    marks = {str(budget): f"[{_letter(place)}]" for place, budget in enumerate(frame.loc[several, "budget"].unique())}
    pairs = frame.loc[several, ["comparison", "budget"]].drop_duplicates().itertuples(index=False, name=None)
    known = {str(name): (str(name).replace(f", {budget}", "", 1), f" {marks[budget]}") for name, budget in pairs}

    def renamed(one: pd.DataFrame) -> pd.DataFrame:
        found = [known.get(name, (name, "")) for name in one["comparison"]]
        labels = [label + mark for label, (_, mark) in zip(one["label"], found, strict=True)]
        return one.assign(comparison=[name for name, _ in found], label=labels)

    legend = [f"{mark} {budget}" for budget, mark in marks.items()]
    return replace(runs, runs=renamed(frame), scores=renamed(runs.scores)), legend


def _letter(place: int) -> str:
    turn, letter = divmod(place, len(ascii_lowercase))
    return f"{ascii_lowercase[letter]}{turn or ''}"


def peers(runs: Runs, comparison: str, published: pd.DataFrame) -> pd.DataFrame:
    """Select published numbers, from `load_published`, for the data set and network of a comparison.

    Data sets with options of their own have none.

    Returns:
        A row for each method and source that has both numbers: `method`, `source`, `error` and `ece` in [0, 1],
        `recipe`, and `setup`, the known differences from ours.
    """
    ours = runs.runs[runs.runs["comparison"] == comparison].iloc[0]
    same = (published["dataset"] == ours["dataset_label"]) & (published["network"] == ours["network"])
    rows = published[same & published["metric"].isin(("accuracy", "ece"))]
    keys = ["source", "table", "method", "variant", "draws"]
    values = rows.drop_duplicates([*keys, "metric"]).set_index([*keys, "metric"])["value"]
    wide: pd.DataFrame = values.unstack("metric").reindex(columns=["accuracy", "ece"]).dropna().reset_index()
    about = rows.drop_duplicates(keys).set_index(keys)[["recipe", "setup"]]
    wide = wide.assign(error=1 - wide["accuracy"]).join(about, on=keys).fillna({"recipe": "", "setup": ""})
    return wide[["method", "source", "error", "ece", "recipe", "setup"]]


def calibration_figure(runs: Runs, published: pd.DataFrame | None = None) -> Figure:
    """Draw calibration error (%) against classification error (%), a panel for each data set and network.

    A mark for each method, budget and number of test-time draws, which stands beside it; an ellipse around it is as
    wide and as high as two standard deviations. Triangles are published numbers, in the colour of the method if it is
    one of ours.

    Args:
        runs: What to draw.
        published: From `load_published`; by default the numbers that come with the project.

    Raises:
        UserError: If no run is finished or none has a calibration error.
    """
    merged, budgets = of_data_sets(runs)
    finished = merged.finished()
    published = load_published() if published is None else published
    by_panel = {name: spots(merged, name) for name in dict.fromkeys(finished["comparison"])}
    most_draws = 2 if finished["label"].nunique() > _CROWD else _MOST_DRAWS
    by_panel = {name: _fewer_draws(inside, most_draws) for name, inside in by_panel.items() if inside}
    if not by_panel:
        raise UserError("No finished run has both an accuracy and an expected calibration error: nothing to draw.")
    others = {name: peers(merged, name, published) for name in by_panel}
    shown = {name: inside[_near(by_panel[name], inside)] for name, inside in others.items()}
    looks = method_looks(merged.runs)
    pairs = merged.runs[["method", "label"]].itertuples(index=False, name=None)
    colours = {str(method): looks[label].colour for method, label in pairs}
    known = list(dict.fromkeys(method for inside in shown.values() for method in inside["method"]))
    labels = list(dict.fromkeys(spot.label for inside in by_panel.values() for spot in inside))
    with figure_style():
        left_out = {name: others[name].drop(shown[name].index) for name in by_panel}
        notes = [*_notes(merged, by_panel, shown, left_out, budgets), *caveats(runs)]
        panels = new_panels(
            list(by_panel), labels, notes, others=[*map(_peer_name, known)], share_y=False, crowd=_CROWD
        )
        for panel in panels:
            axes, (name, inside) = panel.axes, list(by_panel.items())[panel.index]
            _draw_peers(axes, shown[name], known, colours)
            _draw_spots(axes, inside, in_front(looks, panel.labels))
            axes.set_xlim(_limits([end for spot in inside for end in spot.extent[0]], shown[name]["error"]))
            axes.set_ylim(_limits([end for spot in inside for end in spot.extent[1]], shown[name]["ece"]))
        panels.label("Error (%)", "ECE (%)")
        panels.legend()
    return panels.figure


def _fewer_draws(inside: Sequence[Spot], most: int) -> list[Spot]:
    """Keep 0 and the largest number of draws where there are too many to tell apart."""
    drawn = sorted({spot.draws for spot in inside} - {0})
    kept = drawn if len(drawn) <= most else drawn[-1:]
    return [spot for spot in inside if spot.draws in (0, *kept)]


def _near(ours: Sequence[Spot], inside: pd.DataFrame) -> "pd.Series[bool]":
    """Whether each published point can be shown without squeezing ours into a corner."""
    near = pd.Series(True, index=inside.index)
    for column in ("error", "ece"):
        values = [getattr(spot, column) for spot in ours]
        room = max(max(values) - min(values), _ALWAYS_NEAR)
        near &= inside[column].between(min(values) - room, max(values) + room)
    return near


def _limits(values: Sequence[float], others: "pd.Series[float]") -> tuple[float, float]:
    """Limits in percent, with some room about all points and none below nothing at all."""
    everything = [100 * value for value in (*values, *others)]
    room = 0.08 * (max(everything) - min(everything)) or max(0.2 * max(everything), 0.1)
    return max(min(everything) - room, 0.0), max(everything) + room


def _draw_spots(axes: Axes, inside: Sequence[Spot], looks: dict[str, Look]) -> None:
    for label in dict.fromkeys(spot.label for spot in inside):
        look = looks[label]
        own = sorted((spot for spot in inside if spot.label == label), key=lambda spot: spot.draws)
        x, y = [100 * spot.error for spot in own], [100 * spot.ece for spot in own]
        if look.behind:
            axes.plot(x, y, look.marker, color=look.colour, markersize=3, zorder=1)
            continue
        axes.plot(x, y, color=look.colour, linewidth=0.6, alpha=0.6, zorder=2)
        for index, spot in enumerate(own):
            (mark,) = axes.plot(x[index], y[index], look.marker, color=look.colour, zorder=3)
            mark.set(linestyle="none", markersize=3 if spot.draws else 5, markerfacecolor=look.inside)
            if spot.draws:
                place: dict[str, Any] = {"xytext": (2.5, 2.5), "textcoords": "offset points"}
                axes.annotate(str(spot.draws), (x[index], y[index]), fontsize=5.5, color=_NUMBER_COLOUR, **place)
            else:
                mark.set_label(label)
            _draw_ellipse(axes, spot, look)
            if len(spot.seeds) > 1:
                errors, eces = zip(*spot.seeds, strict=True)
                (dots,) = axes.plot(100 * np.array(errors), 100 * np.array(eces), ".", color=look.colour, alpha=0.6)
                dots.set(markersize=2, markeredgewidth=0, zorder=2)


def _draw_ellipse(axes: Axes, spot: Spot, look: Look) -> None:
    """Draw an ellipse from one standard deviation below the mean to one above, along both axes."""
    if spot.error_sd is None or spot.ece_sd is None:
        return
    ellipse = Ellipse((100 * spot.error, 100 * spot.ece), 200 * spot.error_sd, 200 * spot.ece_sd, linewidth=0.6)
    ellipse.set(facecolor=(*look.colour, 0.15), edgecolor=look.colour, zorder=1)
    ellipse.set_linestyle("dotted" if spot.over == REPEATS else "solid")
    axes.add_patch(ellipse)


def _draw_peers(axes: Axes, inside: pd.DataFrame, known: Sequence[str], colours: Mapping[str, Colour]) -> None:
    for method, error, ece in inside[["method", "error", "ece"]].itertuples(index=False):
        turn, place = divmod(known.index(method), len(_TRIANGLES))
        (mark,) = axes.plot(100 * error, 100 * ece, _TRIANGLES[place], color=_EDGE, label=_peer_name(method))
        mark.set(linestyle="none", markersize=4.5, markeredgewidth=0.8, zorder=2)
        mark.set_markerfacecolor(colours.get(method, (_EDGE, "white", "0.7")[turn % 3]))


def _peer_name(method: str) -> str:
    return f"{method} (published)"


def _notes(
    runs: Runs,
    by_panel: dict[str, list[Spot]],
    shown: dict[str, pd.DataFrame],
    left_out: dict[str, pd.DataFrame],
    budgets: Sequence[str],
) -> Iterator[str]:
    everything = [spot for inside in by_panel.values() for spot in inside]
    over = {spot.over for spot in everything}
    finished = runs.finished()
    dots = "; dots: single seeds" if SEEDS in over else ""
    yield f"Marks: {means_text(finished)}{dots}." + (
        " Small marks: with so many test-time draws as the number says."
        if any(spot.draws for spot in everything)
        else ""
    )
    if budgets:
        named = "; ".join(budgets)
        yield f"Budgets differ, so that marks with different letters differ in more than their method: {named}."
    if SEEDS in over:
        yield "Ellipses are as wide and as high as two standard deviations over seeds: from mean − sd to mean + sd."
    if REPEATS in over:
        yield "Dotted ellipses: two standard deviations over the repeats of the test-time draws of a single seed."
    bins = " or ".join(str(count) for count in sorted(set(finished["calibration_bins"])))
    yield f"ECE: expected calibration error of the top label, {bins} bins of equal width."
    drawn = pd.concat(shown.values())
    if len(drawn):
        recipes = sorted(set(drawn["recipe"]) - {""})
        setups = sorted(set(drawn.loc[drawn["recipe"] == "", "setup"]) - {""})
        chosen = [*([f"recipes {', '.join(recipes)}"] if recipes else []), *setups]
        yield (
            f"Triangles with a dark edge: published by {few_names(sorted(set(drawn['source'])))}, trained as they chose"
            f"{f' ({few_names(chosen)})' if chosen else ''}, so not the same experiment; no standard deviations drawn."
        )
    for name, inside in left_out.items():
        if len(inside):
            count = counted(len(inside), "published method")
            where = f"error {_span(inside['error'])}, ECE {_span(inside['ece'])}"
            yield f"Outside the panel of {name}: {count} ({where})."


def _span(values: "pd.Series[float]") -> str:
    lowest, highest = f"{100 * values.min():.1f}", f"{100 * values.max():.1f}"
    return f"{lowest} %" if lowest == highest else f"{lowest} to {highest} %"
