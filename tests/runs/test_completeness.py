"""What belongs to a result: every cut is noticed that can be, and nothing else."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from augbench.bench.runs.completeness import LONGEST_LINE, check_whole


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    arrays = {"labels": np.arange(20), "draws_0": np.eye(20, dtype=np.float32)}
    np.savez_compressed(tmp_path / "predictions.npz", **arrays)  # type: ignore[arg-type]
    rows = [{"epoch": epoch, "loss": 1 / epoch, "learned": {"range": 0.5}} for epoch in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    check_whole(tmp_path, {"epochs": 3})
    return tmp_path


@pytest.mark.parametrize("name", ["predictions.npz", "metrics.jsonl"])
def test_no_cut_goes_unnoticed(name: str, folder: Path) -> None:
    for size in reversed(range((folder / name).stat().st_size)):
        os.truncate(folder / name, size)
        with pytest.raises(ValueError, match=name):
            check_whole(folder, {"epochs": 3})


@pytest.mark.parametrize("name", ["predictions.npz", "metrics.jsonl"])
def test_what_has_something_behind_its_end_is_noticed(name: str, folder: Path) -> None:
    with (folder / name).open("ab") as file:
        file.write(b"\0")
    with pytest.raises(ValueError, match=name):
        check_whole(folder, {"epochs": 3})


def test_results_of_before_epochs_were_counted_need_no_metrics(folder: Path) -> None:
    (folder / "metrics.jsonl").unlink()
    check_whole(folder, {})
    with pytest.raises(ValueError, match=r"metrics\.jsonl is missing"):
        check_whole(folder, {"epochs": 3})


@pytest.mark.parametrize("length", [LONGEST_LINE - 40, LONGEST_LINE, 3 * LONGEST_LINE])
def test_a_line_may_be_very_long_and_has_to_be_complete(length: int, folder: Path) -> None:
    line = json.dumps({"epoch": 3, "learned": "x" * length}) + "\n"
    (folder / "metrics.jsonl").write_text(line)
    check_whole(folder, {"epochs": 3})
    (folder / "metrics.jsonl").write_text(line[:-1])
    with pytest.raises(ValueError, match="does not end with epoch 3"):
        check_whole(folder, {"epochs": 3})
