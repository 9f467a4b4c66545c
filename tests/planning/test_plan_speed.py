"""Plans of ten thousand runs."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from augbench.bench.commands.resolution import resolutions
from augbench.bench.common.files import read_json
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import Suite, parse_suite
from augbench.bench.planning.estimates import groups_of
from augbench.bench.planning.plan import Plan, make_plan
from augbench.bench.planning.profile import Profile
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.worker import execute

Planned = tuple[Plan, Sequence[object]]
Effort = Callable[[Callable[[], Planned]], tuple[Planned, float]]

MOST_EFFORT = 8.0
"""Times that of the fixed work. It takes about 1 without and 2 with the folders."""

SETTINGS = ", ".join(
    f'{{ name = "{name}", hyperparameters = {{ learning_rate = {0.001 * step:.3f} }} }}'
    for name in ("scale", "augerino")
    for step in range(1, 11)
)
SUITE = f"""
name = "large"
title = "20 methods, 5 data sets, 100 seeds"
seeds = {list(range(100))}
[[comparisons]]
datasets = [
    {{ name = "mnist5k" }}, {{ name = "mnist5k", options = {{ size = 14 }} }}, {{ name = "planted" }},
    {{ name = "rotmnist5k" }}, {{ name = "rotmnist5k", options = {{ size = 14 }} }},
]
methods = [{SETTINGS}]
network = "tiny"
[comparisons.budget]
epochs = 3
"""


def planned(suite: Suite, out: Path) -> Planned:
    plan = make_plan(suite, out)
    groups = groups_of(plan, out, Profile(), "a device")
    assert len(resolutions(plan, groups, out)) == 5
    return plan, groups


def in_a_moment(suite: Suite, out: Path, effort: Effort) -> Plan:
    (plan, groups), taken = effort(lambda: planned(suite, out))
    assert taken < MOST_EFFORT
    assert len(plan.runs) == 10_000
    assert len(groups) == 100
    return plan


@pytest.mark.slow
@pytest.mark.usefixtures("few_digits")
def test_ten_thousand_runs_are_planned_in_a_moment(
    make_spec: Callable[..., RunSpec],
    make_folder: Callable[[RunSpec], RunFolder],
    settings: ExecutionSettings,
    stop: StopSignal,
    effort: Effort,
    tmp_path: Path,
) -> None:
    suite = parse_suite(SUITE, "a test")
    assert in_a_moment(suite, tmp_path / "empty", effort).counts() == {RunState.PLANNED: 10_000}
    folder = make_folder(make_spec("scale", epochs=2))
    execute(folder, settings, stop)
    result = read_json(folder.path / "result.json")
    out = tmp_path / "full"
    (out / "runs").mkdir(parents=True)
    for spec in suite.specs():
        copy = out / "runs" / spec.folder_name
        copy.mkdir()
        content = {"identity": spec.identity, "spec": spec.model_dump(mode="json")}
        (copy / "spec.json").write_text(json.dumps(content))
        (copy / "result.json").write_text(json.dumps(result | {"identity": spec.identity}, indent=1))
        shutil.copy(folder.predictions, copy)
        shutil.copy(folder.metrics, copy)
    assert in_a_moment(suite, out, effort).counts() == {RunState.DONE: 10_000}
