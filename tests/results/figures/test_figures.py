"""What is drawn is what the frames hold, and everyone keeps a colour."""

import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from drawn import bars, found_text, legends, line, overlap, points, text, unnamed
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.protocol import Protocol
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.figures import (
    angle_figure,
    learned_figure,
    overview_figure,
    reliability_figure,
    write_figure,
    write_figures,
)
from augbench.results.figures.style import block_looks, dataset_look, method_looks
from augbench.results.model.frame import Runs, load_runs

WriteRun = Callable[..., RunFolder]
CommandLine = Callable[..., tuple[int, str, str]]
ImportedBy = Callable[..., tuple[list[int], set[str]]]
STARTS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xm"}
PROBES = {0: (0.5, 0.4, 0.9, 0.4), 1: (0.7, 0.2, 0.8, 0.6)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, write_run_below: WriteRun) -> Runs:
    out, ranges = tmp_path_factory.mktemp("figures"), [{"range/rotation": 0.1}, {"range/rotation": 1}]
    for dataset in ("mnist5k", "rotmnist5k"):
        for seed, probe in PROBES.items():
            given = {"dataset": dataset, "seed": seed}
            write_run_below(out, "none", probe=probe, **given)
            write_run_below(out, "scale", probe=probe[::-1], learned=scale_numbers(seed), **given)
            write_run_below(out, "augerino", learned=ranges, **given)
    return load_runs(out)


def scale_numbers(seed: int) -> list[dict[str, float]]:
    """Two epochs; the mean of seeds 0 and 1 is a probability of 0.5 and then 0.7, a range of π/4 and then π/2."""
    return [
        {"probability/rotation": 0.4 + 0.2 * seed, "probability/flip": 0.0, "range/rotation": math.pi / 4},
        {"probability/rotation": 0.6 + 0.2 * seed, "probability/flip": 0.1, "range/rotation": math.pi / 2},
    ]


def test_angles(runs: Runs) -> None:
    figure = angle_figure(runs)
    assert [axes.get_title() for axes in figure.axes] == ["mnist5k (size=14)", "rotmnist5k (size=14)"]
    for axes in figure.axes:
        # Means of the two probes, in percent.
        assert line(axes, "none") == points((-180, 60), (-90, 30), (0, 85), (90, 50))
        assert line(axes, "scale") == points((-180, 50), (-90, 85), (0, 30), (90, 60))
        assert len(unnamed(axes)) == 6
        assert unnamed(axes)[1] == points((-180, 70), (-90, 20), (0, 80), (90, 60))
        assert axes.get_xlabel() == "Rotation of the test images (°)"
    assert figure.axes[0].get_ylabel() == "Accuracy (%)"


