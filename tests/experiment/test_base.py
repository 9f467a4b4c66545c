"""The base of a budget: how it is written, what is refused, and that no old identity changes."""

import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.base import BaseSizes, base_in_words, base_sizes
from augbench.bench.experiment.labels import label_runs
from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.suite import parse_suite

BESIDE_A_LEVEL = """
name = "small"
title = "Small"
seeds = [0]
[[comparisons]]
datasets = [{ name = "cifar10" }]
methods = [{ name = "none" }]
network = "wrn-28-10"
level = "paper"
"""
OF_A_BUDGET = BESIDE_A_LEVEL.replace('level = "paper"', "[comparisons.budget]\nepochs = 3")
SIZED = 'base = [{ name = "crop", pixels = 2 }, "flip", { name = "cutout", pixels = 7 }]'


def _budget(text: str) -> Budget:
    (spec,) = parse_suite(text, "mine.toml").specs()
    return spec.budget


def test_an_empty_base_replaces_that_of_a_recipe() -> None:
    recipe = BESIDE_A_LEVEL + 'recipe = "autoaugment"\n'
    assert (base_in_words(_budget(recipe).base), _budget(recipe + "base = []\n").base) == ("crop, flip, cutout", ())


@pytest.mark.parametrize("text", [BESIDE_A_LEVEL, OF_A_BUDGET])
def test_it_is_written_in_a_budget_or_beside_a_level(text: str) -> None:
    assert base_in_words(_budget(text + 'base = ["crop", "flip", "cutout"]\n').base) == "crop, flip, cutout"
    assert base_in_words(_budget(text + SIZED).base) == "crop 2 px, flip, cutout 7 px"


@pytest.mark.parametrize("text", [BESIDE_A_LEVEL, OF_A_BUDGET])
def test_only_a_base_that_is_there_changes_an_identity(text: str) -> None:
    bases = ("", "base = []", 'base = ["crop"]', 'base = [{ name = "crop", pixels = 4 }]', 'base = ["crop", "flip"]')
    first, empty, *others = (parse_suite(f"{text}\n{base}\n", "mine.toml").specs()[0].identity for base in bases)
    assert first == empty
    assert len({first, *others}) == 4


def test_a_budget_with_a_base_is_read_back_as_it_was_written() -> None:
    budget = _budget(OF_A_BUDGET + SIZED)
    assert Budget.model_validate_json(budget.model_dump_json()) == budget
    assert Budget.model_validate(budget.model_dump(mode="json")) == budget


def test_runs_with_and_without_a_base_have_other_names() -> None:
    bases = ("", 'base = ["crop", "flip"]', SIZED)
    labels = label_runs([parse_suite(f"{OF_A_BUDGET}\n{base}\n", "mine.toml").specs()[0] for base in bases])
    budgets = ["3 epochs", "3 epochs (base: crop, flip)", "3 epochs (base: crop 2 px, flip, cutout 7 px)"]
    assert [label.budget for label in labels] == budgets
    assert [label.comparison for label in labels] == [f"cifar10, {budget}" for budget in budgets]


@pytest.mark.parametrize(
    ("base", "words"),
    [
        ('["blur"]', ["base[1].name", "'crop', 'flip' or 'cutout'", "given: 'blur'"]),
        ('["crop", "flip", "flip"]', ["base", "lists 'flip' twice"]),
        ('["flip", "crop"]', ["base", "in the order in which they are applied: crop, flip, cutout"]),
        ('[{ name = "flip", pixels = 2 }]', ["base[1]", "flip has no size in pixels"]),
        ('[{ name = "crop", pixels = 0 }]', ["base[1].pixels", "greater than or equal to 1", "given: 0"]),
        ('[{ name = "crop", pixel = 2 }]', ["base[1].pixel'", "Did you mean 'pixels'?"]),
        ("[{ pixels = 2 }]", ["base[1].name' is missing"]),
        ('"crop"', ["base", "must be a list"]),
        ("[4]", ["base[1]", "must be a table"]),
    ],
)
@pytest.mark.parametrize("text", [BESIDE_A_LEVEL, OF_A_BUDGET])
def test_mistakes_are_explained(text: str, base: str, words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        parse_suite(f"{text}base = {base}\n", "mine.toml")
    assert "\n" not in str(error.value)
    missing = [word for word in words if word not in str(error.value)]
    assert not missing, str(error.value)


def test_plain_names_are_the_papers_sizes_at_32_pixels() -> None:
    assert base_sizes(Budget(epochs=1, base=["crop", "flip", "cutout"]).base, 32, "d") == BaseSizes(4, True, 16)
    assert base_sizes((), 32, "d") == base_sizes((), 14, "d") == BaseSizes(0, False, 0)


@pytest.mark.parametrize(
    ("side", "proposal"),
    [
        (14, 'base = [{ name = "crop", pixels = 2 }, "flip", { name = "cutout", pixels = 7 }]'),
        (28, 'base = [{ name = "crop", pixels = 4 }, "flip", { name = "cutout", pixels = 14 }]'),
    ],
)
def test_at_other_sizes_plain_names_are_refused_with_the_proportional_sizes(side: int, proposal: str) -> None:
    with pytest.raises(UserError, match=f"'my digits', .* have {side} .*: .*'crop' for 4 and 'cutout' for 16") as error:
        base_sizes(Budget(epochs=1, base=["crop", "flip", "cutout"]).base, side, "my digits")
    assert proposal in str(error.value)
    base_sizes(_budget(f"{OF_A_BUDGET}{proposal}\n").base, side, "my digits")  # can be copied as it stands
    assert base_sizes(Budget(epochs=1, base=["flip"]).base, side, "my digits") == BaseSizes(0, True, 0)


def test_sizes_must_leave_something_of_the_image() -> None:
    def of(name: str, pixels: int) -> BaseSizes:
        return base_sizes(Budget(epochs=1, base=[{"name": name, "pixels": pixels}]).base, 14, "d")

    assert (of("crop", 13).padding, of("cutout", 14).square) == (13, 14)
    with pytest.raises(UserError, match=r"crop of 14 pixels, too large for 'd', .* have 14 pixels a side: at most 13"):
        of("crop", 14)
    with pytest.raises(UserError, match=r"a cutout of 15 pixels, .* at most 14"):
        of("cutout", 15)
