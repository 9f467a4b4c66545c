"""Suites: resolved once each, in a fixed order, with every mistake explained."""

import io
import sys
from pathlib import Path

import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.common.toml_files import line_of
from augbench.bench.experiment.suite import built_in_suites, load_suite, parse_suite

SUITE = """
name = "small"
title = "Small"
seeds = [0, 1]
[[comparisons]]
datasets = [{ name = "mnist5k" }, { name = "rotmnist5k", options = { size = 14 } }]
methods = [{ name = "none" }, { name = "scale", hyperparameters = { copies = 2 } }]
network = "tiny"
[comparisons.budget]
epochs = 3
"""


def test_every_combination_is_planned_once_seed_by_seed() -> None:
    specs = parse_suite(SUITE, "a test").specs()
    assert [(spec.seed, spec.dataset.label, spec.method.label) for spec in specs] == [
        (seed, dataset, method)
        for seed in (0, 1)
        for dataset in ("mnist5k", "rotmnist5k (size=14)")
        for method in ("none", "scale (copies=2)")
    ]


def test_a_run_named_twice_is_planned_once() -> None:
    doubled = SUITE.replace('{ name = "none" }', '{ name = "none" }, { name = "none", hyperparameters = {} }')
    assert len(parse_suite(doubled, "a test").specs()) == len(parse_suite(SUITE, "a test").specs())


@pytest.mark.parametrize("name", sorted(built_in_suites()))
def test_built_in_suites_resolve(name: str) -> None:
    suite = load_suite(name)
    assert suite.name == name
    assert suite.specs()


def test_protocol_decisions_can_be_overridden() -> None:
    suite = parse_suite(SUITE.replace("[[comp", "[protocol]\nmaximum_shear = 0.5\n[[comp"), "a test")
    assert {spec.protocol.maximum_shear for spec in suite.specs()} == {0.5}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"none"', '"nine"', ["no method 'nine'", "Did you mean 'none'?", "trivialaugment"]),
        ('"mnist5k"', '"mnist6k"', ["no data set 'mnist6k'", "Did you mean 'mnist5k'?"]),
        ('"tiny"', '"huge"', ["no network 'huge'", "tiny"]),
        ("size = 14", "size = 15", ["size", "28 or 14", "given: 15"]),
        ("size = 14", "side = 14", ["'side'", "Valid choices: size"]),
        ("copies = 2", "copies = 99", ["copies", "less than or equal to 64"]),
        ("epochs = 3", "epoch = 3", ["'comparisons[1].budget.epoch'", "'comparisons[1].budget.epochs' is missing"]),
        ("seeds = [0, 1]", "seeds = []", ["seeds", "must not be empty"]),
        ("seeds = [0, 1]", "sed = [0, 1]", ["'sed'", "Did you mean 'seeds'?"]),
        ("seeds = [0, 1]", "", ["needs `seeds`, such as seeds = [0, 1, 2]"]),
        ('name = "small"', "name = small", ["not valid TOML"]),
        ("seeds = [0, 1]", "seeds = 0", ["seeds: must be a list", "given: 0"]),
        ("[[comparisons]]", "[comparisons]", ["comparisons: must be a list", "[[name]] above each table"]),
        ('{ name = "none" }', '"none"', ["comparisons[1].methods[1]: must be a table, such as", "given: 'none'"]),
        ("hyperparameters = { copies = 2 }", "hyperparameters = 3", ["must be a table, such as { copies = 4 }"]),
        ("seeds = [0, 1]", "seeds = [0, 1, 0]", ["line 4: seeds: 0 is listed 2 times"]),
        ("epochs = 3", "epochs = 0", ["line 10: comparisons[1].budget.epochs", "greater than or equal to 1"]),
        ("seeds = [0, 1]", "seeds = " + "[" * 5000 + "]" * 5000, ["mine.toml is nested too deeply"]),
        ("seeds = [0, 1]", "seeds = [true, -1]", ["seeds[1]", "valid integer", "greater than or equal to 0"]),
        ("seeds = [0, 1]", f"seeds = [{10**300}]", ["seeds[1]", "less than 9223372036854775808"]),
        ("seeds = [0, 1]", f"seeds = [{'9' * 5000}]", ["not valid TOML"]),
        ("epochs = 3", 'epochs = "3"', ["epochs", "valid integer"]),
        ("size = 14", 'size = "14"', ["size", "28 or 14"]),
        ("[[comparisons]]", "[protocol]\ntest_time_draws = [8, 4]\n[[comparisons]]", ["must rise from at least 1"]),
        ("[[comparisons]]", "[protocol]\ntest_time_draws = [0, 4]\n[[comparisons]]", ["must rise from at least 1"]),
    ],
)
def test_mistakes_are_explained(old: str, new: str, words: list[str]) -> None:
    assert old in SUITE
    with pytest.raises(UserError) as error:
        parse_suite(SUITE.replace(old, new), "mine.toml").specs()
    assert "must not be empty" not in str(error.value) or "seeds" in words, "noise"
    missing = [word for word in words if word not in str(error.value)]
    assert not missing, str(error.value)


def test_the_line_of_a_mistake_is_found_in_tables_of_any_kind() -> None:
    text = """\
name = "x"
seeds = [
  0,
]
[[comparisons]]
network = "tiny"
[comparisons.budget]
epochs = 1
[[comparisons]]
methods = [
  { name = "none" },
]
[[comparisons.datasets]]
name = "a"
[[comparisons.datasets]]
name = "b"
"q.r" = 1
"""
    places: dict[tuple[int | str, ...], int | None] = {
        ("name",): 1,
        ("seeds", 0): 2,
        ("comparisons", 0, "network"): 6,
        ("comparisons", 0, "budget", "epochs"): 8,
        ("comparisons", 0, "budget", "lost"): 7,
        ("comparisons", 1): 9,
        ("comparisons", 1, "methods", 0, "name"): 10,
        ("comparisons", 1, "datasets", 1, "name"): 16,
        ("comparisons", 1, "datasets", 0): 13,
        ("lost",): None,
    }
    assert {place: line_of(text, place) for place in places} == places


def test_a_suite_comes_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SUITE.encode())))
    assert load_suite("-") == parse_suite(SUITE, "mine.toml")
    with pytest.raises(UserError, match="Standard input, from which - reads the suite, is empty"):
        load_suite("-")


def test_a_suite_that_does_not_exist_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no suite 'dmeo'\. Did you mean 'demo'\?"):
        load_suite("dmeo")
    with pytest.raises(UserError, match=r"cannot be read.*demo"):
        load_suite(str(tmp_path / "missing.toml"))
