"""Every figure of one run, of many data sets and learners, of hostile names; what is wrong with runs is said below."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text

from augbench.bench.experiment.labels import KNOWN_METHODS
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.figures import (
    angle_figure,
    calibration_figure,
    draws_figure,
    learned_figures,
    overview_figure,
    parameters_figures,
    pareto_figure,
    reliability_figure,
    searched_figure,
    write_figures,
)
from augbench.results.figures.style import BEHIND
from augbench.results.model.frame import Runs, load_runs

WriteRun = Callable[..., RunFolder]
Draw = Callable[[Runs], Figure | list[Figure]]

HOSTILE = "<script>$%&_\\frac{$"
DRAWN = {4: [[(0.9, 0.1), (0.2, 0.8), (0.6, 0.4), (0.7, 0.3)]]}
FOUND = {"probability/rotation": 0.5, "probability/flip": 0.1, "range/rotation": 1.0}
DRAWS: tuple[Draw, ...] = (
    angle_figure,
    calibration_figure,
    draws_figure,
    learned_figures,
    overview_figure,
    parameters_figures,
    pareto_figure,
    reliability_figure,
    lambda runs: reliability_figure(runs, 4),
    searched_figure,
)


@pytest.fixture
def crowd(tmp_path: Path, write_run: WriteRun) -> Runs:
    """All known learners on six data sets, of which one has a planted law."""
    for index in range(6):
        kind: dict[str, Any] = {"dataset": f"data-{index}"}
        if index == 5:
            kind = {"dataset": "planted", "options": {"rotation": 45.0}, "planted": ("rotation ±45°", ["turn"])}
        for method in KNOWN_METHODS:
            searched = method in ("dada", "fast-aa", "faster-aa")
            write_run(
                method,
                **kind,
                accuracy={0: 0.9, 4: 0.91},
                drawn=DRAWN,
                learned=[] if method in ("none", "fixed") else [FOUND],
                search_passes=100 if searched else 0,
            )
    return load_runs(tmp_path)


def pages(drawn: Figure | list[Figure]) -> list[Figure]:
    return drawn if isinstance(drawn, list) else [drawn]


def fits(figure: Figure) -> bool:
    """Whether all text but the numbers of axes lies on the page, give or take two pixels."""
    figure.draw_without_rendering()
    page = figure.bbox
    ticks = {label for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())}
    boxes = [
        text.get_window_extent()
        for text in figure.findobj(Text)
        if isinstance(text, Text) and text.get_text() and text.get_visible() and text not in ticks
    ]
    return bool(boxes) and all(
        box.x0 >= -2 and box.y0 >= -2 and box.x1 <= page.x1 + 2 and box.y1 <= page.y1 + 2 for box in boxes
    )


def text(figure: Figure) -> str:
    """All that is written, on one line."""
    return " ".join(" ".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)).split())


@pytest.fixture
def eleven(tmp_path: Path, write_run: WriteRun) -> Runs:
    """Eleven learners on two data sets, of which one has a long name and one is missing on the second data set."""
    found: dict[str, Any] = {"accuracy": {0: 0.9, 4: 0.91}, "learned": [FOUND], "labels": [0] * 18 + [1] * 2}
    found |= {"probabilities": [(0.9, 0.1)] * 20, "drawn": {4: [[(0.8, 0.2)] * 20]}}
    for dataset in ("first", "second"):
        for method in KNOWN_METHODS[: 10 if dataset == "first" else 9]:
            write_run(method, dataset=dataset, **found)
        write_run("scale", dataset=dataset, settings={"estimator": "leave-one-out-of-a-great-many"}, **found)
    return load_runs(tmp_path)


SPREAD: tuple[Callable[[Runs], Figure], ...] = (
    angle_figure,
    calibration_figure,
    draws_figure,
    pareto_figure,
    reliability_figure,
    lambda runs: reliability_figure(runs, 4),
)


@pytest.mark.parametrize("draw", SPREAD)
def test_a_crowd_is_spread_over_panels(eleven: Runs, draw: Callable[[Runs], Figure]) -> None:
    figure = draw(eleven)
    learners = set(eleven.runs["label"])
    assert len(learners) == 11
    named = [{str(line.get_label()) for line in axes.lines} & learners for axes in figure.axes if len(axes.lines) > 2]
    greys = [
        sum(to_rgb(line.get_color()) == BEHIND.colour for line in axes.lines)
        for axes in figure.axes
        if len(axes.lines) > 2
    ]
    assert [len(labels) for labels in named] == [4, 4, 3, 4, 4, 2]
    assert set().union(*named[:3]) == learners
    assert named[3:5] == named[:2] and named[5] < named[2]
    assert all(behind >= 6 for behind in greys), "all others are seen in grey"
    assert "Grey: the methods of the other panels." in text(figure)


@pytest.mark.parametrize("draw", SPREAD)
def test_the_legends_of_a_crowd_name_what_is_below_them(eleven: Runs, draw: Callable[[Runs], Figure]) -> None:
    figure = draw(eleven)
    assert fits(figure)
    legends = [legend for legend in figure.findobj(Legend) if isinstance(legend, Legend)]
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]
    assert titles == ["first (size=14)", "second (size=14)"]
    shown = [" ".join(text.get_text().split()) for legend in legends for text in legend.get_texts()]
    assert [label for label in shown if label in set(eleven.runs["label"])] == list(dict.fromkeys(eleven.runs["label"]))
    boxes = [legend.get_window_extent() for legend in legends]
    boxes += [axes.get_window_extent() for axes in figure.axes if axes.axison]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_eight_learners_share_a_panel(tmp_path: Path, write_run: WriteRun) -> None:
    for method in KNOWN_METHODS[:8]:
        write_run(method)
    runs = load_runs(tmp_path)
    assert len(angle_figure(runs).axes) == len(pareto_figure(runs).axes) == 1
    assert "Grey" not in text(angle_figure(runs))


def test_the_overview_of_a_crowd_shows_its_learner_and_none(eleven: Runs) -> None:
    figure = overview_figure(eleven)
    for axes in figure.axes[1:]:
        named = {str(line.get_label()) for line in axes.lines if not str(line.get_label()).startswith("_")}
        assert named == {"none", "scale"}
    assert "Grey, at the right: all other methods." in text(figure)


@pytest.mark.slow
def test_fifteen_learners_on_six_data_sets(crowd: Runs) -> None:
    for draw in DRAWS:
        for figure in pages(draw(crowd)):
            width, height = figure.get_size_inches()
            assert width <= 7
            assert height <= 9.5
            assert fits(figure)


def test_one_run(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale", accuracy={0: 0.9, 4: 0.91}, drawn=DRAWN, learned=[FOUND])
    runs = load_runs(tmp_path)
    for draw in DRAWS[:-1]:
        for figure in pages(draw(runs)):
            assert fits(figure)
            assert "n = 1 seed" in text(figure)


@pytest.mark.usefixtures("any_name")
def test_hostile_names_are_text(tmp_path: Path, write_run: WriteRun) -> None:
    options = {"option": HOSTILE}
    write_run(HOSTILE, options=options, accuracy={0: 0.9, 4: 0.91}, drawn=DRAWN, learned=[FOUND])
    write_run("none", options=options)
    written = write_figures(load_runs(tmp_path), tmp_path / "out")
    images = [path for path in written if path.suffix == ".svg"]
    assert len(images) == 9
    for path in images:
        tree = ElementTree.parse(path)  # noqa: S314 - our own file
        assert not [element for element in tree.iter() if str(element.tag).rpartition("}")[2] == "script"]
    for figure in (angle_figure, pareto_figure, calibration_figure):
        assert HOSTILE in text(figure(load_runs(tmp_path)))


def test_the_same_numbers_give_the_same_svg(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", probe=())
    runs = load_runs(tmp_path)
    once, again = ([path.read_bytes() for path in write_figures(runs, tmp_path / name)] for name in ("one", "two"))
    assert once == again


def test_what_is_wrong_with_runs_is_said(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale", seed=0, epochs=1, accuracy={0: 0.9, 4: 0.91}, drawn=DRAWN, learned=[FOUND])
    write_run("scale", seed=1, epochs=1, state=RunState.FAILED)
    runs = load_runs(tmp_path)
    warnings = runs.warnings()
    assert warnings
    for draw in DRAWS[:-1]:
        for figure in pages(draw(runs)):
            assert "so that accuracies mean nothing: mnist5k (size=14)" in text(figure)
            assert warnings[0] in text(figure)
            assert fits(figure)
