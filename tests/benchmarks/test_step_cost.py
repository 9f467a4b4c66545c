"""The measurement of step costs: its arithmetic on made-up times, and that it runs."""

import argparse
import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def step_cost(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Load the program; it is no part of the package."""
    monkeypatch.syspath_prepend(ROOT)
    return SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks" / "step_cost.py"), run_name="step_cost"))


def test_ratios_are_taken_step_by_step_against_none_with_as_many_copies(step_cost: SimpleNamespace) -> None:
    def made_up(name: str, copies: int, steps: list[float], **parts: float) -> Any:
        watch = step_cost.Stopwatch(torch.device("cpu"))
        names = (step_cost.IMAGES, *step_cost.BOOKKEEPING)
        watch.seconds = {"step": steps} | {part: [parts.get(part, 0.0)] for part in names}
        return step_cost.Contestant(name, copies, None, watch)

    learner = made_up(
        "learner", 4, [0.011, 0.033, 0.024, 0.012], regulariser=0.0001, after_backward=0.0002, learned=0.003
    )
    plain, other = made_up("none", 4, [0.010, 0.030, 0.020, 0.010]), made_up("none", 1, [0.001] * 4)
    row, *_ = step_cost.summarise([learner, other, plain], steps_per_epoch=30)
    # the ratios are 1.1, 1.1, 1.2 and 1.2: their median is 1.15, while the slow machine of step 2 does not matter
    assert row["ratio"] == pytest.approx(1.15)
    assert row["step_ms"] == pytest.approx(18)
    assert row["bookkeeping_ms"] == pytest.approx(0.1 + 0.2 + 3 / 30)
    assert row["bookkeeping_share"] == pytest.approx(0.4 / 18)


@pytest.mark.slow
def test_every_method_is_measured(
    step_cost: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "steps.json"
    arguments = ["--network", "tiny", "--size", "16", "--channels", "3", "--batch", "8"]
    arguments += ["--repeats", "2", "--device", "cpu"]
    monkeypatch.setattr("sys.argv", ["step_cost", *arguments, "--out", str(out)])
    step_cost.main()
    rows = json.loads(out.read_text())["rows"]
    names = {row["method"] for row in rows}
    assert {"none", "scale", "augerino", "trivialaugment"} <= names
    assert all(row["step_ms"] > 0 and row["ratio"] > 0 for row in rows)
    assert "scale" in capsys.readouterr().out
    assert isinstance(step_cost.parse(), argparse.Namespace)
