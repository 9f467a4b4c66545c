"""Looking at results does not wait for torch, which takes seconds to import."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from augbench.bench.runs.run_folder import RunFolder

ImportedBy = Callable[..., tuple[list[int], set[str]]]


@pytest.fixture
def out(finished: Callable[..., RunFolder], tmp_path: Path) -> Path:
    """Put real runs together: in a process of its own nothing lets made-up results pass."""
    for method in ("none", "scale"):
        run = finished(method)
        shutil.copytree(run.path, tmp_path / "together" / "runs" / run.path.name)
    return tmp_path / "together"


@pytest.mark.slow
def test_tables_and_archives_need_no_torch(imported_by: ImportedBy, out: Path) -> None:
    source = ("--from", out)
    codes, modules = imported_by(
        ("tables", *source),
        ("tables", *source, "--table", "accuracy", "--out", out / "tables"),
        ("calibrate", *source),
        ("archive", *source, "--out", out / "runs.tar.gz"),
        ("archive", *source, "--out", out / "runs.parquet"),
        ("tables", "--from", out / "runs.parquet"),
    )
    assert codes == [0] * 6
    assert not modules & {"torch", "matplotlib", "seaborn"}


@pytest.mark.slow
def test_figures_and_reports_need_no_torch(imported_by: ImportedBy, out: Path) -> None:
    codes, modules = imported_by(
        ("figures", "--from", out, "--out", out / "figures", "--format", "svg"),
        ("report", "--from", out, "--out", out / "report.html"),
    )
    assert codes == [0, 0]
    assert "torch" not in modules
