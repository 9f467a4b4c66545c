"""What a plan and a launch say about bases."""

from collections.abc import Callable
from pathlib import Path

import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import parse_suite
from augbench.bench.launching.launch import check_data_and_networks
from augbench.bench.planning.bases import about_bases

BASE = 'base = [{ name = "crop", pixels = 2 }, "flip"]'
SUITE = """
name = "based"
title = "With and without a base"
seeds = [0]
[[comparisons]]
datasets = [{ name = "mnist5k", options = { size = 14 } }]
methods = [{ name = "none" }, { name = "fixed" }, { name = "augerino+flips" }]
network = "tiny"
[comparisons.budget]
epochs = 1
"""


def _specs(base: str) -> list[RunSpec]:
    return list(parse_suite(f"{SUITE}{base}\n", "a test").specs())


def test_a_plan_says_which_runs_have_a_base_and_which_methods_have_it_already() -> None:
    assert about_bases(_specs("")) == []
    assert about_bases([*_specs(BASE), *_specs("")[:1], *_specs('base = ["flip"]')[:1]]) == [
        "Base of 3 runs of 5: crop 2 px, flip, on training images, under every method alike.",
        "Base of 1 run of 5: flip, on training images, under every method alike.",
        "fixed has crop and flip of its own, too; both are applied.",
        "augerino+flips has crop and flip of its own, too; both are applied.",
    ]


def test_every_run_is_listed_with_its_base(augbench: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    suite = tmp_path / "based.toml"
    suite.write_text(f"{SUITE}{BASE}\n")
    code, listed, noted = augbench("plan", suite, "--out", tmp_path / "out", "--runs")
    assert (code, "base" in listed, "Base of 3 runs of 3: crop 2 px, flip" in noted) == (0, True, True)
    suite.write_text(SUITE)
    assert "base" not in "".join(augbench("plan", suite, "--out", tmp_path / "out", "--runs")[1:]).split()


def test_a_base_without_sizes_is_refused_before_anything_is_started(few_digits: None, tmp_path: Path) -> None:
    check_data_and_networks(_specs(BASE), tmp_path)
    with pytest.raises(UserError, match=r"no sizes for 'mnist5k \(size=14\)'"):
        check_data_and_networks([*_specs(BASE), *_specs('base = ["cutout"]')], tmp_path)
    planted = SUITE.replace('"mnist5k", options = { size = 14 }', '"planted", options = { shrink = 2 }')
    with pytest.raises(UserError, match=r"planted .* have 14 pixels a side"):
        check_data_and_networks(parse_suite(f'{planted}base = ["crop"]\n', "a test").specs(), tmp_path)
