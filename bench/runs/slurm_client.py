"""Slurm's own commands."""

import os
import subprocess
from collections.abc import Sequence

from augbench.bench.common.errors import UserError, shortened

SECONDS_TO_ANSWER = 60
# Variables with which a user, or a surrounding job, has Slurm's commands show or cancel some jobs and nodes only
FILTERS = ("SINFO_", "SQUEUE_", "SACCT_", "SCANCEL_", "SLURM_CLUSTERS")


class SlurmError(UserError):
    """A command of Slurm is not there, was refused, or got no answer."""


def slurm(command: Sequence[str], clusters: str = "") -> str:
    """Give a command of Slurm and return what it prints, whatever defaults a user has for it.

    Args:
        command: The command and its arguments.
        clusters: Names of the clusters that it is about, with commas; empty for the one of this machine.

    Raises:
        SlurmError: If it is not installed, fails, or gets no answer in time.
    """
    command = [command[0], f"--clusters={clusters}", *command[1:]] if clusters else command
    try:
        ended = subprocess.run(  # noqa: S603
            command, env=_environment(), capture_output=True, text=True, timeout=SECONDS_TO_ANSWER, check=True
        )
    except FileNotFoundError:
        raise SlurmError(
            f"There is no command `{command[0]}` here: this machine belongs to no Slurm cluster. Give the command on a "
            "login node, or choose another launcher: `augbench list launchers`."
        ) from None
    except subprocess.TimeoutExpired:
        raise SlurmError(
            f"Slurm gave no answer to `{command[0]}` within {SECONDS_TO_ANSWER} s; its controller may be down (`sinfo` "
            "shows). Jobs that run go on; try the same command again later."
        ) from None
    except subprocess.CalledProcessError as error:
        words = " ".join(error.stderr.split()) or f"exit status {error.returncode}"
        raise SlurmError(f"Slurm's `{command[0]}` failed: {words}") from None
    return ended.stdout


def read_rows(command: Sequence[str], columns: int, clusters: str = "") -> list[list[str]]:
    """Give a command that prints rows of columns between `|`; lines without any, such as a site's news, are no rows.

    Raises:
        SlurmError: If it fails, or prints a row with another number of columns.
    """
    rows = [line.split("|") for line in slurm(command, clusters).splitlines() if "|" in line]
    for row in rows:
        if len(row) != columns:
            raise SlurmError(
                f"Slurm's `{command[0]}` printed a line that cannot be understood: {shortened('|'.join(row))!r}. "
                "Perhaps another program has its name here."
            )
    return rows


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(FILTERS)}
