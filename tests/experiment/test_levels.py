"""The paper's budgets by data set and network, and what the levels make of them and of a suite."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.budgets import Budgets, Level, LevelName, budgets, recipe_of
from augbench.bench.experiment.catalogues import datasets, methods, networks
from augbench.bench.experiment.labels import label_runs
from augbench.bench.experiment.protocol import Budget, Protocol
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import Suite, load_suite, parse_suite

CALIBRATION_SUITES = ("paper-calibration-cifar10", "paper-calibration-cifar100")
PAPER_SUITES = (
    *("paper-rotmnist", "paper-cifar10", "paper-cifar100", "paper-svhn", "paper-ablation"),
    *CALIBRATION_SUITES,
)
SUITE = """
name = "levelled"
title = "Levelled"
seeds = [0]
[[comparisons]]
datasets = [{ name = "cifar10" }]
methods = [{ name = "none" }, { name = "scale", hyperparameters = { learning_rate = 0.002 } }]
network = "wrn-28-10"
level = "paper"
"""


def specs_of(name: str, level: LevelName | None = None) -> tuple[RunSpec, ...]:
    return load_suite(name).at_level(level).specs()


def test_budgets_are_those_that_the_paper_states() -> None:
    for dataset in ("mnist", "rotmnist"):
        assert budgets().paper(dataset, "smallnet") == Budget(
            epochs=300, batch_size=128, optimizer="adam", learning_rate=0.02, schedule="cosine"
        )
    wide = {"epochs": 200, "batch_size": 64, "optimizer": "sgd", "learning_rate": 0.1, "schedule": "cosine"}
    for dataset in ("cifar10", "cifar100"):
        assert budgets().paper(dataset, "wrn-28-10") == Budget(**wide, weight_decay=1e-4, momentum=0.9)
    svhn = budgets().paper("svhn", "resnet34")
    assert (svhn.optimizer, svhn.learning_rate, svhn.schedule) == ("adam", 0.001, "cosine")


def test_recipes_are_those_of_their_authors_code() -> None:
    common = {"epochs": 200, "optimizer": "sgd", "momentum": 0.9, "schedule": "cosine", "gradient_clip": 5.0}
    common["base"] = ("crop", "flip", "cutout")
    auto = Budget.model_validate({**common, "batch_size": 128, "learning_rate": 0.1, "weight_decay": 5e-4})
    warm = {"warm_up": 5 / 200, "warm_up_start": 0.1 / 0.4, "batch_size": 512, "learning_rate": 0.4}
    for network, decay in (("wrn-28-10", 5e-4), ("wrn-40-2", 2e-4)):
        fast = Budget.model_validate({**common, **warm, "weight_decay": decay})
        assert budgets().paper("cifar10", network, "autoaugment") == auto
        assert budgets().paper("cifar10", network, "fast-autoaugment") == fast
        assert recipe_of(fast.model_copy(update={"epochs": 20}), "cifar10", network) == "fast-autoaugment"
        assert recipe_of(fast.model_copy(update={"base": ()}), "cifar10", network) == ""
    assert fast.learning_rate_at(0, 200 * 98) == pytest.approx(0.1)
    assert fast.learning_rate_at(5 * 98, 200 * 98) == pytest.approx(0.4)
    assert recipe_of(budgets().paper("cifar10", "wrn-28-10"), "cifar10", "wrn-28-10") == ""
    assert recipe_of(fast, "cifar10", "wrn-28-10") == ""  # it is that for wrn-40-2


@pytest.mark.parametrize("dataset", ["cifar10", "cifar100"])
@pytest.mark.parametrize(
    ("recipe", "epochs", "images", "base_rate", "penalty", "decays"),
    [
        ("deterministic", 200, 512, 0.1, 2e-4, (60, 120, 160)),
        ("batch-ensemble", 250, 128, 0.1, 3e-4, (80, 160, 180)),
        ("rank-1", 250, 128, 0.1, 1e-4, (80, 160, 180)),
        ("sngp", 250, 256, {"cifar10": 0.08, "cifar100": 0.04}, 3e-4, (60, 120, 160)),
    ],
)
def test_recipes_of_predictors_are_the_flags_of_their_authors_scripts(
    recipe: str, epochs: int, images: int, base_rate: Any, penalty: float, decays: Sequence[int], dataset: str
) -> None:
    """Rates are for 128 images, decays for 200 epochs, and the penalty is l Σ w², whose gradient is 2 l w."""
    budget = budgets().paper(dataset, "wrn-28-10", recipe)
    assert (budget.epochs, budget.batch_size, budget.optimizer, budget.momentum) == (epochs, images, "sgd", 0.9)
    assert (budget.weight_decay, budget.decayed) == (pytest.approx(2 * penalty), "all")
    assert [(step.name, step.pixels) for step in budget.base] == [("crop", 2), ("flip", None)]
    steps = 390  # of an epoch
    rate = (base_rate if isinstance(base_rate, float) else base_rate[dataset]) * images / 128
    for step in range(0, epochs * steps, 10):
        epoch = step / steps
        passed = sum(epoch >= decay * epochs // 200 for decay in decays)
        expected = rate * epoch if epoch < 1 else rate * 0.2**passed
        assert budget.learning_rate_at(step, epochs * steps) == pytest.approx(expected)
    assert recipe_of(budget, dataset, "wrn-28-10") == recipe


@pytest.mark.parametrize(
    ("name", "part"), list(zip(CALIBRATION_SUITES, ("paper-cifar10", "paper-cifar100"), strict=True))
)
@pytest.mark.parametrize(
    "level", [level for level in LevelName if level is not LevelName.FAST]
)  # with one recipe for all
def test_the_figure_of_calibration_has_the_paper_s_runs_and_predictors_by_their_recipes(
    name: str, part: str, level: LevelName
) -> None:
    specs = {(spec.learner, _recipe(spec)): spec for spec in specs_of(name, level) if spec.seed == 0}
    learners = ("fixed", "augerino+flips", "fast-aa", "faster-aa", "scale")
    predictors = {"batch-ensemble": "batch-ensemble", "rank-1": "rank-1", "sngp-ensemble": "sngp"}
    expected = {("none", "deterministic"), *((f"none × {name}", recipe) for name, recipe in predictors.items())}
    assert set(specs) == {*((learner, "") for learner in learners), *expected}
    shared = {spec.identity for spec in specs_of(part, level)}
    assert {learner for (learner, _), spec in specs.items() if spec.identity in shared} == set(learners)
    test_time_draws = (1,) if level is LevelName.SMOKE else (4, 8)
    assert {spec.protocol.test_time_draws for spec in specs.values()} == {test_time_draws}


def test_the_name_of_a_recipe_stays_with_a_network_that_no_recipe_is_for() -> None:
    budget = budgets().paper("cifar10", "wrn-28-10", "rank-1")
    assert recipe_of(budget, "cifar10", "tiny") == "rank-1"
    assert recipe_of(budget, "cifar10", "wrn-40-2") == "", "which has recipes of its own"
    assert recipe_of(budget, "mnist5k", "tiny") == ""


def test_the_recipe_fast_is_airbench_s_converted_to_mean_losses_and_torch_s_momentum() -> None:
    for network, rate, decay in (("fast-cnn-l", 9.0, 0.012), ("fast-cnn-m", 11.5, 0.0153)):
        budget = budgets().paper("cifar10", network, "fast")
        # as airbench computes what it gives to torch's SGD, which takes gradients of the sum over the batch
        scale = 1024 * (1 + 1 / (1 - budget.momentum))
        summed, kept = rate / scale, decay * budget.batch_size / scale
        assert budget.learning_rate == pytest.approx(summed * budget.batch_size, rel=1e-4)
        assert budget.learning_rate * budget.weight_decay == pytest.approx(kept, rel=1e-4)
    recipes = [entry.paper for entry in budgets().of_recipe("fast")]
    own = {"epochs", "batch_size", "learning_rate", "weight_decay", "warm_up", "base"}
    assert len({budget.model_copy(update={name: getattr(recipes[0], name) for name in own}) for budget in recipes}) == 1


def test_the_level_fast_changes_network_and_recipe_of_the_paper_s_suites_on_cifar() -> None:
    for name in ("paper-cifar10", "paper-cifar100", "paper-ablation", "published-cifar10"):
        specs = specs_of(name, LevelName.FAST)
        assert {(spec.network.name, spec.budget) for spec in specs} == {
            ("fast-cnn-l", budgets().paper("cifar10", "fast-cnn-l", "fast"))
        }
        assert {label.budget for label in label_runs(specs)} == {"37 epochs (recipe fast)"}
        assert {spec.method.name for spec in specs} == {spec.method.name for spec in specs_of(name)}
        scale = {spec.method.all_settings["learning_rate"] for spec in specs if spec.method.name == "scale"}
        assert scale <= {80 * 0.001}


def test_the_level_fast_leaves_a_suite_of_its_recipe_the_network() -> None:
    own = specs_of("leaderboard", LevelName.PAPER)
    fast = specs_of("leaderboard", LevelName.FAST)
    assert {(spec.network.name, spec.budget) for spec in fast} == {(spec.network.name, spec.budget) for spec in own}
    assert {spec.network.name for spec in specs_of("leaderboard", LevelName.SMOKE)} == {"tiny"}
    with pytest.raises(UserError, match=r"no budget of the recipe 'fast' for the data set 'svhn'.*or another level"):
        specs_of("paper-svhn", LevelName.FAST)


def _recipe(spec: RunSpec) -> str:
    return recipe_of(spec.budget, spec.dataset.name, spec.network.name)


def test_the_levels_of_a_suite_of_recipes() -> None:
    paper = specs_of("published-cifar10")
    assert Counter((spec.network.name, _recipe(spec)) for spec in paper) == {
        **{("wrn-28-10", "autoaugment"): 20, ("wrn-28-10", "fast-autoaugment"): 15},
        **{("wrn-40-2", "autoaugment"): 10, ("wrn-40-2", "fast-autoaugment"): 15},
    }
    quick, smoke = (specs_of("published-cifar10", level) for level in (LevelName.QUICK, LevelName.SMOKE))
    assert {(spec.budget.epochs, _recipe(spec) == "") for spec in quick} == {(20, False)}
    assert {(spec.budget.epochs, spec.network.name, spec.seed) for spec in smoke} == {(1, "tiny", 0)}
    (budget,) = {label.budget for label in label_runs([spec for spec in paper if spec.network.name == "wrn-40-2"])} - {
        "200 epochs (recipe autoaugment)"
    }
    assert budget == "200 epochs (recipe fast-autoaugment)"


def test_everything_that_the_file_names_is_registered() -> None:
    known: Budgets = budgets()
    for entry in known.papers:
        assert set(entry.datasets) <= set(datasets().entries)
        assert entry.network in networks().entries
        assert entry.stated
        assert entry.decided
    assert set(known.levels) == set(LevelName)
    for level in known.levels.values():
        assert not level.recipe or level.network in {entry.network for entry in known.of_recipe(level.recipe)}
        for method in {*level.factors, *level.hyperparameters}:
            names = {*level.factors.get(method, {}), *level.hyperparameters.get(method, {})}
            assert names <= set(methods().get(method).hyperparameters_type.model_fields)


def test_the_level_paper_changes_nothing() -> None:
    level, budget = budgets().levels[LevelName.PAPER], budgets().paper("cifar10", "wrn-28-10")
    assert level.budget(budget) == budget
    assert level.decisions(Protocol()) == Protocol()
    assert level.options("mnist5k", {"size": 14}) == {"size": 14}
    assert level.shortened("scale", {"copies": 2}) == {"copies": 2}


def test_quick_is_a_tenth_and_lets_a_distribution_get_as_far() -> None:
    for name in PAPER_SUITES:
        for paper, quick in zip(specs_of(name), specs_of(name, LevelName.QUICK), strict=True):
            assert quick.budget.epochs == paper.budget.epochs // 10
            assert quick.budget.model_copy(update={"epochs": paper.budget.epochs}) == paper.budget
            assert (quick.dataset, quick.network, quick.protocol) == (paper.dataset, paper.network, paper.protocol)
            before, after = paper.method.all_settings, quick.method.all_settings
            changed = {key: (before[key], after[key]) for key in before if before[key] != after[key]}
            assert changed == QUICK_CHANGES.get(quick.method.name, {})


QUICK_CHANGES = {
    "scale": {"learning_rate": (0.001, 0.01)},
    "scale-norm": {"learning_rate": (0.001, 0.01)},
    "dada": {"search_epochs": (20, 2)},
    "fast-aa": {"search_epochs": (200, 20), "trials": (200, 20), "kept_trials": (10, 1)},
    "faster-aa": {"search_epochs": (20, 2)},
}


def test_factors_multiply_what_a_suite_says_and_keep_whole_numbers_whole() -> None:
    level = Level(title="half", factors={"fast-aa": {"trials": 0.5, "folds": 0.01, "search_epochs": 0.5}})
    assert level.shortened("fast-aa", {"trials": 31}) == {"trials": 16, "folds": 1}
    assert level.shortened("fast-aa", {"search_epochs": 5}) == {"search_epochs": 2, "trials": 100, "folds": 1}
    assert level.shortened("none", {}) == {}


def test_smoke_is_a_moment_for_every_learner_of_the_paper() -> None:
    for name in PAPER_SUITES:
        specs = specs_of(name, LevelName.SMOKE)
        assert {(spec.dataset.name, spec.method.name) for spec in specs} == {
            (spec.dataset.name, spec.method.name) for spec in specs_of(name)
        }
        for spec in specs:
            assert spec.seed == 0
            assert (spec.budget.epochs, spec.network.name) == (1, "tiny")
            assert spec.dataset.settings["train_images"] == 1000
            assert spec.protocol.test_time_draws == (1,)
            if methods().get(spec.method.name).searches:
                assert spec.method.all_settings["search_network"] == "tiny"
                assert spec.method.all_settings["search_epochs"] in (1, 2)


def test_smoke_leaves_no_more_images_than_a_suite_does() -> None:
    smoke = budgets().levels[LevelName.SMOKE]
    for own, left in ((None, 1000), (200, 200), (5000, 1000)):
        assert smoke.options("cifar10", {"train_images": own}) == {"train_images": left}
    assert smoke.options("mnist5k", {}) == {}, "which has no such option"


def test_the_whole_comparison_holds_every_run_of_its_parts_once_seed_by_seed() -> None:
    whole = specs_of("paper")
    parts = [spec.identity for name in PAPER_SUITES for spec in specs_of(name)]
    assert len({spec.identity for spec in whole}) == len(whole)
    assert {spec.identity for spec in whole} == set(parts)
    shared = [identity for identity, count in Counter(parts).items() if count > 1]
    assert len(shared) == (6 + 5) * 5, "six learners on CIFAR-10 and five on CIFAR-100, with five seeds each"
    assert [spec.seed for spec in whole] == sorted(spec.seed for spec in whole)
    assert {spec.seed for spec in whole} == {0, 1, 2, 3, 4}


def test_a_level_goes_through_to_the_suites_that_are_included() -> None:
    quick = {spec.identity for spec in specs_of("paper", LevelName.QUICK)}
    assert quick == {spec.identity for name in PAPER_SUITES for spec in specs_of(name, LevelName.QUICK)}


def test_the_paper_s_settings_of_scale() -> None:
    runs = [spec for spec in specs_of("paper") if spec.method.name == "scale"]
    weights = {(spec.dataset.name, spec.method.all_settings["regularisation"]) for spec in runs}
    assert weights == {("mnist", 0.006), ("rotmnist", 0.006), ("cifar10", 0.01), ("cifar100", 0.02), ("svhn", 0.02)}
    for spec in runs:
        fraction = spec.method.all_settings["joint_share"]
        assert isinstance(fraction, float)
        assert round(fraction * spec.budget.epochs) == 200


def test_a_level_and_a_budget_of_its_own_are_the_same_run() -> None:
    budget = (
        budgets().paper("cifar10", "wrn-28-10").model_dump(mode="json", exclude={"acceleration"}, exclude_none=True)
    )
    table = "[comparisons.budget]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in budget.items())
    own = parse_suite(SUITE.replace('level = "paper"', table), "a test").specs()
    levelled = parse_suite(SUITE, "a test").specs()
    assert [spec.identity for spec in own] == [spec.identity for spec in levelled]


def test_parts_of_the_budget_can_be_given_beside_a_level() -> None:
    suite = parse_suite(SUITE + 'baseline_copies = 4\nequal = "passes"\ncopies_in_batch = true\n', "a test")
    for spec in (*suite.specs(), *suite.at_level(LevelName.QUICK).specs()):
        assert (spec.budget.baseline_copies, spec.budget.equal, spec.budget.copies_in_batch) == (4, "passes", True)


def test_the_paper_with_equal_passes_differs_in_what_is_equal_alone() -> None:
    equal = {"equal": "passes", "copies_in_batch": True}
    papers = [spec for name in ("rotmnist", "cifar10", "cifar100", "svhn") for spec in specs_of(f"paper-{name}")]
    expected = {paper.model_copy(update={"budget": paper.budget.model_copy(update=equal)}).identity for paper in papers}
    assert {spec.identity for spec in specs_of("paper-equal-passes")} == expected


def test_a_suite_s_own_settings_are_scaled_too() -> None:
    (_, scale) = parse_suite(SUITE, "a test").at_level(LevelName.QUICK).specs()
    assert scale.method.settings["learning_rate"] == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('level = "paper"', "", ['needs either a table [comparisons.budget] or `level = "paper"`']),
        ('level = "paper"', 'level = "paper"\nbudget = { epochs = 1 }', ["not both"]),
        (
            'level = "paper"',
            'level = "papr"',
            ["comparisons[1].level", "'quick', 'fast' or 'smoke'", "given: 'papr'"],
        ),
        ('level = "paper"', "baseline_copies = 2\nbudget = { epochs = 1 }", ["belongs into [comparisons.budget]"]),
        ('level = "paper"', 'level = "paper"\nbaseline_copies = 0', ["baseline_copies", "greater than or equal to 1"]),
        ('level = "paper"', 'level = "paper"\nrecipe = "autoagment"', ["no recipe 'autoagment'", "mean 'autoaugment'"]),
        ('level = "paper"', 'recipe = "autoaugment"\nbudget = { epochs = 1 }', ["`recipe` names a budget"]),
        ('level = "paper"', 'recipe = "autoaugment"', ["needs either a table"]),
        (
            'wrn-28-10"\nlevel = "paper"',
            'tiny"\nlevel = "paper"\nrecipe = "autoaugment"',
            ["no budget of the recipe 'autoaugment'", "'tiny'", "cifar10 with wrn-28-10; cifar10 with wrn-40-2"],
        ),
        ("wrn-28-10", "smallnet", ["no budget of the paper for the data set 'cifar10' with the network 'smallnet'"]),
        ("cifar10", "mnist5k", ["'mnist5k'", "cifar10, cifar100 with wrn-28-10", "`augbench list budgets`"]),
        ("seeds = [0]", 'includes = ["demo"]', ["needs `seeds`"]),
        ("seeds = [0]", 'seeds = [0]\nincludes = ["papr"]', ["no suite 'papr'", "Did you mean 'paper'?"]),
        ("seeds = [0]", 'seeds = [0]\nincludes = ["paper"]', ["'paper' includes suites itself"]),
    ],
)
def test_mistakes_with_levels_are_explained(old: str, new: str, words: list[str]) -> None:
    assert old in SUITE
    with pytest.raises(UserError) as error:
        parse_suite(SUITE.replace(old, new), "mine.toml").specs()
    assert "\n" not in str(error.value)
    missing = [word for word in words if word not in str(error.value)]
    assert not missing, str(error.value)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("seeds = [0]", r"needs \[\[comparisons\]\] or the names of built-in suites"),
        ('includes = ["paper-svhn"]\nseeds = [0]', r"the suites in `includes` keep theirs"),
        ('includes = ["paper-svhn"]\n[protocol]\ntest_time_draws = [2]', r"the suites in `includes` keep theirs"),
    ],
)
def test_a_suite_without_comparisons_of_its_own(lines: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        parse_suite(f'name = "a"\ntitle = "a"\n{lines}', "mine.toml")


@pytest.mark.parametrize("name", ["demo", "own"])
def test_a_suite_with_a_budget_of_its_own_has_no_levels(name: str, tmp_path: Path) -> None:
    suite: Suite = load_suite("demo")
    if name == "own":
        path = tmp_path / "own.toml"
        path.write_text('name = "own"\ntitle = "own"\nincludes = ["demo"]')
        suite = load_suite(str(path))
    assert suite.at_level(None).specs() == suite.specs() == load_suite("demo").specs()
    with pytest.raises(UserError, match="'demo' sets its own budget, so it has no quick level"):
        suite.at_level(LevelName.QUICK)


def test_levels_refuse_what_they_do_not_know() -> None:
    with pytest.raises(ValidationError, match="share"):
        Level.model_validate({"title": "a", "share": 0.1})
