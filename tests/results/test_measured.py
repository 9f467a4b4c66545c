"""The runs that are kept with the project give tables, figures and the report in a fresh clone."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from augbench.results.model.frame import load_runs

CommandLine = Callable[..., tuple[int, str, str]]
MEASURED = Path(__file__).parents[2] / "results" / "measured"
FILES = sorted(MEASURED.glob("*.parquet"))


def test_there_are_some() -> None:
    assert {path.stem for path in FILES} >= {"demo", "digits", "draws"}


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_a_parquet_file_is_whole_and_names_no_path_of_a_machine(file: Path) -> None:
    runs = load_runs(file)
    assert set(runs.runs["state"]) == {"done"} and not runs.runs["dirty"].any()
    assert {problem.kind for problem in runs.problems} <= {"trial of a tuning"}
    assert runs.runs["commit"].str.len().eq(40).all()
    assert not runs.environments["command"].str.contains("(?:^|[ =])/").any()
    assert file.stat().st_size < 2_000_000


@pytest.mark.slow
def test_tables_from_a_parquet_file(tmp_path: Path, augbench: CommandLine) -> None:
    code, _, error = augbench("tables", "--from", MEASURED / "demo.parquet", "--out", tmp_path)
    assert (code, error) == (0, "")
    for name in ("comparison", "accuracy", "differences", "calibration"):
        assert {path.suffix for path in tmp_path.glob(f"{name}.*")} == {".md", ".tex", ".csv", ".html"}
    kept, now = (pd.read_csv(path) for path in (MEASURED / "demo" / "comparison.csv", tmp_path / "comparison.csv"))
    pd.testing.assert_frame_equal(kept, now)
