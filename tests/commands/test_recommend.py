"""`augbench recommend`: what it refuses, that it resumes and costs nothing twice, and what it finds (slow)."""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from made_up_shapes import CORNERS, SHAPES, made_up_shapes, write_as_folders
from patience import PATIENCE

from augbench.bench.commands import recommended
from augbench.bench.common.files import read_json, write_json
from augbench.bench.planning import short_budget
from augbench.bench.planning.short_budget import LearnerCost
from augbench.bench.planning.short_comparison import ShortComparison
from augbench.results.model.frame import load_runs
from augbench.results.studies.advice import advice_of

CommandLine = Callable[..., tuple[int, str, str]]


def folder_of(root: Path, pieces: Sequence[str] = SHAPES, count: int = 400, **drawn: bool) -> Path:
    """Write a folder of small images."""
    images, labels = made_up_shapes(pieces, count, 0, **({"turned": True} | drawn), side=16)
    return write_as_folders(root, images, labels)


@pytest.fixture
def recommend(augbench: CommandLine, tmp_path: Path) -> CommandLine:
    """Give the command on images of 16 pixels."""

    def give(path: Path, *words: object) -> tuple[int, str, str]:
        fixed = ("--data", tmp_path / "data", "--out", tmp_path / "out", "--side", 16, "--device", "cpu")
        return augbench("recommend", path, *fixed, *words)

    return give


def keep(out: Path, **changed: object) -> None:
    """Leave what an earlier command has planned."""
    known: dict[str, object] = {
        "prepared": "images-0123456789ab",
        "minutes": 10.0,
        "network": "tiny",
        "epochs": 4,
        "seeds": 5,
    } | changed
    out.mkdir(exist_ok=True)
    write_json(out / "recommend.json", known)


@pytest.mark.parametrize("minutes", ["0", "-3", "0.5", "1e9"])
def test_minutes_out_of_range_are_refused(recommend: CommandLine, tmp_path: Path, minutes: str) -> None:
    code, _, errors = recommend(tmp_path, "--minutes", minutes)
    assert code == 2
    assert "--minutes must be at least 1 and at most 10000" in errors


def test_a_missing_path_and_an_unknown_network_are_refused(recommend: CommandLine, tmp_path: Path) -> None:
    code, _, errors = recommend(tmp_path / "nowhere")
    assert code == 2
    assert "nowhere" in errors
    code, _, errors = recommend(folder_of(tmp_path / "few", count=8), "--network", "tinny")
    assert code == 2
    assert "'tiny'" in errors


def test_a_folder_with_other_files_is_refused_before_anything_is_prepared(
    recommend: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "out" / "runs").mkdir(parents=True)
    code, _, errors = recommend(folder_of(tmp_path / "few", count=8))
    assert code == 2
    assert "holds no recommendation, but other files, such as runs. Choose a new folder with --out." in errors
    assert not (tmp_path / "data").exists()


def test_too_few_images_are_refused(recommend: CommandLine, tmp_path: Path) -> None:
    code, _, errors = recommend(folder_of(tmp_path / "few", count=80))
    assert code == 2
    assert "has too few images for a recommendation: 64 training images (at least 100)" in errors
    assert "16 test images (at least 50)" in errors
    assert not (tmp_path / "out").exists()


def test_minutes_that_are_too_short_are_refused_with_how_many_it_takes(
    recommend: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommended, "_measured", lambda start, launch: [LearnerCost(4, 100.0, 1.0)])
    code, _, errors = recommend(folder_of(tmp_path / "images"), "--workers", 1)
    # 5 runs of an epoch of 4 copies, 100 seconds each, in 85 % of the time, and 30 seconds: 39.7 minutes, and some
    assert code == 2
    assert "--minutes 10 is too short: one epoch of each learner with 5 seeds on 320 images of 16×16 pixels" in errors
    assert any(f"Give --minutes {least} or more" in errors for least in (40, 41))
    assert not (tmp_path / "out" / "recommend.json").exists()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"minutes": 20.0}, "--minutes 20, whose budget is kept"),
        ({"network": "smallnet"}, "a recommendation for --network smallnet"),
        ({"prepared": "images-000000000000"}, "others, or changed since"),
    ],
)
def test_a_folder_keeps_its_images_minutes_and_network(
    recommend: CommandLine, tmp_path: Path, changed: dict[str, object], words: str
) -> None:
    path = folder_of(tmp_path / "images")
    assert recommend(path, "--minutes", 1000, "--workers", 0)[0] == 2  # whatever it says, nothing is planned
    assert not (tmp_path / "out").exists()
    keep(tmp_path / "out", **({"prepared": _prepared(recommend, path, tmp_path)} | changed))
    code, _, errors = recommend(path)
    assert code == 2
    assert words in errors
    assert "Choose a new folder with --out" in errors


