"""Runs of learners with one copy of each image count under every reading of a budget, and were computed once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.worker import execute
from augbench.results.model.frame import load_runs
from augbench.results.model.packing import pack
from augbench.results.tables.comparison import comparison_table

WriteRun = Callable[..., RunFolder]
EQUAL = {"equal": "passes", "copies_in_batch": True}
FOUR_COPIES = 32_000  # passes in two epochs of the 4,000 images of runs made by hand


def counted(source: Path) -> list[tuple[str, str, int]]:
    runs = load_runs(source).runs
    return sorted(runs[["budget", "method", "seed"]].itertuples(index=False, name=None))


@pytest.fixture
def both(tmp_path: Path, write_run: WriteRun) -> Path:
    """Write runs of a learner with one copy under one reading, and of one with four under both."""
    for seed in (0, 1):
        write_run("none", seed=seed, budget=EQUAL)
        write_run("scale", seed=seed, budget=EQUAL, training_passes=FOUR_COPIES)
        write_run("scale", seed=seed, training_passes=FOUR_COPIES)
    write_run("augerino", seed=0, budget=EQUAL, state=RunState.FAILED)
    return tmp_path


def test_learners_with_one_copy_count_in_both_comparisons(both: Path) -> None:
    own = [("2 epochs of passes (copies in the batch)", "augerino", 0)]
    for budget in ("2 epochs", own[0][0]):
        own += [(budget, method, seed) for method in ("none", "scale") for seed in (0, 1)]
    assert counted(both) == sorted(own)
    runs = load_runs(both)
    assert any(text.startswith("2 runs of learners with one copy") for text in runs.warnings())
    assert runs.runs["folder"].is_unique and runs.runs["identity"].is_unique
    assert sorted({row.budget for row in comparison_table(runs).rows if row.label == "none"}) == sorted(
        {b for b, *_ in own}
    )


def test_files_hold_each_run_once(both: Path, tmp_path: Path) -> None:
    assert len(load_runs(both, as_stored=True).runs) == 7
    assert pack([both], tmp_path / "all.parquet")[0] == 7
    assert counted(tmp_path / "all.parquet") == counted(both)


def test_what_was_run_under_another_reading_stands_for_itself(both: Path, write_run: WriteRun) -> None:
    write_run("none", seed=1, accuracy=0.25)
    assert len(counted(both)) == 9
    runs = load_runs(both)
    plain = runs.scores.merge(runs.runs[["folder", "budget"]], on="folder")
    plain = plain[(plain["method"] == "none") & (plain["metric"] == "accuracy") & (plain["budget"] == "2 epochs")]
    assert dict(zip(plain["seed"], plain["value"], strict=True)) == {0: 0.9, 1: 0.25}


def test_other_budgets_data_and_predictors_are_other_comparisons(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", budget=EQUAL)
    write_run("none", epochs=3)
    write_run("none", budget={"learning_rate": 0.5})
    write_run("none", dataset="rotmnist5k")
    write_run("augerino", budget={"equal": "passes"}, predictor="ensemble")
    write_run("augerino", predictor="ensemble")
    shared = [record for record in load_runs(tmp_path).records if "(equal" in record.name]
    assert [(one.spec.method.name, one.spec.budget.equal, one.spec.budget.epochs) for one in shared] == [
        ("none", "epochs", 2),
        ("none", "passes", 2),
    ], "the first, beside the ensemble under both readings"


@pytest.mark.usefixtures("few_digits")
def test_such_runs_are_the_same_bit_for_bit(
    make_spec: Callable[..., RunSpec],
    make_folder: Callable[[RunSpec], RunFolder],
    settings: ExecutionSettings,
    stop: StopSignal,
    outcome: Callable[[RunFolder], dict[str, Any]],
) -> None:
    ended = []
    for reading in ({}, EQUAL):
        budget = Budget.model_validate({"epochs": 1, "batch_size": 64, **reading})
        folder = make_folder(make_spec("trivialaugment").model_copy(update={"budget": budget}))
        assert execute(folder, settings, stop) is RunState.DONE
        ended.append(outcome(folder))
        ended[-1]["result"].pop("identity")
    assert ended[0] == ended[1]
