"""Every figure of one run, of many data sets and learners, of hostile names; what is wrong with runs is said below."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from augbench.bench.run_folder import RunFolder, RunState
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
from augbench.results.frame import Runs, load_runs
from augbench.results.records.labels import KNOWN_METHODS

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
