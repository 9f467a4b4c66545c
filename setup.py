"""Which packages there are: the folders at the top."""

import sys
from contextlib import suppress
from pathlib import Path

from setuptools import find_packages, setup

FOLDERS = ("bench", "datasets", "methods", "results", "slurm")

if "editable_wheel" in sys.argv:  # puts src on the path; the package itself finds its folders at the top
    for folder in FOLDERS:
        with suppress(OSError):  # links are for type checkers and editors alone, and some disks have none
            Path("src", "augbench", folder).symlink_to(Path("..", "..", folder))
    setup(package_dir={"": "src"}, packages=["augbench"])
else:
    setup(
        package_dir={"augbench": "src/augbench"} | {f"augbench.{folder}": folder for folder in FOLDERS},
        packages=[
            "augbench",
            *(f"augbench.{folder}" for folder in FOLDERS),
            *(f"augbench.{folder}.{package}" for folder in FOLDERS for package in find_packages(folder)),
        ],
    )
