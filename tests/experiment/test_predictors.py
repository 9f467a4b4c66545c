"""Predictors as the second axis of a comparison: in identities, suites and labels."""

import re
from collections.abc import Callable

import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.labels import comparison_key, label_runs
from augbench.bench.experiment.spec import RunSpec, predictor_component
from augbench.bench.experiment.suite import parse_suite

SUITE = """
name = "two-axes"
title = "Two axes"
seeds = [0, 1]

[[comparisons]]
datasets = [{ name = "mnist5k", options = { size = 14 } }]
methods = [{ name = "none" }, { name = "scale" }]
network = "tiny"
predictors = PREDICTORS

[comparisons.budget]
epochs = 1
"""


def specs_of(predictors: str) -> tuple[RunSpec, ...]:
    return parse_suite(SUITE.replace("PREDICTORS", predictors), "a test").specs()


def test_single_leaves_specifications_as_they_were() -> None:
    without = parse_suite(SUITE.replace("predictors = PREDICTORS", ""), "a test").specs()
    assert specs_of('["single"]') == without
    assert [spec.identity for spec in specs_of('["single"]')] == [spec.identity for spec in without]
    assert "predictor" not in without[0].model_dump_json()
    assert RunSpec.model_validate_json(without[0].model_dump_json()) == without[0]


def test_every_method_has_every_predictor() -> None:
    specs = specs_of('["single", "mc-dropout", { name = "mc-dropout", settings = { rate = 0.2 } }]')
    assert len({spec.identity for spec in specs}) == len({spec.folder_name for spec in specs}) == len(specs) == 12
    assert len({comparison_key(spec) for spec in specs}) == 1
    labels = label_runs(specs)
    assert len({label.comparison for label in labels}) == 1
    assert [label.label for label in labels[:6]] == [
        *("none", "none × mc-dropout", "none × mc-dropout (rate=0.2)"),
        *("scale", "scale × mc-dropout", "scale × mc-dropout (rate=0.2)"),
    ]
    assert specs[1].folder_name.startswith("none_mnist5k_tiny_mc-dropout_seed0_")
    assert all(RunSpec.model_validate_json(spec.model_dump_json()) == spec for spec in specs)


def test_a_default_of_a_predictor_is_no_part_of_the_identity(make_spec: Callable[..., RunSpec]) -> None:
    plain, given, other = (predictor_component("mc-dropout", {"rate": rate}, "a test") for rate in (0.1, 0.1, 0.3))
    spec = make_spec()
    identities = [spec.model_copy(update={"predictor": one}).identity for one in (None, plain, given, other)]
    assert identities[1] == identities[2]
    assert len(set(identities)) == 3


@pytest.mark.parametrize(
    ("predictors", "words"),
    [
        ('["mc-drop"]', r"'mc-drop'.*'mc-dropout'.*`augbench list predictors`"),
        ('[{ name = "mc-dropout", settings = { rate = 1.5 } }]', r"rate: .* less than 1 \(given: 1\.5\)"),
        ('[{ name = "mc-dropout", settings = { ratio = 0.5 } }]', r"'ratio'.*rate"),
        ('[{ name = "single", settings = { members = 2 } }]', "members"),
        ('["single-2"]', "members"),
        ("[]", "predictors: must not be empty"),
    ],
)
def test_what_is_wrong_is_said_in_one_paragraph(predictors: str, words: str) -> None:
    with pytest.raises(UserError, match=re.compile(words)) as error:
        specs_of(predictors)
    assert "\n" not in str(error.value)
