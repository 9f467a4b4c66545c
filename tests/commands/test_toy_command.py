"""`augbench toy`: what it writes and prints, and what it says to wrong options."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from augbench.results.studies import toy

CommandLine = Callable[..., tuple[int, str, str]]


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train for a moment only."""
    monkeypatch.setattr(toy, "train", partial(toy.train, steps=20))


@pytest.mark.slow
@pytest.mark.usefixtures("few_steps")
def test_the_command_writes_every_seed_and_prints_the_means(tmp_path: Path, augbench: CommandLine) -> None:
    code, printed, errors = augbench("toy", "--out", tmp_path / "toy", "--seeds", "2")
    assert (code, errors) == (0, "")
    rows = pd.read_csv(tmp_path / "toy" / "toy.csv")
    assert list(zip(rows["seed"], rows["way"], strict=True)) == [(seed, way) for seed in (0, 1) for way in toy.Way]
    accuracy = 100 * rows[rows["way"] == "trm"]["test_accuracy"]
    assert f"{accuracy.mean():.1f} ± {accuracy.std():.1f}" in printed
    assert "2 seeds, mean ± sd" in printed
    harmless = rows.drop_duplicates("seed")["harmless_degrees"]
    assert f"{harmless.mean():.1f} ± {harmless.std():.1f}°" in printed
    files = sorted(path.name for path in (tmp_path / "toy").iterdir())
    assert files == ["toy.csv", "toy.pdf", "toy.png", "toy.svg", "toy_trajectory.csv"]
    assert all(name in printed.replace("\n", "") for name in files)


@pytest.mark.slow
@pytest.mark.usefixtures("few_steps")
def test_the_same_command_gives_the_same_files(tmp_path: Path, augbench: CommandLine) -> None:
    for name in ("one", "two"):
        assert augbench("toy", "--out", tmp_path / name, "--seeds", "1")[0] == 0
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_wrong_options_are_found_before_anything_is_computed(tmp_path: Path, augbench: CommandLine) -> None:
    code, printed, errors = augbench("toy", "--out", tmp_path / "toy", "--seeds", "0")
    assert (code, printed) == (2, "")
    assert "--seeds must be at least 1, not 0" in errors
    assert not (tmp_path / "toy").exists()
    (tmp_path / "file").write_text("mine")
    code, printed, errors = augbench("toy", "--out", tmp_path / "file")
    assert (code, printed) == (2, "")
    assert "cannot be written" in errors and "--out" in errors
    assert (tmp_path / "file").read_text() == "mine"
