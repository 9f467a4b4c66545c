"""Run folders become frames; what is damaged, doubled or unfinished is said."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.protocol import Protocol
from augbench.bench.experiment.spec import settings_in_words
from augbench.bench.runs.run_folder import DamagedError, RunFolder, RunState
from augbench.results.figures.learned import learned_numbers
from augbench.results.model.cells import by_comparison, score_cells
from augbench.results.model.frame import load_runs

WriteRun = Callable[..., RunFolder]


def test_one_row_for_each_run_and_tidy_frames(tmp_path: Path, write_run: WriteRun) -> None:
    learned = [{"probability/flip": 0.5}, {"probability/flip": 0.25}]
    write_run("scale", learned=learned, accuracy={0: 0.9, 4: 0.92}, training_seconds=12.5)
    write_run("none", state=RunState.FAILED)
    write_run("none", seed=1, state=RunState.PLANNED)
    runs = load_runs(tmp_path)

    assert runs.states == {"done": 1, "failed": 1, "planned": 1}
    assert runs.damaged == ()
    assert list(runs.runs["method"]) == ["none", "none", "scale"]
    row = runs.finished().iloc[0]
    assert (row["seconds_training"], row["image_passes_training"], row["train_images"]) == (12.5, 8000, 4000)
    assert (row["dataset"], row["dataset_label"], row["budget"]) == ("mnist5k", "mnist5k (size=14)", "2 epochs")

    accuracy = runs.scores[runs.scores["metric"] == "accuracy"]
    assert dict(zip(accuracy["draws"], accuracy["value"], strict=True)) == {0: 0.9, 4: 0.92}
    flip = runs.trajectories[runs.trajectories["quantity"] == "probability/flip"]
    assert list(zip(flip["epoch"], flip["value"], strict=True)) == [(1, 0.5), (2, 0.25)]
    assert list(runs.learned["value"]) == [0.25]
    assert list(runs.probe["degrees"]) == [-180, -90, 0, 90]
    assert runs.reliability["count"].sum() == 4
    # Runs that are not done have epochs but nothing else.
    assert set(runs.trajectories["method"]) == {"none", "scale"}
    assert set(runs.scores["method"]) == {"scale"}


@pytest.mark.parametrize("file", ["spec.json", "result.json", "metrics.jsonl", "predictions.npz"])
def test_a_truncated_file_is_damage(tmp_path: Path, write_run: WriteRun, file: str) -> None:
    write_run()
    path = write_run(seed=1).path / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DamagedError, match="seed1"):
        load_runs(tmp_path)
    runs = load_runs(tmp_path, skip_damaged=True)
    assert list(runs.runs["seed"]) == [0]
    assert len(runs.damaged) == 1 and "seed1" in runs.damaged[0]


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("spec.json", None, "", "no complete JSON"),
        ("result.json", None, "", "truncated"),
        ("metrics.jsonl", None, "", "0 of 2 epochs"),
        ("predictions.npz", None, None, r"predictions\.npz in .* is damaged: it is missing\."),
        ("result.json", '"seconds"', '"minutes"', "seconds is missing"),
        ("result.json", '"test_images": 4', '"test_images": 5', "4 images, .* 5"),
    ],
)
def test_an_empty_missing_or_wrong_file_is_damage(
    tmp_path: Path, write_run: WriteRun, file: str, old: str | None, new: str | None, words: str
) -> None:
    path = write_run().path / file
    if new is None:
        path.unlink()
    else:
        path.write_text(new if old is None else path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(DamagedError, match=words):
        load_runs(tmp_path)


def test_a_folder_that_was_a_run_is_damage_and_another_one_foreign(tmp_path: Path, write_run: WriteRun) -> None:
    folder = write_run()
    (tmp_path / "runs" / "holiday").mkdir()
    runs = load_runs(tmp_path)
    assert len(runs.runs) == 1 and [(one.kind, one.folder) for one in runs.problems] == [("foreign", "holiday")]
    assert any("1 file belongs to no run" in warning for warning in runs.warnings())
    (folder.path / "spec.json").unlink()
    with pytest.raises(DamagedError, match=r"spec\.json"):
        load_runs(tmp_path)


def test_the_folder_of_all_runs_can_be_given_and_that_of_one_cannot(tmp_path: Path, write_run: WriteRun) -> None:
    folder = write_run()
    assert len(load_runs(tmp_path / "runs").runs) == 1
    with pytest.raises(UserError, match=f"folder of a single run. Give the output folder: {tmp_path}"):
        load_runs(folder.path)


def test_a_copied_folder_is_not_another_seed(tmp_path: Path, write_run: WriteRun) -> None:
    folder = write_run()
    copy = folder.path.with_name("z_copy")
    copy.mkdir()
    for file in folder.path.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    with pytest.raises(DamagedError, match="same run"):
        load_runs(tmp_path)
    assert len(load_runs(tmp_path, skip_damaged=True).runs) == 1


def test_nothing_finished_says_how_far_runs_are_and_what_goes_on(tmp_path: Path, write_run: WriteRun) -> None:
    write_run(state=RunState.PLANNED)
    write_run(seed=1, state=RunState.FAILED)
    (write_run(seed=2).path / "result.json").write_text("{", encoding="utf-8")
    runs = load_runs(tmp_path, skip_damaged=True)
    with pytest.raises(
        UserError, match=r"None of the 3 runs .*: 1 failed, 1 planned, 1 damaged.*augbench run"
    ) as error:
        runs.finished()
    assert "augbench demo" in str(error.value)
    for folder in (tmp_path / "runs").iterdir():
        (folder / "spec.json").write_text("")
    with pytest.raises(UserError, match="3 damaged"):
        load_runs(tmp_path, skip_damaged=True).finished()


def test_settings_stand_in_the_label_where_they_differ(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale", settings={"estimator": "rloo", "rate": 0.1})
    write_run("scale", settings={"estimator": "pooled", "rate": 0.1})
    write_run("scale", settings={"estimator": "pooled", "rate": 0.1}, dataset="rotmnist5k")
    write_run("none", version=1)
    write_run("none", version=2, seed=1)
    frame = load_runs(tmp_path).runs
    labels = {dataset: sorted(group["label"]) for dataset, group in frame.groupby("dataset")}
    upright = ["none (version=1)", "none (version=2)", "scale (estimator=pooled)", "scale (estimator=rloo)"]
    assert labels == {"mnist5k": upright, "rotmnist5k": ["scale"]}


def test_a_given_policy_is_told_from_a_search_by_nothing_else(tmp_path: Path, write_run: WriteRun) -> None:
    searching = {"policy": None, "draws": 5, "trials": 40}
    first, second = ([["Invert", level, 0.5], ["Rotate", 0.25, 0.75]] for level in (0.25, 0.75))
    for settings in (searching, searching | {"draws": 7}, searching | {"policy": first}):
        write_run("fast-aa", settings=settings)
    labels = list(load_runs(tmp_path).runs["label"])
    given = f"fast-aa ({settings_in_words({'policy': first})})"
    assert labels == sorted([given, "fast-aa (draws=5, policy=None)", "fast-aa (draws=7, policy=None)"])
    write_run("fast-aa", settings=searching | {"policy": second})
    write_run("fast-aa", settings=searching | {"policy": second, "draws": 7})
    labels = list(load_runs(tmp_path).runs["label"])
    assert len(set(labels)) == len(labels) == 5, "runs that differ never share a name"


def test_other_budgets_and_protocols_are_other_comparisons(tmp_path: Path, write_run: WriteRun) -> None:
    write_run()
    write_run(epochs=3)
    write_run(dataset="rotmnist5k")
    assert list(load_runs(tmp_path).runs["comparison"].unique()) == [
        "mnist5k (size=14), 2 epochs",
        "mnist5k (size=14), 3 epochs",
        "rotmnist5k (size=14)",
    ]
    write_run(dataset="rotmnist5k", protocol=Protocol(calibration_bins=10), seed=1)
    comparisons = load_runs(tmp_path).runs["comparison"]
    assert "rotmnist5k (size=14), calibration_bins=10" in set(comparisons)
    assert "rotmnist5k (size=14), calibration_bins=15" in set(comparisons)


def test_what_is_known_of_runs_is_worked_out_once_and_not_of_a_choice_of_them(
    tmp_path: Path, write_run: WriteRun
) -> None:
    for seed in range(3):
        write_run("none", seed=seed)
    runs, made = load_runs(tmp_path), []

    def make() -> int:
        made.append(len(made))
        return made[-1]

    assert [runs.once("one", make), runs.once("one", make), runs.once("other", make)] == [0, 0, 1]
    assert replace(runs, runs=runs.runs[:1]).once("one", make) == 2


def test_a_table_that_somebody_changes_is_theirs_alone(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale", learned=[{"probability/rotation": 0.5}])
    runs = load_runs(tmp_path)
    for make, column in ((runs.table, "accuracy"), (lambda: learned_numbers(runs), "drawn")):
        before, changed = make(), make()
        assert not (before[column] == 0).all()
        changed[column] = 0.0
        pd.testing.assert_frame_equal(make(), before)


def test_cells_are_those_of_the_runs_that_are_asked_for(tmp_path: Path, write_run: WriteRun) -> None:
    for seed, accuracy in enumerate((0.5, 0.7, 0.9)):
        write_run("none", seed=seed, accuracy=accuracy)
    runs = load_runs(tmp_path)
    for chosen, mean in ((runs.finished(), 0.7), (runs.finished()[:2], 0.6)):
        ((here, group),) = by_comparison(runs, chosen)
        again = [score_cells(here, group, "accuracy", 0)["none"].mean for _ in range(2)]
        assert again == [pytest.approx(mean)] * 2
        assert score_cells(here, group, "nll", 0)["none"].mean == 0.25
    assert by_comparison(runs, runs.finished()) is by_comparison(runs, runs.finished())
