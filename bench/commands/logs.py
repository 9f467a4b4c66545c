"""`augbench logs`: what a run and its job have printed, and why the run has no result."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.interrupts import INTERRUPTED
from augbench.bench.commands.options import DEFAULT_OUT, RUN_HELP, Out
from augbench.bench.common.errors import UserError
from augbench.bench.common.plain_text import safe
from augbench.bench.runs.failures import WITHOUT_RESULT, job_log
from augbench.bench.runs.output_folder import run_folders
from augbench.bench.runs.overview import RecentStates
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.run_names import run_named
from augbench.bench.runs.run_states import RunStatus

SECONDS_BETWEEN_LOOKS = 1.0
ENDED = (RunState.DONE, *WITHOUT_RESULT)


@dataclass
class Tail:
    """A file that grows, or is not there yet.

    Attributes:
        path: The file.
        read: Bytes read so far.
    """

    path: Path
    read: int = 0

    def more(self) -> str:
        """Read the whole lines written since the last call."""
        try:
            with self.path.open("rb") as file:
                if file.seek(0, 2) < self.read:  # the run has started over
                    self.read = 0
                file.seek(self.read)
                content = file.read()
        except OSError:
            return ""
        whole = content[: content.rfind(b"\n") + 1] if self.read else content
        self.read += len(whole)
        return safe(whole.decode(errors="replace"))


def logs(
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP)],
    out: Out = DEFAULT_OUT,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show new lines until the run has ended.")] = False,
    lines: Annotated[int | None, typer.Option("--lines", "-n", help="Only the last lines of each log.")] = None,
) -> None:
    """Show what a run and its job have printed, and why the run has no result."""
    if lines is not None and lines < 0:
        raise UserError(f"--lines must be at least 0, not {lines}.")
    paths = {folder.path.name: folder.path for folder in run_folders(out)}
    folder = RunFolder(paths[run_named(run, list(paths))])
    root = folder.path.parent.parent
    states = RecentStates()
    known = states.now(root).of(folder)
    of_its_job = job_log(folder, known)
    tails = [Tail(folder.log), *([Tail(of_its_job)] if of_its_job is not None else [])]
    for path in folder.earlier_logs():
        typer.echo(safe(f"── an earlier attempt: {path}"))
    shown = ""
    for tail in tails:
        text = _last(tail.more(), lines)
        shown += text
        _say(f"── {tail.path}", text or ("(empty)" if tail.path.exists() else "(not there)"))
    try:
        while follow and known.state not in ENDED:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            known = states.now(root).of(folder)
            text = "".join(tail.more() for tail in tails)
            typer.echo(text, nl=False)
            shown += text
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    _say_state(folder, known, shown)


def _last(text: str, lines: int | None) -> str:
    if lines is None:
        return text
    every = text.splitlines(keepends=True)
    return "".join(every[max(0, len(every) - lines) :])


def _say(heading: str, text: str) -> None:
    typer.echo(safe(heading))
    typer.echo(text.rstrip("\n"))


def _say_state(folder: RunFolder, known: RunStatus, shown: str) -> None:
    """Print the run's state, and its traceback unless the log has it already."""
    trace = safe(str(folder.read_status().get("traceback", ""))).strip() if known.state is RunState.FAILED else ""
    if trace and trace not in shown:
        _say("── traceback", trace)
    typer.echo(f"── {known.state}" + (f": {safe(known.reason)}" if known.reason else ""))
