"""Estimates: means of finished runs, then measured steps, then nothing; never a number that was made up."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from augbench.bench.common.files import write_json
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import Suite, parse_suite
from augbench.bench.planning.calibration import Measurement, add_measurement
from augbench.bench.planning.estimates import (
    Estimate,
    Group,
    Source,
    cost_to_confirm,
    estimates,
    groups_of,
    in_all,
    left,
    longest_jobs,
)
from augbench.bench.planning.plan import PlannedRun, make_plan
from augbench.bench.planning.profile import Profile, parse_profile
from augbench.bench.runs.run_folder import RunFolder, RunState

HOUR = 3600.0

SUITE = """
name = "a"
title = "A"
seeds = [0, 1, 2, 3]
[[comparisons]]
datasets = [{ name = "mnist5k" }]
methods = [{ name = "none" }, { name = "scale" }, { name = "fast-aa" }]
network = "tiny"
[comparisons.budget]
epochs = 3
"""

PROFILE = """
[resources]
gpus = 0.5
time = "04:00:00"
[methods.scale]
gpus = 2
time = "1-00:00:00"
"""

MakeRun = Callable[..., PlannedRun]
Estimated = Callable[..., dict[str, Estimate]]


@pytest.fixture
def suite() -> Suite:
    return parse_suite(SUITE, "a test")


@pytest.fixture
def profile() -> Profile:
    return parse_profile(PROFILE, "a test")


@pytest.fixture
def specs(make_spec: Callable[..., RunSpec]) -> dict[str, RunSpec]:
    """Return specifications of different configurations, by a letter."""
    return {letter: make_spec("none", epochs=number) for number, letter in enumerate("abcde", 1)}


@pytest.fixture
def make_run(specs: dict[str, RunSpec], tmp_path: Path) -> MakeRun:
    """Make a run that is finished, as far as estimates need it; devices called `gpu…` are GPUs."""
    made: list[Path] = []

    def make(letter: str, seconds: Mapping[str, Mapping[str, float]]) -> PlannedRun:
        folder = tmp_path / f"run{len(made)}"
        folder.mkdir()
        made.append(folder)
        write_environment(folder, [*seconds])
        return PlannedRun(specs[letter], RunFolder(folder), RunState.DONE, seconds)

    return make


@pytest.fixture
def estimated(specs: dict[str, RunSpec]) -> Callable[..., dict[str, Estimate]]:
    """Estimate what a run of each configuration costs; returns estimates by letter."""

    def estimate(runs: list[PlannedRun], steps: list[Measurement], here: str) -> dict[str, Estimate]:
        found = estimates(runs, steps, here)
        return {name: found[spec.configuration] for name, spec in specs.items() if spec.configuration in found}

    return estimate


def write_environment(folder: Path, devices: list[str]) -> None:
    attempts = [{"device": name, "device_uuid": "an id" if name.startswith("gpu") else None} for name in devices]
    write_json(folder / "environment.json", {"attempts": attempts})


def measured(kind: str, device: str, **other: Any) -> Measurement:
    facts: dict[str, Any] = {"what": "a test", "whole_batch": True, "search_unknown": False, "time": "2026-01-01"}
    seconds = {"training": 3 * HOUR, "evaluation": HOUR}
    return Measurement(
        kind=kind, device=device, gpu=device.startswith("gpu"), seconds=seconds, steps=20, **(facts | other)
    )


def finish(suite: Suite, out: Path, method: str, seed: int, seconds: Mapping[str, Mapping[str, float]]) -> None:
    """Write a run of the suite as if it were finished."""
    spec = next(spec for spec in suite.specs() if spec.method.name == method and spec.seed == seed)
    folder = RunFolder(out / "runs" / spec.folder_name)
    folder.write_spec(spec)
    write_json(folder.path / "result.json", {"identity": spec.identity, "seconds": seconds})
    write_environment(folder.path, [*seconds])
    np.savez(folder.predictions)


def grouped(suite: Suite, out: Path, profile: Profile) -> dict[str, Group]:
    found = groups_of(make_plan(suite, out), out, profile, "cpu here")
    return {group.spec.method.name: group for group in found}


def test_an_estimate_is_the_mean_of_finished_runs_by_phase(make_run: MakeRun, estimated: Estimated) -> None:
    runs = [make_run("a", {"gpu": {"search": 10.0, "training": seconds}}) for seconds in (100.0, 200.0, 600.0)]
    found = estimated(runs, [], "cpu")
    assert found.keys() == {"a"}
    assert (found["a"].device, found["a"].gpu, found["a"].source, found["a"].count) == ("gpu", True, Source.RUNS, 3)
    assert found["a"].seconds == {"search": 10.0, "training": 300.0}
    assert found["a"].hours == pytest.approx(310 / HOUR)


def test_devices_are_never_mixed(make_run: MakeRun, estimated: Estimated) -> None:
    runs = [
        make_run("a", {"cpu": {"training": 1000.0}}),
        make_run("a", {"gpu": {"training": 10.0}}),
        make_run("a", {"gpu": {"training": 50.0}, "cpu": {"training": 500.0}}),  # went on elsewhere
        make_run("b", {"gpu": {"training": 20.0}}),
        make_run("c", {"cpu": {"training": 3.0}}),
        make_run("d", {"gpu": {"training": 50.0}, "cpu": {"training": 500.0}}),
        make_run("e", {}),
    ]
    found = estimated(runs, [], "cpu")
    by_kind = {kind: (one.device, one.gpu, one.count, dict(one.seconds)) for kind, one in found.items()}
    assert by_kind == {
        # on both devices two runs were finished; the name decides, the same way for every kind
        "a": ("gpu", True, 1, {"training": 10.0}),
        "b": ("gpu", True, 1, {"training": 20.0}),
        "c": ("cpu", False, 1, {"training": 3.0}),
    }
    runs.append(make_run("c", {"cpu": {"training": 5.0}}))
    found = estimated(runs, [], "gpu")
    assert (found["a"].device, found["a"].seconds) == ("cpu", {"training": 1000.0})
    assert (found["b"].device, found["c"].seconds) == ("gpu", {"training": 4.0})


def test_measured_steps_count_only_without_finished_runs_and_those_of_this_device_first(
    make_run: MakeRun, estimated: Estimated, specs: dict[str, RunSpec]
) -> None:
    timed = (("a", "gpu x"), ("b", "gpu x"), ("b", "cpu here"), ("c", "gpu x"))
    steps = [measured(specs[letter].configuration, device) for letter, device in timed]
    found = estimated([make_run("a", {"gpu x": {"training": 7.0}})], steps, "cpu here")
    assert {kind: (one.source, one.device, one.gpu, one.count) for kind, one in found.items()} == {
        "a": (Source.RUNS, "gpu x", True, 1),
        "b": (Source.STEPS, "cpu here", False, 20),
        "c": (Source.STEPS, "gpu x", True, 20),
    }
    assert found["c"].hours == 4


def test_an_unknown_search_leaves_the_cost_unknown() -> None:
    found = estimates([], [measured("a", "gpu", search_unknown=True, whole_batch=False)], "gpu")
    assert found["a"].hours is None
    assert found["a"].known_hours == 4
    assert found["a"].too_high


def test_sums_are_over_what_is_known(suite: Suite, profile: Profile, tmp_path: Path) -> None:
    finish(suite, tmp_path, "none", 0, {"gpu": {"training": 2 * HOUR}})
    finish(suite, tmp_path, "none", 1, {"gpu": {"training": 4 * HOUR}})
    finish(suite, tmp_path, "scale", 0, {"cpu": {"training": 5 * HOUR}})
    groups = grouped(suite, tmp_path, profile)
    assert {name: (group.gpus, group.limit_minutes) for name, group in groups.items()} == {
        "none": (0.5, 240),
        "scale": (2, 1440),
        "fast-aa": (0.5, 240),
    }
    # half a GPU for three hours each; on a CPU the hours of the run
    assert {name: group.device_hours for name, group in groups.items()} == {"none": 1.5, "scale": 5.0, "fast-aa": None}
    rest = left(groups.values())
    assert (rest.by_device, rest.runs, rest.unknown, rest.known) == ({"gpu": 3.0, "cpu": 15.0}, 5, 4, 18.0)
    whole = in_all(groups.values())
    assert (whole.by_device, whole.runs, whole.unknown) == ({"gpu": 6.0, "cpu": 20.0}, 8, 4)


def test_failed_runs_are_not_left_but_are_in_the_whole(suite: Suite, profile: Profile, tmp_path: Path) -> None:
    finish(suite, tmp_path, "none", 0, {"gpu": {"training": 2 * HOUR}})
    runs = {run.spec.seed: run for run in make_plan(suite, tmp_path).runs if run.spec.method.name == "none"}
    for seed, state in ((1, RunState.FAILED), (2, RunState.CANCELLED)):
        runs[seed].folder.write_spec(runs[seed].spec)
        runs[seed].folder.write_status(state)
    group = grouped(suite, tmp_path, profile)["none"]
    assert group.states == {RunState.DONE: 1, RunState.FAILED: 1, RunState.CANCELLED: 1, RunState.PLANNED: 1}
    assert (group.to_do, left([group]).runs, in_all([group]).runs) == (2, 2, 4)


def test_other_suites_in_the_folder_count(suite: Suite, profile: Profile, tmp_path: Path) -> None:
    finish(suite, tmp_path, "none", 0, {"gpu": {"training": 2 * HOUR}})
    other = parse_suite(SUITE.replace("[0, 1, 2, 3]", "[8, 9]"), "a test")
    assert grouped(other, tmp_path, profile)["none"].device_hours == 1.0
    longer = parse_suite(SUITE.replace("epochs = 3", "epochs = 4"), "a test")
    assert grouped(longer, tmp_path, profile)["none"].device_hours is None


def test_what_is_to_be_confirmed_is_the_cost_of_the_given_runs(suite: Suite, profile: Profile, tmp_path: Path) -> None:
    finish(suite, tmp_path, "none", 0, {"gpu": {"training": 2 * HOUR}})
    runs = make_plan(suite, tmp_path).to_do(retry_failed=False)
    cost = cost_to_confirm(runs, tmp_path, profile, "cpu here")
    assert (cost.known, cost.runs, cost.unknown) == (3.0, 3, 8)
    kind = next(run.spec.configuration for run in runs if run.spec.method.name == "scale")
    add_measurement(tmp_path, measured(kind, "gpu"))
    assert cost_to_confirm(runs, tmp_path, profile, "cpu here").known == 3.0 + 4 * 4 * 2


def test_the_longest_job_and_others_that_are_longer_than_their_limit(
    suite: Suite, profile: Profile, tmp_path: Path
) -> None:
    assert longest_jobs([*grouped(suite, tmp_path, profile).values()]) == []
    finish(suite, tmp_path, "none", 0, {"gpu": {"training": 3 * HOUR}})
    finish(suite, tmp_path, "scale", 0, {"gpu": {"training": 7 * HOUR}})
    finish(suite, tmp_path, "fast-aa", 0, {"gpu": {"search": 2 * HOUR, "training": 4 * HOUR}})
    groups = grouped(suite, tmp_path, profile)
    # scale is the longest, within its limit; fast-aa is longer than its limit; none is neither
    assert [group.spec.method.name for group in longest_jobs([*groups.values()])] == ["scale", "fast-aa"]
    assert {name: group.searches for name, group in groups.items()} == {"none": False, "scale": False, "fast-aa": True}
    for seed in range(4):
        finish(suite, tmp_path, "scale", seed, {"gpu": {"training": 7 * HOUR}})
    (longest,) = longest_jobs([*grouped(suite, tmp_path, profile).values()])
    assert longest.spec.method.name == "fast-aa"
