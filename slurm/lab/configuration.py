"""The files that a lab's daemons read, and where everything of a lab lies."""

import os
import platform
import pwd
import secrets
import shutil
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import make_folder, write_text

# Characters of a folder: a socket lies below it, and the path of one is not longer than 107.
LONGEST_FOLDER = 60
# Character devices that stand in for GPUs. Nodes may share them, but one node needs different ones.
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
BLOCK = 200  # ports of one lab
PORT_BASES = range(20_000, 32_000, BLOCK)  # below the ports that a kernel gives out by itself
SLURM = ("munged", "slurmctld", "slurmd", "sinfo", "scontrol")
ACCOUNTING = ("slurmdbd", "mariadbd", "mariadb-install-db", "sacctmgr")
PACKAGES = {SLURM: "slurm-wlm munge", ACCOUNTING: "slurmdbd mariadb-server"}
SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/sbin")  # where daemons lie, often not on a user's PATH


@dataclass(frozen=True)
class Layout:
    """Where everything of a lab lies.

    Attributes:
        folder: Its folder.
    """

    folder: Path

    @property
    def configuration(self) -> Path:
        """The file that SLURM_CONF names."""
        return self.folder / "etc" / "slurm.conf"

    @property
    def munge(self) -> Path:
        """Folder of munge's key and socket."""
        return self.folder / "munge"

    @property
    def database(self) -> Path:
        """Folder of MariaDB's data and socket."""
        return self.folder / "database"

    def log(self, daemon: str) -> Path:
        """The log of a daemon; it has it open as long as it runs."""
        return self.folder / "log" / f"{daemon}.log"

    def node_log(self, node: str) -> Path:
        """The log of a node's slurmd, which those that look after its jobs share."""
        return self.log(f"slurmd.{node}")

    def nodes(self) -> list[str]:
        """Names of the nodes that have ever run."""
        return sorted(path.name.split(".")[1] for path in (self.folder / "log").glob("slurmd.*.log"))


@dataclass(frozen=True)
class Shape:
    """What a lab consists of.

    Attributes:
        nodes: Number of nodes, 1 to 50.
        cpus: Cores of a node.
        memory_mb: Memory of a node in MB.
        gpus: Devices of a node that pass for GPUs, 0 to 5.
        accounting: Whether there is a database, which `sacct` needs.
    """

    nodes: int = 4
    cpus: int = 2
    memory_mb: int = 4000
    gpus: int = 2
    accounting: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= 50:
            raise UserError(f"A lab cannot have {self.nodes} nodes. Choose 1 to 50 with --nodes.")
        if not 0 <= self.gpus <= len(DEVICES):
            raise UserError(f"A node cannot have {self.gpus} GPUs. Choose 0 to {len(DEVICES)} with --gpus.")

    @property
    def node_names(self) -> list[str]:
        """Names of the nodes."""
        return [f"node{number}" for number in range(1, self.nodes + 1)]


def program(name: str) -> str:
    """Find a program, also where daemons lie.

    Raises:
        UserError: If it is not installed.
    """
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS]))
    if found is None:
        packages = next((text for names, text in PACKAGES.items() if name in names), PACKAGES[SLURM])
        raise UserError(
            f"A Slurm of one's own needs the program {name!r}, which is not installed. On Debian or Ubuntu, "
            f"`apt-get install --no-install-recommends {packages}` as root brings it, then give the same command again."
        )
    return found


def check_programs(accounting: bool) -> None:
    """Make sure that all that a lab starts is installed.

    Raises:
        UserError: If something is not.
    """
    for name in (*SLURM, *ACCOUNTING) if accounting else SLURM:
        program(name)


def check_folder(folder: Path) -> None:
    """Make sure that a lab can be in a folder.

    Raises:
        UserError: If its path is too long.
    """
    if len(str(folder)) > LONGEST_FOLDER:
        raise UserError(
            f"The path {folder} is too long for a lab, which has sockets below it. Choose a folder whose path has at "
            f"most {LONGEST_FOLDER} characters, such as /tmp/lab."
        )


def port_base(shape: Shape, wanted: int | None) -> int:
    """Choose the number that all ports of a lab are counted from.

    Args:
        shape: What the lab consists of.
        wanted: The only choice; None for the first of many whose ports are free.

    Raises:
        UserError: If ports are in use.
    """
    start = os.getpid() % len(PORT_BASES)  # so that two who choose at once hardly meet
    choices = [*PORT_BASES[start:], *PORT_BASES[:start]] if wanted is None else [wanted]
    for base in choices:
        if not 1024 <= base <= 65_535 - BLOCK:
            raise UserError(f"--port-base {base} leaves no room. Choose 1024 to {65_535 - BLOCK}, or leave it out.")
        if all(_is_free(base + offset) for offset in (1, 2, 3, *range(11, 11 + shape.nodes))):
            return base
    where = f"above {wanted}" if wanted is not None else f"from {PORT_BASES.start} to {PORT_BASES.stop}"
    raise UserError(f"The ports {where} are in use. Choose others with --port-base, or end the lab that uses them.")


def _is_free(port: int) -> bool:
    with socket.socket() as test:
        test.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            test.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def user_name() -> str:
    """Name of the user whom all of a lab belongs to."""
    return pwd.getpwuid(os.getuid()).pw_name


def write_configuration(layout: Layout, shape: Shape, base: int) -> None:
    """Write all that the daemons read, and the folders that they write to.

    Args:
        layout: Where it goes.
        shape: What the lab consists of.
        base: Number that the ports are counted from.
    """
    for name in ("etc", "log", "controller", "munge", *(f"spool/{node}" for node in shape.node_names)):
        make_folder(layout.folder / name)
    if not (key := layout.munge / "munge.key").exists():
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))
    values = {
        **asdict(shape),
        "folder": layout.folder,
        "user": user_name(),
        "host": platform.node().partition(".")[0],
        "base": base,
        "devices": DEVICES[: shape.gpus],
    }
    # slurmdbd reads nothing that others can read, and the database is for it alone
    texts = ["slurm.conf", "gres.conf", *(["slurmdbd.conf", "database.sql"] if shape.accounting else [])]
    for name, text in zip(texts, _rendered(texts, values), strict=True):
        write_text(layout.configuration.with_name(name), text)
        layout.configuration.with_name(name).chmod(0o600 if name in texts[2:] else 0o644)


def _rendered(names: Sequence[str], values: dict[str, object]) -> list[str]:
    templates = Environment(  # noqa: S701 - it is configuration that is written, and no page
        loader=PackageLoader("augbench.slurm.lab"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return [templates.get_template(f"{name}.jinja").render(values) + "\n" for name in names]
