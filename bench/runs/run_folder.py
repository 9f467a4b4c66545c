"""The run folder: the only place where a run's state lives.

Files: `spec.json`, `metrics.jsonl`, `environment.json`, `log.txt` and `claim-N.json` for each attempt (see `claim.py`);
`status.json`, `checkpoint.pt` and `lock` while it is unfinished; `result.json`, `predictions.npz`, `examples.npz` and
`model.pt` afterwards; `cancel` where it is to be stopped, and `earlier-attempts` with what failed.
"""

import json
import os
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from augbench.bench.common.errors import RetryableError, UserError, shortened
from augbench.bench.common.files import (
    NotReadError,
    how_to_read,
    make_folder,
    read_file,
    read_json,
    write_json,
    write_text,
)
from augbench.bench.experiment.protocol import PROTOCOL_VERSION
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.registry.registry import NAME_PATTERN
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.claim import Ownership, claimed, is_alive, last_claim, unowned
from augbench.bench.runs.completeness import check_whole
from augbench.bench.runs.sound_status import sound_status

EARLIER = "earlier-attempts"  # folder within a run's, with a folder for what each retry has put aside
WRITTEN = (
    *("metrics.jsonl", "checkpoint.pt", "log.txt", "environment.json", "model.pt", "examples.npz", "predictions.npz"),
    "status.json",  # the last to be put aside: a run of which only a part is moved is still one that failed
)

NOT_READ = (
    "The run may be sound: ask the folder's owner to make it readable for you, or the administrator of the disk to "
    "find the fault. The other runs are not affected."
)


class RunState(StrEnum):
    """State of a run. Unknown is not failed."""

    PLANNED = "planned"
    SUBMITTED = "submitted"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    KILLED = "killed"
    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"
    NEVER_STARTED = "never started"
    UNKNOWN = "unknown"


RECORDED = [*(set(RunState) - {RunState.DONE, RunState.SUBMITTED, RunState.UNKNOWN})]
"""States that count where a status says so; the others are told from results, submissions and schedulers."""


class DamagedError(UserError):
    """A run folder that is truncated, foreign or of a newer protocol."""


class NotReadableError(DamagedError):
    """A run folder that the present user may not read."""