def test_a_single_seed_is_one_line(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    (axes,) = angle_figure(load_runs(tmp_path)).axes
    assert len(axes.lines) == 1


def test_learned_numbers(runs: Runs) -> None:
    figure = learned_figure(runs)
    titles = [axes.get_title() for axes in figure.axes[:3]]
    assert titles == ["scale\nprobability π (%)", "scale\nrange α (% of max.)", "augerino\nrange (% of max.)"]
    probability, scale_range, augerino_range = figure.axes[3:]
    assert line(probability, "rotation") == points((1, 50), (2, 70))
    assert line(probability, "flip") == points((1, 0), (2, 10))
    assert line(scale_range, "rotation") == points((1, 25), (2, 50))
    assert line(augerino_range, "rotation") == points((1, 10 / math.pi), (2, 100 / math.pi))
    assert figure.axes[0].get_ylabel() == "mnist5k (size=14)"
    assert probability.get_xlabel() == "Epoch"


def test_one_epoch_is_drawn_as_points(tmp_path: Path, write_run: WriteRun) -> None:
    for seed in range(2):
        write_run("scale", seed=seed, epochs=1, learned=scale_numbers(seed)[:1])
    figure = learned_figure(load_runs(tmp_path))
    for axes in figure.axes:
        assert {line.get_marker() for line in axes.lines} == {"o"}
        assert axes.get_xlim() == (0.5, 1.5)
        assert [tick for tick in axes.get_xticks() if 0.5 <= tick <= 1.5] == [1]


def test_maxima_of_the_ranges_that_are_drawn(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("augerino", learned=[{"range/x-translation": 0.1, "range/stretch": 0.1, "range/symmetric-shear": 0.1}])
    figure = learned_figure(load_runs(tmp_path))
    note = found_text(figure, "Max. of the ranges")
    assert note.get_text() == "n = 1 seed.\nMax. of the ranges: scales ×2, shears 1, shifts half an image."
    (axes,) = figure.axes
    legend = axes.get_legend()
    assert legend is not None
    assert not overlap(figure, [note, legend, axes.xaxis.label])


def test_maxima_of_different_protocols(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale", learned=[{"probability/flip": 0.1, "probability/rotation": 0.1}])
    assert "Max. of" not in text(learned_figure(load_runs(tmp_path))), "there are no ranges"
    for degrees in (90, 180):
        protocol = Protocol(maximum_rotation=math.radians(degrees))
        write_run("augerino", learned=[{"range/rotation": 0.1}], protocol=protocol)
    assert found_text(learned_figure(load_runs(tmp_path)), "Max. of the ranges: rotation ±90° or ±180°")


def test_long_names_over_the_columns(tmp_path: Path, write_run: WriteRun) -> None:
    for estimator in ("one-with-a-long-name", "another-with-a-long-name"):
        write_run("scale", settings={"estimator": estimator}, learned=scale_numbers(0))
    figure = learned_figure(load_runs(tmp_path))
    assert not overlap(figure, [axes.title for axes in figure.axes])


def test_a_learner_that_is_missing_on_a_data_set(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale", learned=scale_numbers(0))
    write_run("augerino", dataset="rotmnist5k", learned=[{"range/x-scale": math.log(2) / 2}])
    figure = learned_figure(load_runs(tmp_path))
    assert [len(axes.lines) for axes in figure.axes] == [2, 1, 0, 0, 0, 1]
    assert line(figure.axes[5], "x-scale") == points((1, 50), (2, 50))
    assert figure.axes[3].get_ylabel() == "rotmnist5k (size=14)"


def test_reliability(tmp_path: Path, write_run: WriteRun) -> None:
    # Of 20 images at confidence 0.9, 16 are right, and of 20 at 0.7 it is 12; in both seeds the same.
    probabilities = [(0.9, 0.1)] * 20 + [(0.7, 0.3)] * 20 + [(0.55, 0.45)]
    labels = [0] * 16 + [1] * 4 + [0] * 12 + [1] * 8 + [0]
    for seed in range(2):
        write_run("none", seed=seed, probabilities=probabilities, labels=labels)
    upper, lower = reliability_figure(load_runs(tmp_path)).axes
    assert line(upper, "none") == points((70, 60), (90, 80))  # the bin of 2 images is left out
    assert line(upper, "calibrated") == points((0, 0), (100, 100))
    (histogram,) = lower.patches
    heights = histogram.get_data().values  # type: ignore[attr-defined]
    assert heights[[8, 10, 13]] == pytest.approx([100 / 41, 2000 / 41, 2000 / 41])
    assert heights.sum() == pytest.approx(100)


def test_reliability_pools_the_images_of_all_seeds(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", seed=0, probabilities=[(0.9, 0.1)] * 30, labels=[0] * 30)
    write_run("none", seed=1, probabilities=[(0.89, 0.11)] * 10, labels=[1] * 10)
    upper, _ = reliability_figure(load_runs(tmp_path)).axes
    assert line(upper, "none") == points((89.75, 75))


def test_settings_of_a_learner_look_different_in_legends(tmp_path: Path, write_run: WriteRun) -> None:
    for estimator in ("pooled", "rloo"):
        write_run("scale", settings={"estimator": estimator})
    runs = load_runs(tmp_path)
    first, second = [line for line in reliability_figure(runs).axes[0].lines if "scale" in str(line.get_label())]
    assert first.get_markerfacecolor() == first.get_color()
    assert to_rgb(second.get_markerfacecolor()) == (1, 1, 1)
    assert to_rgb(second.get_markeredgecolor()) == to_rgb(second.get_color())
    (legend,) = legends(angle_figure(runs))
    assert legend.handlelength == 3.4


def test_what_the_reliability_diagram_leaves_out(runs: Runs) -> None:
    figure = reliability_figure(runs)
    assert figure.axes[1].get_ylabel() == "Images (%,\nlog scale)"
    assert figure.axes[1].get_yscale() == "log"
    (legend,) = legends(figure)
    note = found_text(figure, "Images of n = 2 seeds pooled; bins of fewer than 10 images are left out of the lines")
    assert not overlap(figure, [note, legend, *[axes.xaxis.label for axes in figure.axes[1::2]]])
    assert legend.handlelength == 1.6


def test_overview(runs: Runs) -> None:
    left, *right = overview_figure(runs).axes
    assert bars(left) == pytest.approx([70, 10, 70, 10])
    assert np.asarray(left.lines[0].get_xdata()).tolist() == pytest.approx([60, 10, 80, 10])  # a point for each seed
    assert [text.get_text() for text in left.texts] == ["±90°", "±90°", "up to"]
    assert [label.get_text() for label in left.get_yticklabels()] == ["rotation", "flip"]
    assert line(right[0], "none") == points((-180, 60), (-90, 30), (0, 85), (90, 50))
    assert len(right) == 2
    assert left.get_title() == "What scale found"
    assert left.get_xlabel() == "Learned probability π (%)"


def test_overview_of_blocks_that_change_every_other_image(tmp_path: Path, write_run: WriteRun, runs: Runs) -> None:
    assert found_text(overview_figure(runs), "\nWhere drawn, flip changes every other image.")
    numbers = scale_numbers(0)[0]
    write_run("scale", dataset="other", learned=[numbers | {"probability/half-turn": 0.5}])
    figure = overview_figure(load_runs(tmp_path))
    note = found_text(figure, "Where drawn, half-turn and flip change every other image.")
    assert not overlap(figure, [note, *legends(figure), *[axes.xaxis.label for axes in figure.axes]])
    assert note.get_window_extent().x1 < figure.axes[1].get_window_extent().x0  # below the left half
    del numbers["probability/flip"]
    write_run("scale", dataset="plain", learned=[numbers])
    alone = load_runs(tmp_path)
    chosen = alone.learned[alone.learned["comparison"].str.startswith("plain")]
    assert "Where drawn" not in text(overview_figure(replace(alone, learned=chosen)))


def test_overview_of_the_first_of_several_settings(tmp_path: Path, write_run: WriteRun) -> None:
    for estimator in ("leave-one-out-of-a-great-many", "pooled", "rloo"):
        write_run("scale", settings={"estimator": estimator}, learned=scale_numbers(0))
    figure = overview_figure(load_runs(tmp_path))
    left = figure.axes[0]
    title = left.get_title()
    assert title.startswith("What scale found\n(estimator=leave-one-")
    assert found_text(figure, "The first of 3 settings of scale.\nWhere drawn, flip changes every other image.")
    assert not overlap(figure, [left.title, found_text(figure, "up to"), figure.axes[1].title])


def colours(figure: Figure, label: str) -> set[tuple[float, float, float]]:
    return {to_rgb(line.get_color()) for axes in figure.axes for line in axes.lines if line.get_label() == label}


def test_a_method_has_one_colour_everywhere(runs: Runs) -> None:
    figures = [angle_figure(runs), reliability_figure(runs), overview_figure(runs)]
    looks = method_looks(runs.runs)
    for label in ("none", "scale", "augerino"):
        assert [colours(figure, label) for figure in figures] == [{looks[label].colour}] * 3
    assert len({look.colour for look in looks.values()}) == 3


def test_colours_do_not_depend_on_who_else_is_there(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale")
    alone = method_looks(load_runs(tmp_path).runs)["scale"]
    write_run("none")
    write_run("another")
    write_run("scale", settings={"estimator": "rloo"}, dataset="rotmnist5k")
    write_run("scale", settings={"estimator": "pooled"}, dataset="rotmnist5k")
    looks = method_looks(load_runs(tmp_path).runs)
    assert looks["scale"] == alone
    assert looks["scale (estimator=rloo)"].colour == alone.colour
    assert looks["scale (estimator=rloo)"].dashes != looks["scale (estimator=pooled)"].dashes
    assert len({looks[label].colour for label in ("scale", "none", "another")}) == 3


def test_blocks_and_data_sets_do_not_look_like_learners(runs: Runs) -> None:
    learners = {look.colour for look in method_looks(runs.runs).values()}
    blocks = {look.colour for look in block_looks(["rotation", "x-scale", "x-shear", "flip", "crop"]).values()}
    assert not learners & (blocks | {dataset_look(0).colour, dataset_look(1).colour})


@pytest.mark.slow
def test_files(tmp_path: Path, runs: Runs) -> None:
    before = dict(mpl.rcParams)
    names = ("angle", "calibration", "learned", "overview", "parameters", "pareto", "ranks", "reliability")
    written = write_figures(runs, tmp_path / "out", formats=["svg"])
    assert [path.name for path in written] == [f"{name}.svg" for name in names]
    assert dict(mpl.rcParams) == before
    with pytest.raises(UserError, match="jpg"):
        write_figures(runs, tmp_path / "other", formats=["jpg"])


@pytest.mark.slow
def test_the_same_numbers_give_the_same_files(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    figures = [reliability_figure(load_runs(tmp_path)) for _ in range(3)]
    once, again = (write_figure(figure, tmp_path / name) for figure, name in zip(figures, ("one", "two"), strict=False))
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]
    assert {path.suffix: path.read_bytes()[:4] for path in once} == STARTS
    (alone,) = write_figure(figures[2], tmp_path / "alone", ["svg"])
    assert alone.read_bytes() == (tmp_path / "one.svg").read_bytes()


HOSTILE_SETTINGS = """
backend: module://not_installed
text.usetex: True
savefig.bbox: tight
savefig.dpi: 50
axes.facecolor: black
axes.titlelocation: left
axes.prop_cycle: cycler(color=["red"])
figure.constrained_layout.h_pad: 1
font.weight: bold
image.origin: lower
svg.fonttype: none
"""


@pytest.mark.slow
def test_the_settings_of_a_user_change_nothing(
    tmp_path: Path,
    finished: Callable[..., RunFolder],
    augbench: CommandLine,
    imported_by: ImportedBy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = [finished(method).path.parent.parent for method in ("none", "scale")]
    source = (*(word for run in runs for word in ("--from", run)), "--no-cache", "--out")
    commands = {"figures": "figures", "report": "report.html"}
    assert [augbench(name, *source, tmp_path / "ours" / last)[0] for name, last in commands.items()] == [0, 0]
    (tmp_path / "matplotlibrc").write_text(HOSTILE_SETTINGS, "utf-8")
    monkeypatch.setenv("MATPLOTLIBRC", str(tmp_path / "matplotlibrc"))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")  # as in a notebook's shell
    assert imported_by(*((name, *source, tmp_path / "theirs" / last) for name, last in commands.items()))[0] == [0, 0]
    written = [path.relative_to(tmp_path / "ours") for path in (tmp_path / "ours").rglob("*.*")]
    assert len(written) > 7 * len(STARTS)
    for path in written:
        assert (tmp_path / "ours" / path).read_bytes() == (tmp_path / "theirs" / path).read_bytes(), path


@pytest.mark.parametrize(
    ("backend", "chosen"), [pytest.param("svg", "svg", marks=pytest.mark.slow), ("not-installed", "None")]
)
def test_matplotlib_is_imported_without_a_home_or_a_backend(
    monkeypatch: pytest.MonkeyPatch, backend: str, chosen: str
) -> None:
    for name in ("MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MATPLOTLIBRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", os.devnull)
    monkeypatch.setenv("MPLBACKEND", backend)
    code = (
        "import augbench.results.figures.backend, matplotlib, os; "
        "print(os.environ['MPLBACKEND'], matplotlib.get_backend(auto_select=False))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (process.stdout.split(), process.stderr) == ([backend, chosen], "")


def test_only_what_there_is_something_for(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", probe=(), protocol=Protocol(probe_angles=0))
    runs = load_runs(tmp_path)
    written = write_figures(runs, tmp_path / "out", formats=["svg"])
    assert {path.stem for path in written} == {"calibration", "reliability"}
    with pytest.raises(UserError, match="probe_angles"):
        angle_figure(runs)
    with pytest.raises(UserError, match="learned"):
        learned_figure(runs)
    with pytest.raises(UserError, match="overview"):
        overview_figure(runs)


def test_nothing_finished(tmp_path: Path, write_run: WriteRun) -> None:
    write_run(state=RunState.PLANNED)
    with pytest.raises(UserError, match="1 planned"):
        write_figures(load_runs(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()
