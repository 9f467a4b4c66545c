"""Gain, cost and calibration of each learner."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from drawn import text

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder
from augbench.results.figures import worth_figure
from augbench.results.figures.worth import calibration_errors, worth_numbers
from augbench.results.model.frame import Runs, load_runs

WriteRun = Callable[..., RunFolder]
NOISE = (0.0, 0.01, -0.01, 0.02)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, write_run_below: WriteRun) -> Runs:
    out = tmp_path_factory.mktemp("worth")
    for seed, noise in enumerate(NOISE):
        write_run_below(out, "none", seed=seed, accuracy=0.8 + noise)
        write_run_below(out, "fixed", seed=seed, accuracy=0.7 + noise / 2)
        write_run_below(out, "scale", seed=seed, accuracy=0.9 - noise / 2)
    return counted(load_runs(out))


def counted(runs: Runs) -> Runs:
    """Give each run a number of plain steps: 1,000 for each letter of its method, and one run ten times as many."""
    runs.runs["plain_steps"] = runs.runs["method"].str.len() * 1000.0
    runs.runs.loc[runs.runs["folder"] == runs.runs["folder"].iloc[0], "plain_steps"] *= 10
    return runs


def test_the_largest_gain_comes_first(runs: Runs) -> None:
    numbers = worth_numbers(runs)
    assert list(numbers["label"]) == ["scale", "none", "fixed"]
    # the mean of the noise is 0.005, of which the others have half
    assert list(numbers["gain"]) == pytest.approx([9.25, 0, -10.25])
    assert list(numbers["group"]) == ["a", "b", "c"]
    assert list(numbers["cost"]) == [5, 4, 5], "one slow run changes no median"
    assert math.isnan(numbers["low"].iloc[1])


def test_on_corrupted_images_where_all_runs_have_been_tested_on_them(runs: Runs) -> None:
    folders = list(runs.runs["folder"])
    heading, errors = calibration_errors(runs, folders)
    assert heading == "ECE"
    clean = runs.scores[(runs.scores["metric"] == "ece") & (runs.scores["draws"] == 0)].set_index("folder")["value"]
    assert errors.to_dict() == clean.to_dict()


def test_rows_have_names_letters_and_axes(runs: Runs) -> None:
    figure = worth_figure(runs)
    gains = figure.axes[0]
    assert [tick.get_text() for tick in gains.get_yticklabels()] == ["scale", "none", "fixed"]
    assert [letters.get_text() for letters in gains.texts] == ["a", "b", "c"]
    assert [axes.get_xlabel() for axes in figure.axes] == [
        "Gain over none (points)",
        "Cost (thousand plain steps)",
        "ECE",
    ]
    assert "sharing one shows nothing" in text(figure)


def test_without_none_there_is_nothing_to_gain_over(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale")
    with pytest.raises(UserError, match="finished runs of `none`"):
        worth_figure(counted(load_runs(tmp_path)))
