"""Every figure of one run, of many data sets and learners, of hostile names; problems of the runs are named below."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from drawn import legends, named, on_the_page, overlap, text
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

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


def pages(drawn: Figure | list[Figure]) -> list[Figure]:
    return drawn if isinstance(drawn, list) else [drawn]


@pytest.fixture(scope="module")
def eleven(write_run_below: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Eleven learners on two data sets, of which one has a long name and one is missing on the second data set."""
    out = tmp_path_factory.mktemp("eleven")
    found: dict[str, Any] = {"accuracy": {0: 0.9, 4: 0.91}, "learned": [FOUND], "labels": [0] * 18 + [1] * 2}
    found |= {"probabilities": [(0.9, 0.1)] * 20, "drawn": {4: [[(0.8, 0.2)] * 20]}}
    for dataset, count in (("first", 10), ("second", 9)):
        for method in KNOWN_METHODS[:count]:
            write_run_below(out, method, dataset=dataset, **found)
        write_run_below(out, "scale", dataset=dataset, settings={"estimator": "leave-one-out-of-a-great-many"}, **found)
    return load_runs(out)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [angle_figure, calibration_figure, draws_figure, pareto_figure, reliability_figure])
def test_a_crowd_is_spread_over_panels_below_legends_of_their_own(eleven: Runs, draw: Callable[[Runs], Figure]) -> None:
    figure, learners = draw(eleven), list(dict.fromkeys(eleven.runs["label"]))
    assert len(learners) == 11
    panels = [axes for axes in figure.axes if len(axes.lines) > 2]
    names = [set(named(axes)) & set(learners) for axes in panels]
    assert [len(labels) for labels in names] == [4, 4, 3, 4, 4, 2]
    assert set().union(*names[:3]) == set(learners)
    assert names[3:5] == names[:2] and names[5] < names[2]
    for axes in panels:
        assert sum(to_rgb(line.get_color()) == BEHIND.colour for line in axes.lines) >= 6, "all others are in grey"
    assert "Grey: the methods of the other panels." in text(figure)
    assert on_the_page(figure)
    assert [title for axes in figure.axes if (title := axes.get_title(loc="left"))] == [
        "first (size=14)",
        "second (size=14)",
    ]
    shown = [" ".join(text.get_text().split()) for legend in legends(figure) for text in legend.get_texts()]
    assert [label for label in shown if label in learners] == learners
    assert not overlap(figure, [*legends(figure), *[axes for axes in figure.axes if axes.axison]])


def test_eight_learners_share_a_panel(tmp_path: Path, write_run: WriteRun) -> None:
    for method in KNOWN_METHODS[:8]:
        write_run(method)
    figure = pareto_figure(load_runs(tmp_path))
    assert len(figure.axes) == 1
    assert "Grey" not in text(figure)


def test_the_overview_of_a_crowd_shows_its_learner_and_none(eleven: Runs) -> None:
    figure = overview_figure(eleven)
    assert [set(named(axes)) for axes in figure.axes[1:]] == [{"none", "scale"}] * 2
    assert "Grey, at the right: all other methods." in text(figure)


@pytest.mark.slow
def test_fifteen_learners_on_six_data_sets(tmp_path: Path, write_run: WriteRun) -> None:
    for index in range(6):
        kind: dict[str, Any] = {"dataset": f"data-{index}"}
        if index == 5:
            kind = {"dataset": "planted", "options": {"rotation": 45.0}, "planted": ("rotation ±45°", ["turn"])}
        for method in KNOWN_METHODS:
            passes = 100 if method in ("dada", "fast-aa", "faster-aa") else 0
            learned = [] if method in ("none", "fixed") else [FOUND]
            accuracy = {0: 0.9, 4: 0.91}
            write_run(method, **kind, accuracy=accuracy, drawn=DRAWN, learned=learned, search_passes=passes)
    crowd = load_runs(tmp_path)
    for draw in DRAWS:
        for figure in pages(draw(crowd)):
            width, height = figure.get_size_inches()
            assert (width <= 7, height <= 9.5, on_the_page(figure)) == (True, True, True)


@pytest.mark.slow
def test_of_one_run_everything_is_drawn_and_what_is_wrong_is_named(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale", seed=0, epochs=1, accuracy={0: 0.9, 4: 0.91}, drawn=DRAWN, learned=[FOUND])
    write_run("scale", seed=1, epochs=1, state=RunState.FAILED)
    runs = load_runs(tmp_path)
    for draw in DRAWS[:-1]:
        for figure in pages(draw(runs)):
            for expected in ("n = 1 seed", "so that accuracies mean nothing: mnist5k (size=14)", runs.warnings()[0]):
                assert expected in text(figure)
            assert on_the_page(figure)


@pytest.mark.slow
@pytest.mark.usefixtures("any_name")
def test_hostile_names_are_text(tmp_path: Path, write_run: WriteRun) -> None:
    options = {"option": HOSTILE}
    write_run(HOSTILE, options=options, accuracy={0: 0.9, 4: 0.91}, drawn=DRAWN, learned=[FOUND])
    write_run("none", options=options)
    runs = load_runs(tmp_path)
    images = write_figures(runs, tmp_path / "out", formats=["svg"])
    assert len(images) == 9
    for path in images:
        tree = ElementTree.parse(path)  # noqa: S314 - our own file
        assert not [element for element in tree.iter() if str(element.tag).rpartition("}")[2] == "script"]
    for figure in (angle_figure, pareto_figure, calibration_figure):
        assert HOSTILE in text(figure(runs))