@dataclass(frozen=True)
class RunFolder:
    """Path of one run's folder and typed access to its files."""

    path: Path

    @property
    def metrics(self) -> Path:
        """One JSON line for each epoch."""
        return self.path / "metrics.jsonl"

    @property
    def predictions(self) -> Path:
        """Test labels and probabilities."""
        return self.path / "predictions.npz"

    @property
    def checkpoint(self) -> Path:
        """Everything that a resumed run needs."""
        return self.path / "checkpoint.pt"

    @property
    def model(self) -> Path:
        """Trained network and learned parameters of a finished run."""
        return self.path / "model.pt"

    @property
    def examples(self) -> Path:
        """Some training images as they are and as they were augmented in the end."""
        return self.path / "examples.npz"

    @property
    def log(self) -> Path:
        """What the run printed."""
        return self.path / "log.txt"

    def earlier_logs(self) -> list[Path]:
        """Logs of attempts that failed and were put aside, the oldest first."""
        return sorted(
            self.path.glob(f"{EARLIER}/*/log.txt"), key=lambda path: (len(path.parent.name), path.parent.name)
        )

    @property
    def cancel_request(self) -> Path:
        """File whose presence asks the owner to stop, and others not to begin."""
        return self.path / "cancel"

    def write_spec(self, spec: RunSpec) -> None:
        """Create the folder, with the specification in it from the first moment; leave it alone if it is there."""
        if self.path.exists():
            return
        unfinished = make_folder(self.path.with_name(f".{self.path.name}.{os.getpid()}"))
        try:
            content = {"identity": spec.identity, "spec": spec.model_dump(mode="json")}
            write_json(unfinished / "spec.json", content)
            unfinished.rename(self.path)
        except OSError as error:
            if not self.path.exists():  # else another launcher was faster
                raise RetryableError(f"{self.path} cannot be made: {error.strerror}.") from None
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def read_spec(self) -> RunSpec:
        """Read what the run is.

        Raises:
            NotReadableError: If it may not be read.
            DamagedError: If the file is missing, truncated, foreign, changed by hand or of a newer protocol version.
        """
        path = self.path / "spec.json"
        try:
            return parse_spec(lambda: read_json(path), self.path)
        except DamagedError:
            try:
                may_read = not path.exists() or os.access(path, os.R_OK)
            except PermissionError:  # of the folder
                may_read = False
            if may_read:
                raise
            raise NotReadableError(f"The other runs are not affected, but {how_to_read(self.path)}") from None

    def read_result(self) -> dict[str, Any] | None:
        """Read the result of a finished run, or None.

        Raises:
            DamagedError: If it is there but truncated or of another run.
        """
        path = self.path / "result.json"
        if not path.exists():
            return None
        try:
            result = read_json(path)
            if result["identity"] != self.read_spec().identity:
                raise ValueError("result.json belongs to another run")
            check_whole(self.path, result)
        except NotReadError as error:
            raise DamagedError(f"{self.path}: {error}. {NOT_READ}") from None
        except (ValueError, KeyError) as error:
            raise DamagedError(
                f"The result in {self.path} is damaged: {error}. Move the folder away or delete it, then give the "
                "same command again; the other runs are not affected."
            ) from None
        return result

    def read_status(self) -> dict[str, Any]:
        """Read the last status; empty if there is none. Values that no worker can have written are left out."""
        try:
            return sound_status(read_json(self.path / "status.json"))
        except ValueError:
            return {}

    def write_status(self, state: RunState, **details: Any) -> None:
        """Record a state with the time and, unless it is given, the process that writes it."""
        owner = {"host": socket.gethostname(), "pid": os.getpid()}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        status = {"owner": owner, **details, "state": state, "time": now}
        write_json(self.path / "status.json", status, durable=state is not RunState.RUNNING)

    def amend_status(self, state: RunState, **details: Any) -> None:
        """Record a state and its details, and keep the other fields of the last status."""
        kept = {key: value for key, value in self.read_status().items() if key not in ("state", "time")}
        self.write_status(state, **kept | details)

    def record_death(self, cause: Cause, reason: str) -> str:
        """Record, in place of a worker that has died, why a run has no result, unless that is known by now.

        Returns:
            Why it could not be recorded, such as a damaged folder; empty if it was.
        """
        try:
            state = self.state()
            if state is RunState.KILLED:
                self.amend_status(state, cause=cause, reason=reason)
            elif state not in (RunState.DONE, RunState.FAILED, RunState.RUNNING, RunState.CANCELLED):
                self.amend_status(RunState.NEVER_STARTED, cause=Cause.NEVER_STARTED, reason=reason)
        except UserError as error:
            return str(error)
        return ""

    def state(self) -> RunState:
        """Tell the state from the files: a run with a result is done, and one whose owner is gone was killed.

        Raises:
            DamagedError: If there is a result but it cannot be read.
        """
        if not self.path.exists():
            return RunState.PLANNED
        if self.read_result() is not None:
            return RunState.DONE
        recorded = self.read_status().get("state")
        if recorded not in RECORDED:  # of a later version, or by hand: as if nothing were recorded
            recorded = RunState.PLANNED
        if recorded == RunState.RUNNING:
            try:
                recorded = RunState.RUNNING if is_alive(self.path) else RunState.KILLED
            except OSError:
                recorded = RunState.UNKNOWN
        if recorded not in (RunState.RUNNING, RunState.FAILED) and self.cancel_request.exists():
            return RunState.CANCELLED
        return RunState(recorded)

    def claim(self) -> AbstractContextManager[Ownership]:
        """Own the run for the length of the block.

        Raises:
            BusyError: If another process owns it.
            RetryableError: If its folder cannot be written to.
        """
        return claimed(self.path)

    def request_cancel(self) -> None:
        """Ask the process that executes the run, now or later, to stop.

        Raises:
            RetryableError: If its folder cannot be written to.
        """
        write_text(self.cancel_request, "")

    def withdraw_cancel(self) -> None:
        """Let the run be executed again."""
        self.cancel_request.unlink(missing_ok=True)

    def write_metrics(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Record one row for each finished epoch."""
        write_text(self.metrics, "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))

    def read_metrics(self) -> list[dict[str, Any]]:
        """Read one row for each finished epoch.

        Raises:
            DamagedError: If a line is no complete JSON.
        """
        if not self.metrics.exists():
            return []
        try:
            return [json.loads(line) for line in read_file(self.metrics).splitlines()]
        except ValueError:
            raise DamagedError(
                f"{self.metrics} is truncated or foreign. Move the folder away or delete it, then run the suite again."
            ) from None

    def set_failure_aside(self) -> None:
        """Move the files of a failed run into `earlier-attempts`, so that it starts again; other runs stay as they are.

        Raises:
            BusyError: If another process owns the run.
        """
        with unowned(self.path):
            if self.state() is RunState.FAILED:
                self._set_attempts_aside()

    def set_attempts_aside(self) -> None:
        """Move the files of a run without a result into `earlier-attempts`, so that it starts again.

        Raises:
            BusyError: If another process owns the run.
        """
        with unowned(self.path):
            if self.read_result() is None:
                self._set_attempts_aside()

    def _set_attempts_aside(self) -> None:
        """Move what the run has written; files and folders of somebody else stay where they are."""
        last = last_claim(self.path)
        aside = make_folder(self.path / EARLIER / str(last.attempt if last is not None else 0))
        for old in aside.parent.glob("*/checkpoint.pt"):  # large; that of the last attempt is enough
            old.unlink()
        for name in WRITTEN:
            with suppress(FileNotFoundError):
                (self.path / name).replace(aside / name)
        self.withdraw_cancel()

    def delete_what_is_not_needed(self) -> None:
        """Delete what a run with a result no longer needs; its claims stay, as they count attempts; owner only."""
        for name in ("checkpoint.pt", "status.json", "lock"):
            (self.path / name).unlink(missing_ok=True)

    def clear_temporary_files(self) -> None:
        """Delete what a kill in the middle of a write has left; owner only."""
        for file in self.path.glob(".*.tmp"):
            file.unlink(missing_ok=True)


def parse_spec(content: Callable[[], Mapping[str, Any]], place: Path | str) -> RunSpec:
    """Parse a specification as `RunFolder.write_spec` has written it.

    Args:
        content: Reads it; may raise ValueError.
        place: Where it stands.

    Raises:
        DamagedError: If it is missing, truncated, foreign, changed by hand or of a newer protocol version.
    """
    try:
        read = content()
        if not isinstance(read["spec"]["protocol_version"], int):
            raise ValueError("its protocol version is no whole number")
        if read["spec"]["protocol_version"] > PROTOCOL_VERSION:
            raise DamagedError(newer(place, read["spec"]["protocol_version"]))
        spec = RunSpec.model_validate(read["spec"])
        if spec.identity != read["identity"]:
            raise ValueError("its identity does not belong to its specification")
        for component in spec.components.values():
            if not NAME_PATTERN.fullmatch(component.name):  # of somebody else: a name becomes part of paths and tables
                raise ValueError(f"{shortened(repr(component.name))} is no name that can be registered")
    except NotReadError as error:
        raise DamagedError(f"{place}: {error}. {NOT_READ}") from None
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        reason = f"{error.error_count()} wrong fields" if isinstance(error, ValidationError) else str(error)
        raise DamagedError(
            f"{place} is no complete run folder: {reason}. Move it away or delete it, then give the same command "
            "again; the other runs are not affected."
        ) from None
    return spec


def newer(path: Path | str, version: int) -> str:
    """Say that a folder was written under a newer protocol version."""
    return (
        f"{path} was written under protocol version {version}; this augbench knows versions up to "
        f"{PROTOCOL_VERSION}. Install a newer augbench (`pip install --upgrade augbench`) or choose another folder."
    )
