"""What Slurm's commands print, as real ones (22.05) have printed it, and what is made of it."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
from scripted_slurm import submission_of

from augbench.bench.common.errors import UserError
from augbench.bench.launchers.slurm_jobs import checks
from augbench.bench.launchers.slurm_jobs.site import with_defaults_of_site
from augbench.bench.planning.profile import Profile, Resources, SlurmSettings
from augbench.bench.runs import slurm_client, slurm_queue
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.run_states import RunStates
from augbench.bench.runs.slurm_client import SlurmError
from augbench.bench.runs.slurm_queue import Job, ask_slurm, cancel_jobs, cancel_named
from augbench.bench.runs.submissions import Submission

NODES = """\
main*|node7|2|4000|gpu:2|infinite
gpu|node8|64+|515000+|gpu:a100:4(S:0-1)|2-00:00:00
gpu|node9|32|257000|gpu:a100:2,gpu:t4:1,craynetwork:4|2-00:00:00
short|node7|2|4000|(null)|30:00
"""
# squeue(1) and sacct(1) of 22.05 and 24.05: every state, with whether its job is still in the queue
WAITING = (
    "PENDING RUNNING SUSPENDED COMPLETING CONFIGURING RESIZING RESV_DEL_HOLD REQUEUED REQUEUE_FED REQUEUE_HOLD "
    "SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED"
)
ENDED = "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT LAUNCH_FAILED"

Answers = Callable[..., list[list[str]]]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Have Slurm's commands print something; a command that is not named fails. Returns the list of what was asked."""

    def answer(**texts: str) -> list[list[str]]:
        asked: list[list[str]] = []

        def slurm(command: Sequence[str], clusters: str = "") -> str:
            asked.append([*command, *([f"--clusters={clusters}"] if clusters else [])])
            if command[0] not in texts:
                raise SlurmError(f"Slurm's `{command[0]}` failed: not here")
            return texts[command[0]]

        for module in (slurm_client, slurm_queue, checks):
            monkeypatch.setattr(module, "slurm", slurm)
        return asked

    return answer


def submission(out: Path, runs: int, token: str, **update: object) -> Submission:
    names = [f"run{index}" for index in range(runs)]
    return submission_of(out, names, **{"token": token, "job": "13", **update})


def test_jobs_of_arrays_and_single_ones_are_told_apart(answers: Answers, tmp_path: Path) -> None:
    text = """\
15|augbench-t3|CANCELLED|JobHeldUser|
13_0|augbench-t1|COMPLETED|None|node1
13_2|augbench-t1|FAILED|JobLaunchFailure|node1
13_1|augbench-t1|FAILED|NonZeroExitCode|node1
14|augbench-t2|PENDING|JobHeldUser|
13_3|augbench-t1|RUNNING|None|node1
16_[4-9%2]|augbench-t4|PENDING|JobArrayTaskLimit|
99|somebody-else|RUNNING|None|node1
"""
    asked = answers(squeue=text)
    jobs = ask_slurm([submission(tmp_path, runs, token) for token, runs in (("t1", 4), ("t2", 1), ("t3", 1))])
    assert jobs == {
        ("t1", 0): Job("COMPLETED", "None", "node1"),
        ("t1", 1): Job("FAILED", "NonZeroExitCode", "node1"),
        ("t1", 2): Job("FAILED", "JobLaunchFailure", "node1"),
        ("t1", 3): Job("RUNNING", "None", "node1"),
        ("t2", 0): Job("PENDING", "JobHeldUser", ""),
        ("t3", 0): Job("CANCELLED", "JobHeldUser", ""),
    }
    assert [command[0] for command in asked] == ["squeue"]
    assert "--name=augbench-t1,augbench-t2,augbench-t3" in asked[0]


def test_what_the_queue_has_forgotten_is_looked_up_in_the_accounts(answers: Answers, tmp_path: Path) -> None:
    accounts = """\
1_0|augbench-t1|COMPLETED|0:0|node1
1_1|augbench-t1|FAILED|3:0|node1
1_2|augbench-t1|OUT_OF_MEMORY|0:125|node1
1_3|augbench-t1|CANCELLED by 0|0:0|None assigned
1_4|augbench-t1|NODE_FAIL|1:0|node2
1_5|augbench-t1|RUNNING|0:0|node2
1_[6-7%2]|augbench-t1|PENDING|0:0|None assigned
"""
    asked = answers(squeue="1_4|augbench-t1|RUNNING|None|node1\n", sacct=accounts)
    jobs = ask_slurm([submission(tmp_path, 7, "t1", time="2026-11-28T10:00:00+00:00")])
    assert {index: job.state for (_, index), job in jobs.items()} == {
        0: "COMPLETED",
        1: "FAILED",
        2: "OUT_OF_MEMORY",
        3: "CANCELLED",
        4: "RUNNING",  # the queue knows better
    }
    assert jobs["t1", 3].cause is Cause.CANCELLED
    assert jobs["t1", 2].cause is Cause.OUT_OF_MEMORY
    assert "--starttime=2026-11-27" in asked[1]


