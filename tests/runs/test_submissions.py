"""Records of what was submitted: which is the last one, and those that cannot be read."""

import errno
import fcntl
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_slurm import Cluster

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import NotReadableError, RunState
from augbench.bench.runs.run_states import RunStates
from augbench.bench.runs.slurm_queue import Job
from augbench.bench.runs.submissions import RECORD, Submission, is_submitting, read_submissions, submitting

OF_AN_EARLIER_VERSION = "{}0101-000000-0a1b2c3d"


def test_the_last_submission_is_told_by_its_number_since_clocks_differ(cluster: Cluster) -> None:
    earlier = cluster.submit(job=None, error="of an earlier version", token=OF_AN_EARLIER_VERSION.format(2029))
    ahead = cluster.submit(job=None, error="by a clock that is ahead", time="2028-01-01T00:00:00.000000+00:00")
    last = cluster.submit()
    assert read_submissions(cluster.out) == [earlier, ahead, last]
    cluster.jobs = {0: Job("PENDING")}
    assert cluster.observed().state is RunState.SUBMITTED


def damage(record: Submission) -> None:
    """Damage the record of a submission."""
    (record.folder / RECORD).write_text(json.dumps({"token": "x"}))


def test_a_damaged_record_is_in_the_way_only_while_jobs_of_it_may_be_in_the_queue(cluster: Cluster) -> None:
    record = cluster.submit()
    damage(record)
    assert cluster.observed().state is RunState.PLANNED
    [unreadable] = RunStates(cluster.out).unreadable
    assert re.search(r"record of a submission in .* is damaged: \d+ wrong fields", unreadable.reason)

    cluster.said = {f"squeue --noheader --format=%i|%T --name={record.job_name}": "17_0|RUNNING\n17_1|RUNNING\n"}
    known = cluster.observed()
    assert known.state is RunState.UNKNOWN
    assert unreadable.reason in known.reason
    cluster.folders[0].write_status(RunState.FAILED, reason="as it was")
    assert cluster.observed().state is RunState.FAILED
    (record.folder / RECORD).unlink()
    assert cluster.observed(1).state is RunState.PLANNED  # a folder of a launcher that keeps none


@pytest.mark.parametrize("earlier", ["a number", "a time"])
def test_a_damaged_record_says_nothing_of_runs_that_were_submitted_after_it(earlier: str, cluster: Cluster) -> None:
    token = {} if earlier == "a number" else {"token": OF_AN_EARLIER_VERSION.format(2026)}
    damage(cluster.submit(**token))
    cluster.submit(time="2026-01-01T00:00:01.000000+00:00")
    cluster.jobs = {0: Job("PENDING")}
    assert cluster.observed().state is RunState.SUBMITTED


def refuse(monkeypatch: pytest.MonkeyPatch, closed: Path) -> None:
    """Have a folder refuse to be read, as those of others do."""

    def checked(do: Callable[..., Any]) -> Callable[..., Any]:
        def do_it(path: str | Path, *arguments: Any, **more: Any) -> Any:
            if Path(path).is_relative_to(closed):
                raise PermissionError(errno.EACCES, "Permission denied")
            return do(path, *arguments, **more)

        return do_it

    for name in ("read_bytes", "open", "exists", "iterdir"):
        monkeypatch.setattr(Path, name, checked(getattr(Path, name)))
    monkeypatch.setattr(os, "open", checked(os.open))


@pytest.mark.parametrize("which", ["record", "all records"])
def test_a_record_that_may_not_be_read_is_a_sentence_with_its_owner(
    which: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = cluster.submit()
    folder = record.folder if which == "record" else record.folder.parent
    refuse(monkeypatch, folder)
    cluster.said["squeue"] = "17_0|RUNNING\n"
    known = cluster.observed()
    assert known.state is RunState.UNKNOWN
    assert f"{folder} belongs to {folder.owner()}, who can make it readable for its group: `chmod" in known.reason


def test_a_run_folder_that_may_not_be_read_is_unknown_and_nobody_is_to_delete_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cluster.folders[0]
    refuse(monkeypatch, folder.path)
    known = cluster.observed()
    assert known.state is RunState.UNKNOWN
    assert f"{folder.path} belongs to {folder.path.owner()}" in known.reason
    with pytest.raises(NotReadableError, match="The other runs are not affected") as refused:
        folder.read_spec()
    assert "delete" not in str(refused.value)


def test_a_single_run_is_no_array(cluster: Cluster) -> None:
    record = cluster.submit()
    assert record.job_of(1) == "17_1"
    single = record.model_copy(update={"runs": record.runs[:1]})
    assert single.job_of(0) == "17"
    assert single.log_of(0).name == "17_0_log.out"


def test_a_job_may_have_several_runs(cluster: Cluster) -> None:
    record = cluster.submit().model_copy(update={"runs": tuple("abcdefg"), "runs_per_job": 3})
    assert record.jobs == 3
    assert [record.runs_of(number) for number in range(3)] == [tuple("abc"), tuple("def"), ("g",)]
    assert [record.job_of(index) for index in (0, 2, 3, 6)] == ["17_0", "17_0", "17_1", "17_2"]
    assert record.log_of(5).name == "17_1_0_log.out"
    assert record.model_copy(update={"runs_per_job": 7}).job_of(6) == "17"


def test_where_there_are_no_locks_runs_are_submitted_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, kind: int) -> None:
        raise OSError(number, "refused")

    monkeypatch.setattr(fcntl, "flock", refuse)
    number = errno.ENOSYS
    with submitting(tmp_path):
        assert not is_submitting(tmp_path)
    number = errno.EACCES
    with pytest.raises(UserError, match="cannot be locked: refused"), submitting(tmp_path):
        pass
