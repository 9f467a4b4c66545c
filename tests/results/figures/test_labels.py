"""Names stay on the page and off one another, however long they are and however many data sets there are."""

from collections.abc import Callable
from pathlib import Path

import pytest
from drawn import legends, line, named, overlap, points, titles
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.artist import Artist
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from augbench.bench.runs.run_folder import RunFolder
from augbench.results.figures import (
    angle_figure,
    learned_figure,
    named_by_law,
    overview_figure,
    searched_figure,
    write_figures,
)
from augbench.results.figures.learned import learned_numbers
from augbench.results.figures.style import block_looks, dataset_look
from augbench.results.figures.text import text_width, wrap_text
from augbench.results.model.frame import Runs, load_runs

WriteRun = Callable[..., RunFolder]

LONG_OPTIONS = [{"an_option": "of-some-length", "rotation": 22.5 * index, "shrink": 2} for index in range(1, 6)]
BLOCKS = ("rotation", "x-scale", "y-scale", "x-shear", "half-turn", "flip", "crop")
FOUND = {f"probability/{name}": 0.5 for name in BLOCKS} | {f"range/{name}": 0.1 for name in BLOCKS[:4]}
LONG_SETTINGS = {f"hyperparameter_{letter}": f"of-many-{letter}" for letter in "abcdef"}


@pytest.fixture(scope="module")
def many_data_sets(tmp_path_factory: pytest.TempPathFactory, write_run_below: WriteRun) -> Runs:
    """Two learners on five data sets with long names."""
    out = tmp_path_factory.mktemp("many")
    for options in LONG_OPTIONS:
        write_run_below(out, "scale", dataset="planted", options=options, learned=[FOUND])
        write_run_below(out, "dada", dataset="planted", options=options, learned=[FOUND], search_passes=100)
    return load_runs(out)


@pytest.fixture(scope="module")
def long_labels(tmp_path_factory: pytest.TempPathFactory, write_run_below: WriteRun) -> Runs:
    """Two learners, each with settings whose names are wider than a page."""
    out = tmp_path_factory.mktemp("long")
    for method, passes in (("scale", 0), ("fast-aa", 100)):
        for settings in ({name: "other" for name in LONG_SETTINGS}, LONG_SETTINGS):
            write_run_below(out, method, settings=settings, learned=[FOUND], search_passes=passes)
    return load_runs(out)


def fit(figure: Figure, artists: list[Artist]) -> bool:
    """Whether all of these lie within the figure, give or take a pixel, and none overlaps another."""
    apart, page = not overlap(figure, artists), figure.bbox
    extents = [artist.get_window_extent() for artist in artists]
    return apart and all(
        box.x0 >= -1 and box.y0 >= -1 and box.x1 <= page.x1 + 1 and box.y1 <= page.y1 + 1 and box.width
        for box in extents
    )


def test_the_names_of_rows(many_data_sets: Runs) -> None:
    figure = learned_figure(many_data_sets)
    names = [axes.yaxis.label for axes in figure.axes if axes.get_ylabel()]
    shown = ["".join(name.get_text().split()) for name in names]
    assert shown == [name.replace(" ", "") for name in dict.fromkeys(many_data_sets.runs["comparison"])]
    assert fit(figure, [*names, *titles(figure)])


def test_the_ranges_of_many_data_sets(many_data_sets: Runs) -> None:
    figure = overview_figure(many_data_sets)
    assert len(figure.axes[0].texts) == 4 * 5 + 1
    assert fit(figure, [*figure.axes[0].texts, *titles(figure), *legends(figure)])


@pytest.mark.parametrize("draw", [angle_figure, searched_figure])
def test_the_titles_of_many_data_sets(many_data_sets: Runs, draw: Callable[[Runs], Figure]) -> None:
    figure = draw(many_data_sets)
    assert fit(figure, [*titles(figure), *legends(figure)])


def test_a_long_title_over_a_single_panel(tmp_path: Path, write_run: WriteRun) -> None:
    write_run(options={f"option_{letter}": "of some length" for letter in "abcdefg"})
    figure = angle_figure(load_runs(tmp_path))
    assert figure.axes[0].get_title().count("\n") >= 1
    assert fit(figure, titles(figure))
    assert figure.axes[0].get_window_extent().height > figure.dpi


@pytest.mark.parametrize("draw", [searched_figure, learned_figure, overview_figure])
def test_labels_wider_than_the_page(long_labels: Runs, draw: Callable[[Runs], Figure]) -> None:
    figure = draw(long_labels)
    assert fit(figure, [*titles(figure), *legends(figure)])
    assert figure.axes[0].get_window_extent().height > 0.7 * figure.dpi  # what is below takes no room from the panels


def test_the_entries_of_a_legend_keep_their_words(long_labels: Runs) -> None:
    figure = angle_figure(long_labels)
    assert fit(figure, [*titles(figure), *legends(figure)])
    assert figure.axes[0].get_window_extent().height > 0.7 * figure.dpi
    shown = [text.get_text() for text in legends(figure)[0].get_texts()]
    assert [text.replace("\n", " ") for text in shown] == list(dict.fromkeys(long_labels.runs["label"]))
    assert all("\n" in text for text in shown)


