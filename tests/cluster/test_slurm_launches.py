"""What `augbench run` submits to a real Slurm: arrays, resources, each run once; and what cannot be submitted."""

import re
from typing import Any

import pytest
from patience import PATIENCE
from scripted_slurm import submission_of
from slurm_site import Outcome, Site, start_command

from augbench.bench.experiment.suite import load_suite
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.run_folder import RunState
from augbench.bench.runs.submissions import submitting
from augbench.slurm.lab.processes import wait_until

pytestmark = pytest.mark.slow

TWO_METHODS = ("paced", "paced-too")
SHORTER = '[methods.paced-too]\ntime = "00:10:00"'
OWN_RESOURCES = '[methods.paced-too]\ncpus = 2\nmemory_gb = 2.5\ntime = "1-02:00:00"'


def describe(site: Site, job: str) -> dict[str, str]:
    """What Slurm knows of a job."""
    words = site.lab.command("scontrol", "--oneliner", "show", "job", job).split()
    return dict(word.split("=", 1) for word in words if "=" in word)


def test_arrays_have_their_resources_and_every_run_is_submitted_once(site: Site) -> None:
    site.write(TWO_METHODS, seeds=range(3), slurm="array_size = 2\nmax_parallel = 1", more=OWN_RESOURCES)
    launchers = [start_command(site), start_command(site)]
    said = [launcher.communicate(timeout=PATIENCE)[0] for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0, 0], said

    sizes = [(submission.resources["cpus"], len(submission.runs)) for submission in site.submissions]
    assert sorted(sizes) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert sorted(name for submission in site.submissions for name in submission.runs) == sorted(
        run.path.name for run in site.runs
    )
    for submission in site.submissions:
        known = describe(site, f"{submission.job_of(len(submission.runs) - 1)}")
        given = {1: ("1", "1G", "00:30:00"), 2: ("2", "2.50G", "1-02:00:00")}[submission.resources["cpus"]]
        assert (known["CPUs/Task"], known["MinMemoryNode"], known["TimeLimit"]) == given
        assert (known["Requeue"], known["JobName"]) == ("1", submission.job_name)
        assert known.get("ArrayTaskThrottle", "none") == ("1" if len(submission.runs) > 1 else "none")
    # one limit for all: a run that goes on, one of its array that waits, and three arrays that wait for others to end
    waiting = ["Dependency"] * 4 + ["JobArrayTaskLimit", "None"]
    assert wait_until(lambda: sorted(site.queued("%r")) == waiting, PATIENCE), site.summary()

    before = site.submissions
    site.place()
    assert site.submissions == before


@pytest.mark.parametrize(
    ("resources", "partition", "message"),
    [
        ({"cpus": 64}, "main", r"cpus = 64 .* no node of the partition 'main' has more than 2 CPU cores"),
        ({"gpus": 3.0}, None, r"gpus = 3 .* no node of the default partition 'main' has more than 2 GPUs"),
        ({}, "mian", r"partition 'mian'.*main, scavenge"),
        ({}, "short", r"time limit is 00:30:00, but the partition 'short' allows 0 h 10 min"),
    ],
)
def test_what_can_never_run_is_said_before_anything_is_submitted(
    site: Site, resources: dict[str, Any], partition: str | None, message: str
) -> None:
    site.write(resources=resources, slurm=f'partition = "{partition}"' if partition else "")
    site.lab.command("scontrol", "create", "partitionname=short", "nodes=node1", "maxtime=10")
    try:
        code, _, errors = site.run()
    finally:
        site.lab.command("scontrol", "delete", "partitionname=short")
    assert (code, errors.count("\n")) == (2, 1), errors
    assert re.search(message, errors), errors
    assert not site.out.exists()
    assert site.queued() == []


