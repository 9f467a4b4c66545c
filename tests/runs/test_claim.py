"""Ownership of runs: one owner at a time, dead ones are replaced, and who was replaced writes nothing any more."""

import errno
import fcntl
import json
import multiprocessing
import os
import threading
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from patience import PATIENCE
from run_here import Here

from augbench.bench.common.errors import RetryableError, UserError
from augbench.bench.runs import claim
from augbench.bench.runs.claim import BusyError, TakenOverError, claimed, heartbeat, is_alive, last_claim, unowned
from augbench.bench.runs.run_folder import RunState
from augbench.bench.training.stopping import StopCause, StopSignal
from augbench.bench.training.worker import execute

ELSEWHERE = {"machine": "another", "host": "node7", "pid": 1, "launcher": "slurm", "job": "12_3"}


def plant(folder: Path, attempt: int, owner: dict[str, object], *, age: float = 0.0, released: bool = False) -> Path:
    """Leave a claim behind, last touched some seconds ago."""
    path = folder / f"claim-{attempt}.json"
    path.write_text(json.dumps({"owner": owner} | ({"released": "now"} if released else {})))
    os.utime(path, (time.time() - age, time.time() - age))
    return path


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be on a file system that has no locks."""

    def refuse(descriptor: int, kind: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_attempts_are_counted_and_name_their_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(claim.LAUNCHER_VARIABLE, "slurm")
    monkeypatch.setenv(claim.JOB_VARIABLE, "17_4")
    for attempt in (1, 2, 3):
        with claimed(tmp_path) as ownership:
            assert ownership.attempt == attempt
            last = last_claim(tmp_path)
            assert last is not None
            assert (last.attempt, last.released, last.owner["pid"]) == (attempt, False, os.getpid())
            assert (last.owner["launcher"], last.owner["job"]) == ("slurm", "17_4")
            assert is_alive(tmp_path)
        last = last_claim(tmp_path)
        assert last is not None
        assert last.released
        assert not is_alive(tmp_path)


def test_a_run_has_one_owner_at_a_time(tmp_path: Path) -> None:
    with claimed(tmp_path):
        with pytest.raises(BusyError), claimed(tmp_path):
            pass
        with pytest.raises(BusyError), unowned(tmp_path):
            pass
    with unowned(tmp_path), pytest.raises(BusyError), claimed(tmp_path):
        pass


def _race(folder: Path, start: Event, won: "multiprocessing.Queue[int]", over: Event) -> None:
    start.wait()
    try:
        with claimed(folder) as ownership:
            won.put(ownership.attempt)
            over.wait()
    except BusyError:
        won.put(0)


@pytest.mark.parametrize("locks", [True, False])
def test_of_many_processes_at_once_one_wins(locks: bool, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if not locks:
        request.getfixturevalue("no_locks")  # processes are forked, so they have it, too
    context = multiprocessing.get_context("fork")
    start, won, over = context.Event(), context.Queue(), context.Event()
    racers = [context.Process(target=_race, args=(tmp_path, start, won, over), daemon=True) for _ in range(8)]
    for racer in racers:
        racer.start()
    start.set()
    attempts = [won.get(timeout=PATIENCE) for _ in racers]
    over.set()
    for racer in racers:
        racer.join(PATIENCE)
    assert sorted(attempts) == [0] * 7 + [1]


def check_that_it_is_respected_until_it_is_old(claim_file: Path) -> None:
    folder = claim_file.parent
    (folder / "lock").touch()
    assert is_alive(folder)
    with pytest.raises(BusyError), claimed(folder):
        pass
    os.utime(claim_file, (0, 0))
    assert not is_alive(folder)
    with claimed(folder) as ownership:
        assert ownership.attempt == 2


def test_an_owner_elsewhere_counts_as_alive_while_it_shows_itself(tmp_path: Path) -> None:
    path = plant(tmp_path, 1, ELSEWHERE, age=claim.STALE_SECONDS / 2)
    check_that_it_is_respected_until_it_is_old(path)


def test_a_claim_from_the_future_grows_old_from_now_on(tmp_path: Path) -> None:
    path = plant(tmp_path, 1, ELSEWHERE, age=-86_400)
    with pytest.raises(BusyError), claimed(tmp_path):
        pass
    assert path.stat().st_mtime <= time.time() + 1
    os.utime(path, (0, 0))  # as it is a while later, if nobody touches it
    with claimed(tmp_path) as ownership:
        assert ownership.attempt == 2


@pytest.mark.parametrize("content", ['{"own', '{"owner": 5}', '{"owner": null}', '{"owner": [1]}', "{}"])
def test_a_claim_that_names_no_owner_is_respected_until_it_is_old(content: str, tmp_path: Path) -> None:
    path = tmp_path / "claim-1.json"
    path.write_text(content)  # perhaps its owner died while it wrote
    check_that_it_is_respected_until_it_is_old(path)


def test_an_owner_elsewhere_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    plant(tmp_path, 4, ELSEWHERE, released=True)
    with claimed(tmp_path) as ownership:
        assert ownership.attempt == 5


def test_a_dead_owner_here_is_replaced_at_once(tmp_path: Path) -> None:
    plant(tmp_path, 1, ELSEWHERE | {"machine": claim.this_machine()})
    (tmp_path / "lock").touch()
    assert not is_alive(tmp_path)  # though it was touched just now: nobody holds the lock
    with claimed(tmp_path) as ownership:
        assert ownership.attempt == 2


@pytest.mark.usefixtures("no_locks")
def test_without_locks_an_owner_here_is_known_by_its_touch_alone(tmp_path: Path) -> None:
    with claimed(tmp_path):
        assert is_alive(tmp_path)
        with pytest.raises(BusyError), claimed(tmp_path):
            pass
    assert not is_alive(tmp_path)
    plant(tmp_path, 2, ELSEWHERE | {"machine": claim.this_machine()}, age=2 * claim.STALE_SECONDS)
    with claimed(tmp_path) as ownership:
        assert ownership.attempt == 3


def test_who_was_taken_over_knows_and_does_not_say_that_it_ended(tmp_path: Path) -> None:
    with claimed(tmp_path) as ownership:
        ownership.verify()
        plant(tmp_path, 2, ELSEWHERE)
        with pytest.raises(TakenOverError):
            ownership.verify()
    first = json.loads((tmp_path / "claim-1.json").read_text())
    assert "released" not in first


@pytest.mark.usefixtures("few_digits")
@pytest.mark.parametrize("moment", ["training", "evaluation"])
def test_a_run_that_was_taken_over_leaves_everything_to_its_new_owner(moment: str, here: Here) -> None:
    folder = here.folder(epochs=2)

    class TakesOver(StopSignal):
        """Has another owner appear at some moment."""

        def check(self) -> None:
            """Look whether the moment has come."""
            if folder.read_status().get("phase") == moment and not (folder.path / "claim-2.json").exists():
                plant(folder.path, 2, ELSEWHERE)
                folder.write_status(RunState.RUNNING, phase="of the new owner")
                self.request(StopCause.TAKEN_OVER)
            super().check()

    with pytest.raises(BusyError):
        execute(folder, here.settings, TakesOver())
    assert folder.read_status()["phase"] == "of the new owner"
    assert not (folder.path / "result.json").exists()
    assert not folder.predictions.exists()


def test_a_heartbeat_beats_until_the_block_ends_also_where_the_file_system_does_not_answer() -> None:
    beats = threading.Semaphore(0)

    def beat() -> None:
        beats.release()
        raise OSError(errno.ESTALE, "Stale file handle")

    with heartbeat(beat, seconds=0.01):
        assert all(beats.acquire(timeout=PATIENCE) for _ in range(3))
    while beats.acquire(blocking=False):
        pass
    assert not beats.acquire(timeout=0.1)


def test_touching_shows_that_the_owner_lives(tmp_path: Path) -> None:
    with claimed(tmp_path) as ownership:
        os.utime(ownership.claim.path, (0, 0))
        assert not ownership.claim.is_fresh()
        ownership.touch()
        assert ownership.claim.is_fresh()


def test_a_folder_that_cannot_be_written_to_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be claimed: No such file or directory"), claimed(tmp_path / "gone"):
        pass


def test_what_was_done_is_done_though_the_claim_cannot_be_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(path: Path, content: object, **_: object) -> None:
        raise RetryableError("no space left")

    with claimed(tmp_path):
        monkeypatch.setattr(claim, "write_json", is_full)
    assert not is_alive(tmp_path)  # as the lock is free


def test_a_folder_that_cannot_be_read_stops_its_owner_without_failing_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_stale(path: Path) -> bool:
        raise OSError(errno.ESTALE, "Stale file handle")

    with claimed(tmp_path) as ownership:
        monkeypatch.setattr(Path, "exists", is_stale)
        with pytest.raises(RetryableError, match="cannot be claimed: Stale file handle"):
            ownership.verify()
        monkeypatch.undo()
