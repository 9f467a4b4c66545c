"""Columns and frames that tables, figures and statistics are made from, with numbers that are worked out by hand."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from augbench.bench.common.files import write_json
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.frame import KEYS, load_runs

WriteRun = Callable[..., RunFolder]

RIGHT, WRONG = (0.9, 0.1), (0.15, 0.85)  # of an image whose label is 0
FOUR = (0, 0, 0, 0)


def write_drawn(write_run: WriteRun, **options: object) -> RunFolder:
    """Four images: three right without draws; with two draws, two and three right in two repeats."""
    plain = (RIGHT, RIGHT, RIGHT, WRONG)
    repeats = [(RIGHT, RIGHT, WRONG, WRONG), (RIGHT, WRONG, RIGHT, RIGHT)]
    return write_run("scale", labels=FOUR, probabilities=plain, drawn={2: repeats}, **options)


def test_reading_needs_no_code_that_trains() -> None:
    ours = "(name for name in sys.modules if name.startswith('augbench'))"
    needed = f"import sys, augbench.results.model.frame; print(*{ours})"
    found = subprocess.run([sys.executable, "-c", needed], capture_output=True, text=True, check=True).stdout.split()
    assert "augbench.results.model.frame" in found
    assert not [name for name in found if "trainer" in name or name.startswith("augbench.methods.")]


def test_which_images_are_right_averaged_over_repeats(tmp_path: Path, write_run: WriteRun) -> None:
    write_drawn(write_run, seed=3)
    write_run("scale", seed=1, labels=FOUR, probabilities=(WRONG, RIGHT, RIGHT, RIGHT))
    write_run("scale", seed=2, state=RunState.FAILED)
    runs = load_runs(tmp_path)
    comparison = runs.runs["comparison"].iloc[0]
    plain = runs.correct(comparison, "scale", 0)
    assert (plain.index.name, plain.index.tolist(), plain.columns.tolist()) == ("seed", [1, 3], [0, 1, 2, 3])
    assert plain.to_numpy().tolist() == [[0, 1, 1, 1], [1, 1, 1, 0]]
    drawn = runs.correct(comparison, "scale", 2)
    assert (drawn.index.tolist(), drawn.to_numpy().tolist()) == ([3], [[1, 0.5, 0.5, 0.5]])
    for missing in (runs.correct(comparison, "scale", 4), runs.correct(comparison, "none", 0)):
        assert missing.empty and missing.index.name == "seed"


def test_bins_pool_the_repeats(tmp_path: Path, write_run: WriteRun) -> None:
    write_drawn(write_run)
    bins = load_runs(tmp_path).reliability
    drawn = bins[(bins["draws"] == 2) & (bins["count"] > 0)]
    # eight predictions: five of confidence 0.9, all right; three of 0.85, all wrong; 15 bins, from 0
    assert drawn["bin"].tolist() == [12, 13]
    assert drawn["count"].tolist() == [3, 5]
    assert drawn["confidence"].tolist() == pytest.approx([0.85, 0.9])
    assert drawn["accuracy"].tolist() == [0, 1]
    assert bins.groupby("draws")["count"].sum().to_dict() == {0: 4, 2: 8}
    assert bins.loc[bins["count"] == 0, ["confidence", "accuracy"]].isna().all(axis=None)


def test_versions_source_and_how_many_seeds_were_asked_for(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", version=3, dataset_version=2)
    row = load_runs(tmp_path).runs.iloc[0]
    versions = [row[f"{name}_version"] for name in ("method", "dataset", "network", "protocol")]
    assert versions == [3, 2, 1, 1]
    assert (row["split"], row["checksum"], row["source"]) == ("test", "sha256:0123456789abcdef", str(tmp_path))
    assert (row["commit"], row["dirty"], row["asked"]) == ("0123456789abcdef", False, 1)
    write_run("none", version=3, dataset_version=2, seed=1)
    write_run("scale", dataset_version=2, seed=2, state=RunState.PLANNED)
    write_run("scale", seed=7, dataset="rotmnist5k", state=RunState.FAILED)
    runs = load_runs(tmp_path).runs
    assert runs.groupby("dataset")["asked"].unique().map(list).to_dict() == {"mnist5k": [3], "rotmnist5k": [1]}


@pytest.mark.parametrize(
    ("device", "attempts", "expected"),
    [
        ("H100", [("H100", "GPU-1")], True),
        ("Xeon", [("Xeon", None)], False),
        ("H100 + Xeon", [("H100", "GPU-1"), ("Xeon", None)], None),
        ("H100 + A100", [("H100", "GPU-1"), ("A100", "GPU-2")], True),
        ("H100 + Xeon", [("Xeon", None)], None),
        ("Xeon", [], None),
    ],
)
def test_whether_the_device_is_a_gpu(
    tmp_path: Path, write_run: WriteRun, device: str, attempts: list[tuple[str, str | None]], expected: bool | None
) -> None:
    folder = write_run("none", device=device)
    content = [{"device": name, "device_uuid": uuid} for name, uuid in attempts]
    write_json(folder.path / "environment.json", {"attempts": content})
    assert load_runs(tmp_path).runs["on_gpu"].tolist() == [expected]


def test_each_attempt_has_its_environment(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", gpu=True, device="H100", environment={"plugins": [{"path": "mine.py", "sha256": "a" * 64}]})
    write_run("scale")  # of which nothing is known
    environments = load_runs(tmp_path).environments
    assert environments["method"].tolist() == ["none"]
    row = environments.iloc[0]
    assert (row["attempt"], row["host"], row["device"], row["device_uuid"]) == (1, "node1", "H100", "GPU-1")
    assert (row["torch"], row["packages"]) == ("2.9.0", "torch 2.9.0, numpy 2.0.0")
    assert (row["plugins"], row["command"]) == ("mine.py (aaaaaaaa)", "augbench run suite.toml --out out")


def test_one_table_for_notebooks(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", accuracy={0: 0.8, 4: 0.9})
    write_run("scale", state=RunState.FAILED)
    runs = load_runs(tmp_path)
    table = runs.table()
    assert table["draws"].tolist() == [0, 4, pd.NA]
    assert table["accuracy"].tolist()[:2] == [0.8, 0.9] and np.isnan(table["accuracy"].iloc[2])
    assert table["nll"].tolist()[:2] == [0.25, 0.25]
    assert {f"{metric}_sd_repeats" for metric in ("accuracy", "nll", "brier", "ece", "ece_equal_mass")} < set(table)
    assert table["state"].tolist() == ["done", "done", "failed"]


def test_without_any_result_the_frames_keep_their_columns(tmp_path: Path, write_run: WriteRun) -> None:
    write_run(state=RunState.PLANNED, epochs=1)
    runs = load_runs(tmp_path)
    frames = (runs.scores, runs.learned, runs.probe, runs.recovery, runs.reliability, runs.environments)
    assert all(frame.empty and list(frame.columns[:5]) == list(KEYS) for frame in frames)
    assert len(runs.table()) == 1


def test_frames_follow_a_choice_of_runs(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    write_run("scale")
    runs = load_runs(tmp_path)
    chosen = runs.runs[runs.runs["method"] == "scale"].assign(comparison="digits")
    some = replace(runs, runs=chosen)
    assert set(some.trajectories["method"]) == set(some.reliability["method"]) == {"scale"}
    assert set(some.trajectories["comparison"]) == {"digits"}
    assert some.correct("digits", "scale", 0).shape == (1, 4)


def test_learned_numbers_at_the_start(tmp_path: Path, write_run: WriteRun) -> None:
    path = write_run("scale", learned=[{"probability/flip": 0.25}]).path / "result.json"
    assert load_runs(tmp_path).learned["start"].isna().all()
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"learned":', '"learned_at_start": {"probability/flip": 0.5}, "learned":'))
    assert load_runs(tmp_path).learned[["value", "start"]].to_numpy().tolist() == [[0.25, 0.5]]
