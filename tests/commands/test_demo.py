"""The demo finds what it says it finds, here with its first seed and one of its methods, and computes nothing twice."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from augbench.bench.commands import demo
from augbench.bench.experiment.suite import Suite, load_suite
from augbench.results.model.frame import load_runs

pytestmark = pytest.mark.slow

CommandLine = Callable[..., tuple[int, str, str]]


def final_probabilities(out: Path, dataset: str) -> pd.DataFrame:
    """Probabilities that SCALE ended with: a row for each seed, a column for each block."""
    runs = load_runs(out)
    chosen = runs.runs.loc[(runs.runs["dataset"] == dataset) & (runs.runs["method"] == "scale"), "folder"]
    learned = runs.learned[runs.learned["folder"].isin(chosen)]
    table = learned.pivot_table(index="seed", columns="quantity", values="value")
    return table.rename(columns=lambda quantity: quantity.removeprefix("probability/"))


def part_of_the_demo() -> Suite:
    """Return an eighth of the demo, by its time; the whole is in `results/measured/demo`."""
    suite = load_suite("demo")
    (comparison,) = suite.comparisons
    methods = tuple(entry for entry in comparison.methods if entry.name == "scale")
    return suite.model_copy(
        update={"seeds": (0,), "comparisons": (comparison.model_copy(update={"methods": methods}),)}
    )


def test_the_demo(augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "load_suite", lambda name: part_of_the_demo())
    code, text, _ = augbench("demo", "--out", tmp_path)
    assert code == 0
    assert "2 runs: 2 done." in text
    assert "half-turn" in text[text.index("Which symmetries did each learner find?") :]

    rotated, upright = final_probabilities(tmp_path, "rotmnist5k"), final_probabilities(tmp_path, "mnist5k")
    assert len(rotated) == len(upright) == 1
    assert (rotated[["rotation", "x-scale", "y-scale", "x-shear"]] > 0.6).all(axis=None)
    assert (rotated["flip"] < 0.1).all()
    assert (upright[["half-turn", "flip"]] < 0.1).all(axis=None)

    for name in ("comparison.md", "comparison.csv", "comparison.tex"):
        assert (tmp_path / "tables" / name).stat().st_size > 1000
    for name in ("learned", "angle", "reliability", "overview"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000

    assert (tmp_path / "report.html").stat().st_size > 100_000
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    code, text, _ = augbench("demo", "--out", tmp_path)
    assert code == 0
    assert "Nothing to compute" in text
    assert "2 runs: 2 done." in text
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")} == before