def test_rows_about_several_jobs_stand_for_each_of_them(answers: Answers, tmp_path: Path) -> None:
    accounts = """\
1_0|augbench-t1|COMPLETED|0:0|node1
1_[1-3,5%1]|augbench-t1|CANCELLED by 0|0:0|None assigned
2|augbench-t2|CANCELLED by 0|0:0|None assigned
"""
    answers(squeue="1|augbench-t1|CANCELLED|None|\n1_4|augbench-t1|RUNNING|None|node1\n", sacct=accounts)
    jobs = ask_slurm([submission(tmp_path, 6, "t1"), submission(tmp_path, 2, "t2")])
    assert {key: job.state for key, job in jobs.items()} == {
        **{("t1", index): "CANCELLED" for index in (0, 1, 2, 3, 5)},
        ("t1", 4): "RUNNING",
        ("t2", 0): "CANCELLED",
        ("t2", 1): "CANCELLED",
    }


def test_each_cluster_is_asked_for_its_own_jobs_in_portions(answers: Answers, tmp_path: Path) -> None:
    made = submission(tmp_path, 1, "h")
    here = [made.model_copy(update={"token": f"h{index}"}) for index in range(1500)]
    asked = answers(squeue="CLUSTER: other\n13|augbench-t1|RUNNING|None|n1\n", sacct="")
    jobs = ask_slurm([*here, submission(tmp_path, 1, "t1", cluster="other")])
    assert jobs == {("t1", 0): Job("RUNNING", "None", "n1")}
    assert [command[-1] for command in asked if command[0] == "squeue"][-1] == "--clusters=other"
    assert max(len(word) for command in asked for word in command) < 100_000
    assert sum(word.count("augbench-h") for command in asked if command[0] == "squeue" for word in command) == 1500


@pytest.mark.parametrize(
    ("answer", "queue", "job", "cluster"),
    [
        ("777\n", "", "777", ""),
        ("777;other\n", "", "777", "other"),
        ("This job 2 cores are charged to project x\nSubmitted batch job 777\n", "", "777", ""),
        ("Your job 99999 of yesterday\n5\nSubmitted batch job 777 on cluster other", "", "777", "other"),
        ("Your job 99999 of yesterday\n", "777|augbench-t1\n12|others\n", "777", ""),
        ("12\n", "777|augbench-t1\n777|augbench-t1\n", "777", ""),  # a banner after the answer
    ],
)
def test_no_number_of_a_banner_is_taken_for_a_job(
    answers: Answers, answer: str, queue: str, job: str, cluster: str
) -> None:
    pytest.importorskip("submitit")
    from augbench.bench.launchers.slurm_jobs.sbatch import job_in

    asked = answers(squeue=queue)
    assert job_in(answer, "augbench-t1", "") == (job, cluster)
    assert "--name=augbench-t1" in asked[0]
    for unclear, listed in (("Your job 99999", ""), ("", "7|augbench-t1\n8|augbench-t1\n")):
        answers(squeue=listed)
        with pytest.raises(SlurmError, match="does not tell which job was made"):
            job_in(unclear, "augbench-t1", "")


def test_what_a_site_sets_fills_what_a_profile_leaves_open() -> None:
    environment = {"SBATCH_ACCOUNT": "site", "SLURM_CLUSTERS": "all", "SBATCH_CLUSTERS": "some", "SBATCH_QOS": ""}
    filled = with_defaults_of_site(SlurmSettings(), environment)
    assert (filled.account, filled.clusters, filled.qos, filled.partition) == ("site", "some", None, None)
    own = SlurmSettings(account="mine", options={"clusters": "other", "nice": 5})
    filled = with_defaults_of_site(own, environment)
    assert (filled.account, filled.clusters, filled.options) == ("mine", "other", {"nice": 5})


