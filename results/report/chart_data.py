"""Data of the charts of the page: looks, the Pareto explorer and reliability diagrams, corruptions by severity."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from augbench.results.figures.reliability import FEW, pooled_bins
from augbench.results.figures.style import method_looks
from augbench.results.model.cells import LOWER_IS_BETTER
from augbench.results.model.corruptions import BENCHMARKS, SOURCE, by_severity
from augbench.results.model.frame import Runs
from augbench.results.model.overlap import gains
from augbench.results.model.table import SEVERAL_DEVICES
from augbench.results.report.grid import only_device, significant
from augbench.results.report.looks import look_data
from augbench.results.report.results_grids import MEASURES
from augbench.results.report.units import TimeUnit, time_unit
from augbench.results.statistics.summary import summarise

METRICS = tuple(
    {"name": name, "label": label, "higher": name not in LOWER_IS_BETTER, "share": name == "accuracy"}
    for name, label in MEASURES.items()
)
COSTS = ("work", "whole", "passes")

Json = dict[str, Any]


def looks_data(runs: Runs) -> Json:
    """Look of each label, as in the figures."""
    return {label: look_data(look) for label, look in method_looks(runs.runs).items()}


def pareto_data(runs: Runs) -> Json | None:
    """Scores and costs of finished runs and of their means over seeds; None if no run is finished.

    A score is a pair of mean and standard deviation. Runs of several devices have no times.
    """
    table = runs.table()
    measured = table[table["draws"].notna()]
    if measured.empty:
        return None
    unit = time_unit(runs)
    of_labels = measured.groupby(["comparison", "label"], sort=False)
    return {
        "metrics": [metric for metric in METRICS if measured[str(metric["name"])].notna().any()],
        "costs": _costs(unit, measured),
        "draws": sorted({int(draws) for draws in measured["draws"]}),
        "groups": [_group_point(inside, unit) for _, inside in of_labels],
        "runs": _run_points(_with_costs(measured, unit)),
    }


def _costs(unit: TimeUnit, measured: pd.DataFrame) -> list[Json]:
    on_gpu = measured["on_gpu"].eq(True).all()
    name = {"h": "GPU-hours" if on_gpu else "hours", "s": "seconds"}[unit.name]
    return [
        {"name": "work", "label": f"Search and training ({name})", "is_time": True},
        {"name": "whole", "label": f"Search, training and evaluation ({name})", "is_time": True},
        {"name": "passes", "label": "Image passes of search and training", "is_time": False},
    ]


def _with_costs(runs: pd.DataFrame, unit: TimeUnit) -> pd.DataFrame:
    """Add a column for each cost."""
    work = (runs["seconds_search"] + runs["seconds_training"]).astype(float) * unit.factor
    return runs.assign(
        work=work,
        whole=work + runs["seconds_evaluation"].astype(float) * unit.factor,
        passes=(runs["image_passes_search"] + runs["image_passes_training"]).astype(float),
    )


def _run_points(measured: pd.DataFrame) -> list[Json]:
    """One point for each run, with its scores by number of draws."""
    points: dict[str, Json] = {}
    for row in measured.to_dict("records"):
        point = points.setdefault(
            row["folder"],
            {
                **{name: str(row[name]) for name in ("comparison", "label", "folder")},
                "seed": row["seed"],
                "device": only_device([row["device"]]),
                "costs": {name: significant(row[name]) for name in COSTS},
                "scores": {},
            },
        )
        point["scores"][str(int(row["draws"]))] = {name: [significant(row[name]), None] for name in MEASURES}
    return list(points.values())


def _group_point(inside: pd.DataFrame, unit: TimeUnit) -> Json:
    first = inside.iloc[0]
    once = _with_costs(inside.drop_duplicates("folder"), unit)
    device = only_device(once["device"])
    costs = {name: _mean_and_deviation(once[name])[0] for name in COSTS}
    if device == SEVERAL_DEVICES:
        costs |= {"work": None, "whole": None}
    return {
        **{name: str(first[name]) for name in ("comparison", "label")},
        "n": len(once),
        "asked": int(first["asked"]),
        "device": device,
        "costs": costs,
        "scores": {
            str(draws): {name: _mean_and_deviation(part[name]) for name in MEASURES}
            for draws, part in inside.groupby("draws")
            if len(part) == len(once)  # scores and costs are means over the same seeds
        },
    }


def _mean_and_deviation(values: "pd.Series[float]") -> list[float | None]:
    summary = summarise(values.astype(float))
    return [significant(summary.mean), significant(summary.sd)]


def reliability_data(runs: Runs) -> Json | None:
    """Bins of all seeds and repeats together, by data set, number of draws and label; None if there are none."""
    lines = []
    for (comparison, _), bins in runs.reliability.groupby(["comparison", "draws"], sort=False):
        draws = int(bins["draws"].iloc[0])
        for label, inside in pooled_bins(bins).groupby("label", sort=False):
            numbers = inside[["count", "confidence", "accuracy"]].itertuples(index=False)
            pooled = [[int(count), significant(sure), significant(right)] for count, sure, right in numbers]
            lines.append({"comparison": str(comparison), "draws": draws, "label": str(label), "bins": pooled})
    return {"few": FEW, "lines": lines} if lines else None


def shift_data(runs: Runs) -> Json | None:
    """Accuracy (%) by severity: mean, lowest and highest of the seeds, of the mean over corruptions and of each.

    The set of a line names the source of its images, too; its corruption is empty for the mean. None without scores on
    corrupted images.
    """
    frame = runs.corruptions[runs.corruptions["corruptions"].isin(BENCHMARKS)]
    if frame.empty:
        return None
    lines = [
        {"set": f"{BENCHMARKS[str(name)]}, {images}", **line}
        for (name, images), inside in frame.groupby(list(SOURCE), sort=False)
        for line in _lines_of_set(inside)
    ]
    return {"lines": lines, "sets": list(dict.fromkeys(line["set"] for line in lines))}


def overlap_data(runs: Runs) -> Json | None:
    """Gain (points) and smallest distance (%) of each learner and corruption; None without any."""
    points = [
        {
            **{name: str(row[name]) for name in ("comparison", "label", "corruption")},
            "set": BENCHMARKS[row["corruptions"]],
            "distance": significant(100 * row["relative"]),
            "gain": significant(100 * row["gain"]),
            "seeds": row["seeds"],
        }
        for row in gains(runs.corruptions, runs.overlap).to_dict("records")
    ]
    return {"points": points} if points else None


def _lines_of_set(frame: pd.DataFrame) -> Iterator[Json]:
    yield from _severity_lines(by_severity(frame), "")
    clean = frame["severity"] == 0
    for name in frame.loc[~clean, "corruption"].unique():
        alone = frame[clean | (frame["corruption"] == name)]
        yield from _severity_lines(by_severity(alone.assign(extra=False)), str(name))


def _severity_lines(frame: pd.DataFrame, corruption: str) -> Iterator[Json]:
    has_it = frame.groupby("folder")["value"].transform("max") > 0
    for (comparison, label), inside in frame[has_it].groupby(["comparison", "label"], sort=False):
        found = (100 * inside.groupby("value")["accuracy"].agg(["mean", "min", "max"])).map(significant)
        yield {
            **{"comparison": str(comparison), "label": str(label), "corruption": corruption},
            "seeds": inside["seed"].nunique(),
            "severities": [int(severity) for severity in found.index],
            **{name: found[column].tolist() for name, column in (("mean", "mean"), ("low", "min"), ("high", "max"))},
        }
