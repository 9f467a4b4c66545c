"""Files that augbench 0.1 wrote at commit 2253605, before modules moved, are read as they were meant."""

import hashlib
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch

from augbench import load_network, load_runs
from augbench.bench.experiment.suite import built_in_suites, load_suite
from augbench.bench.planning.plan import make_plan
from augbench.bench.planning.profile import load_profile
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.submissions import read_submission

CommandLine = Callable[..., tuple[int, str, str]]
EARLIER = Path(__file__).with_name("earlier")
FINISHED, STOPPED = "scale_mnist5k_tiny_seed0_a1706dc27c73", "augerino_mnist5k_tiny_seed0_7bc45f632ffa"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Unpack an output folder with a finished run and one that was stopped."""
    with tarfile.open(EARLIER / "out.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "out"


@pytest.mark.parametrize("name", json.loads((EARLIER / "identities.json").read_text()))
def test_runs_of_built_in_suites_have_the_same_identities(name: str) -> None:
    changed = EARLIER / f"{name}.toml"  # as the suite was then, where it has been changed since
    specs = load_suite(str(changed) if changed.exists() else name).specs()
    text = "\n".join(f"{spec.folder_name} {spec.identity} {spec.configuration}" for spec in specs)
    assert name in built_in_suites()
    assert hashlib.sha256(text.encode()).hexdigest() == json.loads((EARLIER / "identities.json").read_text())[name]


def test_a_finished_run_is_found_by_its_suite_and_its_network_can_be_loaded(out: Path) -> None:
    plan = make_plan(load_suite(str(EARLIER / "suite.toml")), out)
    assert not plan.damaged
    assert [run.folder.path.name for run in plan.runs if run.state is RunState.DONE] == [FINISHED]
    folder = RunFolder(out / "runs" / FINISHED)
    trained = load_network(folder, out, torch.device("cpu"))
    assert trained.network(torch.zeros(2, 1, 14, 14)).shape == (2, 10)


@pytest.mark.slow
def test_a_stopped_run_goes_on(out: Path, augbench: CommandLine) -> None:
    folder = RunFolder(out / "runs" / STOPPED)
    assert folder.state() is RunState.CANCELLED
    code, _, error = augbench("run", EARLIER / "unfinished.toml", "--out", out, "--workers", "1")
    assert code == 0, error
    assert (folder.read_result() or {})["attempts"] == 2


@pytest.mark.slow
def test_tables_of_a_parquet_file_have_the_same_numbers(augbench: CommandLine, tmp_path: Path) -> None:
    shutil.copy(EARLIER / "runs.parquet", tmp_path)
    assert augbench("tables", "--from", tmp_path / "runs.parquet", "--out", tmp_path / "tables")[0] == 0
    before, now = (pd.read_csv(folder / "comparison.csv") for folder in (EARLIER, tmp_path / "tables"))
    pd.testing.assert_frame_equal(before, now)


def test_a_run_folder_and_a_parquet_file_tell_the_same(out: Path) -> None:
    runs = load_runs([out, EARLIER / "runs.parquet"])
    assert sorted(runs.runs["state"]) == ["cancelled", *["done"] * 6]


def test_a_profile_with_old_keys_and_a_record_of_a_submission_are_read() -> None:
    slurm = load_profile(str(EARLIER / "profile.toml")).slurm
    assert (slurm.max_parallel, slurm.max_requeues, slurm.signal_delay_s) == (3, 2, 60)
    submission = read_submission(EARLIER / "submission")
    assert (submission.runs, submission.arguments["restarts"]) == ((STOPPED,), 2)
