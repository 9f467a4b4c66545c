"""Fixtures that the tests of this folder share."""

from collections.abc import Callable
from pathlib import Path

import pytest
from run_here import here
from scripted_slurm import Cluster

from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs import run_states, slurm_client, slurm_doubts
from augbench.bench.runs.run_folder import RunFolder

__all__ = ["cluster", "here"]

MakeSpec = Callable[..., RunSpec]


@pytest.fixture
def cluster(make_spec: MakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Make two runs."""
    specs = [make_spec(seed=seed) for seed in (0, 1)]
    folders = [RunFolder(tmp_path / "runs" / spec.folder_name) for spec in specs]
    for folder, spec in zip(folders, specs, strict=True):
        folder.write_spec(spec)
    made = Cluster(tmp_path, folders)
    monkeypatch.setattr(run_states, "ask_slurm", made.answer)
    for module in (slurm_client, slurm_doubts):
        monkeypatch.setattr(module, "slurm", made.command)
    return made
