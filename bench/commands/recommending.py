"""`augbench recommend`: from images to advice."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.interrupts import INTERRUPTED
from augbench.bench.commands.options import DEFAULT_DATA, Data, LaunchDevice, LaunchOptions, RetryFailed, Workers
from augbench.bench.commands.own_options import OwnOptions
from augbench.bench.common.errors import UserError

SHORTEST, LONGEST = 1, 10_000  # minutes


def recommend(
    path: Annotated[Path, typer.Argument(help="Folder of images, a folder for each class; .npz file; or table.")],
    minutes: Annotated[float, typer.Option(help="How long everything may take, about.")] = 10.0,
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("augbench-recommendation"),
    network: Annotated[
        str | None, typer.Option(help="Network to train. Default: one that is small enough for CPUs.")
    ] = None,
    workers: Workers = None,
    device: LaunchDevice = None,
    data: Data = DEFAULT_DATA,
    retry_failed: RetryFailed = False,
    *,
    own: OwnOptions,
) -> None:
    """Say which augmentation to use for images of your own: prepare them, compare five learners, weigh the results.

    After an interruption the same command resumes, with the same budget.
    """
    from augbench.bench.commands.recommended import Request, run_recommendation

    started = time.monotonic()
    if not SHORTEST <= minutes <= LONGEST:
        raise UserError(f"--minutes must be at least {SHORTEST} and at most {LONGEST}, not {minutes:g}.")
    launch = LaunchOptions(launcher="local", workers=workers, device=device, data=data, yes=True).request(out)
    try:
        run_recommendation(Request(path, minutes, network, launch, retry_failed, started, own, tuple(sys.argv[1:])))
    except KeyboardInterrupt:
        typer.echo("Stopped. The same command continues from here.")
        raise typer.Exit(INTERRUPTED) from None
