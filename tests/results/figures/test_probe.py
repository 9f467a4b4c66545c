"""The curves of a probe are the numbers of its frame, and the summary is what they say."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from augbench.bench.training.probe_kinds import KINDS
from augbench.results.figures.probe import probe_figure
from augbench.results.figures.style import FEW
from augbench.results.model.frame import KEYS
from augbench.results.studies.probes import COLUMNS, summarise_probe, write_probe


def frame(kind: str, curves: dict[tuple[str, str, int], dict[float, float]], draws: int = 0) -> pd.DataFrame:
    """Make the frame of accuracies by value, of runs by comparison, method and seed; `none` has no draws."""
    rows = []
    for (comparison, method, seed), curve in curves.items():
        keys = dict(zip(KEYS, (f"{comparison}-{method}-{seed}", comparison, method, method, seed), strict=True))
        common = keys | {"dataset": comparison, "test_dataset": comparison, "kind": kind, "test_images": 10}
        common["draws"] = 0 if method == "none" else draws
        rows += [common | {"value": value, "accuracy": accuracy} for value, accuracy in curve.items()]
    return pd.DataFrame(rows, columns=list(COLUMNS))


CURVES: dict[tuple[str, str, int], dict[float, float]] = {
    ("digits", "none", 0): {-90: 0.2, 0: 0.9, 90: 0.4},
    ("digits", "none", 1): {-90: 0.4, 0: 1.0, 90: 0.2},
    ("digits", "scale", 0): {-90: 0.7, 0: 0.8, 90: 0.9},
    ("letters", "none", 0): {-90: 0.1, 0: 0.5, 90: 0.3},
}


def line(axes: Axes, label: str) -> Any:
    (found,) = [line for line in axes.lines if line.get_label() == label]
    return found


def points(axes: Axes, label: str) -> list[list[float]]:
    found: list[list[float]] = np.asarray(line(axes, label).get_xydata()).tolist()
    return found


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))


def ticks(axes: Axes) -> list[float]:
    lowest, highest = axes.get_xlim()
    return [tick for tick in axes.get_xticks().tolist() if lowest <= tick <= highest]


def test_curves_are_means_over_seeds() -> None:
    digits, letters = probe_figure(frame("rotation", CURVES), KINDS["rotation"]).axes
    assert points(digits, "none") == [[-90, pytest.approx(30)], [0, 95], [90, pytest.approx(30)]]
    assert points(digits, "scale") == [[-90, 70], [0, 80], [90, 90]]
    assert points(letters, "none") == [[-90, 10], [0, 50], [90, 30]]
    seeds = [line for line in digits.lines if str(line.get_label()).startswith("_")]
    assert [np.asarray(line.get_ydata()).tolist() for line in seeds] == [[20, 90, 40], [40, 100, 20]]
    assert [axes.get_title() for axes in (digits, letters)] == ["digits", "letters"]
    assert digits.get_xlabel() == "Rotation of the test images (°)"
    assert digits.get_ylabel() == "Accuracy (%)"
    assert digits.get_ylim()[0] == 0
    assert to_rgb(line(digits, "none").get_color()) == to_rgb(line(letters, "none").get_color())
    assert to_rgb(line(digits, "none").get_color()) != to_rgb(line(digits, "scale").get_color())


def one_curve(kind: str, values: Iterable[float]) -> Axes:
    figure = probe_figure(frame(kind, {("digits", "none", 0): dict.fromkeys(values, 0.5)}), KINDS[kind])
    figure.draw_without_rendering()
    (axes,) = figure.axes
    return axes


@pytest.mark.parametrize(
    ("kind", "values", "scale", "expected"),
    [
        ("rotation", range(-180, 181, 15), "linear", [-180, -90, 0, 90, 180]),
        ("rotation", range(0, 31, 5), "linear", [0, 5, 10, 15, 20, 25, 30]),
        ("rotation", (-360, 360), "linear", [-360, -180, 0, 180, 360]),
        ("scale", (0.5, 1, 2), "log", [0.5, 0.75, 1, 1.5, 2]),
        ("y-scale", (0.01, 100), "log", None),
        ("x-scale", (0.9, 1.1), "linear", None),
        ("x-shear", (-1, 0, 1), "linear", [-1, -0.5, 0, 0.5, 1]),
        ("rotation", (30,), "linear", [30]),
    ],
)
def test_axes_fit_the_values(kind: str, values: Iterable[float], scale: str, expected: list[float] | None) -> None:
    axes = one_curve(kind, values)
    assert axes.get_xscale() == scale
    found = ticks(axes)
    assert 1 <= len(found) <= 8
    if expected is not None:
        assert found == pytest.approx(expected)


def test_few_values_have_markers() -> None:
    for count in (1, 2, FEW):
        assert line(one_curve("scale", [1 + index / 10 for index in range(count)]), "none").get_marker() == "o"
    many = [1 + index / 10 for index in range(FEW + 1)]
    assert line(one_curve("scale", many), "none").get_marker() == "None"


def test_notes_on_draws_and_on_test_images_of_others() -> None:
    own = frame("rotation", CURVES)
    assert not re.search("test-time draw|Test images", texts(probe_figure(own, KINDS["rotation"])))
    other = frame("rotation", CURVES, draws=4).assign(test_dataset="letters")
    said = texts(probe_figure(other, KINDS["rotation"])).replace("\n", " ")
    assert "Probabilities averaged over 4 test-time draws. No draws for lack of a policy: “none”." in said
    assert "Test images of letters." in said


def test_the_summary_is_of_the_values_that_were_asked_for() -> None:
    summary = summarise_probe(frame("rotation", CURVES), KINDS["rotation"], [-90, 90])
    numbers = ["seeds", "identity", "mean", "worst"]
    none, scale, letters = summary.to_dict("records")
    assert [(row["comparison"], row["label"]) for row in (none, scale)] == [("digits", "none"), ("digits", "scale")]
    assert [none[name] for name in numbers] == pytest.approx([2, 0.95, 0.3, 0.3])
    assert [scale[name] for name in [*numbers, "worst_value"]] == pytest.approx([1, 0.8, 0.8, 0.7, -90])
    assert (letters["comparison"], letters["worst_value"]) == ("letters", -90)


def test_one_transform_counts_once_in_the_mean() -> None:
    curve = {("digits", "none", 0): {-180: 0.2, 0: 0.8, 180: 0.2}}
    (circle,) = summarise_probe(frame("rotation", curve), KINDS["rotation"], [-180, 0, 180]).to_dict("records")
    assert (circle["mean"], circle["worst_value"]) == (pytest.approx(0.5), -180)
    (line,) = summarise_probe(frame("x-shear", curve), KINDS["x-shear"], [-180, 0, 180]).to_dict("records")
    assert line["mean"] == pytest.approx(0.4)


@pytest.mark.slow
def test_the_files(tmp_path: Path) -> None:
    table = frame("x-shear", CURVES)
    written = write_probe(table, KINDS["x-shear"], tmp_path)
    assert [path.name for path in written] == [f"probe-x-shear.{ending}" for ending in ("csv", "png", "pdf", "svg")]
    pd.testing.assert_frame_equal(pd.read_csv(written[0], dtype=table.dtypes.to_dict()), table)
