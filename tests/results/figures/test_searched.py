"""The figure of what searches found."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from drawn import bars
from matplotlib.colors import to_rgb

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder
from augbench.results.figures import searched_figure, write_figures
from augbench.results.figures.learned import learned_numbers
from augbench.results.model.frame import load_runs

WriteRun = Callable[..., RunFolder]


@pytest.mark.slow
def test_a_bar_is_the_mean_and_a_point_is_a_seed(tmp_path: Path, write_run: WriteRun) -> None:
    for seed, rotation in enumerate((0.2, 0.6)):
        numbers = {"probability/rotation": rotation, "probability/flip": 0.1, "magnitude/rotation": 2.0}
        write_run("dada", seed=seed, learned=[numbers, numbers], search_passes=100, probe=())
        write_run("scale", seed=seed, learned=[numbers, numbers], probe=())
    runs = load_runs(tmp_path)
    (axes,) = searched_figure(runs).axes
    assert axes.get_title() == "dada"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rotation", "flip"]
    assert bars(axes) == pytest.approx([40, 10])
    assert sorted(np.asarray(axes.lines[0].get_xdata())) == pytest.approx([10, 10, 20, 60])
    assert set(learned_numbers(runs)["method"]) == {"scale"}  # constants are not drawn over the epochs
    assert tmp_path / "figures" / "searched.svg" in write_figures(runs, tmp_path / "figures", formats=["svg"])


def test_a_data_set_has_one_colour_in_all_panels(tmp_path: Path, write_run: WriteRun) -> None:
    found = {"learned": [{"probability/flip": 0.5}], "search_passes": 100}
    for method, dataset in (("fast-aa", "first"), ("fast-aa", "second"), ("dada", "second")):
        write_run(method, dataset=dataset, options={}, **found)
    both, second = (
        {bars.get_label(): to_rgb(bars.patches[0].get_facecolor()) for bars in axes.containers}
        for axes in searched_figure(load_runs(tmp_path)).axes
    )
    assert list(both) == ["first", "second"]
    assert second == {"second": both["second"]}


def test_without_a_search_there_is_nothing_to_draw(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale", learned=[{"probability/flip": 0.1}] * 2)
    with pytest.raises(UserError, match="has searched for a policy"):
        searched_figure(load_runs(tmp_path))
