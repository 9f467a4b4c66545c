"""Files of `augbench probe`, made by hand for runs made by hand."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from augbench.bench.training.metrics import CLEAN
from augbench.results.model.corruptions import COLUMNS, probe_file
from augbench.results.model.csv_text import csv_text
from augbench.results.model.frame import KEYS, Runs
from augbench.results.model.outside import COLUMNS as OUTSIDE_COLUMNS
from augbench.results.model.overlap import COLUMNS as OVERLAP_COLUMNS

CORRUPTIONS = {"fog": False, "snow": False, "speckle-noise": True}
"""Names, and whether they are extra ones."""


def accuracy_of(row: dict[str, Any], corruption: str, severity: int) -> float:
    """Accuracy that falls with the severity, twice as fast in snow, and rises with the seed."""
    start = {"none": 0.8, "scale": 0.9}.get(row["method"], 0.7)
    return start + 0.01 * row["seed"] - 0.02 * severity * (1 + (corruption == "snow"))


def corruption_rows(
    rows: Iterable[dict[str, Any]], accuracy: Callable[[dict[str, Any], str, int], float] = accuracy_of
) -> pd.DataFrame:
    """Make the frame of a probe of some rows of `Runs.runs`."""
    lines = []
    for row in rows:
        common = {key: row[key] for key in KEYS} | {"draws": 0, "test_images": 1000}
        common |= {"corruptions": "corruptions", "images": "recomputed"}
        common |= {"dataset": row["dataset_label"], "test_dataset": row["dataset_label"]}
        for name, extra in {CLEAN: False, **CORRUPTIONS}.items():
            for severity in (0,) if name == CLEAN else range(1, 6):
                value = accuracy(row, name, severity)
                scores = {"accuracy": value, "nll": 2 * (1 - value), "ece": (1 - value) / 4}
                lines.append(common | {"corruption": name, "severity": severity, "extra": extra} | scores)
    return pd.DataFrame(lines, columns=list(COLUMNS))


def outside_rows(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Make the frame of a probe of the kind `ood`: AUROC rises with the seed, and is higher for energy."""
    lines = []
    for row in rows:
        common = {key: row[key] for key in KEYS} | {"dataset": row["dataset_label"]}
        common |= {"test_images": 1000, "against_images": 500}
        for against, base in (("letters", 0.8), ("clothes", 0.9)):
            for score, more in (("confidence", 0.0), ("energy", 0.05)):
                area = base + more + 0.01 * row["seed"]
                lines.append(common | {"against": against, "score": score, "auroc": area, "fpr95": 1 - area})
    return pd.DataFrame(lines, columns=list(OUTSIDE_COLUMNS))


def overlap_rows(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Make the frame of a probe of overlap: of all but `none`, distances that rise with the seed, least in fog."""
    lines = []
    for row in rows:
        common = {key: row[key] for key in KEYS} | {"dataset": row["dataset_label"], "test_images": 100}
        common |= {"corruptions": "corruptions", "images": "recomputed", "transforms": 50}
        for (name, extra), nearest in zip(CORRUPTIONS.items(), (0.5, 0.8, 0.1), strict=True):
            relative = 1 if row["method"] == "none" else nearest + 0.1 * row["seed"]
            for severity in range(1, 6):
                own = {"distance": relative * severity, "identity": severity}
                lines.append(common | {"corruption": name, "severity": severity, "extra": extra} | own)
    return pd.DataFrame(lines, columns=list(OVERLAP_COLUMNS))


def write_corruption_probe(runs: Runs, folder: Path) -> Path:
    """Write a probe of all runs that are finished; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / probe_file("corruptions")).write_text(csv_text(corruption_rows(runs.finished().to_dict("records"))))
    return folder
