"""The paper's suites from the command line, on real photographs, at the level `smoke`."""

import json
import math
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from augbench.bench.experiment.budgets import budgets
from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.suite import built_in_suites
from augbench.bench.runs.output_folder import run_folders
from augbench.bench.runs.run_folder import RunFolder

CommandLine = Callable[..., tuple[int, str, str]]
Outcome = Callable[[RunFolder], dict[str, Any]]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Leave two methods and one seed of the paper's comparison on CIFAR-10."""
    text = built_in_suites()["paper-cifar10"].replace("seeds = [0, 1, 2, 3, 4]", "seeds = [0]")
    dropped = ("none", "fixed", "augerino+flips", "faster-aa", "trivialaugment", "dada")
    lines = [line for line in text.splitlines() if not any(f'"{name}"' in line for name in dropped)]
    path = tmp_path / "some.toml"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.slow
def test_a_smoke_run_is_finite_and_repeats_bit_for_bit(
    suite: Path, prepared_root: Path, tmp_path: Path, augbench: CommandLine, outcome: Outcome
) -> None:
    ended = []
    for out in (tmp_path / "first", tmp_path / "second"):
        options = ("--budget", "smoke", "--device", "cpu", "--workers", "1")
        code, _, errors = augbench("run", suite, "--out", out, "--data", prepared_root, *options)
        assert code == 0, errors
        ended.append({folder.path.name: outcome(folder) for folder in run_folders(out)})
    assert ended[0] == ended[1]
    assert {name.split("_")[0] for name in ended[0]} == {"fast-aa", "scale"}
    for run in ended[0].values():
        values = [value for metric in run["result"]["metrics"]["0"].values() for value in metric["values"]]
        assert all(map(math.isfinite, values))
        assert run["result"]["train_images"] == 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dropped", "runs"),
    [
        # `none` with three recipes and TrivialAugment with one, on the same network
        ("published-cifar10", ("randaugment-wide", "autoaugment", "fast-aa", "dada"), 4),
        # `fixed`, and `none` with four recipes, three of them of predictors
        ("paper-calibration-cifar10", ("augerino+flips", "fast-aa", "faster-aa", "scale"), 5),
    ],
)
def test_a_smoke_run_of_recipes_is_finite(
    prepared_root: Path,
    tmp_path: Path,
    augbench: CommandLine,
    outcome: Outcome,
    name: str,
    dropped: Sequence[str],
    runs: int,
) -> None:
    lines = built_in_suites()[name].splitlines()
    text = "\n".join(line for line in lines if not any(f'name = "{method}"' in line for method in dropped))
    (tmp_path / "some.toml").write_text(text)
    options = ("--budget", "smoke", "--device", "cpu", "--workers", "1")
    code, _, errors = augbench(
        "run", tmp_path / "some.toml", "--out", tmp_path / "out", "--data", prepared_root, *options
    )
    assert code == 0, errors
    ended = [outcome(folder)["result"]["metrics"]["0"]["nll"]["values"] for folder in run_folders(tmp_path / "out")]
    assert len(ended) == runs
    assert all(math.isfinite(value) for values in ended for value in values)


def test_what_is_missing_is_said_for_all_data_sets_at_once(tmp_path: Path, augbench: CommandLine) -> None:
    code, _, errors = augbench("run", "paper", "--budget", "smoke", "--out", tmp_path / "out", "--data", tmp_path)
    assert code == 2
    assert f"`augbench data prepare mnist rotmnist cifar10 cifar100 svhn --data {tmp_path}`" in errors
    assert not list((tmp_path / "out").glob("runs/*"))


def test_budgets_have_cards_and_levels_show_in_a_plan(tmp_path: Path, augbench: CommandLine) -> None:
    _, text, _ = augbench("list", "budgets", "--json")
    cards = json.loads(text)
    titles = {card["name"]: card["title"] for card in cards}
    tables = {card["name"]: tomllib.loads(card["toml"]) for card in cards if "toml" in card}
    assert {"cifar10/wrn-28-10", "cifar10/wrn-28-10/autoaugment"} <= set(tables)
    for name, table in tables.items():
        assert Budget.model_validate(table["comparisons"]["budget"]) == budgets().paper(*name.split("/"))
    _, text, _ = augbench("list", "budgets", "cifar10/wrn-28-10/autoaugment")
    assert tomllib.loads(text) == tables["cifar10/wrn-28-10/autoaugment"]
    assert titles["rotmnist/smallnet"] == "adam, rate 0.02, cosine; 300 epochs, batches of 128"
    _, text, _ = augbench("list", "budgets", "cifar10/wrn-28-10/sngp")
    assert 'base = [{ name = "crop", pixels = 2 }, "flip"]' in text
    _, text, _ = augbench("list", "budgets", "smoke")
    assert 'network = "tiny"' in text
    code, text, _ = augbench("plan", "paper-svhn", "--budget", "quick", "--out", tmp_path / "out")
    assert code == 0
    assert "25 runs: 25 missing" in text
    code, _, errors = augbench("plan", "demo", "--budget", "quick", "--out", tmp_path / "out")
    assert code == 2
    assert "'demo' sets its own budget" in errors
