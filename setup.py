"""Which packages there are: the folders at the top, without the links to them that a copy of the project may lack."""

import sys

from setuptools import find_packages, setup

FOLDERS = ("bench", "datasets", "methods", "results", "slurm")

if "editable_wheel" in sys.argv:  # puts src on the path, where type checkers look; the package finds its own folders
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
