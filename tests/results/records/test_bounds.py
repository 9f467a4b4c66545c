"""Records hold what can be counted with, or are left out by name."""

import errno
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augbench.bench.runs.run_folder import DamagedError, RunFolder
from augbench.results.model.frame import load_runs
from augbench.results.model.packing import pack
from augbench.results.records import record
from augbench.results.tables import all_tables

WriteRun = Callable[..., RunFolder]


def test_a_wrong_epoch_is_named_by_its_line(tmp_path: Path, write_run: WriteRun) -> None:
    folder = write_run("none")
    lines = folder.metrics.read_text().splitlines()
    folder.metrics.write_text("\n".join([lines[0], lines[1].replace("0.5", "1e400")]) + "\n")
    with pytest.raises(DamagedError, match=r"wrong fields: line 2, (loss|accuracy) \(.*should be"):
        _ = load_runs(tmp_path).trajectories
    assert load_runs(tmp_path, skip_damaged=True).damaged


def test_a_folder_that_may_not_be_listed_is_left_out_by_name(
    tmp_path: Path, write_run: WriteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run("none")
    closed, listdir = write_run("none", seed=1).path, os.listdir

    def refuse(path: str | Path) -> list[str]:  # as for anybody but root, who may list all
        if Path(path).name == closed.name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(DamagedError, match=rf"{closed.name} cannot be read: Permission denied\. Let its owner"):
        load_runs(tmp_path)
    runs = load_runs(tmp_path, skip_damaged=True)
    assert runs.runs["seed"].tolist() == [0] and closed.name in runs.damaged[0]


ODD = st.sampled_from([None, "x", "", -1, 0, 0.5, 10**400, 1e308, -1e308, float("nan"), [], {}, [[]], {"a": 1}])


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data())
def test_whatever_stands_in_a_file_is_sound_or_left_out_by_name(write_run_below: WriteRun, data: st.DataObject) -> None:
    """Each number of a frame is one that can be counted with, whatever somebody has put in place of a value."""
    with tempfile.TemporaryDirectory() as root:
        folder = write_run_below(Path(root), gpu=False)
        write_run_below(Path(root), seed=1)
        path = folder.path / data.draw(st.sampled_from(["result.json", "environment.json", "status.json"]))
        content = json.loads(path.read_text())
        holder, key = data.draw(st.sampled_from(list(places(content))))
        if data.draw(st.booleans()):
            holder[key] = data.draw(ODD)
        else:
            del holder[key]
        path.write_text(json.dumps(content))
        runs = load_runs(root, skip_damaged=True)
        numbers = [*runs.scores["value"], *runs.probe["accuracy"], *runs.probe["degrees"], *runs.trajectories["value"]]
        assert np.isfinite(np.array([*numbers, *runs.learned["value"]], dtype=float)).all()
        assert all_tables(runs) and len(runs.environments) <= 1
        assert {*runs.runs["folder"], *(one.folder for one in runs.problems)} >= {folder.path.name}


def places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Find each place in JSON where a value stands."""
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        yield content, key
        if isinstance(value, dict | list):
            yield from places(value)


AGREEING = {"labels": (0, 1, 1, 0), "probabilities": ((0.9, 0.1), (0.1, 0.9), (0.9, 0.1), (0.9, 0.1)), "accuracy": 0.75}
"""Three of four images are right, and each bin of confidence but one is empty: an error of |0.75 - 0.9|."""


def test_a_result_of_other_predictions_is_damaged(
    tmp_path: Path, write_run: WriteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "AGREEMENT", 1e-6)
    sound, other = (write_run("none", root=tmp_path / "out", seed=seed, **AGREEING) for seed in (0, 1))
    for folder, ece in ((sound, 0.15), (other, 0.15)):
        result = json.loads((folder.path / "result.json").read_text())
        result["metrics"]["0"]["ece"]["mean"] = ece
        (folder.path / "result.json").write_text(json.dumps(result))
    assert len(load_runs(tmp_path / "out", skip_damaged=True).runs) == 2
    (other.path / "result.json").write_text((other.path / "result.json").read_text().replace("0.75", "0.85"))
    runs = load_runs(tmp_path / "out", skip_damaged=True)
    assert runs.runs["seed"].tolist() == [0]
    assert "give the accuracy 0.7500, and result.json says 0.8500" in runs.damaged[0]
    with pytest.raises(DamagedError, match=rf"predictions\.npz in .*{other.path.name} is damaged: .*of another run"):
        pack([tmp_path / "out"], tmp_path / "a.parquet")