def test_lines_of_a_site_are_no_rows_and_other_rows_are_quoted(answers: Answers) -> None:
    answers(sinfo="NOTICE: maintenance\nCLUSTER: other\n" + NODES)
    assert len(checks.read_nodes()) == 4
    for strange in ("a|b\n", "a|b|many|c|d|e\n"):
        answers(sinfo=strange)
        with pytest.raises(SlurmError, match=r"`sinfo` printed .* cannot be understood"):
            checks.read_nodes()
    answers(sinfo="")
    with pytest.raises(UserError, match="no partition that you may use"):
        checks.check_resources(Profile(), [])


def test_a_cluster_without_accounts_is_no_error_but_one_without_a_queue_is(answers: Answers, tmp_path: Path) -> None:
    answers(squeue="")
    assert ask_slurm([submission(tmp_path, 2, "t1")]) == {}
    answers(sacct="")
    with pytest.raises(SlurmError, match="squeue"):
        ask_slurm([submission(tmp_path, 2, "t1")])
    assert ask_slurm([]) == {}


def test_every_state_of_a_job_is_in_the_queue_or_has_a_cause() -> None:
    for state in (*WAITING.split(), *ENDED.split()):
        waits = state in WAITING.split()
        assert Job(state).waits_or_runs is waits, state
        assert (Job(state).cause is None) is waits, state


def test_a_state_that_is_not_known_is_no_failure(answers: Answers, tmp_path: Path) -> None:
    answers(squeue="13_0|augbench-t1|RUNNING|None|n1\n13_1|augbench-t1|SOMETHING_NEW|None|n1\n")
    submission(tmp_path, 2, "t1").write()
    states = RunStates(tmp_path)
    observed = [states.of(RunFolder(tmp_path / "runs" / f"run{index}")).state for index in range(2)]
    assert observed == [RunState.SUBMITTED, RunState.UNKNOWN]


def test_nodes_of_every_kind_are_read(answers: Answers) -> None:
    answers(sinfo=NODES)
    assert checks.read_nodes() == [
        checks.Node("main", True, "node7", 2, 4000, 2, None),
        checks.Node("gpu", False, "node8", 64, 515000, 4, 2880),
        checks.Node("gpu", False, "node9", 32, 257000, 3, 2880),
        checks.Node("short", False, "node7", 2, 4000, 0, 30),
    ]


def test_time_limits_are_read() -> None:
    limits = {"infinite": None, "n/a": None, "30:00": 30, "4:00:00": 240, "1-00:00:00": 1440, "5": 0}
    assert {limit: checks.minutes(limit) for limit in limits} == limits
    assert checks.minutes("2-12:30:00") == 3630


UNEQUAL = "main*|a|64|1000|(null)|infinite\nmain*|b|2|64000|(null)|infinite\n"


@pytest.mark.parametrize(
    ("nodes", "partition", "resources", "message"),
    [
        (NODES, "gpu", {"gpus": 5.0}, "gpus = 5 in the profile, but no node of .* 'gpu' has more than 4 GPUs"),
        (NODES, "gpu", {"cpus": 40, "memory_gb": 600}, "memory_gb = 600 .* more than 502.93 GB"),
        (NODES, "gpu", {"cpus": 64, "gpus": 4.0, "memory_gb": 500}, None),
        (NODES, "gpu,short", {"time": "1-00:00:00"}, None),
        (NODES, "short", {"time": "00:31:00"}, "'short' allows 0 h 30 min"),
        (NODES, None, {"cpus": 3}, "the default partition 'main' has more than 2 CPU cores"),
        (NODES, None, {"cpus": 0.5}, "cpus = 0.5, but Slurm gives out whole ones"),
        (NODES, None, {"gpus": 0.5}, "gpus = 0.5, but Slurm gives out whole ones"),
        (NODES, None, {"time": None}, "Slurm needs a time limit"),
        (NODES, None, {"time": "00:02:00"}, "signal_delay_s = 120 s before"),
        (NODES, None, {"time": "00:03:00"}, None),
        (NODES, "gpu, main", {}, "partition ' main'"),
        (NODES.replace("*", ""), None, {}, "no default partition here"),
        (UNEQUAL, None, {"cpus": 32, "memory_gb": 32}, "no node with enough of all three"),
    ],
)
def test_resources_are_compared_with_every_node(
    answers: Answers, nodes: str, partition: str | None, resources: dict[str, object], message: str | None
) -> None:
    answers(sinfo=nodes)
    profile = Profile.model_validate({"slurm": {"partition": partition}})
    wanted = [("scale", Resources.model_validate({"time": "00:10:00", **resources}))]
    with pytest.raises(UserError, match=message) if message else nullcontext():
        checks.check_resources(profile, wanted)


