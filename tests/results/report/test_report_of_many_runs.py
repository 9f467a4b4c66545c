"""A report of 500 runs of 200 epochs: small enough to mail, and there at once."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from augbench.bench.runs.run_folder import RunFolder
from augbench.results.model.frame import load_runs
from augbench.results.report import write_report

WriteRun = Callable[..., RunFolder]

METHODS = (
    *("none", "fixed", "trivialaugment", "augerino", "augerino+flips"),
    *("augerino-pb", "scale-norm", "scale", "a", "b"),
)
DATASETS = ("mnist", "rotmnist", "cifar10", "cifar100", "svhn")
SEEDS, EPOCHS, IMAGES, CLASSES, DRAWS = 10, 200, 50, 10, (4, 8)
BLOCKS = ("rotation", "x-scale", "y-scale", "x-shear", "half-turn", "flip", "crop")
LARGEST = 10_000_000  # bytes
MOST = 6  # times the work of showing the same page without its scripts: a slow machine is slow at both

pytestmark = pytest.mark.slow


@pytest.fixture
def without_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk, which thousands of small files would."""
    monkeypatch.setattr("augbench.bench.common.files.os.fsync", lambda descriptor: None)


def _learned(seed: int) -> Sequence[Mapping[str, float]]:
    rising = 1 / (1 + np.exp(2 - (np.arange(EPOCHS) + 3 * seed) / 40))
    names = [*(f"probability/{block}" for block in BLOCKS), *(f"range/{block}" for block in BLOCKS[:4])]
    return [{name: float(value) for name in names} for value in rising]


@pytest.fixture
def many_runs(without_disk: None, write_run_below: WriteRun, tmp_path: Path) -> Path:
    """Write 500 runs."""
    random = np.random.default_rng(0)
    labels = tuple(random.integers(CLASSES, size=IMAGES).tolist())
    probabilities = random.dirichlet(np.full(CLASSES, 0.2), size=IMAGES)
    by_seed = [_learned(seed) for seed in range(SEEDS)]
    for dataset in DATASETS:
        for place, method in enumerate(METHODS):
            for seed in range(SEEDS):
                given: dict[str, Any] = {
                    "accuracy": {n: 0.8 + 0.01 * place + 0.001 * seed for n in (0, *DRAWS)},
                    "probabilities": probabilities,
                    "labels": labels,
                    "drawn": {n: [probabilities] for n in DRAWS},
                    "learned": by_seed[seed] if place > 2 else (),
                    "training_seconds": 100.0 * (place + 1),
                }
                given |= {"dataset": dataset, "options": {}, "seed": seed, "epochs": EPOCHS, "gpu": True}
                write_run_below(tmp_path / "out", method, **given)
    return tmp_path / "out"


def busy_with(page: Any, act: Callable[[], None]) -> float:
    """Seconds that the browser computes for a page while something is done; other work of the machine is not counted.

    Args:
        page: The page, as `Seen`.
        act: What is done.
    """
    session = page.context.new_cdp_session(page.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before, _, after = (_task_seconds(session), act(), _task_seconds(session))
    return after - before


def _task_seconds(session: Any) -> float:
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def test_500_runs_make_a_page_that_is_small_and_there_at_once(
    many_runs: Path, tmp_path: Path, look: Callable[..., Any]
) -> None:
    (tmp_path / "nothing.html").write_text("<!DOCTYPE html>")
    runs = load_runs(many_runs)
    assert len(runs.runs) == 500
    path = write_report(runs, tmp_path / "report.html")
    assert path.stat().st_size < LARGEST
    plain = look(tmp_path / "nothing.html", java_script_enabled=False)
    allowed = MOST * busy_with(plain, lambda: (plain.open(path), plain.page.screenshot()))
    seen = look(tmp_path / "nothing.html")
    assert busy_with(seen, lambda: (seen.open(path), seen.painted())) < allowed
    assert seen.errors == []
    assert seen.page.locator("#runs tbody tr").count() == 500 * 3
    assert seen.page.locator("#pareto .point").count() == len(METHODS)
    heading = seen.page.locator("#runs th button", has_text="Accuracy")
    assert busy_with(seen, lambda: (heading.click(), seen.painted())) < allowed
    falling = [float(text) for text in seen.column("runs", 6)]
    assert falling == sorted(falling, reverse=True)
