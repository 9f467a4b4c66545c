"""What was handed to a scheduler: a record for each job array, in `OUT/submissions/`.

It is written before the scheduler is asked, and again with the ids of the jobs. So what was asked for is known
even if the launcher dies in between, by the name that the jobs have in the queue.
"""

import getpass
import re
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from augbench.bench.common.errors import RetryableError, UserError
from augbench.bench.common.files import how_to_read, make_folder, owner_of, parse_json, read_file, write_json
from augbench.bench.common.locks import exclusive, is_held

RECORD = "submission.json"
LOCK = ".lock"
PREFIX = "augbench-"
# When it was made by the clock of the launcher, something by chance, and which one of the output folder it is: clocks
# of login nodes differ. Earlier versions had no number.
TOKEN = re.compile(r"(\d{8})-(\d{6})-[0-9a-f]{8}(?:-(\d+))?")


class NoRecordError(UserError):
    """There is no record of a submission where one is looked for."""


class Submission(BaseModel):
    """One job array, or one job.

    Attributes:
        token: Its name here.
        launcher: Name of the launcher.
        out: Output folder of the runs.
        runs: Names of the run folders, in the order in which jobs execute them.
        runs_per_job: How many of them a job executes, one after the other.
        job: Id of the array; None until it is known, or if there is none.
        cluster: Cluster, or clusters, that it is on; empty for the one of this machine.
        error: Why there is none.
        resources: What each job was given.
        arguments: What a job needs to know besides: device, data, plug-ins and settings; of a job that executes no
            runs, but gives a command when others have ended, its words as `follows` and the others' ids as `after`.
        code: Which code is to run, as in `provenance.py`.
        command: The command that a person gave.
        time: When.
        host: Where.
        user: Who.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    token: str
    launcher: str
    out: Path
    runs: tuple[str, ...]
    runs_per_job: int = 1
    job: str | None = None
    cluster: str = ""
    error: str = ""
    resources: dict[str, Any]
    arguments: dict[str, Any]
    code: dict[str, Any]
    command: str
    time: str
    host: str
    user: str

    @property
    def folder(self) -> Path:
        """Its folder, which holds its record and what the jobs print."""
        return self.out / "submissions" / self.token

    @property
    def job_name(self) -> str:
        """Name of its jobs in the queue."""
        return PREFIX + self.token

    @property
    def order(self) -> tuple[int, str]:
        """What tells which of two submissions of an output folder came first."""
        return _number(self.token), self.time

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return -(-len(self.runs) // self.runs_per_job)

    @property
    def is_follower(self) -> bool:
        """Whether it is a job that gives a command when others have ended."""
        return "follows" in self.arguments and self.job is not None

    def number_of(self, index: int) -> int:
        """Number, in the array, of the job of a run."""
        return index // self.runs_per_job

    def runs_of(self, number: int) -> tuple[str, ...]:
        """Names of the runs of a job, by its number in the array."""
        return self.runs[number * self.runs_per_job : (number + 1) * self.runs_per_job]

    def job_of(self, index: int) -> str | None:
        """Id of the job of a run, as the scheduler's commands take it."""
        if self.job is None:
            return None
        return f"{self.job}_{self.number_of(index)}" if self.jobs > 1 else self.job

    def log_of(self, index: int) -> Path:
        """What the job of a run prints, every attempt of it one after the other; may be missing."""
        return self.folder / "jobs" / f"{self.job_of(index)}_0_log.out"

    def write(self) -> None:
        """Write the record.

        Raises:
            RetryableError: If it cannot be written.
        """
        write_json(make_folder(self.folder) / RECORD, self.model_dump(mode="json"))


@dataclass(frozen=True)
class Unreadable:
    """A submission whose record cannot be read: its folder, or that of all submissions, why, and what helps."""

    folder: Path
    reason: str

    @property
    def token(self) -> str | None:
        """Its name; None if that is not known."""
        return self.folder.name if TOKEN.fullmatch(self.folder.name) else None

    @property
    def job_name(self) -> str:
        """Name of its jobs in the queue."""
        return PREFIX + self.folder.name

    @property
    def user(self) -> str:
        """Who has made it."""
        return owner_of(self.folder)

    def may_follow(self, submission: Submission | None) -> bool:
        """Whether it may have been made after another one."""
        found = TOKEN.fullmatch(self.folder.name)
        if submission is None or found is None:
            return True
        digits = found[1] + found[2]
        number, time = submission.order
        return (_number(self.folder.name), digits) >= (number, re.sub(r"\D", "", time)[: len(digits)])


