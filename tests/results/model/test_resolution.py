"""What tables and the report say of the differences that their runs can show."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.frame import load_runs
from augbench.results.model.resolution import resolution_definitions
from augbench.results.report.results_grids import results_grids
from augbench.results.statistics.resolution import smallest_difference, spread_of
from augbench.results.tables import all_tables

WriteRun = Callable[..., RunFolder]
ACCURACIES = {"none": (0.90, 0.91, 0.92), "fixed": (0.91, 0.91, 0.93), "trivialaugment": (0.95, 0.93, 0.94)}
SAID = "7.8 points on mnist5k (size=14) (3 methods, 3 seeds, spread 1.4)"
"""Differences have the variances 1/3, 3 and 7/3: the spread is the root of 17/9."""


def write(write_run: WriteRun, accuracies: Mapping[str, tuple[float, ...]] = ACCURACIES, **changed: object) -> None:
    for method, values in accuracies.items():
        for seed, accuracy in enumerate(values):
            write_run(method, seed=seed, accuracy=accuracy, **changed)


def said(out: Path) -> list[str]:
    runs = load_runs(out)
    return resolution_definitions(runs, runs.finished())


def test_each_comparison_has_its_own(tmp_path: Path, write_run: WriteRun) -> None:
    write(write_run)
    write(write_run, {"none": (0.5, 0.6, 0.4), "fixed": (0.7, 0.6, 0.6)}, dataset="rotmnist5k")
    spread = spread_of(100 * np.array([[0.5, 0.7], [0.6, 0.6], [0.4, 0.6]]))
    assert spread is not None
    (text,) = said(tmp_path)
    assert text.startswith(
        f"Smallest difference: {SAID}; {smallest_difference(spread, 3, 2):.0f} points on rotmnist5k (size=14) (2 "
        "methods, 3 seeds, spread 12). If two methods truly differ by so much in accuracy"
    )
    assert "with a probability of 80 %" in text


def test_accuracy_tables_and_the_report_say_it(tmp_path: Path, write_run: WriteRun) -> None:
    write(write_run)
    runs = load_runs(tmp_path)
    tables = all_tables(runs, names=["comparison", "accuracy", "calibration"])
    named = {name for name, made in tables.items() if any(SAID in " ".join(table.definitions) for table in made)}
    assert named == {"comparison", "accuracy"}
    assert any(SAID in note for note in results_grids(runs)[0].notes)


def test_a_method_without_all_seeds_is_not_among_them(tmp_path: Path, write_run: WriteRun) -> None:
    write(write_run)
    write(write_run, {"scale": (0.1, 0.9)})
    write_run("scale", seed=2, state=RunState.FAILED)
    assert SAID in said(tmp_path)[0]


@pytest.mark.parametrize("case", ["two seeds", "one method", "one epoch", "no spread"])
def test_nothing_is_said_where_nothing_is_tested(case: str, tmp_path: Path, write_run: WriteRun) -> None:
    accuracies: dict[str, Mapping[str, tuple[float, ...]]] = {
        "two seeds": {method: values[:2] for method, values in ACCURACIES.items()},
        "one method": {"none": ACCURACIES["none"]},
        "one epoch": ACCURACIES,
        "no spread": {"none": (0.5, 0.6, 0.7), "fixed": (0.6, 0.7, 0.8)},
    }
    write(write_run, accuracies[case], epochs=1 if case == "one epoch" else 2)
    assert said(tmp_path) == []
