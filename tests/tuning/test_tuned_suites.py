"""`augbench run` of a suite with `[tuning]` on this machine, from the first trial to the tables."""

import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import typer
from scripted_slurm import submission_of
from tuned_suite import SHORT

from augbench.bench.commands import executing
from augbench.bench.commands.options import LaunchOptions
from augbench.bench.commands.tuned import tuning_request
from augbench.bench.common.files import read_json
from augbench.bench.experiment.suite import load_suite
from augbench.bench.launchers.launcher import Activity, LaunchRequest
from augbench.bench.launchers.local import Local
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.runs import run_states
from augbench.bench.runs.output_folder import mark_output_folder, run_folders
from augbench.bench.runs.recorded_stages import read_stages, waiting_in
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.slurm_client import SlurmError
from augbench.bench.runs.slurm_queue import Jobs
from augbench.bench.tuning.stages import stages_of

CommandLine = Callable[..., tuple[int, str, str]]
EndRun = Callable[..., RunFolder]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in an empty folder with a short suite."""
    (tmp_path / "short.toml").write_text(SHORT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def launched(end_run: EndRun, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Have runs ended at once instead of executed: for each launch, the names of the folders."""
    calls: list[list[str]] = []

    def launch(
        self: Local, runs: Sequence[PlannedRun], request: LaunchRequest, poll: Callable[[Activity], None]
    ) -> None:
        calls.append([run.folder.path.name for run in runs])
        for number, run in enumerate(runs):
            end_run(run.spec, request.out, number / 100)

    monkeypatch.setattr(Local, "launch", launch)
    return calls


def test_one_command_makes_trials_and_final_runs_and_a_second_nothing(
    place: Path, launched: list[list[str]], augbench: CommandLine
) -> None:
    code, said, errors = augbench("run", "short.toml", "--out", "out", "--launcher", "local")
    assert code == 0, said + errors
    assert [len(names) for names in launched] == [4 + 2, 4]
    assert len({name for names in launched for name in names}) == 10, "nothing is placed twice"
    assert "stage 1 of 2 (trials, and runs that wait for none): 6 of 6 runs to do" in said
    assert "stage 2 of 2 (final runs): 4 of 10 runs to do" in said
    assert "scale on mnist5k: " in said and "(trial 1 of 2, 1.00 % of the validation images, untuned 0.00 %" in said
    assert "Not tuned, with the values of the suite: none (nothing to tune)." in said
    assert "2 seeds, and a test takes 3 at least" in errors
    final = [folder for folder in run_folders(place / "out") if (folder.path / "tuning.json").exists()]
    assert sorted(folder.path.name for folder in final) == sorted(launched[1])
    code, said, errors = augbench("run", "short.toml", "--out", "out")
    assert (code, len(launched)) == (0, 2), said + errors
    assert "Nothing to compute" in said


