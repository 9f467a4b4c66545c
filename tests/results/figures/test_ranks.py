"""The critical-difference diagram."""

from collections.abc import Callable
from pathlib import Path

import pytest
from drawn import text
from matplotlib.figure import Figure

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.figures.ranks import average_ranks, has_ranks, ranks_figure
from augbench.results.figures.style import method_looks
from augbench.results.model.frame import load_runs

WriteRun = Callable[..., RunFolder]
DATASETS = ("mnist5k", "rotmnist5k", "svhn", "cifar10")
BY_METHOD = {"none": 0.8, "fixed": 0.85, "scale": 0.9}


def write_all(write_run: WriteRun, datasets: tuple[str, ...] = DATASETS, epochs: int = 2) -> None:
    """Every method is as good on each data set, so that ranks are 1, 2 and 3."""
    for dataset in datasets:
        for method, accuracy in BY_METHOD.items():
            for seed in range(2):
                scores = {0: accuracy + seed / 100, 4: 0.5}
                write_run(method, dataset=dataset, seed=seed, accuracy=scores, epochs=epochs)


def bars(figure: Figure) -> list[list[float]]:
    """Ends of the bars of alike methods, from top to bottom."""
    return [[float(end) for end in line.get_ydata()] for line in figure.axes[1].lines]


def test_by_hand(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    runs = load_runs(tmp_path)
    ranks = average_ranks(runs)
    assert ranks.average == {"scale": 1, "fixed": 2, "none": 3}
    # Friedman's statistic is 8, with two degrees of freedom; 2.343 √(3 · 4 / (6 · 4)) = 1.657
    figure = ranks_figure(runs)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["scale  1.00", "fixed  2.00", "none  3.00"]
    assert "CD 1.66" in text(figure)
    assert "Friedman test that all methods are equal: p = 0.018; rough with 4 data sets." in text(figure)
    middles = figure.axes[0].get_yticks()
    assert bars(figure) == [
        pytest.approx([middles[0] - 0.05, middles[1] + 0.05]),
        pytest.approx([middles[1] - 0.05, middles[2] + 0.05]),
    ]


def test_methods_have_their_looks_and_places(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    runs = load_runs(tmp_path)
    looks, lines = method_looks(runs.runs), ranks_figure(runs).axes[0].lines
    for label, rank in (("scale", 1), ("fixed", 2), ("none", 3)):
        (marker,) = (
            line for line in lines if line.get_marker() == looks[label].marker and line.get_xdata()[-1] == rank
        )
        assert marker.get_color() == looks[label].colour


def test_where_nothing_stands_out_all_are_joined(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, DATASETS[:2])
    figure = ranks_figure(load_runs(tmp_path))
    assert "p = 0.14, so no difference between methods is significant." in text(figure)
    assert len(bars(figure)) == 1
    assert "CD 2.34" in text(figure), "longer than the axis"


def test_a_missing_seed_is_a_missing_data_set(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    for dataset in DATASETS:
        write_run("augerino", dataset=dataset, accuracy=0.99)
        state = RunState.FAILED if dataset == "svhn" else RunState.DONE
        write_run("augerino", dataset=dataset, accuracy=0.99, seed=1, state=state)
        write_run("dada", dataset=dataset, seed=1, accuracy=0.99)
    runs = load_runs(tmp_path)
    assert average_ranks(runs).average == {"scale": 1, "fixed": 2, "none": 3}
    shown = text(ranks_figure(runs))
    assert "augerino (not on svhn (size=14))" in shown
    assert "dada (not on cifar10 (size=14), mnist5k (size=14), rotmnist5k (size=14), svhn (size=14))" in shown


def test_a_data_set_that_nobody_has_finished_does_not_count_yet(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    write_run("scale", dataset="cifar100")
    write_run("scale", dataset="cifar100", seed=1, state=RunState.PLANNED)
    figure = ranks_figure(load_runs(tmp_path))
    assert "Average rank over 4 data sets" in text(figure)
    assert "Not counted, since no method has all seeds there: cifar100 (size=14)." in text(figure)


def test_comparisons_on_one_data_set_are_said(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    for method, accuracy in BY_METHOD.items():
        for seed in range(2):
            write_run(method, dataset="svhn", seed=seed, accuracy=accuracy, epochs=9)
            write_run(method, dataset="cifar10", seed=seed, accuracy=accuracy, epochs=1)
    shown = text(ranks_figure(load_runs(tmp_path)))
    assert "Average rank over 5 data sets" in shown, "a single epoch does not count"
    assert "Several comparisons use svhn; the tests take them for independent" in shown


def test_too_little_for_ranks(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, DATASETS[:1])
    runs = load_runs(tmp_path)
    assert not has_ranks(runs)
    with pytest.raises(UserError, match="here are 3 methods on 1 data sets"):
        ranks_figure(runs)
    write_all(write_run, DATASETS[1:2], epochs=1)
    assert not has_ranks(load_runs(tmp_path)), "single epochs do not count"
    write_all(write_run, DATASETS[1:2])
    assert has_ranks(load_runs(tmp_path))


@pytest.mark.usefixtures("any_name")
def test_any_name_is_text_and_long_ones_are_broken(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    name = "<script>$%&_ of-a-very-long-name-that-has-no-room"
    for dataset in DATASETS:
        for seed in range(2):
            write_run(name, dataset=dataset, seed=seed, accuracy=0.95)
    figure = ranks_figure(load_runs(tmp_path))
    figure.draw_without_rendering()
    first = figure.axes[0].get_yticklabels()[0].get_text()
    assert "\n" in first
    assert first.replace("\n", "").startswith("<script>$%&_")
    inches = figure.axes[0].get_yticklabels()[0].get_window_extent().x0 / figure.dpi
    assert inches >= 0