def test_what_sbatch_refuses_all_the_same_holds_up_nothing_else(site: Site, outcome: Outcome) -> None:
    site.open_gate()
    # a job of ten minutes cannot be content with half an hour at least
    site.write(TWO_METHODS, slurm="options = { time-min = 30, no-kill = false }", more=SHORTER)
    code, said, errors = site.run()
    assert (code, errors.count("\n")) == (2, 1), said + errors
    words = r"paced-too\S* never started: It was not submitted: .*Invalid time-min specification"
    assert re.search(words, errors), errors
    site.wait(RunState.DONE, RunState.NEVER_STARTED)
    refused = site.observe()[1]
    assert (refused.state, refused.cause, refused.job) == (RunState.NEVER_STARTED, Cause.NEVER_STARTED, None)

    site.write(TWO_METHODS)
    site.place()
    site.finish(outcome)
    assert [len(submission.runs) for submission in site.submissions] == [1, 1, 1]
    code, said, _ = site.run()  # when all are done
    assert (code, said.startswith("Nothing to compute")) == (0, True)
    assert len(site.submissions) == 3


def test_a_job_that_cannot_start_is_said_to_have_never_started(site: Site) -> None:
    site.write(slurm='setup = ["echo no such module", "exit 3"]')
    site.place()
    assert wait_until(lambda: site.states() == [RunState.NEVER_STARTED], PATIENCE), site.summary()
    [known] = site.observe()
    assert known.cause is Cause.NEVER_STARTED
    assert re.search(
        rf"Slurm says FAILED of job {known.job} \(NonZeroExitCode\), and the run never began", known.reason
    )
    assert "no such module" in site.submissions[0].log_of(0).read_text()

    site.open_gate()
    site.write()
    site.place()
    site.wait(RunState.DONE)


def test_nothing_of_a_surrounding_job_is_passed_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    surroundings = {
        "SLURM_JOB_ID": "4711",
        "SLURM_ARRAY_JOB_ID": "4711",
        "SLURM_ARRAY_TASK_ID": "3",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_MEM_PER_CPU": "123",
        "SLURM_NTASKS": "7",
        "SLURM_RESTART_COUNT": "99",
        "SLURMD_NODENAME": "node3",
        "SLURM_JOB_PARTITION": "scavenge",
        "SBATCH_TIMELIMIT": "1",
        "SBATCH_ARRAY_INX": "0-5",
        "SBATCH_EXPORT": "NONE",
        "SINFO_PARTITION": "nowhere",
        "SQUEUE_STATES": "PENDING",
        "SQUEUE_USERS": "nobody",
        "SQUEUE_FORMAT": "%A",
        "SCANCEL_STATE": "PENDING",
    }
    for name, value in surroundings.items():
        monkeypatch.setenv(name, value)
    site.place()
    site.place()  # sees that it was submitted
    states = site.states()
    for name in surroundings:
        monkeypatch.delenv(name)  # else the looks below would be misled themselves
    [submission] = site.submissions
    assert states in ([RunState.SUBMITTED], [RunState.RUNNING])
    known = describe(site, str(submission.job))
    given = (known["Partition"], known["TimeLimit"], known["CPUs/Task"], known["NumTasks"])
    assert given == ("main", "00:30:00", "1", "1")
    assert "ArrayJobId" not in known
    site.open_gate()
    site.wait(RunState.DONE)


def test_a_launcher_that_died_while_it_submitted_leaves_nothing_behind(site: Site) -> None:
    site.open_gate()
    site.write(seeds=range(2))
    # records of a launcher that died before it knew the ids of the jobs
    in_queue, not_in_queue = halves = [submission_of(site.out, [run.path.name]) for run in site.runs]
    for half in halves:
        half.write()
    site.lab.command("sbatch", "--output=/dev/null", f"--job-name={in_queue.job_name}", "--wrap=sleep 600")
    assert wait_until(lambda: "RUNNING" in site.queued("%T", f"--name={in_queue.job_name}"), PATIENCE)
    for spec, run in zip(load_suite(str(site.root / "suite.toml")).specs(), site.runs, strict=True):
        run.write_spec(spec)
    with submitting(site.out):
        assert site.states() == [RunState.SUBMITTED] * 2
    assert site.states() == [RunState.NEVER_STARTED] * 2
    assert "The launcher died" in site.observe()[1].reason

    site.place()
    assert site.queued("%T", f"--name={in_queue.job_name}") == []
    assert [submission.token for submission in site.submissions if submission.error] == [half.token for half in halves]
    assert [len(submission.runs) for submission in site.submissions] == [1, 1, 2]
    site.wait(RunState.DONE)
    assert not_in_queue.job_name not in site.queued("%j", "--states=all")
