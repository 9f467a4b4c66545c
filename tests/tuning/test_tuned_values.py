"""What is tuned: the run that values are wanted for, and the values of each trial, the same at every call."""

import json
from pathlib import Path

import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.budgets import LevelName
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import Suite, parse_suite
from augbench.bench.tuning.tuning import Tuning, base_of_paper, base_of_suite

SUITE = """
name = "small"
title = "Small"
seeds = [3, 4]
[protocol]
maximum_shear = 0.5
shift = "corruptions"
[[comparisons]]
datasets = [{ name = "mnist5k", options = { size = 14 } }, { name = "rotmnist5k" }]
methods = [{ name = "none" }, { name = "scale", hyperparameters = { copies = 2, regularisation = 0.05 } }]
network = "tiny"
budget = { epochs = 3 }
"""
GOLDEN = [  # of seed 5
    {"learning_rate": 0.001, "regularisation": 0.05},
    {"learning_rate": 0.00733, "regularisation": 0.00965},
    {"learning_rate": 0.0392, "regularisation": 0.0134},
]


@pytest.fixture
def suite() -> Suite:
    return parse_suite(SUITE, "a test")


@pytest.fixture
def base(suite: Suite) -> RunSpec:
    return base_of_suite(suite, "scale", "mnist5k")


def test_the_first_trial_has_the_values_of_the_suite(base: RunSpec) -> None:
    tuning = Tuning(base, "random", 3)
    assert tuning.initial == {"learning_rate": 0.001, "regularisation": 0.05}
    assert tuning.random_values()[0] == tuning.initial
    (spec,) = tuning.specs(tuning.initial)
    assert spec.method == base.method


def test_a_trial_is_a_run_of_the_suite_on_the_validation_images(base: RunSpec) -> None:
    first, second = Tuning(base, "random", 3, seed=7, repeats=2).specs({"learning_rate": 0.02})
    assert first.method.settings == {"copies": 2, "regularisation": 0.05, "learning_rate": 0.02}
    assert (first.dataset, first.network, first.budget) == (base.dataset, base.network, base.budget)
    assert first.protocol.evaluated_on == "validation"
    assert first.protocol.maximum_shear == 0.5
    assert (first.protocol.test_time_draws, first.protocol.probe_angles, first.protocol.shift) == ((), 0, None)
    assert (first.seed, second.seed) == (7, 8)
    assert base.protocol.evaluated_on == "test"


def test_values_are_the_same_in_every_version_and_more_trials_begin_with_the_same_ones(base: RunSpec) -> None:
    mine = Tuning(base, "random", 6, seed=5).random_values()
    assert mine[:3] == GOLDEN
    assert Tuning(base, "asha", 4, seed=5).random_values() == mine[:4]
    assert Tuning(base, "random", 6, seed=6).random_values()[1:] != mine[1:]


def test_no_values_are_tried_twice(suite: Suite) -> None:
    values = Tuning(base_of_suite(suite, "randaugment", "mnist5k"), "random", 70).random_values()
    assert len({json.dumps(one, sort_keys=True) for one in values}) == 70


def test_a_trial_keeps_its_folder(base: RunSpec, tmp_path: Path) -> None:
    tuning = Tuning(base, "random", 3)
    values = tuning.random_values()[2]
    (folder,) = tuning.trial(2, values, tmp_path).folders
    assert folder == tuning.trial(2, dict(values), tmp_path).folders[0]
    assert folder.path.parent == tmp_path / "runs"
    assert folder.path.name.startswith("scale_mnist5k_tiny_seed0_")


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("none", {}, "'none' has nothing to tune"),
        ("trivialaugment", {}, "Methods with something to tune: augerino"),
        ("scale", {"trials": 0}, "--trials must be at least 1, not 0"),
        ("scale", {"repeats": 0}, "--repeats must be at least 1, not 0"),
        ("randaugment", {"trials": 77}, "no more than 76 different values"),
    ],
)
def test_what_cannot_be_tuned_is_refused(suite: Suite, method: str, options: dict[str, int], words: str) -> None:
    tuning = Tuning(base_of_suite(suite, method, "mnist5k"), "random", **{"trials": 20, **options})
    with pytest.raises(UserError, match=words):
        tuning.check()


def test_a_method_that_the_suite_does_not_have_is_tuned_for_its_network_and_budget(suite: Suite) -> None:
    base = base_of_suite(suite, "augerino", "rotmnist5k")
    scale = base_of_suite(suite, "scale", "rotmnist5k")
    assert base.method.settings == {}
    assert (base.dataset, base.network, base.budget) == (scale.dataset, scale.network, scale.budget)


def test_a_suite_must_say_in_one_way_what_is_tuned(suite: Suite) -> None:
    with pytest.raises(UserError, match=r"no data set 'mnist'.*mnist5k, rotmnist5k"):
        base_of_suite(suite, "scale", "mnist")
    with pytest.raises(UserError, match="no method 'scael'"):
        base_of_suite(suite, "scael", "mnist5k")
    twice = SUITE.replace('{ name = "none" }', '{ name = "scale" }')
    with pytest.raises(UserError, match="'scale' on 'mnist5k' in 2 ways"):
        base_of_suite(parse_suite(twice, "a test"), "scale", "mnist5k")


def test_the_budget_is_the_papers_where_no_suite_is_given() -> None:
    base = base_of_paper("scale", "rotmnist", None, LevelName.QUICK)
    assert (base.network.name, base.budget.epochs) == ("smallnet", 30)
    assert base.method.settings["learning_rate"] == 0.01  # ten times as large, as the level has it
    assert base_of_paper("scale", "cifar10", None, LevelName.SMOKE).network.name == "tiny"
    with pytest.raises(UserError, match=r"no budget of the paper for the data set 'mnist5k'.*--suite"):
        base_of_paper("scale", "mnist5k", None, LevelName.PAPER)
    with pytest.raises(UserError, match=r"no budget of the paper.*with the network 'tiny'"):
        base_of_paper("scale", "cifar10", "tiny", LevelName.PAPER)
    with pytest.raises(UserError, match="no data set 'cifar11'"):
        base_of_paper("scale", "cifar11", None, LevelName.PAPER)
