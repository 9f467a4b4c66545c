"""Runs of a small comparison with everything that a report can show, and a browser to look at it."""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import HOSTILE
from patience import PATIENCE

from augbench.bench.runs import run_folder
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.examples import Examples, write_examples
from augbench.results.model.frame import Runs, load_runs
from augbench.results.report import report_page, write_report

WriteRun = Callable[..., RunFolder]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SEEDS = (0, 1, 2)
PROBABILITIES = ((0.9, 0.1), (0.2, 0.8), (0.6, 0.4), (0.7, 0.3))

# accuracy with the seed 0, training seconds, and the numbers of test-time draws
METHODS: dict[str, tuple[float, float, tuple[int, ...]]] = {
    "none": (0.80, 10.0, (0,)),
    "augerino": (0.88, 30.0, (0, 4)),
    "scale": (0.92, 40.0, (0, 4)),
    HOSTILE: (0.70, 20.0, (0,)),
}


def _learned(epochs: int, seed: int) -> list[Mapping[str, float]]:
    return [
        {"probability/rotation": (epoch + seed) / 100, "range/rotation": 0.1 * epoch, "temperature": 1.0 + epoch}
        for epoch in range(1, epochs + 1)
    ]


def write_comparison(write: WriteRun, out: Path) -> None:
    """Write a comparison of four methods on two data sets, one of them with a run that failed and one that waits."""
    for dataset in ("mnist5k", "rotmnist5k"):
        for method, (accuracy, seconds, draws) in METHODS.items():
            for seed in SEEDS:
                scores = {number: accuracy + 0.01 * seed + 0.002 * number for number in draws}
                learned = _learned(3, seed) if method in ("augerino", "scale") else ()
                noted = {"note": "</script>"} if dataset == "rotmnist5k" else {}
                options: dict[str, Any] = {
                    "options": noted,
                    "probabilities": 5 * PROBABILITIES,
                    "labels": 5 * (0, 1, 1, 0),
                    "accuracy": scores,
                    "training_seconds": seconds + seed,
                    "learned": learned,
                }
                lacks = dataset == "rotmnist5k" and method == HOSTILE and seed > 0
                if lacks:
                    failed = seed == 1
                    options["state"] = RunState.FAILED if failed else RunState.PLANNED
                    options["status"] = {"cause": "exception", "reason": f"ValueError: {HOSTILE}"} if failed else {}
                folder = write(out, method, dataset=dataset, seed=seed, epochs=3, gpu=False, device="a CPU", **options)
                if seed == 0:
                    write_examples(folder, _examples())


def _examples() -> Examples:
    numbers = np.arange(2 * 4 * 1 * 5 * 5, dtype=np.uint8).reshape(2, 4, 1, 5, 5)
    return Examples(numbers[:, 0], numbers[:, 1:])


@pytest.fixture(scope="session")
def compared(write_run_below: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Read the small comparison."""
    out = tmp_path_factory.mktemp("compared") / "out"
    write_comparison(write_run_below, out)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(run_folder, "NAME_PATTERN", re.compile(".*"))  # on which the page may not rely
        return load_runs(out)


@pytest.fixture(scope="session")
def page_text(compared: Runs) -> str:
    """Make its report."""
    return report_page(compared)


@pytest.fixture(scope="session")
def page_file(compared: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write its report."""
    return write_report(compared, tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Start a real browser; outside CI it may be missing."""
    try:
        from playwright.sync_api import expect, sync_playwright
    except ModuleNotFoundError:
        sync_playwright = None
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if sync_playwright is None or program is None:
        reason = f"playwright is not installed, or there is none of {', '.join(BROWSERS)}"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason}; in CI the report has to be tested in a browser")
        pytest.skip(reason)
    expect.set_options(timeout=1000 * PATIENCE)
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program)
        yield browser
        browser.close()


# A busy browser draws charts late. Here each browser does, so that no test takes for granted that they are there.
LATE_CHARTS = """
window.ResizeObserver = class extends ResizeObserver {
  constructor(call) { super((...told) => setTimeout(() => call(...told), 100)); }
};
"""


class Seen:
    """A page that is open in a browser, and all that it did.

    Attributes:
        page: The page of Playwright.
        errors: What its scripts complained about.
        requests: Addresses of all that was asked for.
    """

    def __init__(self, chromium: Any, path: Path, **options: Any) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
        self.context.add_init_script(LATE_CHARTS)
        self.page = self.context.new_page()
        self.page.set_default_timeout(1000 * PATIENCE)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("dialog", lambda dialog: (self.errors.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.scripts = options.get("java_script_enabled", True)
        self.open(path)

    def open(self, path: Path) -> None:
        """Open a report, and wait until its charts are drawn, if its scripts may run."""
        from playwright.sync_api import expect

        self.page.goto(path.as_uri())
        if self.scripts:
            expect(self.page.locator("[data-chart]:empty")).to_have_count(0)

    def painted(self) -> None:
        """Wait until the browser has painted what the page holds now."""
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def texts(self, selector: str) -> list[str]:
        """Texts of all elements that are not hidden."""
        found = self.page.locator(selector).all()
        return [element.inner_text() for element in found if element.is_visible()]

    def column(self, table: str, number: int) -> list[str]:
        """Texts of a column of a table, from 1, in the rows that are not hidden."""
        return self.page.eval_on_selector_all(
            f"#{table} tbody tr:not([hidden]) > :nth-child({number})", "cells => cells.map(cell => cell.textContent)"
        )


@pytest.fixture
def look(chromium: Any) -> Iterator[Callable[..., Seen]]:
    """Open pages."""
    opened: list[Seen] = []

    def open_page(path: Path, **options: Any) -> Seen:
        opened.append(Seen(chromium, path, **options))
        return opened[-1]

    yield open_page
    for seen in opened:
        seen.context.close()


@pytest.fixture
def seen(look: Callable[..., Seen], page_file: Path) -> Seen:
    """Open the report of the small comparison."""
    return look(page_file)
