"""Calibration error against error: means, ellipses of two standard deviations, and published numbers beside them."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from drawn import line, named, text
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Ellipse

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import write_json
from augbench.bench.experiment.protocol import Protocol
from augbench.bench.runs.run_folder import RunFolder
from augbench.results.figures.calibration import REPEATS, SEEDS, calibration_figure, of_data_sets, peers, spots
from augbench.results.model.frame import load_runs
from augbench.results.published import COLUMNS, load_published

WriteRun = Callable[..., RunFolder]
CommandLine = Callable[..., tuple[int, str, str]]
WriteScores = Callable[..., None]

Pair = tuple[float, float]


@pytest.fixture
def write_scores(write_run: WriteRun) -> WriteScores:
    """Write a run whose accuracy and calibration error, by number of draws, are given with deviations over repeats."""

    def write(method: str, scores: dict[int, Pair], deviations: Pair | None = None, **options: Any) -> None:
        folder = write_run(method, accuracy={draws: accuracy for draws, (accuracy, _) in scores.items()}, **options)
        path = folder.path / "result.json"
        result = json.loads(path.read_text("utf-8"))
        for draws, (_, ece) in scores.items():
            metrics = result["metrics"][str(draws)]
            metrics["ece"]["mean"] = ece
            if draws and deviations:
                metrics["accuracy"]["sd"], metrics["ece"]["sd"] = deviations
        write_json(path, result)

    return write


def ellipses(axes: Axes) -> list[Ellipse]:
    return [patch for patch in axes.patches if isinstance(patch, Ellipse)]


def published(**values: list[Any]) -> pd.DataFrame:
    """Rows with these columns; all others hold what is usual."""
    count = len(next(iter(values.values())))
    usual = {"source": "a source", "table": "1", "dataset": "mnist5k", "network": "tiny", "variant": "", "draws": 0}
    rows = {column: [usual.get(column)] * count for column in COLUMNS} | values
    return pd.DataFrame(rows)


def test_standard_deviations_over_seeds(tmp_path: Path, write_scores: WriteScores) -> None:
    accuracies, eces = [0.90, 0.92, 0.97], [0.03, 0.01, 0.05]
    for seed, pair in enumerate(zip(accuracies, eces, strict=True)):
        write_scores("scale", {0: pair, 4: (0.9, 0.02)}, (0.5, 0.5), seed=seed)
    plain, drawn = spots(load_runs(tmp_path), "mnist5k (size=14)")
    assert (plain.draws, drawn.draws) == (0, 4)
    assert plain.over == drawn.over == SEEDS
    assert plain.error == pytest.approx(1 - statistics.mean(accuracies))
    assert plain.ece == pytest.approx(statistics.mean(eces))
    assert plain.error_sd == pytest.approx(statistics.stdev(accuracies))
    assert plain.ece_sd == pytest.approx(statistics.stdev(eces))
    assert [error for error, _ in plain.seeds] == pytest.approx([1 - accuracy for accuracy in accuracies])
    assert [ece for _, ece in plain.seeds] == eces
    assert drawn.error_sd == drawn.ece_sd == pytest.approx(0)


def test_the_ellipse_is_two_standard_deviations_wide_and_high(tmp_path: Path, write_scores: WriteScores) -> None:
    for seed, pair in enumerate([(0.90, 0.02), (0.94, 0.04)]):
        write_scores("scale", {0: pair}, seed=seed)
    figure = calibration_figure(load_runs(tmp_path))
    (ellipse,) = ellipses(figure.axes[0])
    assert ellipse.center == pytest.approx((8, 3))
    assert ellipse.width == pytest.approx(2 * statistics.stdev([6, 10]))
    assert ellipse.height == pytest.approx(2 * statistics.stdev([2, 4]))
    assert ellipse.angle == 0
    lowest, highest = figure.axes[0].get_xlim()
    assert lowest < 8 - ellipse.width / 2 < 8 + ellipse.width / 2 < highest
    assert "two standard deviations over seeds: from mean − sd to mean + sd" in text(figure)
    assert "15 bins of equal width" in text(figure)


def test_one_seed_has_deviations_over_repeats_or_none(tmp_path: Path, write_scores: WriteScores) -> None:
    write_scores("scale", {0: (0.9, 0.03), 4: (0.92, 0.02)}, (0.01, 0.002))
    runs = load_runs(tmp_path)
    plain, drawn = spots(runs, "mnist5k (size=14)")
    assert (plain.error_sd, plain.ece_sd, plain.over) == (None, None, None)
    assert (drawn.error_sd, drawn.ece_sd, drawn.over) == (0.01, 0.002, REPEATS)
    figure = calibration_figure(runs)
    (ellipse,) = ellipses(figure.axes[0])
    assert (ellipse.width, ellipse.height) == pytest.approx((2, 0.4))
    assert ellipse.get_linestyle() in (":", "dotted")
    assert "over the repeats of the test-time draws of a single seed" in text(figure)
    assert "over seeds" not in text(figure)


def test_marks_of_draws_have_numbers(tmp_path: Path, write_scores: WriteScores) -> None:
    write_scores("scale", {0: (0.9, 0.03), 4: (0.92, 0.02), 8: (0.93, 0.02)})
    write_scores("none", {0: (0.8, 0.03)})
    (axes,) = calibration_figure(load_runs(tmp_path)).axes
    assert [text.get_text() for text in axes.texts] == ["4", "8"]
    assert set(named(axes)) == {"scale", "none"}


def test_of_many_numbers_of_draws_the_largest_is_drawn(tmp_path: Path, write_scores: WriteScores) -> None:
    write_scores("scale", {draws: (0.9, 0.03) for draws in (0, 1, 2, 4, 8, 16, 32)})
    (axes,) = calibration_figure(load_runs(tmp_path)).axes
    assert [text.get_text() for text in axes.texts] == ["32"]


def test_peers_need_the_data_set_the_network_and_both_numbers(tmp_path: Path, write_run: WriteRun) -> None:
    write_run(options={})
    write_run(options={"size": 14})
    numbers = published(
        method=["both", "both", "half", "elsewhere", "elsewhere", "other", "other", "both", "both"],
        metric=["accuracy", "ece", "accuracy", *["accuracy", "ece"] * 3],
        dataset=["mnist5k"] * 3 + ["cifar10"] * 2 + ["mnist5k"] * 4,
        network=["tiny"] * 5 + ["wrn-28-10"] * 2 + ["tiny"] * 2,
        source=["a source"] * 7 + ["another"] * 2,
        value=[0.96, 0.02, 0.9, 0.9, 0.1, 0.9, 0.1, 0.97, 0.01],
    )
    runs = load_runs(tmp_path)
    plain, resized = sorted(runs.runs["comparison"], key=len)
    found = peers(runs, plain, numbers)
    assert sorted(found["source"]) == ["a source", "another"]
    assert set(found["method"]) == {"both"}
    assert sorted(found["error"]) == pytest.approx([0.03, 0.04])
    assert peers(runs, resized, numbers).empty


def test_budgets_of_one_data_set_and_network_share_a_panel(tmp_path: Path, write_scores: WriteScores) -> None:
    write_scores("none", {0: (0.9, 0.03)}, epochs=2)
    write_scores("none", {0: (0.92, 0.02)}, epochs=3)
    write_scores("scale", {0: (0.93, 0.01), 4: (0.94, 0.01)}, epochs=3)
    write_scores("scale", {0: (0.8, 0.04)}, epochs=3, dataset="rotmnist5k")
    runs = load_runs(tmp_path)
    merged, letters = of_data_sets(runs)
    assert letters == ["[a] 2 epochs", "[b] 3 epochs"]
    figure = calibration_figure(runs)
    first, second = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["mnist5k (size=14)", "rotmnist5k (size=14)"]
    assert (named(first), named(second)) == (["none [a]", "none [b]", "scale [b]"], ["scale"])
    assert line(first, "none [a]") == [pytest.approx([10, 3])]
    assert line(first, "none [b]") == [pytest.approx([8, 2])]
    assert "more than their method: [a] 2 epochs; [b] 3 epochs." in text(figure)
    assert len(merged.runs) == len(runs.runs) and list(merged.scores["value"]) == list(runs.scores["value"])


def test_protocols_and_one_budget_alone_stay_apart(tmp_path: Path, write_scores: WriteScores) -> None:
    write_scores("none", {0: (0.9, 0.03)})
    write_scores("scale", {0: (0.93, 0.01)}, protocol=Protocol(maximum_shear=0.5))
    runs = load_runs(tmp_path)
    merged, letters = of_data_sets(runs)
    assert not letters
    pd.testing.assert_frame_equal(merged.runs, runs.runs)
    assert len(calibration_figure(runs).axes) == 2


def test_peers_are_triangles(tmp_path: Path, write_scores: WriteScores) -> None:
    write_scores("none", {0: (0.95, 0.02)}, options={})
    numbers = published(method=["peer", "peer"], metric=["accuracy", "ece"], value=[0.96, 0.03])
    figure = calibration_figure(load_runs(tmp_path), numbers)
    assert line(figure.axes[0], "peer (published)") == [pytest.approx([4, 3])]
    assert "Triangles with a dark edge: published by a source" in text(figure)
    assert "so not the same experiment" in text(figure)
    assert not ellipses(figure.axes[0])


def test_a_published_number_has_the_colour_of_our_method(tmp_path: Path, write_scores: WriteScores) -> None:
    write_scores("scale", {0: (0.95, 0.02)}, options={})
    numbers = published(method=["scale"] * 2 + ["peer"] * 2, metric=["accuracy", "ece"] * 2, value=[0.96, 0.03] * 2)
    (axes,) = calibration_figure(load_runs(tmp_path), numbers).axes
    marks = {str(mark.get_label()): mark for mark in axes.lines}
    ours, theirs, peer = (marks[name] for name in ("scale", "scale (published)", "peer (published)"))
    assert to_rgb(theirs.get_markerfacecolor()) == to_rgb(ours.get_color()) != to_rgb(peer.get_markerfacecolor())
    assert theirs.get_color() == peer.get_color() != ours.get_color()


def test_numbers_of_ones_own_are_drawn(tmp_path: Path, write_scores: WriteScores, augbench: CommandLine) -> None:
    write_scores("none", {0: (0.95, 0.02)}, options={}, probe=())
    numbers = published(method=["peer", "peer"], metric=["accuracy", "ece"], value=[0.96, 0.03], sd=[0.01, 0.01])
    numbers.assign(sd_over="seeds", note="", n="").to_csv(tmp_path / "own.csv", index=False)
    command = ("figures", "--from", tmp_path, "--format", "svg", "--no-cache")
    assert augbench(*command, "--out", tmp_path / "plain")[0] == 0
    code, _, error = augbench(*command, "--out", tmp_path / "with", "--published-file", tmp_path / "own.csv")
    assert (code, error) == (0, "")
    plain, own = ((tmp_path / folder / "calibration.svg").read_text() for folder in ("plain", "with"))
    assert "published by" not in plain and "<!-- peer (published) -->" in own
    assert "<!-- Triangles with a dark edge: published by a source" in own
    code, _, error = augbench(*command, "--out", tmp_path / "no", "--published-file", tmp_path / "missing.csv")
    assert code == 2 and "missing.csv" in error and not (tmp_path / "no").exists()


def test_peers_far_away_are_counted_and_not_drawn(tmp_path: Path, write_scores: WriteScores) -> None:
    write_scores("none", {0: (0.3, 0.02)}, options={})
    write_scores("scale", {0: (0.35, 0.03)}, options={})
    numbers = published(method=["peer", "peer"], metric=["accuracy", "ece"], value=[0.96, 0.03])
    figure = calibration_figure(load_runs(tmp_path), numbers)
    assert named(figure.axes[0]) == ["none", "scale"]
    assert "Outside the panel of mnist5k: 1 published method (error 4.0 %, ECE 3.0 %)." in text(figure)


def test_the_published_peers_of_the_paper_s_figure(tmp_path: Path, write_run: WriteRun) -> None:
    write_run(dataset="cifar10", options={})
    runs = load_runs(tmp_path)
    runs.runs["network"] = "wrn-28-10"
    found = peers(runs, "cifar10", load_published()).set_index("method")
    assert found["recipe"].to_dict() == {
        "none": "deterministic",
        "none × ensemble": "deterministic",
        "none × batch-ensemble": "batch-ensemble",
        "none × rank-1": "rank-1",
        "rank1-bnn-cauchy-4": "rank-1",
        "none × sngp": "sngp",
        "none × sngp-ensemble": "sngp",
    }
    assert found.loc["none × sngp-ensemble", ["error", "ece"]].tolist() == pytest.approx([0.033, 0.005])


def test_nothing_to_draw(tmp_path: Path, write_run: WriteRun) -> None:
    path = write_run().path / "result.json"
    result = json.loads(path.read_text("utf-8"))
    del result["metrics"]["0"]["ece"]
    write_json(path, result)
    with pytest.raises(UserError, match="calibration error"):
        calibration_figure(load_runs(tmp_path))
