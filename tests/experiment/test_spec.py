"""Identities: stable across processes, blind to what does not matter, and changed by what does."""

import hashlib
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ConfigDict, Field

from augbench.bench.common.errors import UserError
from augbench.bench.contract.method import Hyperparameters
from augbench.bench.data.dataset import DatasetOptions
from augbench.bench.experiment.catalogues import datasets, methods
from augbench.bench.experiment.protocol import Budget, Protocol
from augbench.bench.experiment.spec import RunSpec, canonical_json, dataset_component, method_component

MakeSpec = Callable[..., RunSpec]


def test_identity_is_the_same_in_another_process(make_spec: MakeSpec) -> None:
    spec = make_spec("scale", regularisation=0.05)
    program = (
        "import sys; from augbench.bench.experiment.spec import RunSpec; "
        "print(RunSpec.model_validate_json(sys.stdin.read()).identity)"
    )
    command = [sys.executable, "-c", program]
    other = subprocess.run(command, input=spec.model_dump_json(), capture_output=True, text=True, check=True)
    assert other.stdout.strip() == spec.identity


def test_identity_of_a_known_run_never_changes() -> None:
    """Old results must be found again; if this fails, raise PROTOCOL_VERSION or undo the change."""
    spec = RunSpec(
        method=method_component("scale", {"regularisation": 0.05}, "a test"),
        dataset=dataset_component("mnist5k", {"size": 14}, "a test"),
        network=method_component("none", {}, "a test").model_copy(update={"name": "tiny"}),
        budget=Budget(epochs=20),
        seed=0,
    )
    assert spec.identity == "3026b1b0012f320334e9420df2c5ae9ee7c4e5f46216fe138f03e79fc31b2f4c"


@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_identity_is_the_checksum_of_all_but_defaults(seed: int, make_spec: MakeSpec) -> None:
    assert make_spec("scale", copies=4, estimator="pooled").identity == make_spec("scale").identity
    spec = make_spec("scale", copies=2, epochs=3).with_seed(seed)
    assert spec == make_spec("scale", copies=2, epochs=3, seed=seed)
    content = spec.model_dump(mode="json")
    for component in ("method", "dataset", "network"):
        del content[component]["defaults"]
    for part, values in (("protocol", spec.protocol), ("budget", spec.budget)):
        content[part] = values.model_dump(mode="json", exclude_defaults=True)
    assert spec.identity == hashlib.sha256(canonical_json(content).encode()).hexdigest()


def test_whatever_decides_a_result_changes_the_identity(make_spec: MakeSpec) -> None:
    base = make_spec("scale")
    assert base.identity  # which no copy may keep
    others = [
        base.model_copy(update={"seed": 1}),
        make_spec("scale", epochs=2),
        make_spec("scale", copies=2),
        make_spec("augerino"),
        base.model_copy(update={"protocol": Protocol(maximum_shear=0.5)}),
        base.model_copy(update={"dataset": dataset_component("mnist5k", {"size": 28}, "a test")}),
        base.model_copy(update={"dataset": dataset_component("rotmnist5k", {"size": 14}, "a test")}),
        base.model_copy(update={"method": base.method.model_copy(update={"version": 2})}),
        base.model_copy(update={"dataset": base.dataset.model_copy(update={"checksum": "md5:0"})}),
        base.model_copy(update={"network": base.network.model_copy(update={"version": 2})}),
        base.model_copy(update={"protocol_version": 2}),
    ]
    assert len({spec.identity for spec in [base, *others]}) == len(others) + 1
    assert len({spec.configuration for spec in [base, *others]}) == len(others), "all but the seed"


def test_a_changed_default_keeps_the_identity_but_not_the_specification(make_spec: MakeSpec) -> None:
    spec = make_spec("scale")
    method = spec.method.model_copy(update={"defaults": spec.method.defaults | {"prior": 0.5}})
    changed = spec.model_copy(update={"method": method})
    assert changed.identity == spec.identity
    assert changed != spec


