"""Which folders hold the packages; everything else about the package stands in pyproject.toml.

The links in src/augbench show the same folders to whatever reads the source tree: mypy, and an editable install. An
archive or a file system without links has small text files in their place, of which nothing gets into a wheel.
"""

import sys
from pathlib import Path

from setuptools import setup

FOLDERS = ("bench", "datasets", "methods", "results", "slurm")
LINKS = Path("src/augbench")


def packages(folder: str) -> set[str]:
    """Name the folder and each one below it that holds modules, such as augbench.bench.commands."""
    return {".".join(("augbench", *file.parent.parts)) for file in Path(folder).rglob("*.py")}


if "editable_wheel" in sys.argv and not all((LINKS / folder).is_dir() for folder in FOLDERS):
    sys.exit(
        f"An editable install needs the links in {LINKS}, which are no links here: an archive, or a clone without "
        "symbolic links. Install without -e (`pip install .`), or clone with `git clone -c core.symlinks=true`."
    )

setup(
    packages=sorted({"augbench"}.union(*map(packages, FOLDERS))),
    package_dir={"augbench": str(LINKS), **{f"augbench.{folder}": folder for folder in FOLDERS}},
)
