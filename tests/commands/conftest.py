"""What tests share that start the command in a process of its own."""

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from patience import PATIENCE

from augbench.bench.runs.run_folder import RunFolder

SUITE = """
name = "{name}"
title = "{name}"
seeds = {seeds}
protocol = {{ test_time_draws = [], probe_angles = 0 }}
[[comparisons]]
datasets = [{dataset}]
methods = [{methods}]
network = "{network}"
budget = {{ {budget} }}
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for runs that all tests read, and none changes."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def write_suite(tmp_path: Path) -> Callable[..., Path]:
    """Write a suite of short runs; returns its file."""

    def write(
        *,
        name: str = "small",
        seeds: Sequence[int] = (0,),
        dataset: str = '{ name = "mnist5k", options = { size = 14 } }',
        methods: str = '{ name = "none" }',
        network: str = "tiny",
        budget: str = "epochs = 1, batch_size = 64",
    ) -> Path:
        file = tmp_path / f"{name}.toml"
        parts = {"dataset": dataset, "methods": methods, "network": network, "budget": budget}
        file.write_text(SUITE.format(name=name, seeds=list(seeds), **parts))
        return file

    return write


VARYING = {
    r"\d{4}-\d\d-\d\d \d\d:\d\d|\d\d:\d\d:\d\d": "TIME",
    r"(_seed\d+_)[0-9a-f]{12}": r"\1IDENTITY",
}


@pytest.fixture
def tidy(tmp_path: Path) -> Callable[[str], str]:
    """Leave out of a text, before it is compared with a snapshot, what differs from run to run."""

    def replace(text: str) -> str:
        text = text.replace(str(tmp_path), "TMP")
        for pattern, name in VARYING.items():
            text = re.sub(pattern, name, text)
        return text

    return replace


@pytest.fixture
def wait_for_checkpoint() -> Callable[..., RunFolder]:
    """Wait until a run of a method, that a process has placed in a folder, has saved something; returns that run."""

    def wait(process: "subprocess.Popen[str]", out: Path, method: str) -> RunFolder:
        for _ in range(round(10 * PATIENCE)):
            for path in out.glob(f"runs/{method}_*/checkpoint.pt"):
                return RunFolder(path.parent)
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
            pytest.fail("the process ended before the first checkpoint: " + "".join(process.communicate()))
        pytest.fail(f"no checkpoint came within {PATIENCE} seconds")

    return wait