@given(st.integers(0, 2**31), st.sampled_from(["none", "scale"]), st.floats(0, 10))
def test_a_specification_survives_json(seed: int, method: str, regularisation: float) -> None:
    settings = {"regularisation": regularisation} if method == "scale" else {}
    spec = RunSpec(
        method=method_component(method, settings, "a test"),
        dataset=dataset_component("mnist5k", {}, "a test"),
        network=method_component("none", {}, "a test"),
        budget=Budget(epochs=1),
        seed=seed,
    )
    again = RunSpec.model_validate(json.loads(json.dumps(spec.model_dump(mode="json"))))
    assert again == spec
    assert again.identity == spec.identity


def test_canonical_json_has_one_form_and_no_nan() -> None:
    for content in ({"b": 1, "a": [1.0, "é"]}, {"a": [1.0, "é"], "b": 1}):
        assert canonical_json(content) == '{"a":[1.0,"\\u00e9"],"b":1}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": float("nan")})


def test_the_order_of_a_set_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Inside(Hyperparameters):
        words: frozenset[str] = Field(frozenset("abcdefgh"), strict=False)

    class Sets(Hyperparameters):
        words: frozenset[str] = Field(frozenset("abcdefgh"), strict=False)
        numbers: set[int] = Field(default_factory=lambda: {1}, strict=False)
        inside: Inside = Inside()
        table: dict[str, float] = Field(default_factory=dict)

    monkeypatch.setattr(methods().get("none"), "hyperparameters_type", Sets)
    given = {"words": ["b", "a", "hidden"], "numbers": [30, 4], "table": {"b": 1.0, "a": 2}}
    component = method_component("none", given, "a test")
    assert component.settings == {"words": ["a", "b", "hidden"], "numbers": [30, 4], "table": {"b": 1.0, "a": 2.0}}
    assert component.defaults == {"inside": {"words": list("abcdefgh")}}
    assert method_component("none", {"words": list("hgfedcba")}, "a test").settings == {}


def test_hyperparameters_may_be_lists_and_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Listed(Hyperparameters):
        needed: int
        limit: float | None = None
        sizes: tuple[int, ...] = Field((1, 2), strict=False)

    monkeypatch.setattr(methods().get("none"), "hyperparameters_type", Listed)
    component = method_component("none", {"needed": 3, "sizes": [1, 2]}, "a test")
    assert component.settings == {"needed": 3}
    assert component.defaults == {"limit": None, "sizes": [1, 2]}
    assert method_component("none", {"needed": 3, "sizes": [4]}, "a test").settings == {"needed": 3, "sizes": [4]}


def test_numbers_that_are_not_finite_are_refused_wherever_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    class Anything(Hyperparameters):
        model_config = ConfigDict(allow_inf_nan=True)
        limit: float = math.inf
        inside: dict[str, Any] = Field({})

    class Options(DatasetOptions):
        strength: float = 1.0

    monkeypatch.setattr(methods().get("none"), "hyperparameters_type", Anything)
    monkeypatch.setattr(datasets().get("mnist5k"), "options_type", Options)
    for settings, words in (
        ({}, "limit: must be a finite number (given: inf)"),
        ({"limit": 1.0, "inside": {"a": [0, {"b": math.nan}]}}, "inside.a.1.b: must be a finite number (given: nan)"),
    ):
        with pytest.raises(UserError, match=re.escape(f"'none' in suite 'mine': {words}")):
            method_component("none", settings, "suite 'mine'")
    for base, options in (("mnist5k", {"strength": math.nan}), ("planted", {"base_options": {"strength": math.inf}})):
        with pytest.raises(UserError, match=rf"{base}.*strength: Input should be a finite number"):
            dataset_component(base, options, "suite 'mine'")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"copies": 0}, ["copies", "greater than or equal to 1", "given: 0"]),
        ({"estimator": "poled"}, ["estimator", "'pooled', 'per-image', 'rloo' or 'per-image-zero'"]),
        ({"copys": 2}, ["'copys'", "Did you mean 'copies'?", "regularisation"]),
        ({"regularisation": float("nan")}, ["regularisation", "finite number"]),
        ({"copies": "many"}, ["copies", "valid integer"]),
        ({"estimator": "rloo", "copies": 1}, ["rloo", "at least 2"]),
    ],
)
def test_wrong_hyperparameters_are_explained(settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        method_component("scale", settings, "suite 'mine'")
    assert all(word in str(error.value) for word in ["'scale' in suite 'mine'", *words])
