"""The state of a run from its folder and from what Slurm says of its job."""

import pytest
from scripted_slurm import Cluster, begin, submission_of

from augbench.bench.common.files import make_folder, write_json
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.claim import claimed
from augbench.bench.runs.run_folder import RunState
from augbench.bench.runs.run_states import RunStates, RunStatus
from augbench.bench.runs.slurm_client import SlurmError
from augbench.bench.runs.slurm_queue import Job
from augbench.bench.runs.submissions import read_submissions


def test_without_submissions_slurm_is_not_asked(cluster: Cluster) -> None:
    assert cluster.observed() == RunStatus(RunState.PLANNED)
    cluster.folders[0].write_status(RunState.FAILED, cause=Cause.OUT_OF_MEMORY, reason="no memory")
    known = cluster.observed()
    assert (known.state, known.cause, known.reason) == (RunState.FAILED, Cause.OUT_OF_MEMORY, "no memory")
    assert cluster.asked == 0


@pytest.mark.parametrize(("waiting", "jobs"), [(6, ["78"]), (0, [])])
def test_without_an_answer_only_the_last_job_of_a_suite_that_waits_may_place_runs(
    cluster: Cluster, waiting: int, jobs: list[str]
) -> None:
    """As in a copy of an output folder, whose suites may have ended long ago."""
    cluster.said["squeue"] = SlurmError("There is no command `squeue` here.")
    for job in ("77", "78"):
        follows = ["run", "/elsewhere/tuning/small.toml", "--no-trials"]
        submission_of(cluster.out, [], job=job, arguments={"follows": follows, "after": ["5"]}).write()
    record = {"suite": "small", "searches": [], "final": [], "waiting": waiting}
    write_json(make_folder(cluster.out / "tuning") / "small.json", record)
    assert [one.job for one in RunStates(cluster.out).followers] == jobs


@pytest.mark.parametrize("word", ["PENDING", "RUNNING", "CONFIGURING", "REQUEUED", "SUSPENDED", "COMPLETING"])
def test_a_run_whose_job_is_in_the_queue_is_submitted(word: str, cluster: Cluster) -> None:
    cluster.submit()
    cluster.jobs = {0: Job(word, "Priority"), 1: Job("PENDING")}
    known = cluster.observed()
    assert (known.state, known.job) == (RunState.SUBMITTED, "17_0")
    assert "priority" in known.reason.lower()
    assert cluster.observed(1).job == "17_1"


