"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

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

Workers = Annotated[
    int | None, typer.Option(help="Runs at the same time. Default: one for each GPU or CPU core, up to 4.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
LaunchDevice = Annotated[
    str | None, typer.Option("--device", help="auto, cpu, cuda or cuda:N. Default: auto, or what the profile says.")
]
Out = Annotated[Path, typer.Option(help="Output folder; runs go to OUT/runs.")]
DEFAULT_OUT = Path("augbench-runs")
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        envvar=PROFILE_VARIABLE,
        help="How runs are placed on your machines: a name (`augbench list profiles`) or the path of a .toml file.",
    ),
]
LauncherName = Annotated[
    str | None, typer.Option("--launcher", help="In place of the profile's: see `augbench list launchers`.")
]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Stop all runs when the first one fails.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, whatever it costs.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be placed where, and do nothing.")]
AllowChangedCode = Annotated[
    bool, typer.Option("--allow-changed-code", help="Let runs that wait in a queue take whatever code is there then.")
]
Data = Annotated[
    Path, typer.Option(envvar="AUGBENCH_DATA", help="Folder of data sets that do not come with the package.")
]
SuiteName = Annotated[
    str, typer.Argument(help="Name of a built-in suite, path of a .toml file, or - for standard input.")
]
BudgetLevel = Annotated[
    str | None,
    typer.Option(
        "--budget", metavar="LEVEL", help="paper, quick or smoke, for suites of the paper: see `augbench list budgets`."
    ),
]
RetryFailed = Annotated[
    bool,
    typer.Option(
        "--retry-failed", help="Start failed runs again from the beginning; what failed is kept in `earlier-attempts`."
    ),
]

DEFAULT_DATA = Path("~/.cache/augbench")


def where(out: Path) -> tuple[str, ...]:
    """Name the option for an output folder and its value; nothing where it can be left out."""
    return () if out == DEFAULT_OUT else ("--out", str(out))


def make_request(
    out: Path,
    profile: str | None = None,
    *,
    launcher: str | None = None,
    workers: int | None = None,
    device: str | None = None,
    data: Path = DEFAULT_DATA,
    fail_fast: bool = False,
    allow_changed_code: bool = False,
    from_scratch: bool = False,
) -> LaunchRequest:
    """Turn options into a request; what is given on the command line replaces what the profile says.

    Raises:
        UserError: If the profile is wrong, the device does not exist here or the number of workers is not positive.
    """
    chosen = load_profile(profile)
    for note in chosen.slurm.notes():
        typer.echo(f"Note: {note}", err=True)
    if launcher is not None:
        chosen = chosen.model_copy(update={"launcher": launcher})
    placed = execution_settings(chosen, workers, device, data)
    return LaunchRequest(out, placed, chosen, fail_fast, allow_changed_code, from_scratch)


def execution_settings(profile: Profile, workers: int | None, device: str | None, data: Path) -> ExecutionSettings:
    """Say where each run is executed.

    Raises:
        UserError: If the device does not exist here or the number of workers is not positive.
    """
    threads = profile.resources.threads
    if profile.launcher != "local":  # other machines may have other devices
        return ExecutionSettings(device or "auto", 1, threads, data_folder(data))
    workers = workers if workers is not None else profile.local.workers
    device = device or profile.local.device
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise UserError(f"--workers must be at least 1 and at most {MOST_WORKERS}, not {workers}.")
    devices = available_devices(device)
    most = usable_cores() // threads if devices == ["cpu"] else len(devices)
    count = workers or max(1, min(most, MOST_DEFAULT_WORKERS, int(usable_memory() / MEMORY_OF_A_WORKER)))
    return ExecutionSettings(device, count, threads, data_folder(data))


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
        raise UserError(f"--data {data} is a file. Give the folder that data sets are in or are to be prepared in.")
    return folder
