"""The rotated MNIST of Larochelle et al.: small files of the same format."""

import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError
from augbench.bench.data.prepared import NotPreparedError
from augbench.bench.data.source_files import FileResolver, combined_md5
from augbench.datasets import rotmnist12k
from augbench.datasets.digits import PreparedDigitOptions
from augbench.datasets.rotmnist12k import ARCHIVE, TEST, TRAIN, RotMnist12k, read_amat

ROWS = {TRAIN: 12, TEST: 9}
Parts = dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]


def amat(levels: NDArray[np.int64], labels: NDArray[np.int64]) -> str:
    rows = zip(levels, labels, strict=True)
    return "".join(f"   {'   '.join(f'{level / 256:.7e}' for level in row)}   {label:.7e}\n" for row, label in rows)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parts:
    """Write a small archive that stands for the original."""
    random = np.random.RandomState(0)
    made = {name: (random.randint(0, 256, (rows, 784)), random.permutation(rows) % 10) for name, rows in ROWS.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (levels, labels) in made.items():
            archive.writestr(name, amat(levels, labels))
    (tmp_path / ARCHIVE.path).write_bytes(buffer.getvalue())
    digest = hashlib.md5(buffer.getvalue(), usedforsecurity=False).hexdigest()
    monkeypatch.setattr(rotmnist12k, "ARCHIVE", rotmnist12k.RemoteFile(ARCHIVE.path, digest, None, ARCHIVE.urls))
    monkeypatch.setattr(rotmnist12k, "TRAIN_ROWS", 12)
    monkeypatch.setattr(rotmnist12k, "HELD_OUT_ROWS", 2)
    monkeypatch.setattr(rotmnist12k, "TEST_ROWS", 9)
    return made


def test_digits_are_read_row_by_row_and_the_last_are_held_out(parts: Parts, tmp_path: Path) -> None:
    RotMnist12k().prepare(FileResolver(tmp_path, offline=True))
    data = RotMnist12k().load(PreparedDigitOptions(), tmp_path)
    for split, name in ((data.train, TRAIN), (data.test, TEST)):
        levels, labels = parts[name]
        assert split.labels.tolist() == labels.tolist()
        for image, row in zip(split.images.numpy(), levels, strict=True):
            assert all(image[0, place // 28, place % 28] == level for place, level in enumerate(row))
    assert data.held_out is not None
    assert data.held_out.tolist() == [False] * 10 + [True] * 2
    assert data.classes == 10


def test_files_in_each_others_place_are_refused(parts: Parts, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(amat(*parts[TEST]))
    with pytest.raises(UserError, match=r"it has 9×785 numbers, not 12×785"):
        read_amat(tmp_path / "x", 12)


def test_the_whole_table_of_the_publishers() -> None:
    assert (rotmnist12k.TRAIN_ROWS, rotmnist12k.HELD_OUT_ROWS, rotmnist12k.TEST_ROWS) == (12_000, 2_000, 50_000)
    assert RotMnist12k.checksum == combined_md5(RotMnist12k.sources())
    assert {file.published for file in RotMnist12k.sources()} == {ARCHIVE}


@pytest.mark.parametrize("level", [256, 300, -1])
def test_pixels_out_of_range_are_refused(level: int, parts: Parts, tmp_path: Path) -> None:
    levels, labels = parts[TEST]
    levels[3, 5] = level
    (tmp_path / "x").write_text(amat(levels, labels))
    with pytest.raises(UserError, match="not in"):
        read_amat(tmp_path / "x", 9)


@pytest.mark.parametrize("text", ["", "<html>", "0.5 nan\n", "1 2\n3\n", "1 2 3\n"])
def test_what_is_no_table_of_digits_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(UserError, match="x is not what it should be") as error:
        read_amat(tmp_path / "x", 1)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", ["nan", "inf", "0.5"])
def test_labels_and_pixels_that_are_no_numbers_are_refused(value: str, parts: Parts, tmp_path: Path) -> None:
    rows = amat(*parts[TEST]).splitlines()
    row = rows[0].split()
    row[-1 if value == "0.5" else 0] = value
    (tmp_path / "x").write_text("\n".join([" ".join(row), *rows[1:]]))
    with pytest.raises(UserError, match="not in"):
        read_amat(tmp_path / "x", 9)


def test_it_names_its_archive_where_it_is_not_prepared(tmp_path: Path) -> None:
    with pytest.raises(NotPreparedError) as error:
        RotMnist12k().check(PreparedDigitOptions(), tmp_path)
    assert str(error.value).count("mnist_rotation_new.zip (md5 0f9a947ff3d30e95cd685462cbf3b847)") == 1