@pytest.mark.parametrize("recorded", [RunState.CANCELLED, RunState.TIMED_OUT, RunState.NEVER_STARTED])
@pytest.mark.parametrize(("word", "is_over"), [("RUNNING", True), ("COMPLETING", True), ("PENDING", False)])
def test_a_run_whose_job_is_about_to_end_for_good_can_be_placed_again(
    recorded: RunState, word: str, is_over: bool, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = cluster.submit()
    begin(cluster.folders[0], monkeypatch, submission=record.token)
    cluster.folders[0].write_status(recorded)
    cluster.jobs = {0: Job(word)}
    assert cluster.observed().state is (recorded if is_over else RunState.SUBMITTED)


@pytest.mark.parametrize(
    ("word", "state", "cause"),
    [
        ("TIMEOUT", RunState.TIMED_OUT, Cause.TIMED_OUT),
        ("DEADLINE", RunState.TIMED_OUT, Cause.TIMED_OUT),
        ("OUT_OF_MEMORY", RunState.KILLED, Cause.OUT_OF_MEMORY),
        ("CANCELLED", RunState.CANCELLED, Cause.CANCELLED),
        ("NODE_FAIL", RunState.KILLED, Cause.KILLED),
        ("FAILED", RunState.KILLED, Cause.KILLED),
        ("COMPLETED", RunState.KILLED, Cause.KILLED),
        ("A_NEW_STATE", RunState.UNKNOWN, None),
        ("PENDING", RunState.SUBMITTED, None),  # killed and queued again
    ],
)
def test_what_became_of_a_job_that_had_begun(
    word: str, state: RunState, cause: Cause | None, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.submit()
    begin(cluster.folders[0], monkeypatch)
    cluster.jobs = {0: Job(word)}
    known = cluster.observed()
    assert (known.state, known.cause) == (state, cause)
    assert known.reason


@pytest.mark.parametrize("word", ["FAILED", "TIMEOUT", "NODE_FAIL", "COMPLETED", "BOOT_FAIL"])
def test_a_job_that_ended_before_its_run_began_never_started(word: str, cluster: Cluster) -> None:
    cluster.submit()
    cluster.jobs = {0: Job(word, "NonZeroExitCode")}
    known = cluster.observed()
    assert (known.state, known.cause) == (RunState.NEVER_STARTED, Cause.NEVER_STARTED)
    assert f"Slurm says {word} of job 17_0 (NonZeroExitCode)" in known.reason
    assert "does not see the output folder" in known.reason


def test_what_a_run_has_recorded_of_its_end_counts_more_than_a_failed_job(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.submit()
    begin(cluster.folders[0], monkeypatch)
    cluster.folders[0].write_status(RunState.TIMED_OUT, cause=Cause.TIMED_OUT, reason="three times in a row")
    cluster.jobs = {0: Job("FAILED", "NonZeroExitCode")}
    known = cluster.observed()
    assert (known.state, known.cause, known.reason) == (RunState.TIMED_OUT, Cause.TIMED_OUT, "three times in a row")


def test_a_job_that_found_other_code_is_told_from_one_that_saw_no_folder(cluster: Cluster) -> None:
    cluster.submit()
    cluster.folders[0].write_status(RunState.NEVER_STARTED, cause=Cause.OTHER_CODE, reason="a.py changed", job="17_0")
    cluster.jobs = {0: Job("FAILED", "NonZeroExitCode")}
    known = cluster.observed()
    assert (known.state, known.cause, known.reason) == (RunState.NEVER_STARTED, Cause.OTHER_CODE, "a.py changed")


@pytest.mark.parametrize(
    ("job", "submission", "state"),
    [
        ("9_0", None, RunState.NEVER_STARTED),  # of an earlier job
        ("17_0", "an earlier one", RunState.NEVER_STARTED),  # ids of jobs are reused
        ("17_0", "this one", RunState.KILLED),
        ("17_0", None, RunState.KILLED),  # by an earlier version, which recorded no submission
    ],
)
def test_only_the_claim_of_its_last_job_says_that_a_run_has_begun(
    job: str, submission: str | None, state: RunState, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    if state is RunState.NEVER_STARTED:  # what another job has begun came first
        begin(cluster.folders[0], monkeypatch, job, submission)
        cluster.submit()
    else:
        token = cluster.submit().token
        begin(cluster.folders[0], monkeypatch, job, token if submission == "this one" else submission)
    cluster.jobs = {0: Job("FAILED")}
    assert cluster.observed().state is state


def test_a_job_that_slurm_has_forgotten(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.submit()
    begin(cluster.folders[0], monkeypatch)
    known = cluster.observed()
    assert (known.state, known.cause) == (RunState.KILLED, Cause.KILLED)
    known = cluster.observed(1)
    assert known.state is RunState.NEVER_STARTED
    assert "no longer knows" in known.reason


HIDDEN = "AccountingStorageType   = none\nPrivateData             = jobs,users\n"
SHOWS_ALL = "PrivateData             = accounts\n"
UNKNOWN_JOB = SlurmError("Slurm's `scontrol` failed: slurm_load_jobs error: Invalid job id specified")


@pytest.mark.parametrize(
    ("user", "settings", "shown", "reason"),
    [
        ("somebody", HIDDEN, UNKNOWN_JOB, "shows its jobs to somebody only"),
        ("somebody", SHOWS_ALL, UNKNOWN_JOB, ""),
        ("", HIDDEN, UNKNOWN_JOB, ""),
        ("", SHOWS_ALL, "JobId=17 JobName={name} UserId=me", "`scontrol show job 17` does"),
        ("somebody", SHOWS_ALL, "JobId=17 JobName={name} UserId=me", "`scontrol show job 17` does"),
        ("", SHOWS_ALL, "JobId=17 JobName=augbench-of-another-year UserId=me", ""),
        ("", SHOWS_ALL, SlurmError("Slurm gave no answer."), "Slurm gave no answer"),
    ],
)
def test_a_job_that_is_not_listed_is_forgotten_only_where_slurm_would_show_it(
    user: str, settings: str, shown: str | SlurmError, reason: str, cluster: Cluster
) -> None:
    record = cluster.submit(**({"user": user} if user else {}))
    shown = shown if isinstance(shown, SlurmError) else shown.format(name=record.job_name)
    cluster.said |= {"scontrol show config": settings, "scontrol --oneliner show job 17": shown}
    known = cluster.observed()
    assert (known.state, known.job) == (RunState.UNKNOWN if reason else RunState.NEVER_STARTED, "17_0")
    assert reason in known.reason
    cluster.jobs = {1: Job("COMPLETED")}  # where Slurm shows one job of an array, it shows all that there are
    assert cluster.observed().state is RunState.NEVER_STARTED


@pytest.mark.parametrize(
    ("recorded", "observed"),
    [(RunState.KILLED, RunState.UNKNOWN), *[(state, state) for state in (RunState.CANCELLED, RunState.TIMED_OUT)]],
)
def test_a_hidden_job_may_go_on_unless_its_run_was_ended_for_good(
    recorded: RunState, observed: RunState, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = cluster.submit(user="somebody")
    cluster.said["scontrol show config"] = HIDDEN
    begin(cluster.folders[0], monkeypatch, submission=record.token)
    cluster.folders[0].write_status(recorded)
    assert cluster.observed().state is observed


def test_if_slurm_does_not_answer_the_state_is_unknown_and_not_failed(cluster: Cluster) -> None:
    cluster.submit()
    cluster.jobs = SlurmError("Slurm gave no answer")
    known = cluster.observed()
    assert (known.state, known.cause) == (RunState.UNKNOWN, None)
    assert "17_0" in known.reason
    assert "Slurm gave no answer" in known.reason


def test_slurm_is_asked_once_for_all_runs(cluster: Cluster) -> None:
    cluster.submit()
    cluster.jobs = {0: Job("PENDING"), 1: Job("PENDING")}
    states = RunStates(cluster.out)
    assert [states.of(folder).state for folder in cluster.folders] == [RunState.SUBMITTED] * 2
    assert cluster.asked == 1


def test_the_last_submission_counts_and_one_that_was_refused_says_why(cluster: Cluster) -> None:
    cluster.submit(job=None, error="Invalid qos specification", time="2026-01-01T00:00:00+00:00")
    known = cluster.observed()
    assert (known.state, known.cause) == (RunState.NEVER_STARTED, Cause.NEVER_STARTED)
    assert "It was not submitted: Invalid qos specification" in known.reason
    cluster.submit(time="2026-01-02T00:00:00+00:00")
    cluster.jobs = {0: Job("PENDING")}
    assert cluster.observed().state is RunState.SUBMITTED
    assert [record.error for record in read_submissions(cluster.out)] == ["Invalid qos specification", ""]


def test_a_run_that_is_cancelled_while_its_job_waits(cluster: Cluster) -> None:
    cluster.submit()
    cluster.folders[0].request_cancel()
    cluster.jobs = {0: Job("CANCELLED", "None")}
    assert cluster.observed().state is RunState.CANCELLED
    assert cluster.observed().cause is Cause.CANCELLED


@pytest.mark.parametrize("changes", [{}, {"job": None, "error": "refused"}, {"job": None}])
@pytest.mark.parametrize("jobs", [{}, {0: Job("FAILED")}, {0: Job("TIMEOUT")}])
def test_what_another_launcher_has_made_of_a_run_since_counts_more_than_its_old_job(
    changes: dict[str, object], jobs: dict[int, Job], cluster: Cluster
) -> None:
    cluster.submit(time="2026-01-01T00:00:00.000000+00:00", **changes)
    cluster.jobs = jobs
    with claimed(cluster.folders[0].path):
        cluster.folders[0].write_status(RunState.CANCELLED, cause=Cause.CANCELLED, reason="Stopped on request.")
    known = cluster.observed()
    assert (known.state, known.cause, known.reason) == (RunState.CANCELLED, Cause.CANCELLED, "Stopped on request.")
    if not changes:
        cluster.jobs = {0: Job("PENDING")}
        assert cluster.observed().state is RunState.SUBMITTED, "a job that waits executes it again"


def test_a_record_that_was_completed_after_it_was_read_is_read_again(cluster: Cluster) -> None:
    record = cluster.submit(job=None)
    states = RunStates(cluster.out)
    assert states.of(cluster.folders[1]).reason == "The launcher died while it submitted it."
    record.model_copy(update={"job": "17"}).write()
    cluster.jobs = {0: Job("PENDING")}
    assert (states.of(cluster.folders[0]).state, states.of(cluster.folders[0]).job) == (RunState.SUBMITTED, "17_0")
