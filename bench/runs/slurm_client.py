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
    """Run a command of Slurm without the user's defaults for it, and return what it prints.

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
            "shows). Running jobs continue; try the same command again later."
        ) from None
    except subprocess.CalledProcessError as error:
        words = " ".join(error.stderr.split()) or f"exit status {error.returncode}"
        raise SlurmError(f"Slurm's `{command[0]}` failed: {words}") from None
    return ended.stdout


def read_rows(command: Sequence[str], columns: int, clusters: str = "") -> list[list[str]]:
    """Run a command that prints rows with `|` between columns; other lines, such as a site's news, are passed over.

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


def configured(name: str, clusters: str = "") -> str:
    """Read a setting of a cluster; empty if it has none.

    Raises:
        SlurmError: If Slurm does not answer.
    """
    for line in slurm(["scontrol", "show", "config"], clusters).splitlines():
        key, _, value = line.partition("=")
        if key.strip() == name:
            return value.strip()
    return ""


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(FILTERS)}
