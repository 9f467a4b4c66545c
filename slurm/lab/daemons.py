"""Starting the daemons of a lab."""

import os
import subprocess
import tempfile

from augbench.bench.common.errors import UserError
from augbench.slurm.lab.configuration import Layout, program

OF_A_JOB = ("SLURM", "SBATCH", "SRUN", "SALLOC")  # what a surrounding job puts into its environment begins so


def variables(layout: Layout) -> dict[str, str]:
    """Environment of whatever belongs to a lab: that of this process, less what a surrounding job has put into it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OF_A_JOB)}
    return kept | {"SLURM_CONF": str(layout.configuration)}


def start_daemon(layout: Layout, *words: str) -> None:
    """Start a daemon, which goes on by itself.

    Args:
        layout: Where the lab lies.
        words: The program and its arguments.

    Raises:
        UserError: If it does not start; with what it says.
    """
    with tempfile.TemporaryFile() as said:  # not a pipe, which the daemon would hold open
        done = subprocess.run(  # noqa: S603
            [program(words[0]), *words[1:]],
            env=variables(layout),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            check=False,
        )
        said.seek(0)
        text = said.read().decode(errors="replace").strip()
    if done.returncode:
        raise UserError(f"{words[0]} could not be started: {text} More stands in {layout.folder / 'log'}.")


def start_munge(layout: Layout) -> None:
    """Start munge, by which the daemons and commands of a lab know each other.

    Raises:
        UserError: If it does not start.
    """
    place = layout.munge
    files = [f"--key-file={place / 'munge.key'}", f"--socket={place / 'munge.socket'}"]
    files += [f"--pid-file={place / 'munged.pid'}", f"--seed-file={place / 'munged.seed'}"]
    start_daemon(layout, "munged", "--force", *files, f"--log-file={layout.log('munged')}")
