"""Twenty runs on a real Slurm whose workers, nodes and launchers are killed for 100 seconds; and a real time limit."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_campaign import LAUNCHER, LET_GO, NODE, WHILE_SUBMITTING, WORKER, Campaign
from patience import PATIENCE
from slurm_site import GATE, PAUSE, Outcome, Site, new_site, start_command

from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.slurm.lab.cluster import Lab
from augbench.slurm.lab.configuration import Shape
from augbench.slurm.lab.processes import wait_until

pytestmark = pytest.mark.slow

RUNS = 20
SECONDS_OF_FAULTS = 100.0
SECONDS_TO_FINISH = 900.0  # ends as soon as all is done; a busy machine needs several times as long as a quiet one
SEED = 20231205


def given(process: "subprocess.Popen[str]") -> None:
    """Wait for a command, which has to succeed."""
    said, _ = process.communicate(timeout=SECONDS_TO_FINISH)
    assert process.returncode == 0, said


@pytest.fixture(scope="module")
def limited(slurm_is_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Place a run of more than a minute, whose limit is a minute, on a cluster of its own: it goes on during others."""
    with (
        tempfile.TemporaryDirectory(prefix="lab") as folder,
        Lab(Path(folder), Shape(nodes=1, gpus=0)) as lab,
        pytest.MonkeyPatch.context() as variables,
    ):
        for name, value in lab.environment().items():
            variables.setenv(name, value)
        site = new_site(tmp_path_factory.mktemp("limited"), lab, lambda *_: (1, "", ""), variables)
        # Slurm looks every 30 seconds, and gives the warning at the last look before it would come too late
        site.write(resources={"time": "00:01:00"}, epochs=20, slurm="signal_delay_s = 5")
        given(start_command(site))
        variables.undo()
        yield site


def test_every_run_has_one_result_whatever_was_killed(
    site: Site, limited: Site, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PAUSE, "0.5")  # 40 seconds a run, most of which cost nothing
    site.write(seeds=range(RUNS), epochs=10, slurm="max_parallel = 8")
    reference = tmp_path / "reference"
    given(start_command(site, "--out", reference, "--launcher", "local", "--workers", "2", **{PAUSE: "0"}))

    campaign = Campaign(site, SEED)
    dealt = campaign.dealt

    def enough() -> bool:
        kinds = (dealt[WORKER], dealt[NODE], dealt[LAUNCHER] + dealt[WHILE_SUBMITTING])
        return min(kinds) >= 3 and dealt[LET_GO] >= 1 and len(campaign.interrupted) >= 6

    campaign.deal(SECONDS_OF_FAULTS, enough)
    done = site.states().count(RunState.DONE)
    site.open_gate()
    finished = campaign.finish(SECONDS_TO_FINISH)
    attempts = [(run.read_result() or {}).get("attempts", 0) for run in site.runs]
    campaign.log.append(f"{dict(dealt)}; done when the faults ended: {done}; attempts: {attempts}")
    text = "\n".join(campaign.log)
    (tmp_path / "faults.log").write_text(text)
    assert finished, f"{text}\n{site.summary()}"

    assert enough(), text
    assert all(attempts[index] > 1 for index, run in enumerate(site.runs) if run.path.name in campaign.interrupted), (
        text
    )
    assert sorted(path.name for path in (site.out / "runs").glob("paced_*")) == sorted(
        run.path.name for run in site.runs
    )
    for run in site.runs:
        assert outcome(run) == outcome(RunFolder(reference / "runs" / run.path.name))
        assert not run.checkpoint.exists()
    assert wait_until(lambda: site.queued() == [], PATIENCE), site.queued("%i %T %r")


def test_a_run_saves_before_its_time_limit_and_goes_on(
    limited: Site, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in limited.lab.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AUGBENCH_PLUGINS", str(limited.plugin))
    monkeypatch.setenv(GATE, str(limited.root / "gate"))
    [run] = limited.runs
    limited.wait(RunState.DONE)
    result = run.read_result()
    assert result is not None
    assert result["attempts"] > 1
    assert "attempt 2 goes on from step " in run.log.read_text()
    assert len(limited.submissions) == 1
    limited.finish(outcome)
