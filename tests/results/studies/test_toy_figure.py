"""Figure, files and summary of the toy problem."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from augbench.bench.common.errors import UserError
from augbench.results.studies.toy import RADII, TRAINING_POINTS, ToyResult, ToyRun, Way, train
from augbench.results.studies.toy_figure import HALF_WIDTH, toy_figure
from augbench.results.studies.toy_files import harmless_summary, toy_frame, toy_summary, trajectory_frame, write_toy


@pytest.fixture(scope="module")
def runs() -> dict[Way, ToyRun]:
    """Train each way for a moment."""
    return {way: train(way, 0, steps=40) for way in Way}


def _result(way: Way, seed: int, accuracy: float, probability: float, degrees: float) -> ToyResult:
    return ToyResult(way, seed, accuracy, probability, degrees, 48.0 + 2 * seed, trajectory=())


def _two_seeds() -> list[ToyResult]:
    return [
        *(_result(Way.RM, seed, accuracy, 0, 0) for seed, accuracy in enumerate((0.9, 0.8))),
        *(_result(Way.FIXED, seed, accuracy, 1, 180) for seed, accuracy in enumerate((0.52, 0.48))),
        *(_result(Way.TRM, seed, 1.0, *learned) for seed, learned in enumerate(((0.95, 46.0), (0.97, 50.0)))),
    ]


def test_six_panels_say_what_they_show(runs: dict[Way, ToyRun]) -> None:
    figure = toy_figure(runs)
    accuracy = {way: f"{100 * run.result.test_accuracy:.1f} %" for way, run in runs.items()}
    assert [axes.get_title() for axes in figure.axes] == [
        "(a) Training",
        "(b) Rotated ±180°",
        f"(c) Learned ±{runs[Way.TRM].result.range_degrees:.0f}°",
        f"(d) RM: {accuracy[Way.RM]}",
        f"(e) ±180°: {accuracy[Way.FIXED]}",
        f"(f) TRM: {accuracy[Way.TRM]}",
    ]
    assert not plt.get_fignums()


def test_panels_show_training_points_copies_and_test_points(runs: dict[Way, ToyRun]) -> None:
    figure = toy_figure(runs)
    clouds = [[c for c in axes.collections if isinstance(c, PathCollection)] for axes in figure.axes]
    counts = [sum(len(np.asarray(cloud.get_offsets())) for cloud in panel) for panel in clouds]
    training, copies, test = 6 * TRAINING_POINTS, 40 * 6 * TRAINING_POINTS, len(runs[Way.RM].test)
    assert counts == [training, *[copies + training] * 2, *[test + training] * 3]
    first, second = (np.asarray(cloud.get_offsets()) for cloud in clouds[0])
    points = runs[Way.RM].training
    assert first == pytest.approx(points.places[points.labels == 0].numpy())
    assert second == pytest.approx(points.places[points.labels == 1].numpy())
    assert RADII[-1] < HALF_WIDTH


def test_files_are_written(tmp_path: Path, runs: dict[Way, ToyRun]) -> None:
    results = [run.result for run in runs.values()]
    written = write_toy(results, runs, tmp_path / "new" / "folder")
    names = ["toy.csv", "toy_trajectory.csv", "toy.png", "toy.pdf", "toy.svg"]
    assert [path.name for path in written] == names
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == sorted(names)
    pd.testing.assert_frame_equal(pd.read_csv(written[0]), toy_frame(results))
    pd.testing.assert_frame_equal(pd.read_csv(written[1]), trajectory_frame(results))


def test_a_folder_that_cannot_be_made(tmp_path: Path, runs: dict[Way, ToyRun]) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="cannot be written"):
        write_toy([run.result for run in runs.values()], runs, tmp_path / "file")


def test_the_table_has_means_and_sample_deviations_of_several_seeds() -> None:
    assert toy_summary(_two_seeds()) == [
        ("RM (no augmentation)", "85.0 ± 7.1", "–", "–"),
        ("rotations ±180°", "50.0 ± 2.8", "1.00 ± 0.00", "180.0 ± 0.0"),
        ("TRM (SCALE)", "100.0 ± 0.0", "0.96 ± 0.01", "48.0 ± 2.8"),
    ]
    assert harmless_summary(_two_seeds()) == "49.0 ± 1.4"
    one = [result for result in _two_seeds() if result.seed == 0]
    assert toy_summary(one)[2] == ("TRM (SCALE)", "100.0", "0.95", "46.0")
    assert harmless_summary(one) == "48.0"
