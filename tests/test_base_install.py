"""Without the extras, whatever needs none of them works."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

OPTIONAL = ("optuna", "ray", "submitit")
# Modules that are only imported once an extra is known to be there, since their classes are derived from its own.
NEED_AN_EXTRA = {
    "augbench.bench.launchers.ray_jobs.head",
    "augbench.bench.launchers.ray_jobs.trials",
    "augbench.bench.launchers.slurm_jobs.sbatch",
    "augbench.bench.tuning.ray_tuning",
}

# What a base install lacks, this process is not to find either.
WITHOUT_EXTRAS = f"""
import importlib.abc, importlib, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {OPTIONAL}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def all_modules() -> list[str]:
    """Names of all modules of the package; `datasets` has no `__init__.py`, so that pkgutil would not look into it."""
    found = []
    for folder in ("bench", "datasets", "methods", "results", "slurm"):
        place = Path(next(iter(import_module(f"augbench.{folder}").__path__))).resolve()  # a link, in a checkout
        for file in place.rglob("*.py"):
            parts = ("augbench", folder, *file.relative_to(place).with_suffix("").parts)
            found.append(".".join(parts).removesuffix(".__init__"))
    return sorted(found)


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS + code], capture_output=True, text=True)


def test_every_module_can_be_imported_without_the_extras() -> None:
    names = all_modules()
    some = ("bench.planning.plan", "datasets.mnist", "methods.scale", "results", "slurm.lab")
    assert {f"augbench.{name}" for name in some} <= set(names)
    done = run(f"for name in {sorted(set(names) - NEED_AN_EXTRA)}:\n    importlib.import_module(name)\n")
    assert (done.returncode, done.stderr) == (0, "")


def test_modules_that_need_an_extra_are_really_such() -> None:
    done = run(f"""
for name in {sorted(NEED_AN_EXTRA)}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        print(name, error.name.partition(".")[0])
""")
    lacking = dict(line.split() for line in done.stdout.splitlines())
    assert set(lacking) == NEED_AN_EXTRA, done.stderr
    assert set(lacking.values()) <= set(OPTIONAL)


def test_lists_do_not_need_the_extras() -> None:
    done = run("""
from augbench.bench.commands.main import main
for what in ("launchers", "methods", "profiles", "suites"):
    sys.argv = ["augbench", "list", what]
    try:
        main()
    except SystemExit as ended:
        print(what, "ended with", ended.code)
""")
    ended = [line for line in done.stdout.splitlines() if "ended with" in line]
    assert ended == [f"{what} ended with 0" for what in ("launchers", "methods", "profiles", "suites")], done.stderr
