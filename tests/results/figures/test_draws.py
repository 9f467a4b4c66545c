"""Accuracy against the number of test-time draws: doubling, with no draws apart."""

from collections.abc import Callable
from pathlib import Path

import pytest
from drawn import line, points, text, unnamed

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder
from augbench.results.figures import draws_figure, reliability_figure
from augbench.results.model.frame import Runs, load_runs

WriteRun = Callable[..., RunFolder]

DRAWS = (1, 2, 4, 8, 16, 32)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, write_run_below: WriteRun) -> Runs:
    out = tmp_path_factory.mktemp("draws")
    for seed in range(2):
        accuracies = {0: 0.9} | {draws: 0.5 + draws / 100 + seed / 10 for draws in DRAWS}
        write_run_below(out, "scale", seed=seed, accuracy=accuracies)
        write_run_below(out, "none", seed=seed, accuracy=0.7 + seed / 10)
    write_run_below(out, "none", dataset="rotmnist5k")
    return load_runs(out)


def test_draws_double_from_tick_to_tick(runs: Runs) -> None:
    (axes,) = draws_figure(runs).axes  # there is nothing to draw on the other data set
    places = [0, 1, 2, 3, 4, 5]
    assert line(axes, "scale") == points(*((at, 55 + 2**at) for at in places))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", *map(str, DRAWS)]
    assert axes.get_xticks().tolist() == [-1, *places]


def test_no_draws_stand_apart_and_methods_without_a_policy_are_a_dotted_line(runs: Runs) -> None:
    figure = draws_figure(runs)
    (axes,) = figure.axes
    at_nothing = [found for found in unnamed(axes) if found[0][0] == -1]
    assert all(len(found) == 1 for found in at_nothing), "no line leads from no draws to some"
    assert points((-1, 90)) in at_nothing
    assert line(axes, "none") == points((-1, 75))
    assert points((0, 75), (1, 75)) in unnamed(axes)  # across the panel
    assert "Dotted, since they have no policy to draw from: none." in text(figure)
    assert "means of n = 2 seeds" in text(figure)
    assert "mean of 5 repeats" in text(figure)


def test_one_number_of_draws(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale", accuracy={0: 0.9, 4: 0.95})
    figure = draws_figure(load_runs(tmp_path))
    (axes,) = figure.axes
    assert line(axes, "scale") == points((2, 95))
    assert "n = 1 seed." in text(figure)


def test_no_draws_at_all(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    with pytest.raises(UserError, match="test_time_draws"):
        draws_figure(load_runs(tmp_path))
    with pytest.raises(UserError, match="4 test-time draws"):
        reliability_figure(load_runs(tmp_path), 4)


def test_reliability_with_draws(tmp_path: Path, write_run: WriteRun) -> None:
    # Of 20 images at confidence 0.9, 16 are right in the first repeat and 12 in the second.
    repeats = [[(0.9, 0.1)] * 20, [(0.9, 0.1)] * 20]
    repeats[1][12:16] = [(0.1, 0.9)] * 4
    labels = [0] * 16 + [1] * 4
    write_run("scale", probabilities=[(0.6, 0.4)] * 20, labels=labels, drawn={8: repeats})
    write_run("none", probabilities=[(0.6, 0.4)] * 20, labels=labels)
    figure = reliability_figure(load_runs(tmp_path), 8)
    upper, _ = figure.axes
    assert line(upper, "scale") == points((90, 100 * 28 / 40))
    assert "8 test-time draws" in text(figure)
    assert "Not evaluated with 8 draws: none." in text(figure)