def test_slurm_is_asked_for_what_a_job_is_submitted_with(answers: Answers) -> None:
    asked = answers(sbatch="")
    settings = SlurmSettings(partition="gpu", qos="long", options={"nice": 5, "exclusive": True, "no-kill": False})
    checks.check_that_slurm_would_take(Resources(cpus=2, gpus=1, memory_gb=1.5, time="01:00:00"), settings)
    given = "--time=60 --cpus-per-task=2 --mem=1536M --gpus-per-node=1 --partition=gpu --qos=long --nice=5 --exclusive"
    assert asked == [["sbatch", "--test-only", *given.split(), "--wrap=true"]]


def test_the_largest_array_is_the_clusters(answers: Answers) -> None:
    answers(scontrol="Configuration data as of 2026-11-28\nMaxArraySize            = 1001\nMaxDBDMsgs = 20024\n")
    assert checks.largest_array() == 1001
    answers(scontrol="MaxArraySize = unlimited\n")
    assert checks.largest_array() == 1000


def test_folders_of_one_machine_are_refused_where_there_are_others(answers: Answers, tmp_path: Path) -> None:
    answers(sinfo=NODES)
    with pytest.raises(UserError, match=r"tmp, which is local to each machine.*shared_folders"):
        checks.check_visible([Path("/tmp/out")], Profile())  # noqa: S108
    elsewhere = Profile.model_validate({"slurm": {"shared_folders": ["/scratch", "/tmp/shared"]}})  # noqa: S108
    checks.check_visible([Path("/tmp/shared/out"), Path("/scratch/data")], elsewhere)  # noqa: S108
    with pytest.raises(UserError, match=r"is outside the shared folders .*: /scratch, /tmp/shared"):
        checks.check_visible([Path("/home/out")], elsewhere)


def test_commands_that_are_missing_refused_or_silent_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SlurmError, match=r"no command `sno-such` here.*augbench list launchers"):
        slurm_client.slurm(["sno-such"])
    with pytest.raises(SlurmError, match=r"`ls` failed: .*no such folder"):
        slurm_client.slurm(["ls", "/no such folder"])
    with pytest.raises(SlurmError, match="Slurm's `false` failed: exit status 1"):
        slurm_client.slurm(["false"])
    monkeypatch.setattr(slurm_client, "SECONDS_TO_ANSWER", 0.1)
    with pytest.raises(SlurmError, match=r"no answer to `sleep` within 0.1 s; its controller may be down"):
        slurm_client.slurm(["sleep", "600"])


def test_filters_of_a_user_do_not_reach_slurms_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_USERS", "SINFO_PARTITION", "SACCT_FEDERATION", "SCANCEL_STATE", "SLURM_CLUSTERS"):
        monkeypatch.setenv(name, "x")
    printed = slurm_client.slurm(["env"])
    assert not any(word in printed for word in ("SQUEUE_", "SINFO_", "SACCT_", "SCANCEL_", "SLURM_CLUSTERS"))


def test_many_jobs_are_cancelled_in_portions(answers: Answers) -> None:
    asked = answers(scancel="")
    one, other = (submission(Path("out"), 1200, token) for token in ("t1", "t2"))
    cancel_jobs([*((one, f"13_{index}") for index in range(1200)), (other, "14")])
    assert [len(command) for command in asked] == [503, 503, 203, 4]
    assert {command[2] for command in asked[:3]} == {"--name=augbench-t1"}, "an id may be somebody else's"
    assert asked[3] == ["scancel", "--quiet", "--name=augbench-t2", "14"]
    cancel_jobs([])
    assert len(asked) == 4


def test_a_cancelled_job_that_does_not_end_is_said_so(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_queue, "SECONDS_TO_END", 0)
    monkeypatch.setattr(slurm_queue, "SECONDS_BETWEEN_LOOKS", 0)
    answers(scancel="", squeue="News of this cluster\n13_0|RUNNING\n13_1|RUNNING\n")
    made = submission(Path("out"), 2, "t1")
    with pytest.raises(SlurmError, match=r"The job 13_0 \(augbench-t1\) was cancelled but has not ended"):
        cancel_named(made)
    answers(scancel="", squeue="")
    cancel_named(made)
