"""The table of differences from a reference."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cells import bold, texts

from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.frame import load_runs
from augbench.results.model.table import Table
from augbench.results.statistics.bootstrap import paired_difference
from augbench.results.tables.differences import differences_table, has_differences

WriteRun = Callable[..., RunFolder]
WriteRight = Callable[..., RunFolder]


def predictions(right: Sequence[int]) -> list[list[float]]:
    """Probabilities of two classes that are right where `right` is 1; the label is always 0."""
    return [[0.9, 0.1] if is_right else [0.2, 0.8] for is_right in right]


@pytest.fixture
def write_right(write_run: WriteRun) -> WriteRight:
    """Write a run that classifies some of its test images right, with test-time draws those of each repeat."""

    def write(method: str, right: Sequence[int], *, seed: int = 0, drawn: Any = None, **options: Any) -> RunFolder:
        accuracy = {0: float(np.mean(right))} | ({} if drawn is None else {4: float(np.mean(drawn))})
        options |= {} if drawn is None else {"drawn": {4: [predictions(repeat) for repeat in drawn]}}
        labels = [0] * len(right)
        return write_run(
            method, seed=seed, accuracy=accuracy, probabilities=predictions(right), labels=labels, **options
        )

    return write


NONE = ([1, 1, 0, 0, 1, 0, 0, 0, 0, 1], [1, 1, 0, 0, 1, 0, 0, 0, 0, 0], [1, 1, 1, 0, 1, 0, 0, 0, 0, 0])
SCALE = ([1, 1, 0, 1, 1, 1, 1, 0, 1, 1], [1, 1, 0, 1, 1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 1, 1, 0, 1, 1, 0])


def line(table: Table, method: str, draws: int = 0) -> dict[str, Any]:
    assert table.data is not None
    (found,) = table.data[(table.data["method"] == method) & (table.data["draws"] == draws)].to_dict("records")
    return {str(name): value for name, value in found.items()}


def test_by_hand(write_right: WriteRight, tmp_path: Path) -> None:
    for seed in range(3):
        write_right("none", NONE[seed], seed=seed)
        write_right("scale", SCALE[seed], seed=seed)
    table = differences_table(load_runs(tmp_path))
    # 0.8 − 0.4, 0.6 − 0.3 and 0.8 − 0.4: mean 11/30, deviation 1/√300, t = 11 with two degrees of freedom
    found = line(table, "scale")
    assert found["difference"] == pytest.approx(11 / 30)
    assert found["p_value"] == found["p_holm"] == pytest.approx(1 - 11 / math.sqrt(123))
    assert (found["reference"], found["seeds"], found["asked"]) == ("none", 3, 3)
    interval = paired_difference(SCALE, NONE)
    assert (found["difference_low"], found["difference_high"]) == (interval.low, interval.high)
    assert (found["probability_of_improvement"], found["probability_high"]) == (1, 1)
    assert found["probability_low"] == pytest.approx(0.025 ** (1 / 3))
    (row,) = table.rows
    assert row.cells[1].best
    assert interval.low is not None
    assert interval.high is not None
    ends = f"+{100 * interval.low:.1f}, +{100 * interval.high:.1f}"
    assert texts(table)["scale"] == ["none", f"+36.7 [{ends}]", "0.008", "1.00 [0.29, 1.00]"]


def test_the_family_is_all_rows_of_a_data_set_with_as_many_draws(write_right: WriteRight, tmp_path: Path) -> None:
    for seed in range(3):
        write_right("none", NONE[seed], seed=seed)
        write_right("fixed", SCALE[seed], seed=seed)
        write_right("scale", SCALE[seed], seed=seed, drawn=[SCALE[seed], NONE[seed]])
        write_right("none", NONE[seed], seed=seed, dataset="rotmnist5k")
        write_right("scale", SCALE[seed], seed=seed, dataset="rotmnist5k")
    table = differences_table(load_runs(tmp_path))
    assert [(row.dataset, row.label) for row in table.rows] == [
        ("mnist5k (size=14)", "fixed"),
        ("mnist5k (size=14)", "scale"),
        ("mnist5k (size=14)", "scale, 4 draws"),
        ("rotmnist5k (size=14)", "scale"),
    ]
    alone = 1 - 11 / math.sqrt(123)
    assert table.data is not None
    assert table.data["p_holm"].tolist() == pytest.approx([2 * alone, 2 * alone, alone, alone])
    # each repeat counts as half an image: half of the difference without draws
    drawn = line(table, "scale", draws=4)
    assert drawn["difference"] == pytest.approx(11 / 60)
    half = paired_difference((np.array(SCALE) + NONE) / 2, NONE)
    assert (drawn["difference_low"], drawn["difference_high"]) == pytest.approx((half.low, half.high))


def test_without_none_the_best_is_the_reference_and_tested_as_one_of_all_pairs(
    write_right: WriteRight, tmp_path: Path
) -> None:
    for seed in range(3):
        write_right("fixed", NONE[seed], seed=seed)
        write_right("trivialaugment", NONE[seed], seed=seed)
        write_right("scale", SCALE[seed], seed=seed, drawn=[NONE[seed]])
    table = differences_table(load_runs(tmp_path))
    assert [row.label for row in table.rows] == ["fixed", "trivialaugment", "scale, 4 draws"]
    assert {row.cells[0].text for row in table.rows} == {"scale"}
    assert texts(table)["fixed"][1].startswith("−36.7 [")
    # p = 0.008 for all rows. The pair that the table does not show counts, too; with draws there is only one pair.
    alone = 1 - 11 / math.sqrt(123)
    assert table.data is not None
    assert table.data["p_value"].tolist() == pytest.approx([alone] * 3)
    assert table.data["p_holm"].tolist() == pytest.approx([3 * alone, 3 * alone, alone])


def test_one_seed_has_neither_interval_nor_test_and_two_no_test(write_right: WriteRight, tmp_path: Path) -> None:
    write_right("none", NONE[0])
    write_right("scale", SCALE[0])
    table = differences_table(load_runs(tmp_path))
    assert texts(table)["scale"] == ["none", "+40.0", "–", "1.00"]
    assert "Not computed, a single seed in common with none: scale on mnist5k (size=14)." in table.notes
    assert line(table, "scale")["difference_low"] is None
    write_right("none", NONE[1], seed=1)
    write_right("scale", SCALE[1], seed=1)
    table = differences_table(load_runs(tmp_path))
    assert texts(table)["scale"][2] == "–"
    assert any("no test of fewer than 3 seeds in common with none: scale" in note for note in table.notes)


def test_the_same_difference_with_each_seed_is_not_tested(write_right: WriteRight, tmp_path: Path) -> None:
    for seed in range(3):
        write_right("none", NONE[0], seed=seed)
        write_right("scale", SCALE[0], seed=seed)
    table = differences_table(load_runs(tmp_path))
    assert texts(table)["scale"][2] == "–"
    assert any("the difference to none is the same with every seed: scale" in note for note in table.notes)
    assert not table.rows[0].cells[1].best


def test_missing_seeds_are_said_and_nothing_is_bold(write_right: WriteRight, tmp_path: Path) -> None:
    for seed in range(3):
        write_right("none", NONE[seed], seed=seed)
        write_right("scale", SCALE[seed], seed=seed)
    assert differences_table(load_runs(tmp_path)).rows[0].cells[1].best
    write_right("none", NONE[0], seed=3)
    write_right("scale", SCALE[0], seed=3, state=RunState.FAILED)
    write_right("fixed", NONE[0], seed=7)
    table = differences_table(load_runs(tmp_path))
    assert (line(table, "scale")["seeds"], line(table, "scale")["asked"]) == (3, 5)
    assert texts(table)["scale"][1].endswith("(3/5)")
    assert texts(table)["scale"][2] == "0.016", "fixed, which cannot be tested, is a member of the family"
    assert bold(table) == []
    assert texts(table)["fixed"] == ["none", "–", "–", "–"]
    assert "Not computed, no seed in common with none: fixed on mnist5k (size=14)." in table.notes


def test_nan_is_a_missing_accuracy(write_right: WriteRight, write_run: WriteRun, tmp_path: Path) -> None:
    for seed in range(3):
        write_right("none", NONE[seed], seed=seed)
    for seed in range(2):
        write_right("scale", SCALE[seed], seed=seed)
    runs = load_runs(tmp_path)
    scores = runs.scores
    of_scale = (scores["label"] == "scale") & (scores["metric"] == "accuracy") & (scores["seed"] == 1)
    scores.loc[of_scale, "value"] = math.nan
    table = differences_table(runs)
    assert line(table, "scale")["seeds"] == 1
    assert texts(table)["scale"][1:3] == ["+40.0 (1/3)", "–"]


def test_predictions_that_are_not_those_of_the_record_give_no_interval(write_run: WriteRun, tmp_path: Path) -> None:
    for seed, accuracy in ((0, 0.7), (1, 0.9)):
        write_run("none", seed=seed, accuracy=0.5)
        write_run("scale", seed=seed, accuracy=accuracy)
    table = differences_table(load_runs(tmp_path))
    assert texts(table)["scale"][1] == "+30.0"
    assert any("predictions and recorded accuracies do not agree: scale" in note for note in table.notes)


def test_different_test_images_give_no_interval(write_right: WriteRight, tmp_path: Path) -> None:
    for seed in range(3):
        write_right("none", NONE[seed][:9], seed=seed)
        write_right("scale", SCALE[seed], seed=seed)
    table = differences_table(load_runs(tmp_path))
    assert "[" not in texts(table)["scale"][1]
    assert any("no interval without the predictions" in note for note in table.notes)


def test_nothing_to_compare(write_right: WriteRight, write_run: WriteRun, tmp_path: Path) -> None:
    write_right("none", NONE[0])
    write_run("none", epochs=1, dataset="rotmnist5k")
    write_run("scale", epochs=1, dataset="rotmnist5k")
    runs = load_runs(tmp_path)
    assert not has_differences(runs)
    table = differences_table(runs)
    assert table.rows == ()
    assert any(note.startswith("Nothing is compared on mnist5k (size=14), rotmnist5k") for note in table.notes)
    write_right("scale", SCALE[0])
    assert has_differences(load_runs(tmp_path))
    write_right("fixed", NONE[0], dataset="svhn")  # each lacks a seed, so that neither can be the reference
    write_right("scale", SCALE[0], seed=1, dataset="svhn")
    assert any(
        "Nothing is compared on" in note and "svhn" in note for note in differences_table(load_runs(tmp_path)).notes
    )