def test_ten_data_sets_look_different() -> None:
    assert len({dataset_look(position).colour for position in range(10)}) == 10
    assert len({dataset_look(position).marker for position in range(10)}) == 10
    assert len({dataset_look(position) for position in range(30)}) == 30


def test_other_numbers(tmp_path: Path, write_run: WriteRun) -> None:
    numbers = [{"probability/flip": 0.5, "strength": 250.0, "magnitude/rotation": 30.0}, {"strength": 350.0}]
    write_run("newcomer", learned=numbers)
    write_run("searcher", learned=[{"magnitude/rotation": 30.0}], search_passes=100)
    runs = load_runs(tmp_path)
    assert set(learned_numbers(runs)["label"]) == {"newcomer"}
    figure = learned_figure(runs)
    percent, axes = figure.axes
    assert [one.get_title() for one in figure.axes] == ["newcomer\nprobability π (%)", "newcomer\nother numbers"]
    assert percent.get_ylim() == (-3, 103)
    assert named(axes) == ["strength", "magnitude/rotation"]
    assert line(axes, "strength") == points((1, 250), (2, 350))
    assert line(axes, "magnitude/rotation") == points((1, 30))
    lowest, highest = axes.get_ylim()
    assert lowest < 30 < 350 < highest < 400
    figure.draw_without_rendering()
    assert any(label.get_text() for label in axes.get_yticklabels())
    assert len({to_rgb(line.get_color()) for line in axes.lines}) == 2
    assert fit(figure, [*titles(figure), *legends(figure)])


def test_other_numbers_have_one_scale_on_all_data_sets(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("newcomer", learned=[{"strength": 0.1}])
    write_run("newcomer", dataset="rotmnist5k", learned=[{"strength": 9.0}])
    upper, lower = learned_figure(load_runs(tmp_path)).axes
    assert upper.get_ylim() == lower.get_ylim()
    assert lower.get_ylim()[0] < 0.1 < 9 < lower.get_ylim()[1] < 10


def test_percent_are_written_where_nothing_in_percent_stands_to_the_left(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("newcomer", learned=[{"probability/flip": 0.5, "range/rotation": 1.0, "strength": 3.0}])
    write_run("scale", dataset="other", learned=[{"probability/flip": 0.5, "range/rotation": 1.0}])
    write_run("augerino", learned=[{"range/rotation": 1.0}])
    figure = learned_figure(load_runs(tmp_path))
    first, second = figure.axes[:6], figure.axes[6:]
    written = [[axes.yaxis.get_tick_params()["labelleft"] for axes in line if axes.lines] for line in (first, second)]
    assert written == [[True, False, True, True], [True, False]]  # augerino's ranges come after other numbers


def test_unknown_blocks_look_different() -> None:
    looks = block_looks([*(f"unknown-{index}" for index in range(14)), "rotation"])
    assert len({(look.colour, look.dashes) for look in looks.values()}) == 15
    assert looks["rotation"] == block_looks(["rotation"])["rotation"]


def test_planted_data_sets_are_named_by_their_law(tmp_path: Path, write_run: WriteRun) -> None:
    for rotation, law in ((45.0, "rotation ±45°"), (180.0, "rotation ±180°")):
        write_run("none", dataset="planted", options={"rotation": rotation, "shrink": 2}, planted=(law, ["turn"]))
    write_run("none")
    named = named_by_law(load_runs(tmp_path))
    expected = {"planted (shrink=2): rotation ±45°", "planted (shrink=2): rotation ±180°", "mnist5k (size=14)"}
    assert set(named.runs["comparison"]) == set(named.probe["comparison"]) == expected
    assert {axes.get_title().replace("\n", " ") for axes in angle_figure(named).axes[:3]} == expected


def test_the_width_of_a_line() -> None:
    assert text_width("", 8) == 0
    assert text_width("abc", 16) == pytest.approx(2 * text_width("abc", 8), rel=0.05)
    assert text_width("abc", 8, bold=True) > text_width("abc", 8)
    figure = Figure(dpi=200)
    drawn = figure.text(0, 0, "planted (rotation=180.0)", fontsize=8, family="DejaVu Sans")
    box = drawn.get_window_extent()
    assert box.width / 200 <= text_width(drawn.get_text(), 8) <= 1.06 * box.width / 200


@given(st.lists(st.text("abc(=-1", min_size=1, max_size=12), min_size=1, max_size=8), st.floats(0.2, 4))
def test_lines_are_no_wider_than_the_room_and_lose_nothing(words: list[str], width: float) -> None:
    text = " ".join(words)
    wrapped = wrap_text(text, width, 8)
    assert all(text_width(line, 8) <= width for line in wrapped.split("\n"))
    assert "".join(wrapped.split()) == "".join(words)
    assert "\n" not in wrap_text(text, text_width(text, 8), 8)


def test_a_word_that_is_too_wide_breaks_after_its_hyphens() -> None:
    room = text_width("of-a-long-name/", 7)
    assert wrap_text("x of-a-long-name/of-a-number", room, 7) == "x\nof-a-long-name/\nof-a-number"


@pytest.mark.usefixtures("any_name")
def test_letters_that_the_font_lacks_are_drawn_without_a_word(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("Größe_学习 🎲")
    assert write_figures(load_runs(tmp_path), tmp_path / "figures", formats=["png"])
