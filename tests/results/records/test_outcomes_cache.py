"""What became of test images is read once and kept in the output folder; what is kept there is never wrong."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from augbench.bench.runs.run_folder import DamagedError, RunFolder
from augbench.bench.training.metrics import equal_width_bins
from augbench.results.model import frame
from augbench.results.model.frame import load_runs
from augbench.results.records import cache as cache_module
from augbench.results.records import record
from augbench.results.records.outcomes import glance, read_outcomes

WriteRun = Callable[..., RunFolder]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Note which predictions are read."""
    paths: list[Path] = []

    def noted(path: Path, bins: int) -> object:
        paths.append(path)
        return read_outcomes(path, bins)

    monkeypatch.setattr(record, "read_outcomes", noted)
    return paths


def test_predictions_are_read_once_and_only_when_they_are_needed(
    tmp_path: Path, write_run: WriteRun, reads: list[Path]
) -> None:
    for seed in (0, 1):
        write_run("none", seed=seed)
    runs = load_runs(tmp_path)
    assert not reads and not (tmp_path / "cache").exists()
    bins = runs.reliability
    assert len(reads) == 2
    again = load_runs(tmp_path)
    pd.testing.assert_frame_equal(again.reliability, bins)
    pd.testing.assert_frame_equal(
        again.correct(again.runs["comparison"].iloc[0], "none", 0),
        runs.correct(runs.runs["comparison"].iloc[0], "none", 0),
    )
    assert len(reads) == 2
    _ = load_runs(tmp_path, cache=False).reliability
    assert len(reads) == 4


def test_a_new_run_is_read_and_an_old_or_moved_one_is_not(
    tmp_path: Path, write_run: WriteRun, reads: list[Path]
) -> None:
    write_run("none", root=tmp_path / "old")
    _ = load_runs(tmp_path / "old").reliability
    (tmp_path / "old").rename(tmp_path / "new")
    write_run("none", seed=1, root=tmp_path / "new")
    assert len(load_runs(tmp_path / "new").reliability) == 2 * 15
    assert [path.parent.name.split("_")[3] for path in reads] == ["seed0", "seed1"]


def test_a_run_that_was_made_again_is_read_again(tmp_path: Path, write_run: WriteRun) -> None:
    folder = write_run("none")
    before = load_runs(tmp_path).reliability
    for file in folder.path.iterdir():
        file.unlink()
    folder.path.rmdir()
    write_run("none", accuracy=0.5, probabilities=[(0.1, 0.9)] * 4)
    after = load_runs(tmp_path).reliability
    assert after["accuracy"].max() == 0.5 < before["accuracy"].max()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"something else", None])
def test_a_cache_that_is_damaged_or_of_another_version_is_made_again(
    tmp_path: Path, write_run: WriteRun, reads: list[Path], content: bytes | None
) -> None:
    write_run("none")
    bins = load_runs(tmp_path).reliability
    path = tmp_path / cache_module.NAME
    whole = path.read_bytes()
    if content is None:
        old = pq.read_table(path).replace_schema_metadata({cache_module.METADATA: b'{"format": 2}'})
        pq.write_table(old, path)
    else:
        path.write_bytes(content)
    pd.testing.assert_frame_equal(load_runs(tmp_path).reliability, bins)
    assert len(reads) == 2 and path.read_bytes() == whole


