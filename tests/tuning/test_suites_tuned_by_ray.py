"""`augbench run` of a suite whose values Optuna chooses: Ray's part is made up."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tuned_suite import SHORT

from augbench.bench.commands import executing
from augbench.bench.experiment.suite import load_suite
from augbench.bench.launchers.launcher import Activity, LaunchRequest
from augbench.bench.launchers.ray import Ray
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.tuning.outcome import Outcome, outcome_of
from augbench.bench.tuning.stage_record import write_stages
from augbench.bench.tuning.stages import stages_of
from augbench.bench.tuning.tuning import Tuning

CommandLine = Callable[..., tuple[int, str, str]]
EndRun = Callable[..., RunFolder]

SUITE = SHORT.replace("[tuning]", '[tuning]\nsearch = "optuna"')


class MadeUpRay:
    """In place of Ray: it ends every run at once, trials with ever better values; `killed` is a trial that it kills.

    If it is `cancelled`, somebody cancels the last trial of each search.

    Attributes:
        events: What it was asked for, in order: `tune` or `place` with the names of methods, or `ask`.
    """

    def __init__(self, end_run: EndRun) -> None:
        self.end_run = end_run
        self.killed: int | None = None
        self.cancelled = False
        self.events: list[tuple[str, list[str]]] = []

    def drive(self, tuning: Tuning, request: LaunchRequest, *, retry_failed: bool) -> list[Outcome]:
        """End all trials of a search."""
        self.events.append(("tune", [tuning.base.method.name]))
        # as if Optuna had chosen what a random search draws
        values = replace(tuning, search="random").random_values()
        trials = [tuning.trial(number, tried, request.out) for number, tried in enumerate(values)]
        for trial in trials:
            state = RunState.KILLED if trial.number == self.killed else RunState.DONE
            self.end_run(tuning.specs(trial.values)[0], request.out, trial.number / 10, state)
        if self.cancelled:
            trials[-1].folders[0].request_cancel()
        return [outcome_of(trial) for trial in trials]

    def launch(self, runs: Sequence[PlannedRun], request: LaunchRequest, poll: Callable[[Activity], None]) -> None:
        """End runs."""
        self.events.append(("place", [run.spec.method.name for run in runs]))
        for run in runs:
            self.end_run(run.spec, request.out)

    def ask(self, runs: Sequence[PlannedRun], *arguments: object, **options: object) -> None:
        """Answer the question about cost."""
        self.events.append(("ask", [str(len(runs))]))


@pytest.fixture
def made_up_ray(tmp_path: Path, end_run: EndRun, monkeypatch: pytest.MonkeyPatch) -> MadeUpRay:
    """Have the suite ask for Optuna, and made-up parts do Ray's."""
    made = MadeUpRay(end_run)
    monkeypatch.setattr(executing, "drive_with_bar", made.drive)
    monkeypatch.setattr(executing, "check_tuning", lambda *_: None)
    monkeypatch.setattr(executing, "confirm", made.ask)
    monkeypatch.setattr(Ray, "check", lambda *_: None)
    monkeypatch.setattr(Ray, "launch", lambda _, *arguments: made.launch(*arguments))
    (tmp_path / "short.toml").write_text(SUITE)
    monkeypatch.chdir(tmp_path)
    return made


ON_RAY = ("run", "short.toml", "--out", "out", "--launcher", "ray")
TUNED = [("tune", ["scale"]), ("tune", ["randaugment"])]


def test_values_that_optuna_has_found_lead_to_final_runs(made_up_ray: MadeUpRay, augbench: CommandLine) -> None:
    code, said, errors = augbench(*ON_RAY)
    assert code == 0, said + errors
    everything = [("ask", ["10"]), *TUNED, ("place", ["none"] * 2), ("place", ["scale", "randaugment"] * 2)]
    assert made_up_ray.events == everything, "one question about all, before anything is placed"
    assert "(trial 1 of 2, 10.00 % of the validation images, untuned 0.00 %" in said
    code, said, errors = augbench(*ON_RAY)
    assert (code, made_up_ray.events) == (0, everything), said + errors


def test_a_search_by_optuna_that_was_stopped_goes_on(
    made_up_ray: MadeUpRay, end_run: EndRun, augbench: CommandLine
) -> None:
    """Only the first trial is known, and it is done, so that no known run is left to do."""
    suite = load_suite("short.toml")
    stages = stages_of(suite, Path("out"))
    for run in stages.plan.runs:
        end_run(run.spec, Path("out"))
    write_stages(suite, stages, Path("out"))
    code, said, errors = augbench(*ON_RAY, "--yes")
    assert code == 0, said + errors
    assert made_up_ray.events == [*TUNED, ("place", ["scale", "randaugment"] * 2)]


def test_more_trials_of_optuna_add_to_those_there(made_up_ray: MadeUpRay, augbench: CommandLine) -> None:
    augbench(*ON_RAY, "--yes")
    made_up_ray.events.clear()
    Path("short.toml").write_text(SUITE.replace("trials = 2", "trials = 3"))
    code, said, errors = augbench(*ON_RAY, "--yes")
    assert code == 0, said + errors
    assert made_up_ray.events == [*TUNED, ("place", ["scale", "randaugment"] * 2)]
    assert "(trial 2 of 3, 20.00 % of the validation images" in said


def test_nothing_follows_a_search_that_was_cancelled(made_up_ray: MadeUpRay, augbench: CommandLine) -> None:
    made_up_ray.cancelled = True
    augbench(*ON_RAY, "--yes")
    assert made_up_ray.events == TUNED[:1], "no other search, and no run of none"


def test_final_runs_that_wait_for_good_are_no_success(made_up_ray: MadeUpRay, augbench: CommandLine) -> None:
    made_up_ray.killed = 1
    code, _, errors = augbench(*ON_RAY, "--yes")
    assert code == 2
    words = "4 runs of the comparison wait for trials of scale on mnist5k and randaugment on mnist5k"
    assert words in " ".join(errors.split())
    made_up_ray.killed = None
    code, said, errors = augbench(*ON_RAY, "--yes")
    assert code == 0, said + errors
