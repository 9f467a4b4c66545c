"""An output folder: a folder `runs` with a folder for each run, and the protocol version that they were made under."""

from pathlib import Path

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import NotReadError, make_folder, read_json, write_json
from augbench.bench.experiment.protocol import PROTOCOL_VERSION
from augbench.bench.runs.run_folder import RunFolder, newer

MARKER = "protocol.json"


def check_output_folder(out: Path) -> None:
    """Make sure that an output folder, where it exists, can be read by this version.

    Raises:
        UserError: If it cannot be read, is no folder, or was written under a newer protocol version.
    """
    marker = out / "runs" / MARKER
    try:
        if out.exists() and not out.is_dir():
            raise UserError(f"{out} is a file. Give an output folder of runs, or the name of a new one.")
        version = read_json(marker)["protocol_version"] if marker.exists() else PROTOCOL_VERSION
        is_newer = version > PROTOCOL_VERSION
    except OSError as error:
        raise UserError(f"The folder {out} cannot be read: {error.strerror}. Choose another one.") from None
    except NotReadError as error:
        raise UserError(
            f"{out}: {error}. Choose another folder with --out, or have its owner make it readable for you."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{marker} is damaged. Delete it; `augbench run` writes it again.") from None
    if is_newer:
        raise UserError(newer(out, version))


def mark_output_folder(out: Path) -> None:
    """Create an output folder and leave the protocol version in it.

    Raises:
        UserError: If the folder cannot be written to.
    """
    folder = make_folder(out / "runs")
    if not (folder / MARKER).exists():
        write_json(folder / MARKER, {"protocol_version": PROTOCOL_VERSION})


def is_run_folder(path: Path) -> bool:
    """Whether a path is a folder with a specification, sound or not."""
    try:
        return (path / "spec.json").is_file()
    except OSError:  # a name that is too long, or a folder that may not be read
        return False


def run_folders(root: Path) -> list[RunFolder]:
    """List the run folders of an output folder by name: every sub-folder that holds or should hold a run.

    Args:
        root: An output folder, or its sub-folder `runs`.

    Raises:
        UserError: If the folder does not exist, holds no runs or was written under a newer protocol version.
    """
    check_output_folder(root)
    root = root.resolve()
    out = root if (root / "runs").is_dir() or root.name != "runs" else root.parent
    check_output_folder(out)
    paths = sorted((out / "runs").iterdir()) if (out / "runs").is_dir() else []
    found = [RunFolder(path) for path in paths if path.is_dir() and not path.name.startswith(".")]
    if not found and (root / "spec.json").exists():
        raise UserError(f"{root} is the folder of a single run. Give the output folder: {root.parent.parent}.")
    if not found:
        problem = "holds no runs" if root.is_dir() else "does not exist"
        raise UserError(
            f"The folder {root} {problem}. Give the folder that `augbench run` or `augbench demo` wrote to with --out, "
            "or make one: `augbench demo`."
        )
    return found
