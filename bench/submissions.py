"""What was handed to a scheduler: a record for each job array, in `OUT/submissions/`.

It is written before the scheduler is asked, and again with the ids of the jobs. So what was asked for is known
even if the launcher dies in between, by the name that the jobs have in the queue.
"""

import getpass
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from augbench.bench.errors import CannotGoOnError, UserError
from augbench.bench.files import make_folder, read_json, write_json
from augbench.bench.locks import exclusive, is_held

RECORD = "submission.json"
LOCK = ".lock"
PREFIX = "augbench-"


class Submission(BaseModel):
    """One job array, or one job.

    Attributes:
        token: Its name here.
        launcher: Name of the launcher.
        out: Output folder of the runs.
        runs: Names of the run folders; the place of each is its number in the array.
        job: Id of the array; None until it is known, or if there is none.
        error: Why there is none.
        resources: What each job was given.
        arguments: What a job needs to know besides: device, data, plug-ins and settings.
        code: Which code is to run, as in `code_state.py`.
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
    job: str | None = None
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

    def job_of(self, index: int) -> str | None:
        """Id of the job of a run, as the scheduler's commands take it."""
        if self.job is None:
            return None
        return f"{self.job}_{index}" if len(self.runs) > 1 else self.job

    def log_of(self, index: int) -> Path:
        """What the job of a run prints, every attempt of it one after the other; may be missing."""
        return self.folder / "jobs" / f"{self.job_of(index)}_0_log.out"

    def write(self) -> None:
        """Write the record.

        Raises:
            CannotGoOnError: If it cannot be written.
        """
        write_json(make_folder(self.folder) / RECORD, self.model_dump(mode="json"))


def new_submission(
    launcher: str,
    out: Path,
    runs: Sequence[str],
    *,
    resources: Mapping[str, Any],
    arguments: Mapping[str, Any],
    code: Mapping[str, Any],
    command: str,
) -> Submission:
    """Make the record of what is about to be handed to a scheduler; it is not written yet."""
    now = datetime.now(UTC)
    return Submission(
        token=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}",
        launcher=launcher,
        out=out.resolve(),
        runs=tuple(runs),
        resources=dict(resources),
        arguments=dict(arguments),
        code=dict(code),
        command=command,
        time=now.isoformat(timespec="microseconds"),  # tells two apart of which one replaces the other
        host=socket.gethostname(),
        user=getpass.getuser(),
    )


def read_submission(folder: Path) -> Submission:
    """Read a record.

    Raises:
        UserError: If it is missing or damaged.
    """
    try:
        return Submission.model_validate(read_json(folder / RECORD))
    except (ValueError, ValidationError) as error:
        reason = f"{error.error_count()} wrong fields" if isinstance(error, ValidationError) else str(error)
        raise UserError(
            f"The record of a submission in {folder} is damaged: {reason}. Delete the folder; runs that were submitted "
            "with it and still wait are then placed again by the same command."
        ) from None


def read_submissions(out: Path) -> list[Submission]:
    """Read every record of an output folder, oldest first.

    Raises:
        UserError: If one is damaged.
    """
    folder = out / "submissions"
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [read_submission(path) for path in paths if (path / RECORD).is_file()]
    return sorted(found, key=lambda submission: submission.time)


@contextmanager
def submitting(out: Path) -> Iterator[None]:
    """Keep other launchers from submitting runs of an output folder for the length of the block.

    On a file system without locks nobody is kept out: a run may be submitted twice then, but never executed twice.

    Raises:
        CannotGoOnError: If the folder cannot be written to.
    """
    lock = make_folder(out / "submissions") / LOCK
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive(lock, lambda: None))
        except OSError as error:
            raise CannotGoOnError(
                f"{lock} cannot be locked: {error.strerror or error}. Have its owner make it writable for you, or "
                "choose another folder with --out; nothing was submitted."
            ) from None
        yield


def is_submitting(out: Path) -> bool:
    """Whether some launcher is submitting runs of an output folder at this moment."""
    return is_held(out / "submissions" / LOCK)
