"""A suite with `[tuning]` on a real Slurm: trials as job arrays, and a small job that places the final runs."""

import pytest
from slurm_site import PATIENCE, Site

from augbench.bench.common.files import read_json
from augbench.bench.runs.output_folder import run_folders
from augbench.bench.runs.recorded_stages import read_stages, waiting_in
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.slurm.lab.processes import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def tuned(site: Site) -> Site:
    """Make a suite of one method with something to tune and one without, two trials and two seeds."""
    site.write(("paced", "paced-tuned"), seeds=range(2), epochs=2)
    text = (site.root / "suite.toml").read_text()
    (site.root / "suite.toml").write_text(text.replace("[[comparisons]]", "[tuning]\ntrials = 2\n[[comparisons]]"))
    return site


def states(site: Site) -> dict[str, list[RunState]]:
    """State of each run by the split that it is evaluated on."""
    found: dict[str, list[RunState]] = {"validation": [], "test": []}
    for folder in run_folders(site.out):
        found[folder.read_spec().protocol.evaluated_on].append(folder.state())
    return found


def attempts(site: Site) -> dict[str, int]:
    """How often each run was begun."""
    read = {folder.path.name: read_json(folder.path / "environment.json") for folder in run_folders(site.out)}
    return {name: len(environment["attempts"]) for name, environment in read.items()}


def test_the_final_runs_follow_by_themselves_and_nothing_is_computed_twice(tuned: Site) -> None:
    code, said, errors = tuned.run()
    assert code == 0, said + errors
    follower = tuned.submissions[-1]
    assert f"Job {follower.job} places the final runs when the trials have ended." in said
    assert (follower.is_follower, follower.runs) == (True, ())
    assert len(states(tuned)["validation"]) == 2
    before = tuned.submissions
    code, said, errors = tuned.run()  # while the trials wait or go on
    assert code == 0, said + errors
    assert tuned.submissions == before, "neither trials nor the small job are submitted twice"
    _, shown, _ = tuned.command_line("status", "--out", tuned.out)
    assert "short: stage 1 of 2, trials: 0 of 2 runs ended. 2 runs of the comparison wait for their values." in shown
    assert f"Job {follower.job} places the final runs" in shown

    tuned.open_gate()
    _, said, errors = tuned.command_line("watch", "--out", tuned.out, "--every", "0.5")
    assert "stage 2 of 2, the comparison: 4 of 4 done." in said, said + errors + tuned.told()
    assert states(tuned) == {"validation": [RunState.DONE] * 2, "test": [RunState.DONE] * 4}
    assert set(attempts(tuned).values()) == {1}
    code, said, errors = tuned.run()
    assert (code, "Nothing to compute" in said) == (0, True), said + errors
    finals = [RunFolder(tuned.out / "runs" / name) for name in read_stages(tuned.out)[0]["final"]]
    costs = [folder for folder in finals if (folder.path / "tuning.json").exists()]
    assert len(costs) == 2


def test_after_a_cancel_nothing_follows(tuned: Site) -> None:
    tuned.run()
    follower = tuned.submissions[-1]
    code, said, errors = tuned.command_line("cancel", "--all", "--yes", "--out", tuned.out)
    assert code == 0, said + errors
    assert "1 job that would have placed further runs taken out of the queue." in said
    assert wait_until(lambda: not tuned.queued("%T", "--states=PENDING,RUNNING,COMPLETING"), PATIENCE)
    assert len(states(tuned)["test"]) == 2, "the runs that waited for no trial had been placed before"
    code, _, errors = tuned.command_line("watch", "--out", tuned.out)
    assert code == 2
    tuned.open_gate()
    code, said, errors = tuned.run()
    assert code == 0, said + errors
    assert tuned.submissions[-1].job != follower.job
    assert wait_until(lambda: states(tuned)["test"] == [RunState.DONE] * 4, PATIENCE), tuned.told()
    assert waiting_in(read_stages(tuned.out)) == 0


def test_more_trials_replace_the_job_that_waits(tuned: Site) -> None:
    tuned.run()
    first = tuned.submissions[-1]
    text = (tuned.root / "suite.toml").read_text()
    (tuned.root / "suite.toml").write_text(text.replace("trials = 2", "trials = 3"))
    code, said, errors = tuned.run()
    assert code == 0, said + errors
    second = tuned.submissions[-1]
    assert second.is_follower and second.job != first.job
    assert set(first.arguments["after"]) < set(second.arguments["after"])
    tuned.open_gate()
    assert wait_until(lambda: states(tuned)["test"] == [RunState.DONE] * 4, PATIENCE), tuned.told()
    assert states(tuned)["validation"] == [RunState.DONE] * 3
