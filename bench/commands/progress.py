"""Progress bars of a launch, drawn from the status files of its runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, TaskID

from augbench.bench.commands.plain import print_line
from augbench.bench.commands.screen import is_screen, progress_bars
from augbench.bench.launchers.launcher import Activity
from augbench.bench.runs.run_folder import RunFolder


class LaunchProgress:
    """One bar for all runs and one for each run that is being executed."""

    def __init__(self, console: Console, progress: Progress, total: int) -> None:
        self.console = console
        self.progress = progress
        self.total = total
        self.overall = progress.add_task("runs", total=total)
        self.bars: dict[RunFolder, TaskID] = {}
        self.reported = 0
        self.noted = 0

    def show(self, activity: Activity) -> None:
        """Draw what a launcher is doing; called a few times a second."""
        for run in [run for run in self.bars if run not in activity.running]:
            self.progress.remove_task(self.bars.pop(run))
        for run in activity.running:
            self._show_run(run)
        self.progress.update(self.overall, completed=len(activity.ended))
        for note in activity.notes[self.noted :]:
            self.noted += 1
            print_line(self.console, note)
        if not is_screen(self.console):
            for run in activity.ended[self.reported :]:
                self.reported += 1
                state = "done" if (run.path / "result.json").exists() else run.read_status().get("state", "not begun")
                print_line(self.console, f"[{self.reported}/{self.total}] {run.path.name}: {state}")

    def _show_run(self, run: RunFolder) -> None:
        status = run.read_status()
        if run not in self.bars:
            self.bars[run] = self.progress.add_task(run.path.name[:-8], total=None)  # 4 digits of the identity
        if "steps" in status:
            self.progress.update(self.bars[run], total=status["steps"], completed=status["step"])


@contextmanager
def launch_progress(console: Console, total: int) -> Iterator[LaunchProgress]:
    """Show progress bars for the length of the block."""
    with progress_bars(console) as progress:
        yield LaunchProgress(console, progress, total)
