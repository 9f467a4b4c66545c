"""Why runs have no result: causes that call for different answers, and runs grouped by them."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from augbench.bench.common.errors import shortened
from augbench.bench.common.files import read_json
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.run_folder import RunFolder, RunState

if TYPE_CHECKING:
    from augbench.bench.runs.run_states import RunStatus


WITHOUT_RESULT = (
    RunState.FAILED,
    RunState.KILLED,
    RunState.TIMED_OUT,
    RunState.CANCELLED,
    RunState.NEVER_STARTED,
)
"""States in which a run has ended without a result."""
NOTHING_EXECUTED = (RunState.NEVER_STARTED, RunState.CANCELLED)
"""States that a run may have got into since it was submitted last without anything being recorded."""

MEANING = {
    Cause.EXCEPTION: "The code of the run raised an error.",
    Cause.OUT_OF_MEMORY: "The run needed more memory than its device, job or machine had left.",
    Cause.NOT_FINITE: "The loss or a learned number became infinite or not a number.",
    Cause.KILLED: "The process ended before the run did; what was saved is kept.",
    Cause.UNFIT_MACHINE: "The machine lacked what the run needs, such as a GPU or a data set; nothing was lost.",
    Cause.TIMED_OUT: "The time limit ended it; what was saved is kept.",
    Cause.CANCELLED: "Somebody stopped it; what was saved is kept.",
    Cause.STOPPED_EARLY: "A trial of `augbench tune` that asha stopped, since other values did better.",
    Cause.NEVER_STARTED: "It was placed, but never executed.",
    Cause.OTHER_CODE: "The code had changed since it was submitted, so it was not executed.",
}

WHAT_HELPS = {
    Cause.EXCEPTION: "Correct the code or the settings; the traceback is in `augbench logs RUN`.",
    Cause.OUT_OF_MEMORY: "Ask for more memory (memory_gb in the profile), have fewer runs at a time on one device "
    "(--workers, max_parallel or a larger share of the GPU), or choose a smaller batch or fewer copies in the suite.",
    Cause.NOT_FINITE: "Lower the learning rate of the budget or of the method in the suite: the same run with the "
    "same seed is likely to end the same way.",
    Cause.KILLED: "Usually it is enough to resume. If it happens again, use fewer runs at a time or more memory.",
    Cause.UNFIT_MACHINE: "Repair the machine that is named, or keep runs off it (`exclude` in [slurm] options of the "
    "profile), then resume.",
    Cause.TIMED_OUT: "Give it more time (`time` in the profile), then resume.",
    Cause.CANCELLED: "Nothing is wrong; resume whenever you like.",
    Cause.STOPPED_EARLY: "Nothing is wrong, and the tuning needs no more of it.",
    Cause.NEVER_STARTED: "Correct what the scheduler said, usually in the profile, then place it again.",
    Cause.OTHER_CODE: "Place it again to run it with the present code, or go back to the submitted code first; "
    "--allow-changed-code lets runs that wait use whatever code is there.",
}

# What differs between two failures of one sort: addresses, paths, numbers
VARYING = (
    (re.compile(r"0x[0-9a-fA-F]+"), "…"),
    (re.compile(r"(?:/[^\s/:,;'\"()]+)+/?"), "…"),
    (re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"), "…"),
)
WITHOUT_WORDS = (Cause.KILLED, Cause.NEVER_STARTED)
"""Causes that a job's log may tell more of."""
LONGEST_END = 20_000  # bytes at the end of a job's log that are looked at
# Lines of submitit and of Slurm that end every job that did not complete
SAYS_NOTHING = re.compile(r"^submitit (INFO|WARNING)|^srun: error: .*: Exited with exit code|^SystemExit: |^Traceback ")
RAISED = re.compile(r"[\w.]*(Error|Exception)\b.*: ")
PLACING_OPTIONS = ("--plugin", "--profile", "--launcher", "--device", "--data")


@dataclass(frozen=True)
class Failure:
    """A run that has ended without a result.

    Attributes:
        folder: Its folder.
        state: Its state.
        cause: Why.
        reason: Why, in words.
        exception: Name of the exception's class; empty if there was none.
        host: Where it was executed last; empty if nowhere.
        device: On what; empty if that is not known.
        phase: What it did last.
        step: Training steps done; None if it did not get so far.
        steps: Training steps in all.
        time: When, as recorded; empty if that is not known.
        job: Id of its last job.
        command: The command that had it placed; empty if that is not known.
        logs: What it, and its last job, have printed, where there is any.
        last_words: The last line of the job's log that says something, where nothing was recorded of the end; may be
            empty.
    """

    folder: RunFolder
    state: RunState
    cause: Cause
    reason: str
    exception: str
    host: str
    device: str
    phase: str
    step: int | None
    steps: int | None
    time: str
    job: str
    command: str
    logs: tuple[Path, ...]
    last_words: str

    def sort(self) -> tuple[Cause, str, str]:
        """What it has in common with failures of the same sort; of exceptions their class and, roughly, their text."""
        if self.cause is not Cause.EXCEPTION:
            return self.cause, "", ""
        return self.cause, self.exception, without_what_varies(self.reason)