def test_a_folder_that_cannot_be_written_to_needs_no_cache(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    (tmp_path / "cache").touch()  # in the way
    assert len(load_runs(tmp_path).reliability) == 15


def test_a_few_runs_are_not_worth_a_file(tmp_path: Path, write_run: WriteRun, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run("none")
    runs = load_runs(tmp_path)
    comparison = runs.runs["comparison"].iloc[0]
    runs.correct(comparison, "none", 0)
    assert not (tmp_path / "cache").exists()
    monkeypatch.setattr(frame, "SECONDS_WORTH_KEEPING", 0.0)
    load_runs(tmp_path).correct(comparison, "none", 0)
    assert (tmp_path / "cache").exists()


def test_outcomes_against_the_metrics(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    probabilities = generator.dirichlet(np.ones(5), size=(3, 101)).astype(np.float32)
    labels = generator.integers(5, size=101)
    path = tmp_path / "predictions.npz"
    np.savez_compressed(path, labels=labels, draws_0=probabilities[:1], draws_16=probabilities)
    outcomes = read_outcomes(path, 10)
    assert list(outcomes) == [0, 16]
    np.testing.assert_array_equal(outcomes[16].right, probabilities.argmax(axis=2) == labels)
    each = [equal_width_bins(repeat, labels, 10) for repeat in probabilities]
    counts = sum(bins.count for bins in each)
    np.testing.assert_array_equal(outcomes[16].bins.count, counts)
    for name in ("confidence", "accuracy"):  # means over repeats, weighted by their counts
        total = sum(np.nan_to_num(getattr(bins, name)) * bins.count for bins in each)
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(getattr(outcomes[16].bins, name), total / counts)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_glance_counts_images_and_sees_that_a_file_is_cut_off(tmp_path: Path, save: Callable[..., None]) -> None:
    path, predictions = tmp_path / "predictions.npz", np.random.default_rng(0).random((1, 1000, 3))
    save(path, draws_0=predictions, labels=np.arange(1000))  # in another order
    assert glance(path).images == 1000
    save(path, labels=np.arange(1000), draws_0=predictions)
    content = path.read_bytes()
    assert glance(path) == (1000, len(content))
    for keep in (0, 10, 100, len(content) // 2, len(content) - 10):
        path.write_bytes(content[:keep])
        with pytest.raises(ValueError, match=r"."):
            glance(path)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"draws_4": np.full((1, 2, 2), 0.5)}, "no predictions without"),
        ({"draws_0": np.full((2, 2), 0.5)}, "shape"),
        ({"draws_0": np.full((1, 3, 2), 0.5)}, "labels"),
        ({"draws_0": np.full((1, 2, 2), 0.7)}, "sum to 1"),
        ({"draws_0": np.full((1, 2, 2), np.nan)}, "between 0 and 1"),
        ({"draws_none": np.full((1, 2, 2), 0.5)}, "invalid literal"),
    ],
)
def test_predictions_that_are_none(tmp_path: Path, arrays: dict[str, np.ndarray], words: str) -> None:
    path = tmp_path / "predictions.npz"
    np.savez_compressed(path, labels=np.array([0, 1]), **arrays)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=words):
        read_outcomes(path, 10)


def test_predictions_that_claim_to_be_huge(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**14, 1, 1)})
    path = tmp_path / "predictions.npz"
    np.savez(path, labels=np.array([0, 1]))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("draws_0.npy", header.getvalue())
    with pytest.raises(ValueError, match=r"."):
        read_outcomes(path, 10)


def test_predictions_whose_damage_makes_them_look_encrypted(tmp_path: Path) -> None:
    path = tmp_path / "predictions.npz"
    np.savez(path, labels=np.array([0, 1]), draws_0=np.full((1, 2, 2), 0.5))
    content = bytearray(path.read_bytes())
    for entry, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(entry) + flags] |= 1
    path.write_bytes(content)
    for read in (glance, lambda path: read_outcomes(path, 10)):
        with pytest.raises(ValueError, match="encrypted"):
            read(path)


def test_damage_inside_predictions_is_named_when_they_are_needed(tmp_path: Path, write_run: WriteRun) -> None:
    folder = write_run("none", labels=[0] * 4, probabilities=[(0.5, 0.2)] * 4)
    runs = load_runs(tmp_path)
    with pytest.raises(DamagedError, match=rf"predictions\.npz in {folder.path} is damaged: .*sum to 1"):
        _ = runs.reliability
