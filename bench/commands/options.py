"""Options that several commands have."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.plain import tell_notes
from augbench.bench.common.errors import UserError
from augbench.bench.common.user_input import user_path
from augbench.bench.launchers.launcher import LaunchRequest
from augbench.bench.planning.profile import PROFILE_VARIABLE, Profile, load_profile
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.training.process_memory import usable_memory
from augbench.bench.training.provenance import available_devices, usable_cores

MOST_DEFAULT_WORKERS = 4
MOST_WORKERS = 4096  # as in profiles
MEMORY_OF_A_WORKER = 0.9e9  # bytes, most of it torch itself, the launcher's share included
DEFAULT_OUT = Path("augbench-runs")
DEFAULT_DATA = Path("~/.cache/augbench")
RUN_HELP = "Name of a run's folder, the start of that name, or the start of the digits at its end."

Workers = Annotated[int | None, typer.Option(help="Runs at the same time. Default: one per GPU or CPU core, up to 4.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
LaunchDevice = Annotated[
    str | None, typer.Option("--device", help="auto, cpu, cuda or cuda:N. Default: the profile's, else auto.")
]
Out = Annotated[Path, typer.Option(help="Output folder; runs go to OUT/runs.")]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        envvar=PROFILE_VARIABLE,
        help="How to place runs on your machines: a name (see `augbench list profiles`) or a .toml file.",
    ),
]
LauncherName = Annotated[
    str | None, typer.Option("--launcher", help="Replaces the profile's launcher; see `augbench list launchers`.")
]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Stop all runs when the first one fails.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Start without asking, whatever the cost.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be placed where, and do nothing.")]
AllowChangedCode = Annotated[
    bool, typer.Option("--allow-changed-code", help="Let queued runs start even if the code has changed by then.")
]
Data = Annotated[Path, typer.Option(envvar="AUGBENCH_DATA", help="Folder of prepared data sets.")]
SuiteName = Annotated[str, typer.Argument(help="Name of a built-in suite, a .toml file, or - for standard input.")]
BudgetLevel = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="LEVEL",
        help="paper, quick, fast or smoke, for the paper's suites; see `augbench list budgets`.",
    ),
]
Share = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="K/N",
        help="Only the K-th of N shares, one for each of N machines: whole methods on data sets, with all seeds and "
        "trials. Other commands put the shares together with --from for each folder.",
    ),
]
RetryFailed = Annotated[
    bool,
    typer.Option("--retry-failed", help="Start failed runs again; their old files move to `earlier-attempts`."),
]
Have = Annotated[
    list[Path] | None,
    typer.Option(
        "--have",
        help="File that `augbench archive` wrote, or an output folder: its runs of the suite count as done. Can be "
        "repeated.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True)
class LaunchOptions:
    """Options of every command that places runs; what they leave out is the profile's."""

    profile: ProfileName = None
    launcher: LauncherName = None
    workers: Workers = None
    device: LaunchDevice = None
    data: Data = DEFAULT_DATA
    fail_fast: FailFast = False
    yes: Yes = False
    dry_run: DryRun = False
    allow_changed_code: AllowChangedCode = False

    def request(self, out: Path, *, from_scratch: bool = False, profile: Profile | None = None) -> LaunchRequest:
        """Say what a launcher is to do with runs in `out`; `profile` is the one that is named, if it was read before.

        Raises:
            UserError: If the profile is wrong, the device does not exist here or the number of workers is not positive.
        """
        profile = profile or load_profile(self.profile)
        tell_notes(profile.slurm.notes())
        if self.launcher is not None:
            profile = profile.model_copy(update={"launcher": self.launcher})
        placed = self._execution_settings(profile)
        return LaunchRequest(out, placed, profile, self.fail_fast, self.allow_changed_code, from_scratch)

    def _execution_settings(self, profile: Profile) -> ExecutionSettings:
        threads = profile.resources.threads
        if profile.launcher != "local":  # other machines may have other devices
            return ExecutionSettings(self.device or "auto", 1, threads, data_folder(self.data))
        workers = self.workers if self.workers is not None else profile.local.workers
        device = self.device or profile.local.device
        if workers is not None and not 1 <= workers <= MOST_WORKERS:
            raise UserError(f"--workers must be at least 1 and at most {MOST_WORKERS}, not {workers}.")
        devices = available_devices(device)
        most = usable_cores() // threads if devices == ["cpu"] else len(devices)
        count = workers or max(1, min(most, MOST_DEFAULT_WORKERS, int(usable_memory() / MEMORY_OF_A_WORKER)))
        return ExecutionSettings(device, count, threads, data_folder(self.data))


def where(out: Path) -> tuple[str, ...]:
    """Return the option for an output folder and its value; nothing for the default folder."""
    return () if out == DEFAULT_OUT else ("--out", str(out))


def data_folder(data: Path) -> Path:
    """Return the folder of data sets, which need not exist.

    Raises:
        UserError: If it is a file, or the home directory that it names does not exist.
    """
    folder = user_path(data, "--data")
    try:
        is_file = folder.exists() and not folder.is_dir()
    except OSError as error:
        raise UserError(f"--data {data} is no folder: {error.strerror or error}.") from None
    if is_file:
        raise UserError(f"--data {data} is a file. Give the folder that holds, or will hold, the data sets.")
    return folder
