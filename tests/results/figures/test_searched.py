"""The figure of what searches found."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder
from augbench.results.figures import searched_figure, write_figures
from augbench.results.figures.learned import learned_numbers
from augbench.results.model.frame import load_runs

WriteRun = Callable[..., RunFolder]


def test_a_bar_is_the_mean_and_a_point_is_a_seed(tmp_path: Path, write_run: WriteRun) -> None:
    for seed, rotation in enumerate((0.2, 0.6)):
        numbers = {"probability/rotation": rotation, "probability/flip": 0.1, "magnitude/rotation": 2.0}
        write_run("dada", seed=seed, learned=[numbers, numbers], search_passes=100)
        write_run("scale", seed=seed, learned=[numbers, numbers])
    runs = load_runs(tmp_path)
    (axes,) = searched_figure(runs).axes
    assert axes.get_title() == "dada"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rotation", "flip"]
    widths = [bar.get_width() for bar in axes.patches]  # type: ignore[attr-defined]
    assert widths == pytest.approx([40, 10])
    (points,) = axes.lines
    assert sorted(np.asarray(points.get_xdata())) == pytest.approx([10, 10, 20, 60])
    assert set(learned_numbers(runs)["method"]) == {"scale"}  # what does not change is not drawn over the epochs
    assert tmp_path / "figures" / "searched.png" in write_figures(runs, tmp_path / "figures")


def test_without_a_search_there_is_nothing_to_draw(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale", learned=[{"probability/flip": 0.1}] * 2)
    runs = load_runs(tmp_path)
    with pytest.raises(UserError, match="has searched for a policy"):
        searched_figure(runs)
    assert not [path for path in write_figures(runs, tmp_path / "figures") if path.stem == "searched"]
