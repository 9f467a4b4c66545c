"""All measurements on a machine with one H100, by one command of at most eight minutes.

    python -m benchmarks.gpu pack FOLDER --data DIR    # where there is a network: what the other machine lacks
    python -m benchmarks.gpu run FOLDER --out FILE     # there, in a bare checkout, with FOLDER carried along

The other machine needs Python 3.12, torch, torchvision and what comes with them, but no network. Each part runs in a
process of its own that is killed when its time is used up; the file is written anew after every number, so that nothing
is lost. Measured on the CPU, with `--device cpu --quick`, the numbers say only that everything runs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
SECONDS = 460.0  # for everything but the start: 20 seconds less than eight minutes


def unpack(folder: Path, target: Path) -> None:
    """Unpack the files of `pack`: wheels into `packages`, arrays into a folder for each archive."""
    for path in (*folder.glob("*.whl"), *folder.glob("*.npz")):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(target / ("packages" if path.suffix == ".whl" else path.stem))


def start(module: str, arguments: Sequence[str], *folders: Path) -> int:
    """Run a module of the checkout, which finds packages in these folders before anywhere else; return its status."""
    paths = [*map(str, folders), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode  # noqa: S603 - our own modules


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    programs = parser.add_subparsers(dest="program", required=True)
    pack = programs.add_parser("pack", help="collect wheels and images in a folder")
    pack.add_argument("folder", type=Path)
    pack.add_argument("--data", type=Path, required=True, help="folder of data sets, with rotmnist and cifar10")
    run = programs.add_parser("run", help="measure, and write a JSON file")
    run.add_argument("folder", type=Path)
    run.add_argument("--out", type=Path, required=True, help="JSON file to write")
    run.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu")
    run.add_argument("--quick", action="store_true", help="the smallest sizes, as tests need them")
    run.add_argument("--seconds", type=float, default=SECONDS, help="time for everything")
    run.add_argument("--parts", nargs="+", metavar="NAME", default=[], help="these parts only, all by default")
    given = parser.parse_args()
    if given.program == "run" and not given.folder.is_dir():
        parser.error(f"there is no folder {given.folder}; make it with `python -m benchmarks.gpu pack`")
    if given.program == "run" and not given.out.resolve().parent.is_dir():
        parser.error(f"there is no folder for {given.out}; make it first")
    return given


def main() -> int:
    """Start the chosen program with the carried packages, and return its exit status."""
    options = parse()
    folder = options.folder.resolve()
    if options.program == "pack":
        return start("benchmarks.gpu_pack", [str(folder), "--data", str(options.data.resolve())])
    arguments = ["--out", str(options.out.resolve()), "--device", options.device, "--seconds", str(options.seconds)]
    arguments += [*["--quick"] * options.quick, "--parts", *options.parts]
    with tempfile.TemporaryDirectory() as unpacked:
        unpack(folder, Path(unpacked))
        return start("benchmarks.gpu_run", [unpacked, *arguments], Path(unpacked, "packages"))


if __name__ == "__main__":
    sys.exit(main())
