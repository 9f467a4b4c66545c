"""Runs on a real Slurm that are stopped, preempted, cancelled or lose their node: each goes on, and ends the same."""

from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE
from slurm_site import Outcome, Site, attempt, kill_owner

from augbench.bench.runs import slurm_client
from augbench.bench.runs.cancelling import cancel
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.slurm.lab.processes import wait_until

pytestmark = pytest.mark.slow


def job_of(site: Site) -> str:
    """Id of the job of the only run."""
    [known] = site.observe()
    return str(known.job)


def wait_attempt(site: Site, number: int) -> None:
    """Wait until an attempt at the only run is under way."""
    [run] = site.runs
    assert wait_until(lambda: attempt(run) >= number, PATIENCE), site.summary()
    site.wait_under_way()


USR2 = ("scancel", "--signal=USR2")  # what a job gets before its time limit
REQUEUE = ("scontrol", "requeue")  # by an administrator
WAYS_TO_STOP = [  # partition, how often a run may queue again, what is done to its job, signal
    ("main", 50, USR2, "SIGUSR2"),
    ("main", 50, REQUEUE, "SIGTERM"),
    ("scavenge", 50, None, "SIGUSR2"),  # another job needs its place in 10 seconds
    ("scavenge-hard", 50, None, "SIG"),  # and at once
    ("main", 0, USR2, "SIGUSR2"),
]


def stopped(runs: list[RunFolder]) -> dict[str, dict[str, Any]]:
    """Wait until each run has been told to stop; returns what each has recorded then."""
    statuses: dict[str, dict[str, Any]] = {}

    def all_have_stopped() -> bool:
        found = {run.path.name: run.read_status() for run in runs}
        statuses.update({name: status for name, status in found.items() if status.get("signals")})
        return len(statuses) == len(runs)

    assert wait_until(all_have_stopped, PATIENCE), statuses
    return statuses


def test_runs_that_are_told_to_stop_save_queue_again_and_go_on(site: Site, outcome: Outcome) -> None:
    for seed, (partition, max_requeues, *_) in enumerate(WAYS_TO_STOP):
        options = f'max_requeues = {max_requeues}\noptions = {{ nodelist = "node{seed % 4 + 1}" }}'
        site.write(seeds=[seed], slurm=f'partition = "{partition}"\n{options}')
        site.place()
    site.write(seeds=range(len(WAYS_TO_STOP)))
    runs, before = site.runs, site.submissions
    site.wait_under_way()
    jobs = [known.job for known in site.observe()]
    for number, (job, (_, _, command, _)) in enumerate(zip(jobs, WAYS_TO_STOP, strict=True), 1):
        urgent = ("sbatch", "--output=/dev/null", "--exclusive", f"--nodelist=node{number}", "--wrap=sleep 1")
        site.lab.command(*((*command, str(job)) if command else urgent))

    statuses = stopped(runs)
    for run, (_, _, _, signal) in zip(runs, WAYS_TO_STOP, strict=True):
        assert statuses[run.path.name]["signals"][0].startswith(signal)
    assert wait_until(lambda: [attempt(run) for run in runs] == [2, 2, 2, 2, 1], PATIENCE), site.summary()
    last = site.observe()[4]
    assert (last.state, last.cause) == (RunState.TIMED_OUT, Cause.TIMED_OUT)
    assert "as often as [slurm] max_requeues of the profile allows (0); it is saved" in last.reason
    assert [known.job for known in site.observe()] == jobs
    assert site.submissions == before

    site.open_gate()
    site.place()
    site.finish(outcome)
    for run in runs:
        assert f"attempt 2 goes on from step {statuses[run.path.name]['step']}" in run.log.read_text()
    assert len(site.submissions) == len(before) + 1


def test_cancelled_runs_stay_cancelled_until_the_command_is_given_again(site: Site, outcome: Outcome) -> None:
    site.write(seeds=range(3), slurm="max_parallel = 2")
    site.place()
    first, second, third = site.runs
    assert wait_until(lambda: first.checkpoint.exists() and second.checkpoint.exists(), PATIENCE), site.summary()
    assert site.states() == [RunState.RUNNING, RunState.RUNNING, RunState.SUBMITTED]

    assert [folder.path for folder in cancel([second, third], site.out)] == [second.path, third.path]
    site.lab.command("scancel", str(site.observe()[0].job))  # by hand
    site.wait(RunState.CANCELLED)
    assert [known.cause for known in site.observe()] == [Cause.CANCELLED] * 3
    assert wait_until(lambda: site.queued() == [], PATIENCE)
    assert [attempt(run) for run in site.runs] == [1, 1, 0]
    assert second.read_status()["reason"].startswith("Cancelled with `augbench cancel`; it is saved")

    site.open_gate()
    site.place()
    site.finish(outcome)
    assert [run.read_result()["attempts"] for run in site.runs] == [2, 2, 1]  # type: ignore[index]


