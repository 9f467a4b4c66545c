"""A real Slurm for the tests of this folder, and whether there is a Ray."""

import os
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from slurm_site import CommandLine, Site, new_site

from augbench.bench.common.errors import UserError
from augbench.slurm.lab.cluster import STARTED, Lab
from augbench.slurm.lab.configuration import check_programs

OF_A_JOB = ("SLURM", "SBATCH", "SRUN", "SALLOC", "SCANCEL", "SQUEUE", "SUBMITIT")


@pytest.fixture(scope="session")
def slurm_is_installed() -> None:
    """Skip where there is no Slurm; in CI there has to be one."""
    _skip_without_programs(accounting=False)


@pytest.fixture(scope="session")
def database_is_installed() -> None:
    """Skip where there is no Slurm with a database; in CI there has to be one."""
    _skip_without_programs(accounting=True)


def _skip_without_programs(accounting: bool) -> None:
    try:
        check_programs(accounting)
    except UserError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{error} In CI the tests with Slurm have to run.")
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def lab(slurm_is_installed: None) -> Iterator[Lab]:
    """Start a Slurm with four nodes, for all tests of a process; `cluster` is the one that leaves it clean."""
    with tempfile.TemporaryDirectory(prefix="lab") as folder, Lab(Path(folder)) as running:
        yield running


@pytest.fixture
def cluster(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """Have Slurm's commands talk to the lab; afterwards no job is left, and all nodes work."""
    for name in [name for name in os.environ if name.startswith(OF_A_JOB)]:
        monkeypatch.delenv(name)
    for name, value in lab.environment().items():
        monkeypatch.setenv(name, value)
    yield lab
    repair(lab)


@pytest.fixture
def site(cluster: Lab, tmp_path: Path, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Make a suite of short runs, and all that is needed to place them on the cluster."""
    return new_site(tmp_path, cluster, augbench, monkeypatch)


def repair(lab: Lab) -> None:
    """Bring a lab back to how it began."""
    try:
        lab.cancel_jobs()
    except UserError:
        lab.start_controller()
        lab.cancel_jobs()
    for name, state in lab.node_states().items():
        if state not in STARTED:
            lab.kill_node(name)
            lab.command("scontrol", "update", f"nodename={name}", "state=resume")
            lab.start_node(name)


@pytest.fixture(scope="session")
def ray_is_installed() -> None:
    """Skip where there is no Ray; in CI there has to be one."""
    if find_spec("ray") is not None:
        return
    reason = "Ray is not installed: pip install 'augbench[ray]'."
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} In CI the tests with Ray have to run.")
    pytest.skip(reason)
