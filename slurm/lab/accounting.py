"""The database of a lab that has accounting: MariaDB, and slurmdbd in front of it."""

import socket
import subprocess
from collections.abc import Sequence

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import make_folder
from augbench.slurm.lab.configuration import Layout, program, user_name
from augbench.slurm.lab.daemons import start_daemon, variables
from augbench.slurm.lab.processes import wait_until

DAEMONS = ("slurmdbd", "mariadbd")  # in the order in which they are ended


def start_accounting(layout: Layout, base: int) -> None:
    """Start the database and what stands in front of it, and make the lab known to them.

    Args:
        layout: Where the lab lies.
        base: Number that its ports are counted from.

    Raises:
        UserError: If a daemon does not start.
    """
    _create_database(layout)
    _start_database(layout, base)
    _wait_for_port(layout, "mariadbd", base + 3)
    start_daemon(layout, "slurmdbd")
    _wait_for_port(layout, "slurmdbd", base + 2)
    # slurmctld has to be known before it starts, or no job of it is. It is from the last time, where there was one.
    _run([program("sacctmgr"), "--immediate", "add", "cluster", "lab"], layout)


def _create_database(layout: Layout) -> None:
    data = layout.database / "data"
    if (data / "mysql").is_dir():
        return
    make_folder(data)
    command = [program("mariadb-install-db"), "--no-defaults", f"--user={user_name()}", f"--datadir={data}"]
    _run([*command, "--auth-root-authentication-method=socket", "--skip-test-db"], layout)


def _start_database(layout: Layout, base: int) -> None:
    command = [
        *("setsid", "--fork", program("mariadbd"), "--no-defaults", f"--user={user_name()}"),
        *(f"--datadir={layout.database / 'data'}", f"--socket={layout.database / 'socket'}"),
        *(f"--pid-file={layout.database / 'pid'}", f"--init-file={layout.folder / 'etc' / 'database.sql'}"),
        *("--bind-address=127.0.0.1", f"--port={base + 3}", "--skip-name-resolve=0"),
        # what slurmdbd wants of a database, but small, and flushed to the disk once a second
        *("--innodb-buffer-pool-size=32M", "--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=0"),
    ]
    with layout.log("mariadbd").open("ab") as log:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)  # noqa: S603


def _run(command: Sequence[str], layout: Layout) -> None:
    with layout.log("accounting").open("ab") as log:
        subprocess.run(  # noqa: S603
            command, env=variables(layout), stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=60, check=False
        )


def _wait_for_port(layout: Layout, daemon: str, port: int) -> None:
    if not wait_until(lambda: _answers(port), 60):
        raise UserError(f"{daemon} has not started within a minute. Its log says why: {layout.log(daemon)}")


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
