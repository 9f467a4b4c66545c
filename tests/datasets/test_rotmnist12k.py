"""The rotated MNIST of Larochelle et al.: small files of the same format."""

from pathlib import Path

import numpy as np
import pytest
from data_files import error_of, has, md5, zipped
from numpy.typing import NDArray

from augbench.bench.data.source_files import FileResolver
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
    packed = zipped({name: amat(*part).encode() for name, part in made.items()})
    (tmp_path / ARCHIVE.path).write_bytes(packed)
    monkeypatch.setattr(rotmnist12k, "ARCHIVE", rotmnist12k.RemoteFile(ARCHIVE.path, md5(packed), None, ARCHIVE.urls))
    for name, value in (("TRAIN_ROWS", 12), ("HELD_OUT_ROWS", 2), ("TEST_ROWS", 9)):
        monkeypatch.setattr(rotmnist12k, name, value)
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


@pytest.mark.parametrize(
    ("column", "value", "rows", "words"),
    [
        (0, "0", 12, "it has 9×785 numbers, not 12×785"),  # the files in each other's place
        *((5, value, 9, "not in") for value in ("1", "1.2", "-0.1", "nan", "inf")),
        (-1, "0.5", 9, "not whole numbers"),
    ],
)
def test_other_numbers_are_refused(
    column: int, value: str, rows: int, words: str, parts: Parts, tmp_path: Path
) -> None:
    first, *others = amat(*parts[TEST]).splitlines()
    row = first.split()
    row[column] = value
    (tmp_path / "x").write_text("\n".join([" ".join(row), *others]))
    assert has(error_of(read_amat, tmp_path / "x", rows), "x is not what it should be", words)
