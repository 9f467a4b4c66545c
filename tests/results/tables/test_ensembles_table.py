"""Ensembles of seeds and temperatures: the table, and `augbench calibrate`."""

import json
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cells import headings

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import DamagedError, RunFolder, RunState
from augbench.bench.training.metrics import score
from augbench.results.model.frame import load_runs
from augbench.results.model.packing import pack
from augbench.results.model.table import NOTHING, Table
from augbench.results.records import record
from augbench.results.statistics.temperature import cross_fitted
from augbench.results.tables.ensembles import ensembles_table

CommandLine = Callable[..., tuple[int, str, str]]
WriteRun = Callable[..., RunFolder]

IMAGES, CLASSES = 30, 3
LABELS = np.arange(IMAGES) % CLASSES


def predicted(seed: int) -> np.ndarray:
    """Float32 probabilities that tend to the labels, others for each seed."""
    logits = np.random.default_rng(seed).normal(size=(IMAGES, CLASSES)) * 2 + 2 * np.eye(CLASSES)[LABELS]
    powers = np.exp(logits)
    return (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def write_seeds(write_run: WriteRun) -> Callable[..., list[RunFolder]]:
    """Write a run of each seed, all of one learner."""

    def write(method: str, seeds: Sequence[int], labels: Any = LABELS, **options: Any) -> list[RunFolder]:
        return [
            write_run(method, seed=seed, probabilities=predicted(seed).tolist(), labels=list(labels), **options)
            for seed in seeds
        ]

    return write


def line(table: Table, networks: int, *, with_temperature: bool = False, method: str = "none") -> pd.Series:
    assert table.data is not None
    data = table.data
    chosen = (data["method"] == method) & (data["networks"] == networks)
    (found,) = [row for _, row in data[chosen & (data["with_temperature"] == with_temperature)].iterrows()]
    return found


def test_ensembles_are_means_over_all_pairings(write_seeds: Any, tmp_path: Path) -> None:
    write_seeds("none", range(5))
    table = ensembles_table(load_runs(tmp_path))
    assert [row.cells[0].text for row in table.rows] == ["1", "1", "2", "2", "4", "4", "5", "5"]
    for size in (1, 2, 4, 5):
        members = list(combinations([predicted(seed).astype(float) for seed in range(5)], size))
        scores = pd.DataFrame([score(np.mean(some, axis=0), LABELS, 15) for some in members])
        found = line(table, size)
        assert found["averaged"] == len(members)
        for name in ("accuracy", "nll", "brier", "ece", "ece_equal_mass"):
            assert found[name] == pytest.approx(scores[name].mean()), (size, name)
            assert found[f"{name}_sd"] == pytest.approx(scores[name].std(), nan_ok=True) or size > 1
        assert np.isnan(found["nll_sd"]) == (size > 1)
    other = np.mean([np.mean(predicted(a).argmax(1) != predicted(b).argmax(1)) for a, b in combinations(range(5), 2)])
    assert line(table, 1)["disagreement"] == pytest.approx(other) and np.isnan(line(table, 2)["disagreement"])


def test_temperatures_are_cross_fitted_for_each_network_or_ensemble(write_seeds: Any, tmp_path: Path) -> None:
    write_seeds("none", range(2))
    table = ensembles_table(load_runs(tmp_path))
    networks = [predicted(seed).astype(float) for seed in range(2)]
    for size, made in ((1, networks), (2, [(networks[0] + networks[1]) / 2])):
        fitted = [found for one in made for found in cross_fitted(one, LABELS)]
        before, after = line(table, size), line(table, size, with_temperature=True)
        assert after["temperature"] == pytest.approx(np.mean([found.temperature for found in fitted]))
        assert after["nll"] == pytest.approx(np.mean([score(one.probabilities, LABELS, 15)["nll"] for one in fitted]))
        assert after["accuracy"] == pytest.approx(before["accuracy"])
        assert before["nll_refinement"] == pytest.approx(after["nll"])
        assert before["nll_calibration"] + before["nll_refinement"] == pytest.approx(before["nll"])
        assert before["brier_calibration"] + before["brier_refinement"] == pytest.approx(before["brier"])


def test_an_ensemble_of_equal_members_is_the_member(write_run: WriteRun, tmp_path: Path) -> None:
    for seed in range(3):
        write_run(seed=seed, probabilities=predicted(0).tolist(), labels=list(LABELS))
    table = ensembles_table(load_runs(tmp_path))
    for tempered in (False, True):
        single = line(table, 1, with_temperature=tempered)
        for size in (2, 3):
            assert line(table, size, with_temperature=tempered)["ece_smooth"] == pytest.approx(single["ece_smooth"])
            assert line(table, size, with_temperature=tempered)["nll"] == pytest.approx(single["nll"])
    assert line(table, 1)["disagreement"] == 0


def test_texts_of_cells(write_run: WriteRun, tmp_path: Path) -> None:
    for seed, share in enumerate((0.9, 0.7)):
        write_run(seed=seed, probabilities=[[share, 1 - share]] * 4, labels=[0, 0, 0, 1])
    write_run(seed=2, state=RunState.FAILED)
    table = ensembles_table(load_runs(tmp_path))
    single, ensemble = (dict(zip(headings(table), row.cells, strict=True)) for row in (table.rows[0], table.rows[2]))
    assert single["Networks"].text == "1" and ensemble["Networks"].text == "2"
    assert single["T"].text == NOTHING and single["Disagreement (%)"].text == "0.0 (2/3)"
    assert single["ECE"].text == "0.100 ± 0.071 (2/3)" and ensemble["ECE"].text == "0.050 (2/3)"  # |0.75 − 0.8|
    # both images' gaps squared, less 3/16 over 3: 0.15² and 0.05² in single networks
    assert single["Debiased square (10⁻⁴)"].text.startswith(f"−{625 - 125:.1f} ")
    # the order is chance: the risk is 1/4 with any coverage; at best 0, 0, 0, 1/4
    assert ensemble["AURC (%)"].text == "25.00 (2/3)" and ensemble["Excess AURC (%)"].text == "18.75 (2/3)"
    assert ensemble["ECE"].sd is None and ensemble["ECE"].count == 2


def test_nothing_else_is_mixed(write_seeds: Any, tmp_path: Path) -> None:
    for options in ({}, {"epochs": 3}, {"version": 2}, {"settings": {"learning_rate": 0.5}}, {"dataset_version": 2}):
        write_seeds("none", [0, 1], **options)
    table = ensembles_table(load_runs(tmp_path))
    assert len(table.rows) == 5 * 4 and len({(row.comparison, row.label) for row in table.rows}) == 5


def test_a_single_seed_has_a_temperature_but_no_ensemble(write_seeds: Any, tmp_path: Path) -> None:
    write_seeds("none", [3])
    write_seeds("scale", [0, 1])
    table = ensembles_table(load_runs(tmp_path))
    assert [row.label for row in table.rows] == ["none"] * 2 + ["scale"] * 4
    assert "No ensemble of a single seed: none on mnist5k (size=14)." in table.notes


def test_other_test_images_are_not_averaged(write_seeds: Any, tmp_path: Path) -> None:
    write_seeds("none", [0])
    write_seeds("none", [1], labels=LABELS[::-1])
    with pytest.raises(UserError, match=r"seeds were evaluated on different test images: none on mnist5k"):
        ensembles_table(load_runs(tmp_path))
    write_seeds("scale", [0, 1])
    table = ensembles_table(load_runs(tmp_path))
    assert {row.label for row in table.rows} == {"scale"} and any("different test images" in one for one in table.notes)


def test_one_image_cannot_be_halved(write_run: WriteRun, tmp_path: Path) -> None:
    write_run(probabilities=[[0.5, 0.5]], labels=[0])
    with pytest.raises(UserError, match="a single test image cannot be halved"):
        ensembles_table(load_runs(tmp_path))


def test_predictions_of_another_run_are_refused(
    write_seeds: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_seeds("none", [0, 1], accuracy=0.123)
    monkeypatch.setattr(record, "AGREEMENT", 1e-6)
    with pytest.raises(DamagedError, match=r"predictions\.npz in .* they give the accuracy"):
        ensembles_table(load_runs(tmp_path))


# The command


@pytest.fixture
def out(write_seeds: Any, tmp_path: Path) -> Path:
    write_seeds("none", [0, 1], root=tmp_path / "out")
    return tmp_path / "out"


def test_the_command_prints_or_writes(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    code, text, errors = augbench("calibrate", "--from", out)
    assert (code, errors) == (0, "") and max(map(len, text.splitlines())) <= 80
    assert all(word in text for word in ("Networks", "NLL", "ECE", "Accuracy"))
    code, text, _ = augbench("calibrate", "--from", out, "--out", tmp_path / "to", "--format", "md", "--format", "csv")
    assert code == 0 and text.splitlines() == [str(tmp_path / "to" / f"ensembles.{one}") for one in ("md", "csv")]
    assert "AURC" in (tmp_path / "to" / "ensembles.md").read_text()
    assert len(pd.read_csv(tmp_path / "to" / "ensembles.csv")) == 4
    code, text, _ = augbench("calibrate", "--from", out, "--json")
    assert code == 0 and len(json.loads(text)["ensembles"][0]["rows"]) == 4
    assert augbench("calibrate", "--from", out, "--json", "--out", tmp_path)[0] == 2


def test_archives_have_probabilities_and_parquet_files_do_not(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    for name in ("runs.tar.gz", "runs.parquet"):
        pack([out], tmp_path / name)
    assert augbench("calibrate", "--from", tmp_path / "runs.tar.gz")[0] == 0
    code, text, errors = augbench("calibrate", "--from", tmp_path / "runs.parquet")
    assert (code, text) == (2, "") and "not kept" in errors and "NAME.tar.gz" in errors
    assert len(errors.strip().splitlines()) == 1