@dataclass(frozen=True)
class Records:
    """Records of the submissions of an output folder, oldest first, and those that cannot be read."""

    submissions: tuple[Submission, ...]
    unreadable: tuple[Unreadable, ...]


def _number(token: str) -> int:
    """Which submission of its output folder it is; 0 for those of earlier versions, which count as older."""
    found = TOKEN.fullmatch(token)
    return int(found[3] or 0) if found else 0


def new_submission(launcher: str, out: Path, runs: Sequence[str], **about: Any) -> Submission:
    """Make the record of what is about to be handed to a scheduler, without writing it.

    Where locks work, nobody else makes one in the meantime: see `submitting`.

    Args:
        launcher: Name of the launcher.
        out: Output folder of the runs.
        runs: Names of their folders.
        about: The other fields of the record.
    """
    now = datetime.now(UTC)
    folder = out / "submissions"
    there = folder.iterdir() if folder.is_dir() else ()
    number = 1 + max((_number(path.name) for path in there), default=0)
    return Submission(
        token=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}-{number}",
        launcher=launcher,
        out=out.resolve(),
        runs=tuple(runs),
        time=now.isoformat(timespec="microseconds"),  # tells two apart of which one replaces the other
        host=socket.gethostname(),
        user=getpass.getuser(),
        **about,
    )


def read_submission(folder: Path) -> Submission:
    """Read a record.

    Raises:
        NoRecordError: If there is none.
        UserError: If it is damaged, or must not be read.
    """
    try:
        return Submission.model_validate(parse_json(read_file(folder / RECORD), RECORD))
    except (FileNotFoundError, NotADirectoryError):
        raise NoRecordError(
            f"This machine does not see the record {folder / RECORD}. If the machine that submitted the job does, "
            "their file system is slow or not shared. Give the command that places runs again."
        ) from None
    except OSError as error:
        raise UserError(_not_known(folder, error)) from None
    except ValueError as error:
        reason = f"{error.error_count()} wrong fields" if isinstance(error, ValidationError) else str(error)
        raise UserError(
            f"The record of a submission in {folder} is damaged: {reason}. Delete the folder, then give the same "
            "command again: it places the runs that still wait."
        ) from None


def _not_known(folder: Path, error: OSError) -> str:
    return f"What was submitted is not known: {error.strerror or error}. {how_to_read(folder)}"


def read_records(out: Path) -> Records:
    """Read every record of an output folder; one that cannot be read does not hold up the others."""
    folder = out / "submissions"
    found: list[Submission] = []
    unreadable: list[Unreadable] = []
    try:
        paths = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        paths = []
    except OSError as error:
        return Records((), (Unreadable(folder, _not_known(folder, error)),))
    for path in paths:
        try:
            found.append(read_submission(path))
        except NoRecordError:  # such as the folder of a launcher that keeps none
            continue
        except UserError as error:
            unreadable.append(Unreadable(path, str(error)))
    return Records(tuple(sorted(found, key=lambda submission: submission.order)), tuple(unreadable))


def read_submissions(out: Path) -> list[Submission]:
    """Read every record of an output folder that can be read, oldest first."""
    return list(read_records(out).submissions)


@contextmanager
def submitting(out: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Keep other launchers from submitting runs of an output folder for the length of the block.

    A file system without locks keeps nobody out: a run may be submitted twice then, but is never executed twice.

    Args:
        out: The output folder.
        on_wait: Called once if another launcher is submitting.

    Raises:
        RetryableError: If the folder cannot be written to.
    """
    lock = make_folder(out / "submissions") / LOCK
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive(lock, on_wait))
        except OSError as error:
            raise RetryableError(
                f"{lock} cannot be locked: {error.strerror or error}. Have its owner make it writable for you, or "
                "choose another folder with --out; nothing was submitted."
            ) from None
        yield


def is_submitting(out: Path) -> bool:
    """Whether some launcher is submitting runs of an output folder at this moment."""
    return is_held(out / "submissions" / LOCK)