def test_a_node_that_crashes_and_a_worker_that_is_killed_cost_no_more_than_what_was_not_saved(
    site: Site, outcome: Outcome
) -> None:
    site.write(slurm='options = { nodelist = "node2" }')
    site.place()
    [run] = site.runs
    site.wait_under_way()
    job = job_of(site)
    site.lab.kill_node("node2")
    assert wait_until(lambda: site.states() == [RunState.SUBMITTED], PATIENCE), site.summary()
    assert run.state() is RunState.KILLED
    site.lab.start_node("node2")
    wait_attempt(site, 2)  # queued again by Slurm
    assert job_of(site) == job

    kill_owner(run)
    site.wait(RunState.KILLED)
    [known] = site.observe()
    assert (known.cause, known.job) == (Cause.KILLED, job)
    site.place()
    wait_attempt(site, 3)
    assert job_of(site) != job
    site.finish(outcome)
    assert run.log.read_text().count(" goes on from step ") == 2


def test_without_a_controller_nothing_is_submitted_twice_and_runs_go_on(
    site: Site, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.write(seeds=range(2), slurm="max_parallel = 1")
    site.place()
    first, _ = site.runs
    assert wait_until(first.checkpoint.exists, PATIENCE), site.summary()
    before = site.submissions
    site.lab.wait_until_saved()
    site.lab.kill_controller()
    monkeypatch.setattr(slurm_client, "SECONDS_TO_ANSWER", 3)
    states = site.observe()
    assert [known.state for known in states] == [RunState.RUNNING, RunState.UNKNOWN]
    assert "Slurm" in states[1].reason
    code, _, errors = site.run()
    assert (code, errors.count("\n")) == (2, 1), errors
    assert "The state of 1 run" in errors
    assert "might be placed twice" in errors
    site.write(["paced-too"])
    code, _, errors = site.run()
    assert (code, errors.count("\n")) == (2, 1), errors
    assert "Slurm" in errors
    assert site.submissions == before

    site.lab.start_controller()
    site.write(seeds=range(2), slurm="max_parallel = 1")
    site.place()
    assert site.submissions == before
    assert first.state() is RunState.RUNNING
    site.finish(outcome)
    assert [run.read_result()["attempts"] for run in site.runs] == [1, 1]  # type: ignore[index]


def change(plugin: Path) -> None:
    """Change a plug-in file without changing what it does."""
    plugin.write_text(plugin.read_text() + "\n# changed\n")


def test_a_job_that_finds_other_code_does_not_run_unless_it_may(site: Site, outcome: Outcome) -> None:
    site.open_gate()
    site.write(slurm="options = { hold = true }")
    site.place()
    change(site.plugin)
    site.lab.command("scontrol", "release", job_of(site))
    site.wait(RunState.NEVER_STARTED)
    [known] = site.observe()
    assert known.cause is Cause.OTHER_CODE
    assert f"{site.plugin} has changed" in known.reason
    assert known.reason in site.told()
    code, _, _ = site.run("--allow-changed-code")
    assert code == 0
    change(site.plugin)
    assert len(site.submissions) == 2
    site.lab.command("scontrol", "release", job_of(site))
    site.finish(outcome)


def test_the_first_run_that_fails_stops_the_others_of_its_launch(site: Site) -> None:
    site.write(["paced-too"])
    site.place()
    [bystander] = site.runs
    site.write(["paced", "raising"], more='[methods.raising]\ntime = "00:20:00"\n', slurm="max_parallel = 2")
    site.place("--fail-fast")
    site.wait(RunState.FAILED, RunState.CANCELLED)
    assert site.states() == [RunState.CANCELLED, RunState.FAILED]
    assert "this method is meant to fail" in site.observe()[1].reason
    assert bystander.state() in {RunState.RUNNING, RunState.PLANNED}
    code, _, errors = site.run()
    assert code == 2, errors
    assert "this method is meant to fail" in errors