@dataclass(frozen=True)
class FailureGroup:
    """Failures of one cause, the newest first; exceptions are grouped by class (empty for other causes) and text."""

    cause: Cause
    exception: str
    failures: tuple[Failure, ...]

    def reasons(self) -> list[tuple[str, int]]:
        """What was said, the most frequent first, with how often."""
        return counted_alike([failure.reason for failure in self.failures])


def counted_alike(texts: Iterable[str]) -> list[tuple[str, int]]:
    """Count texts, the most frequent first; those that differ in numbers, paths and addresses only count as one."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for text in texts:
        roughly = without_what_varies(text)
        counts[roughly] += 1
        first.setdefault(roughly, text)
    return [(first[roughly], count) for roughly, count in counts.most_common()]


def failure_of(folder: RunFolder, observed: "RunStatus") -> Failure:
    """Collect what is recorded of a run that has ended without a result."""
    status, submission = folder.read_status(), observed.submission
    if submission is not None and observed.state in NOTHING_EXECUTED and str(status.get("time", "")) < submission.time:
        status = {}  # of an earlier attempt
    step, steps, command = status.get("step"), status.get("steps"), ""
    of_its_job = job_log(folder, observed)
    if submission is not None:
        command = submission.command
    else:
        with suppress(ValueError, LookupError, TypeError):
            command = str(read_json(folder.path / "environment.json")["attempts"][-1]["command"])
    return Failure(
        folder=folder,
        state=observed.state,
        cause=observed.cause or Cause.KILLED,
        reason=observed.reason,
        exception=str(status.get("exception", "")),
        host=str(status.get("host") or status.get("owner", {}).get("host") or observed.nodes),
        device=str(status.get("device", "")),
        phase=str(status.get("phase", "")),
        step=step if isinstance(step, int) else None,
        steps=steps if isinstance(steps, int) else None,
        time=str(status.get("time") or (submission.time if submission is not None else "")),
        job=str(observed.job or ""),
        command=command,
        logs=tuple(log for log in (folder.log, of_its_job) if log is not None and log.exists()),
        last_words=last_words(of_its_job) if of_its_job is not None and observed.cause in WITHOUT_WORDS else "",
    )


def last_words(log: Path) -> str:
    """Read the last line of a job's log that says why the job ended; empty if there is none.

    Our own lines with `Error: ` tell most, then the last line of a traceback, such as of a full disk.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - LONGEST_END))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    telling = [line.strip() for line in lines if line.strip() and not SAYS_NOTHING.search(line)]
    errors = [line for line in telling if line.startswith("Error: ")]
    raised = [line for line in telling if RAISED.match(line)]
    return shortened(next((found[-1] for found in (errors, raised, telling) if found), ""))


def job_log(folder: RunFolder, observed: "RunStatus") -> Path | None:
    """Tell where the last job of a run prints to; the file may be missing. None if there is no such job."""
    submission = observed.submission
    if submission is None or submission.job is None:
        return None
    return submission.log_of(submission.runs.index(folder.path.name))


def group_failures(failures: Iterable[Failure]) -> list[FailureGroup]:
    """Put failures of one sort together, the group with the newest one first."""
    groups: dict[tuple[Cause, str, str], list[Failure]] = {}
    for failure in sorted(failures, key=lambda failure: failure.time, reverse=True):
        groups.setdefault(failure.sort(), []).append(failure)
    return [FailureGroup(sort[0], sort[1], tuple(members)) for sort, members in groups.items()]


def without_what_varies(text: str) -> str:
    """Replace addresses, paths and numbers in a message, which differ between two of one sort."""
    for pattern, instead in VARYING:
        text = pattern.sub(instead, text)
    return text


def placing_options(command: str) -> list[str]:
    """Take the options that place runs from a command such as `augbench run demo --profile lab`, as words."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    kept: list[str] = []
    for word, following in zip_longest(words, words[1:]):
        if word in PLACING_OPTIONS and following is not None:
            kept += [word, following]
        elif word.partition("=")[0] in PLACING_OPTIONS and "=" in word:
            kept.append(word)
    return kept


def failure_as_json(failure: Failure) -> Mapping[str, Any]:
    """Everything about a failure, for JSON."""
    status = failure.folder.read_status()
    return {
        "run": failure.folder.path.name,
        "state": failure.state,
        "reason": failure.reason,
        "exception": failure.exception or None,
        "traceback": status.get("traceback"),
        "host": failure.host or None,
        "device": failure.device or None,
        "phase": failure.phase or None,
        "step": failure.step,
        "steps": failure.steps,
        "epoch": status.get("epoch"),
        "time": failure.time or None,
        "job": failure.job or None,
        "logs": list(map(str, failure.logs)),
        "last_words": failure.last_words or None,
        "command": failure.command or None,
    }