def test_a_command_that_was_broken_off_between_the_stages_goes_on(
    place: Path, launched: list[list[str]], augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    placing = executing.place
    titles = []

    def broken_off(*arguments: object, title: str, **options: object) -> None:
        titles.append(title)
        if len(titles) == 2:
            raise typer.Exit(130)
        placing(*arguments, title=title, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(executing, "place", broken_off)
    assert augbench("run", "short.toml", "--out", "out", "--launcher", "local")[0] == 130
    assert len(launched) == 1
    _, shown, _ = augbench("status", "--out", "out")
    assert "short: stage 1 of 2, trials: 4 of 4 runs ended. 4 runs of the comparison wait for their values." in shown
    code, said, errors = augbench("run", "short.toml", "--out", "out", "--launcher", "local")
    assert code == 0, said + errors
    assert [len(names) for names in launched] == [6, 4]


def test_more_trials_later_add_to_those_there(place: Path, launched: list[list[str]], augbench: CommandLine) -> None:
    augbench("run", "short.toml", "--out", "out", "--launcher", "local")
    (place / "more.toml").write_text(SHORT.replace("trials = 2", "trials = 4"))
    code, said, errors = augbench("run", "more.toml", "--out", "out", "--launcher", "local")
    assert code == 0, said + errors
    assert len(launched[2]) == 4, "two more trials for each of two methods"
    assert not set(launched[2]) & set(launched[0])
    stages = stages_of(load_suite("more.toml"), place / "out")
    best = [search.best.trial.number for search in stages.searches if search.best]
    # made-up accuracies: the first trials of `scale` had 0 and 1 %, of `randaugment` 2 and 3 %; the new ones 0 to 3 %
    assert best == [1, 1], "the earlier of equal ones"
    assert len(launched) == 3, "the best values are those of before"
    assert {run.state for run in stages.plan.runs} == {RunState.DONE}
    code, _, errors = augbench("run", "short.toml", "--out", "out")
    assert code == 2
    assert "4 trials were asked for, and are 2 now" in errors


def test_a_method_without_a_single_result_is_named_and_the_others_go_on(
    place: Path, launched: list[list[str]], end_run: EndRun, augbench: CommandLine
) -> None:
    stages = stages_of(load_suite("short.toml"), place / "out")
    for run in stages.searches[0].runs:
        end_run(run.spec, place / "out", state=RunState.FAILED)
    code, said, errors = augbench("run", "short.toml", "--out", "out", "--launcher", "local")
    assert code == 2
    assert "None of the trials of scale on mnist5k (failed: it diverged) has a result" in errors
    assert [len(names) for names in launched] == [2 + 2, 2]
    launched.clear()
    code, said, errors = augbench("run", "short.toml", "--out", "out", "--launcher", "local", "--retry-failed")
    assert code == 0, said + errors
    assert [len(names) for names in launched] == [2, 2]


@pytest.mark.parametrize(("option", "fate"), [((), "cancelled"), (("--fail-fast",), "failed")])
def test_where_runs_were_cancelled_or_the_first_failure_counts_nothing_follows(
    place: Path,
    end_run: EndRun,
    augbench: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    option: tuple[str, ...],
    fate: str,
) -> None:
    calls = []

    def launch(
        self: Local, runs: Sequence[PlannedRun], request: LaunchRequest, poll: Callable[[Activity], None]
    ) -> None:
        calls.append(len(runs))
        for run in runs:
            end_run(run.spec, request.out)
        last = next(run for run in runs if run.spec.method.name == "randaugment")
        (last.folder.path / "result.json").unlink()
        last.folder.write_status(RunState(fate))
        if fate == "cancelled":
            last.folder.request_cancel()

    monkeypatch.setattr(Local, "launch", launch)
    augbench("run", "short.toml", "--out", "out", "--launcher", "local", *option)
    assert calls == [6], "those of `scale` could follow, but somebody wanted an end"


@pytest.mark.parametrize("launcher", ["local", "slurm"])
def test_a_search_that_a_launcher_cannot_do_is_refused(
    place: Path, launched: list[list[str]], augbench: CommandLine, launcher: str
) -> None:
    (place / "short.toml").write_text(SHORT.replace("trials = 2", 'trials = 2\nsearch = "asha"'))
    code, _, errors = augbench("run", "short.toml", "--out", "out", "--launcher", launcher)
    assert code == 2
    assert "search = 'asha', which only the launcher ray can do, and not" in errors
    assert not launched


def test_final_runs_wait_for_failed_trials_that_are_tried_again(
    place: Path, launched: list[list[str]], end_run: EndRun, augbench: CommandLine
) -> None:
    stages = stages_of(load_suite("short.toml"), place / "out")
    for number, run in enumerate(stages.searches[0].runs):
        end_run(run.spec, place / "out", 0.0, RunState.FAILED if number else RunState.DONE)
    failed = stages.searches[0].runs[1].folder.path.name
    code, said, errors = augbench("run", "short.toml", "--out", "out", "--launcher", "local", "--retry-failed")
    assert code == 0, said + errors
    assert [len(names) for names in launched] == [1 + 2 + 2, 4], "one trial again, those of randaugment, and none"
    assert failed in launched[0]


def test_where_trials_are_left_alone_failed_final_runs_are_tried_again(
    place: Path, launched: list[list[str]], end_run: EndRun, augbench: CommandLine
) -> None:
    stages = stages_of(load_suite("short.toml"), place / "out")
    for search in stages.searches:
        for number, run in enumerate(search.runs):
            end_run(run.spec, place / "out", 0.5, RunState.FAILED if number else RunState.DONE)
    final = stages_of(load_suite("short.toml"), place / "out").final
    for number, run in enumerate(final):
        end_run(run.spec, place / "out", 0.5, RunState.DONE if number else RunState.FAILED)
    options = ("--launcher", "local", "--no-trials", "--retry-failed")
    code, said, errors = augbench("run", "short.toml", "--out", "out", *options)
    assert code == 0, said + errors
    assert launched == [[final[0].folder.path.name]]


def test_a_run_of_unknown_state_is_told_of_once_and_holds_up_no_other(
    place: Path, launched: list[list[str]], augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_answer(submissions: object) -> Jobs:
        raise SlurmError("Slurm gives no answer.")

    monkeypatch.setattr(run_states, "ask_slurm", no_answer)
    run = stages_of(load_suite("short.toml"), place / "out").final[0]
    run.folder.write_spec(run.spec)
    mark_output_folder(place / "out")
    submission_of(place / "out", [run.folder.path.name], job="17").write()
    code, _, errors = augbench("run", "short.toml", "--out", "out", "--launcher", "local")
    assert [len(names) for names in launched] == [4 + 1, 4]
    assert code == 2
    assert errors.count("is unknown, so they might be placed twice") == 1
    assert waiting_in(read_stages(place / "out")) == 0
    assert len(list(place.glob("out/runs/*/tuning.json"))) == 4


def test_a_profile_from_standard_input_is_kept_for_the_job_that_follows(
    place: Path, launched: list[list[str]], augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    words: list[str] = []

    def follow_up(self: Local, command: Sequence[str], runs: Sequence[RunFolder], request: LaunchRequest) -> str:
        words.extend(command)
        return "Something follows."

    monkeypatch.setattr(Local, "waits", False)
    monkeypatch.setattr(Local, "launch", lambda *_: None)
    monkeypatch.setattr(Local, "follow_up", follow_up)
    text = "[resources]\ncpus = 7\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    _, said, errors = augbench("run", "short.toml", "--out", "out", "--launcher", "local", "--profile", "-")
    assert "Something follows." in said, errors
    kept = words[words.index("--profile") + 1]
    assert Path(kept).read_text() == text
    assert Path(kept).is_absolute()


def test_the_tune_command_reads_a_profile_from_standard_input_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[resources]\ncpus = 7\n")))
    request = tuning_request(Path("out"), "random", LaunchOptions(profile="-", device="cpu"))
    assert request.profile.resources.cpus == 7


@pytest.mark.parametrize("ended", [True, False])
def test_where_no_job_is_left_to_wait_for_the_stages_are_looked_at_again(
    place: Path, end_run: EndRun, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """Trials may end between their submission and the question what follows."""
    placed: list[PlannedRun] = []

    def launch(
        self: Local, runs: Sequence[PlannedRun], request: LaunchRequest, poll: Callable[[Activity], None]
    ) -> None:
        placed.extend(runs)

    def follow_up(self: Local, command: Sequence[str], runs: Sequence[RunFolder], request: LaunchRequest) -> str:
        for run in placed if ended else ():
            end_run(run.spec, request.out)
        return ""

    monkeypatch.setattr(Local, "waits", False)
    monkeypatch.setattr(Local, "launch", launch)
    monkeypatch.setattr(Local, "follow_up", follow_up)
    _, said, _ = augbench("run", "short.toml", "--out", "out", "--launcher", "local")
    assert len(placed) == (10 if ended else 6)
    assert ("give the same command again when the trials have ended" in said) is not ended


def test_plan_and_a_rehearsal_show_both_stages_and_do_nothing(place: Path, augbench: CommandLine) -> None:
    code, said, errors = augbench("plan", "short.toml", "--out", "out")
    assert code == 0, errors
    for words in ("4 runs: 4 missing.", "2 runs: 2 missing. 4 runs wait for their values.", "In out: 10 runs"):
        assert words in said
    code, said, errors = augbench("run", "short.toml", "--out", "out", "--dry-run", "--launcher", "local")
    assert code == 0, errors
    assert "6 runs would be placed by local" in said
    assert "Then, with the best values of the trials: 4 runs." in said
    assert not (place / "out").exists()


def test_the_question_about_cost_counts_both_stages(
    place: Path, launched: list[list[str]], augbench: CommandLine
) -> None:
    (place / "profile.toml").write_text("[confirm]\nruns = 9")
    code, _, errors = augbench("run", "short.toml", "--out", "out", "--profile", "profile.toml")
    assert code == 2
    assert "10 runs to place: about 0.0 device hours, and 10 of unknown cost" in errors
    assert not (place / "out").exists(), "nothing is begun"
    (place / "profile.toml").write_text("[confirm]\nruns = 10")
    assert augbench("run", "short.toml", "--out", "out", "--profile", "profile.toml")[0] == 0


def test_the_question_about_cost_knows_what_trials_cost(
    place: Path, launched: list[list[str]], end_run: EndRun, augbench: CommandLine
) -> None:
    for search in stages_of(load_suite("short.toml"), place / "out").searches:
        end_run(search.runs[0].spec, place / "out")
    (place / "profile.toml").write_text("[confirm]\nhours = 0.001\nruns = 1000")
    code, _, errors = augbench("run", "short.toml", "--out", "out", "--profile", "profile.toml")
    assert code == 2, "two trials of 11 s are more than 0.001 hours"
    assert "8 runs to place: about 0.0 device hours, and 6 of unknown cost" in errors
    alone = ("tune", "scale", "--dataset", "mnist5k", "--suite", "short.toml", "--trials", "4", "--out", "out")
    code, _, errors = augbench(*alone, "--profile", "profile.toml")
    assert code == 2
    assert "3 runs to place: about 0.0 device hours. This exceeds" in errors
    assert not launched


def test_without_trials_only_runs_whose_values_are_known_are_placed(
    place: Path, launched: list[list[str]], end_run: EndRun, augbench: CommandLine
) -> None:
    stages = stages_of(load_suite("short.toml"), place / "out")
    for run in stages.searches[0].runs:
        end_run(run.spec, place / "out", 0.5)
    code, _, errors = augbench("run", "short.toml", "--out", "out", "--no-trials", "--launcher", "local")
    assert code == 2
    assert "2 of 6 runs without a result" in errors, "the trials of randaugment"
    assert [len(names) for names in launched] == [2 + 2]
    stages.searches[1].runs[0].folder.write_spec(stages.searches[1].runs[0].spec)
    stages.searches[1].runs[0].folder.request_cancel()
    code, _, errors = augbench("run", "short.toml", "--out", "out", "--no-trials", "--launcher", "local")
    assert (code, "were cancelled, so nothing follows by itself" in errors) == (2, True)


def test_the_tune_command_chooses_what_the_stage_chooses(
    place: Path, launched: list[list[str]], augbench: CommandLine
) -> None:
    augbench("run", "short.toml", "--out", "out", "--launcher", "local")
    chosen = stages_of(load_suite("short.toml"), place / "out").searches[0].best
    assert chosen is not None
    arguments = ("tune", "scale", "--dataset", "mnist5k", "--suite", "short.toml", "--trials", "2", "--out", "out")
    code, said, errors = augbench(*arguments, "--launcher", "local")
    assert code == 0, said + errors
    assert len(launched) == 2, "the trials are the same runs"
    (spec, *_) = load_suite("out/best.toml").specs()
    assert chosen.trial.values.items() <= spec.method.all_settings.items()
    assert read_json(place / "out" / "tuning.json")["best"] == chosen.trial.number


@pytest.mark.slow
def test_real_runs_are_made_once_each_and_shown_as_tuned(
    place: Path, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    text = SHORT.replace('{ name = "none" }, ', "")
    (place / "short.toml").write_text(text)
    arguments = ("run", "short.toml", "--out", "out", "--launcher", "local", "--workers", "2")
    code, said, errors = augbench(*arguments)
    assert code == 0, said + errors
    before = {path: path.stat().st_mtime_ns for path in (place / "out").glob("runs/*/result.json")}
    assert len(before) == 4 + 4
    assert augbench(*arguments)[0] == 0
    assert {path: path.stat().st_mtime_ns for path in (place / "out").glob("runs/*/result.json")} == before
    for source in ("out", "all.parquet"):
        augbench("archive", "--from", "out", "--out", "all.parquet")
        code, said, errors = augbench("tables", "--from", source, "--out", "tables")
        assert code == 0, said + errors
        table = (place / "tables" / "comparison.md").read_text()
        assert "scale (tuned)" in table and "randaugment (tuned)" in table
        assert "Tuning (h)" in table and "Values chosen: " in table
