"""Accuracy against cost: who is on the front, and that nothing of different devices meets."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from drawn import legends, line, named, points, text, unnamed
from hypothesis import given
from hypothesis import strategies as st

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.figures.pareto import FRONT, clocked_runs, pareto_figure, pareto_front
from augbench.results.model.frame import load_runs

WriteRun = Callable[..., RunFolder]

HOUR = 3600.0
POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


def dominated(point: tuple[int, int], others: list[tuple[int, int]]) -> bool:
    """Whether one of the others costs no more, gains no less and is better in one of the two."""
    return any(cost <= point[0] and gain >= point[1] and (cost, gain) != point for cost, gain in others)


@given(POINTS)
def test_the_front_is_what_nobody_dominates(points: list[tuple[int, int]]) -> None:
    front = pareto_front([cost for cost, _ in points], [gain for _, gain in points])
    assert sorted(front) == [index for index, point in enumerate(points) if not dominated(point, points)]
    costs = [points[index][0] for index in front]
    assert costs == sorted(costs)


def test_a_front_by_hand() -> None:
    assert pareto_front([1, 2, 2, 3, 4], [5, 7, 6, 7, 9]) == [0, 1, 4]
    assert pareto_front([2, 2, 1], [3, 3, 1]) == [2, 0, 1]
    assert pareto_front([], []) == []


def test_nan_is_no_point() -> None:
    with pytest.raises(ValueError, match="NaN"):
        pareto_front([1, math.nan], [1, 2])
    with pytest.raises(ValueError, match="shorter"):
        pareto_front([1, 2], [1])


def write_three(write_run: WriteRun, **options: Any) -> None:
    """Two seeds each: `none` is cheap, `scale` good, and `dada` dearer and worse than `scale`."""
    for seed in range(2):
        write_run("none", seed=seed, training_seconds=HOUR, accuracy=0.8 + 0.1 * seed, **options)
        write_run("scale", seed=seed, training_seconds=(2 + seed) * HOUR, accuracy=0.95, **options)
        write_run("dada", seed=seed, training_seconds=HOUR, search_seconds=2 * HOUR, accuracy=0.9, **options)


def test_means_seeds_and_the_front(tmp_path: Path, write_run: WriteRun) -> None:
    write_three(write_run)
    figure = pareto_figure(load_runs(tmp_path))
    (axes,) = figure.axes
    expected = {"none": [(1, 85)], "scale": [(2.5, 95)], "dada": [(3, 90)], FRONT: [(1, 85), (2.5, 95)]}
    assert {label: line(axes, label) for label in named(axes)} == {
        label: points(*pairs) for label, pairs in expected.items()
    }
    assert unnamed(axes)[0] == points((1, 80), (1, 90))
    assert axes.get_xlabel() == "Hours of search and training"
    assert "Large: means of n = 2 seeds; small: single seeds." in text(figure)
    assert "Device: cpu one." in text(figure)


@pytest.mark.parametrize(
    ("gpu", "seconds", "label"),
    [(True, HOUR, "GPU-hours"), (True, 120.0, "GPU-minutes"), (False, 120.0, "Minutes"), (None, 20.0, "Seconds")],
)
def test_the_unit(tmp_path: Path, write_run: WriteRun, gpu: bool | None, seconds: float, label: str) -> None:
    write_run(training_seconds=seconds, gpu=gpu)
    (axes,) = pareto_figure(load_runs(tmp_path)).axes
    assert axes.get_xlabel() == f"{label} of search and training"


def test_each_device_has_a_panel(tmp_path: Path, write_run: WriteRun) -> None:
    write_three(write_run, device="first")
    write_run("augerino", device="second", training_seconds=1.0)
    figure = pareto_figure(load_runs(tmp_path))
    assert [axes.get_title() for axes in figure.axes] == [f"mnist5k (size=14), {name}" for name in ("first", "second")]
    assert "augerino" not in named(figure.axes[0])
    assert "Device:" not in text(figure)


def test_runs_of_several_devices_are_left_out_and_counted(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("augerino", device="first + second")
    with pytest.raises(UserError, match="another device"):
        pareto_figure(load_runs(tmp_path))
    write_three(write_run)
    runs = load_runs(tmp_path)
    assert "augerino" not in set(clocked_runs(runs)["label"])
    assert "Left out: 1 run of which a part was computed on another device." in text(pareto_figure(runs))


def test_methods_that_lack_seeds_are_not_on_the_front(tmp_path: Path, write_run: WriteRun) -> None:
    write_three(write_run)
    write_run("augerino", seed=0, accuracy=0.99, training_seconds=1.0)
    write_run("augerino", seed=1, state=RunState.FAILED)
    figure = pareto_figure(load_runs(tmp_path))
    (axes,) = figure.axes
    assert line(axes, FRONT) == points((1, 85), (2.5, 95))
    assert [one.get_alpha() for one in axes.lines if one.get_label() == "augerino"] == [0.35]
    assert {entry.get_alpha() for entry in legends(figure)[0].legend_handles if entry} == {1}
    assert "Faded, with fewer seeds than requested, and not on the front: augerino on mnist5k" in text(figure)
    assert "n = 2 seeds (1 or more of augerino)" in text(figure)


def test_costs_that_differ_much_have_a_logarithmic_axis(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", training_seconds=HOUR)
    write_run("scale", training_seconds=100 * HOUR)
    figure = pareto_figure(load_runs(tmp_path))
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    figure.draw_without_rendering()
    shown = [label.get_text() for label in axes.get_xticklabels()]
    assert {"1", "10", "100"} <= set(shown)