def _prepared(recommend: CommandLine, path: Path, tmp_path: Path) -> str:
    """Prepare images; returns what the data set is called."""
    keep(tmp_path / "out")
    _, _, errors = recommend(path)
    return errors.split("these images are ")[1].split(":")[0]


def test_a_damaged_plan_is_refused(recommend: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "recommend.json").write_text("{}")
    code, _, errors = recommend(tmp_path)
    assert code == 2
    assert "recommend.json is damaged" in errors


def test_the_suite_names_the_data_set_the_network_the_epochs_and_the_seeds() -> None:
    comparison = ShortComparison(prepared="pets-0123456789ab", minutes=10.0, network="smallnet", epochs=7, seeds=6)
    suite = comparison.suite()
    (inside,) = suite.comparisons
    assert [(entry.name, entry.options) for entry in inside.datasets] == [("own", {"prepared": "pets-0123456789ab"})]
    assert (inside.network, comparison.budget.epochs, suite.seeds) == ("smallnet", 7, (0, 1, 2, 3, 4, 5))
    assert "seeds = [0, 1, 2, 3, 4, 5, 6, 7]" in comparison.text(8)


@pytest.mark.slow
def test_ctrl_c_stops_cleanly_and_the_same_command_resumes_and_computes_nothing_twice(
    recommend: CommandLine, tmp_path: Path, wait_for_checkpoint: Callable[..., object]
) -> None:
    path, out = folder_of(tmp_path / "images"), tmp_path / "out"
    keep(out, prepared=_prepared(recommend, path, tmp_path), minutes=2.0, epochs=40, seeds=2)
    words = [
        "recommend",
        path,
        "--data",
        tmp_path / "data",
        "--out",
        out,
        "--side",
        16,
        "--device",
        "cpu",
        "--minutes",
        2,
    ]
    command = [sys.executable, "-m", "augbench", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_for_checkpoint(process, out, "none")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, said
    code, text, errors = recommend(path, "--minutes", 2)
    assert code == 0, errors
    assert "# Which augmentation for images?" in text
    for name in ("recommendation.md", "recommendation.png", "report.html", "more-seeds.toml"):
        assert (out / name).stat().st_size > 200
    before = {file: file.stat().st_mtime_ns for file in (out / "runs").rglob("*")}
    code, again, _ = recommend(path, "--minutes", 2)
    assert code == 0
    assert "Nothing to compute" in again
    assert {file: file.stat().st_mtime_ns for file in (out / "runs").rglob("*")} == before
    (next(path.rglob("*.png"))).write_bytes((sorted(path.rglob("*.png"))[-1]).read_bytes())
    code, _, errors = recommend(path, "--minutes", 2)
    assert code == 2
    assert "others, or changed since" in errors


@pytest.mark.slow
def test_upright_corners_get_no_augmentation(
    recommend: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turned or mirrored, every corner is one of another class."""
    monkeypatch.setattr(short_budget, "MOST_EPOCHS", 12)
    monkeypatch.setattr(short_budget, "MOST_SEEDS", 5)
    path = folder_of(tmp_path / "corners", CORNERS, 1000, turned=False)
    code, text, errors = recommend(path, "--minutes", 100)
    assert code == 0, errors
    plan = read_json(tmp_path / "out" / "recommend.json")
    assert (plan["minutes"], plan["epochs"], plan["seeds"]) == (100.0, 12, 5)
    assert "**Use no augmentation" in text
    advice = advice_of(load_runs(tmp_path / "out"), 5)
    assert advice.recommended == "none"
    assert advice.shows_better("none", "fixed")


def test_made_up_shapes_are_the_same_every_time_and_upright_ones_are_not_turned() -> None:
    images, labels = made_up_shapes(CORNERS, 8, 3, turned=False)
    again, _ = made_up_shapes(CORNERS, 8, 3, turned=False)
    assert np.array_equal(images, again)
    assert images.shape == (8, 32, 32, 3)
    assert labels.tolist() == [0, 1, 2, 3] * 2
    assert not np.array_equal(images, made_up_shapes(CORNERS, 8, 4, turned=False)[0])
