"""What learners start and end with: bars of the numbers that are recorded, on pages that can be read."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn import bars, line, points, text

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import write_json
from augbench.bench.runs.run_folder import RunFolder
from augbench.results.figures import learned_figure, learned_figures, parameters_figures
from augbench.results.figures.parameters import start_and_end
from augbench.results.model.frame import Runs, load_runs

WriteRun = Callable[..., RunFolder]

START = {"probability/rotation": 0.1, "probability/flip": 0.1, "range/rotation": math.pi / 10}
BLOCKS = ("rotation", "x-scale", "y-scale", "x-shear", "half-turn", "flip", "crop")


def numbers(seed: int) -> list[dict[str, float]]:
    """Two epochs; the mean of seeds 0 and 1 is at last a probability of 0.7 and a range of π/2."""
    first = {"probability/rotation": 0.3, "probability/flip": 0.2, "range/rotation": math.pi / 4}
    return [first, {"probability/rotation": 0.6 + 0.2 * seed, "probability/flip": 0.0, "range/rotation": math.pi / 2}]


def record_start(folder: RunFolder) -> None:
    path = folder.path / "result.json"
    write_json(path, json.loads(path.read_text("utf-8")) | {"learned_at_start": START})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, write_run_below: WriteRun) -> Runs:
    out = tmp_path_factory.mktemp("parameters")
    for seed in range(2):
        record_start(write_run_below(out, "scale", seed=seed, learned=numbers(seed)))
        write_run_below(out, "none", seed=seed)
    return load_runs(out)


def test_start_and_end(runs: Runs) -> None:
    found = start_and_end(runs).set_index(["seed", "quantity"])
    assert len(found) == 6
    assert found.loc[(1, "probability/rotation"), ["start", "percent"]].tolist() == pytest.approx([10, 80])
    assert found.loc[(0, "range/rotation"), ["start", "percent"]].tolist() == pytest.approx([10, 50])
    assert set(found["start_epoch"]) == {0}


def test_bars_and_seeds(runs: Runs) -> None:
    (figure,) = parameters_figures(runs)
    probability, ranges = figure.axes
    assert probability.get_title() == "scale\nprobability π (%)"
    assert ranges.get_title() == "scale\nrange α (% of max.)"
    assert bars(probability, filled=True) == pytest.approx([70, 0])
    assert bars(probability, filled=False) == pytest.approx([10, 10])
    assert bars(ranges, filled=True) == pytest.approx([50])
    assert bars(ranges, filled=False) == pytest.approx([10])
    assert sorted(np.asarray(probability.lines[0].get_xdata()).tolist()) == pytest.approx([0, 0, 60, 80])
    assert "Filled bars: means of n = 2 seeds after the last epoch; points: single seeds." in text(figure)
    assert "Outlined bars: means before the first step." in text(figure)
    assert "Max. of the ranges: rotation ±180°" in text(figure)


def test_a_start_that_is_not_recorded_is_the_first_epoch(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale", learned=numbers(0))
    runs = load_runs(tmp_path)
    assert set(start_and_end(runs)["start_epoch"]) == {1}
    (figure,) = parameters_figures(runs)
    assert bars(figure.axes[0], filled=False) == pytest.approx([30, 20])
    assert "after the first epoch where the start is not recorded: scale." in text(figure)
    assert "at the start" not in text(figure)


def test_the_curves_begin_before_the_first_step(runs: Runs) -> None:
    assert line(learned_figure(runs).axes[0], "rotation") == points((0, 10), (1, 30), (2, 70))


def test_nothing_learned(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    write_run("dada", learned=numbers(0), search_passes=100)
    for draw in (parameters_figures, learned_figures):
        with pytest.raises(UserError, match="learned"):
            draw(load_runs(tmp_path))
    write_run("newcomer", learned=[{"strength": 3.0}])  # neither a probability nor a range
    assert start_and_end(load_runs(tmp_path)).empty


def write_learners(write_run: WriteRun, learners: int, datasets: int) -> None:
    found = {f"probability/{name}": 0.5 for name in BLOCKS} | {f"range/{name}": 0.1 for name in BLOCKS[:4]}
    for dataset in range(datasets):
        for learner in range(learners):
            write_run(f"learner-{learner:02}", dataset=f"data-{dataset}", learned=[found], probe=())


@pytest.mark.slow
def test_many_learners_and_data_sets_take_several_pages(tmp_path: Path, write_run: WriteRun) -> None:
    write_learners(write_run, learners=5, datasets=6)
    runs = load_runs(tmp_path)
    for draw in (parameters_figures, learned_figures):
        pages = draw(runs)
        assert len(pages) > 1
        titles = [axes.get_title() for page in pages for axes in page.axes if axes.get_title()]
        assert {title.split("\n")[0] for title in titles} == {f"learner-{index:02}" for index in range(5)}
        for page in pages:
            width, height = page.get_size_inches()
            assert width <= 7
            assert height <= 9.5


def test_the_columns_of_a_method_stay_together(tmp_path: Path, write_run: WriteRun) -> None:
    write_learners(write_run, learners=3, datasets=1)
    shown: list[Any] = [
        [axes.get_title().split("\n")[0] for axes in page.axes] for page in learned_figures(load_runs(tmp_path))
    ]
    assert shown == [["learner-00"] * 2 + ["learner-01"] * 2, ["learner-02"] * 2]
