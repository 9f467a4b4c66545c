"""Job arrays of a launch: what each has, and how they share one limit."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from augbench.bench.experiment.spec import RunSpec
from augbench.bench.launchers.slurm_jobs.arrays import make_arrays, share_out
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.planning.profile import parse_profile
from augbench.bench.runs.run_folder import RunFolder, RunState

METHODS = ["none"] * 6 + ["fixed"] * 2 + ["scale"]
RESOURCES = "[methods.fixed]\ncpus = 2\n[methods.scale]\ncpus = 3"


@pytest.mark.parametrize(
    ("limit", "largest", "arrays"),  # of each array: runs, how many at a time, which one it follows
    [
        (9, 500, [(6, 6, None), (2, 2, None), (1, 1, None)]),
        (100, 500, [(6, 6, None), (2, 2, None), (1, 1, None)]),
        (6, 500, [(6, 4, None), (2, 1, None), (1, 1, None)]),
        (3, 500, [(6, 1, None), (2, 1, None), (1, 1, None)]),
        (2, 500, [(6, 1, None), (2, 1, None), (1, 1, 0)]),
        (1, 500, [(6, 1, None), (2, 1, 0), (1, 1, 1)]),
        (4, 2, [(2, 1, None), (2, 1, None), (2, 1, None), (2, 1, None), (1, 1, 0)]),
    ],
)
def test_arrays_share_one_limit_and_follow_each_other_where_there_are_more_than_that(
    limit: int,
    largest: int,
    arrays: list[tuple[int, int, int | None]],
    make_spec: Callable[..., RunSpec],
    tmp_path: Path,
) -> None:
    specs = [make_spec(method, seed=seed) for seed, method in enumerate(METHODS)]
    runs = [PlannedRun(spec, RunFolder(tmp_path / spec.folder_name), RunState.PLANNED) for spec in specs]
    profile = parse_profile(f"[slurm]\nmax_parallel = {limit}\n{RESOURCES}", "a test")
    made = make_arrays(runs, profile, largest)
    assert [(len(array.runs), array.max_parallel, array.follows) for array in made] == arrays
    assert [run for array in made for run in array.runs] == runs


def test_several_runs_share_a_job(make_spec: Callable[..., RunSpec], tmp_path: Path) -> None:
    specs = [make_spec(seed=seed) for seed in range(11)]
    runs = [PlannedRun(spec, RunFolder(tmp_path / spec.folder_name), RunState.PLANNED) for spec in specs]
    profile = parse_profile("[slurm]\nmax_parallel = 5\nruns_per_job = 3", "a test")
    assert [(len(one.runs), one.max_parallel) for one in make_arrays(runs, profile, 500)] == [(11, 4)]
    assert [(len(one.runs), one.max_parallel) for one in make_arrays(runs, profile, 2)] == [(6, 2), (5, 2)]


@given(sizes=st.lists(st.integers(1, 90), min_size=1, max_size=9), more=st.integers(0, 99))
def test_shares_use_the_limit_and_are_in_proportion(sizes: list[int], more: int) -> None:
    limit = len(sizes) + more
    limits = share_out(sizes, limit)
    assert sum(limits) == min(limit, sum(sizes))
    assert all(1 <= got <= size for got, size in zip(limits, sizes, strict=True))
    for got, size in zip(limits, sizes, strict=True):  # nobody has more than another one would have with one more
        assert got == 1 or all((got - 1) / size <= other / of for other, of in zip(limits, sizes, strict=True))
