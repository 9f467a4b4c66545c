"""AutoAugment: the published sub-policies, and how often what is drawn from them."""

from collections import Counter
from itertools import product

import pytest
import torch
from method_factories import make_method
from scipy import stats
from torchvision.transforms import AutoAugment as Theirs
from torchvision.transforms import AutoAugmentPolicy

from augbench.bench.augmentation.image_operations import ENHANCING, OPERATIONS
from augbench.methods.autoaugment import AutoAugment
from augbench.methods.autoaugment_policies import POLICIES, PolicyName
from augbench.methods.wide_policy import Application

COUNT = 40_000
NAMES: tuple[PolicyName, ...] = ("cifar10", "svhn", "imagenet")


def _method(policy: PolicyName) -> AutoAugment:
    return make_method(AutoAugment, side=32, channels=3, settings={"policy": policy})


# The tables


@pytest.mark.parametrize("name", NAMES)
def test_sub_policies_equal_those_of_torchvision(name: PolicyName) -> None:
    theirs = AutoAugmentPolicy(name)
    assert list(POLICIES[name]) == Theirs(theirs)._get_policies(theirs)


# typed from the tables in the paper's appendix, which also give levels to operations without a strength
PUBLISHED = {
    "cifar10": {
        0: "Invert 0.1 7 Contrast 0.2 6",
        1: "Rotate 0.7 2 TranslateX 0.3 9",
        3: "ShearY 0.5 8 TranslateY 0.7 9",
        4: "AutoContrast 0.5 8 Equalize 0.9 2",
        14: "Solarize 0.5 2 Invert 0.0 3",
        24: "TranslateY 0.7 9 AutoContrast 0.9 1",
    },
    "svhn": {
        0: "ShearX 0.9 4 Invert 0.2 3",
        2: "Equalize 0.6 5 Solarize 0.6 6",
        4: "Equalize 0.6 1 Rotate 0.9 3",
        24: "ShearX 0.7 2 Invert 0.1 5",
    },
    "imagenet": {
        0: "Posterize 0.4 8 Rotate 0.6 9",
        1: "Solarize 0.6 5 AutoContrast 0.6 5",
        3: "Posterize 0.6 7 Posterize 0.6 6",
        4: "Equalize 0.4 7 Solarize 0.2 4",
    },
}


@pytest.mark.parametrize("name", NAMES)
def test_sub_policies_equal_the_published_tables(name: PolicyName) -> None:
    for index, line in PUBLISHED[name].items():
        words = line.split()
        for step, (operation, probability, level) in enumerate((words[:3], words[3:])):
            ours = POLICIES[name][index][step]
            assert ours[:2] == (operation, float(probability))
            assert ours[2] in (int(level), None)
            assert (ours[2] is None) == (operation in ("AutoContrast", "Equalize", "Invert"))


def test_the_level_that_copies_of_the_cifar_policy_disagree_about_is_torchvisions() -> None:
    assert POLICIES["cifar10"][13] == (("Brightness", 0.9, 6), ("Color", 0.2, 8))


# What is drawn


@pytest.fixture(scope="module", params=NAMES)
def drawn(request: pytest.FixtureRequest) -> tuple[PolicyName, list[Application]]:
    return request.param, _method(request.param).draw(COUNT, torch.Generator().manual_seed(1))


def test_pairs_of_operations_come_as_often_as_the_sub_policies_say(
    drawn: tuple[PolicyName, list[Application]],
) -> None:
    theirs = AutoAugmentPolicy(drawn[0])
    expected: Counter[tuple[str, str]] = Counter()
    for (first, p, _), (second, q, _) in Theirs(theirs)._get_policies(theirs):
        for (one, chance), (two, other) in product(
            ((first, p), ("Identity", 1 - p)), ((second, q), ("Identity", 1 - q))
        ):
            expected[one, two] += chance * other / 25
    found = Counter(zip(*([OPERATIONS[index] for index in step.operations] for step in drawn[1]), strict=True))
    possible = [pair for pair, chance in expected.items() if chance > 0]
    assert set(found) <= set(possible)
    counts = [found[pair] for pair in possible]
    assert stats.chisquare(counts, [COUNT * expected[pair] for pair in possible]).pvalue > 1e-3


@pytest.mark.parametrize("step", [0, 1])
def test_strengths_come_as_often_as_the_sub_policies_say(
    drawn: tuple[PolicyName, list[Application]], step: int
) -> None:
    theirs = AutoAugmentPolicy(drawn[0])
    space = Theirs(theirs)._augmentation_space(10, (32, 32))
    expected: Counter[tuple[str, float]] = Counter()
    for sub_policy in Theirs(theirs)._get_policies(theirs):
        name, probability, level = sub_policy[step]
        if level is None:
            continue
        table, signed = space[name]
        for sign in (1, -1) if signed else (1,):
            key = (name, round(_in_our_unit(name, sign * float(table[level])), 4))
            expected[key] += probability / 25 / (2 if signed else 1)
    operations, magnitudes = drawn[1][step].operations.tolist(), drawn[1][step].magnitudes.tolist()
    pairs = zip(operations, magnitudes, strict=True)
    found = Counter((OPERATIONS[index], round(value, 4) + 0.0) for index, value in pairs)
    strong = {key for key in found if space.get(key[0], (torch.zeros(()), False))[0].ndim}
    possible = {key for key, chance in expected.items() if chance > 0}
    assert strong == possible
    counts, fractions = [found[key] for key in possible], [expected[key] for key in possible]
    rest = COUNT - sum(counts)
    assert (
        stats.chisquare([*counts, rest], [COUNT * fraction for fraction in (*fractions, 1 - sum(fractions))]).pvalue
        > 1e-3
    )


def _in_our_unit(name: str, magnitude: float) -> float:
    if name.startswith("Translate"):
        return int(magnitude) / 32
    if name == "Solarize":
        return magnitude / 255
    return 1 + magnitude if name in ENHANCING else magnitude
