"""Policies given by a user: files, their content, and what is wrong with them."""

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from augbench.bench.augmentation.image_operations import OPERATIONS
from augbench.bench.common.errors import UserError
from augbench.methods.policy_file import PolicyContent, read_policy

CONTENT = [[["Rotate", 0.5, 0.7], ["Color", 0.3, 0.4]], [["Invert", 1, 0], ["Cutout", 0.25, 1.0]]]
READ = ((("Rotate", 0.5, 0.7), ("Color", 0.3, 0.4)), (("Invert", 1.0, 0.0), ("Cutout", 0.25, 1.0)))


class Holder(BaseModel):
    """A model as strict as a method's hyperparameters."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    policy: PolicyContent = None


@pytest.mark.parametrize("content", [CONTENT, {"sub_policies": CONTENT, "source": "a test"}])
def test_a_file_is_a_list_or_an_object_with_it(content: object, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(content))
    assert read_policy(str(path)) == READ
    assert read_policy(content) == READ


def test_numbers_are_floats_whatever_the_file_says() -> None:
    policy = read_policy(CONTENT)
    assert policy is not None
    assert {type(number) for pair in policy for _, *numbers in pair for number in numbers} == {float}


def test_no_policy_is_none() -> None:
    assert read_policy(None) is None
    assert Holder().policy is None
    assert Holder(policy=None).policy is None


fraction = st.floats(0, 1)
step = st.tuples(st.sampled_from(OPERATIONS), fraction, fraction)


@given(st.lists(st.tuples(step, step), min_size=1, max_size=5))
def test_a_policy_goes_through_a_specification_unchanged(policy: list[object]) -> None:
    held = Holder.model_validate({"policy": policy})
    dumped = json.loads(json.dumps(held.model_dump(mode="json")))
    assert Holder.model_validate(dumped) == held
    assert held.policy == tuple(policy)


def test_relative_paths_start_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policy.json").write_text(json.dumps(CONTENT))
    monkeypatch.chdir(tmp_path)
    assert read_policy("policy.json") == READ


WRONG = {
    "no JSON": ("{", "is not valid JSON"),
    "nothing": ("", "is not valid JSON"),
    "deep nesting": (900 * "[" + 900 * "]", "Sub-policy 1 of .* must be 2 operations"),
    "nesting without end": ("[" * 100_000, "is not valid JSON"),
    "another object": ('{"policies": []}', 'no key "sub_policies"'),
    "an empty list": ("[]", "There are no sub-policies in"),
    "an empty list inside": ('{"sub_policies": []}', "There are no sub-policies in"),
    "a number": ("3", "There are no sub-policies in"),
    "a text": ('"Rotate"', "There are no sub-policies in"),
    "one operation": ('[[["Rotate", 0.5, 0.5]]]', "Sub-policy 1 of .* must be 2 operations"),
    "three operations": ("[" + json.dumps(CONTENT[0]) + ', [["Invert", 1, 1], 2, 3]]', "Sub-policy 2 of .* must be 2"),
    "no level": (
        '[[["Rotate", 0.5], ["Color", 0.3, 0.4]]]',
        r"Sub-policy 1 of .*: \['Rotate', 0.5\] is no \[operation",
    ),
    "a number for a name": ('[[[5, 0.5, 0.5], ["Color", 0.3, 0.4]]]', r"Sub-policy 1 of .* is no \[operation"),
    "an unknown name": (
        '[[["Rotate", 0.5, 0.5], ["Colour", 0.3, 0.4]]]',
        "Sub-policy 1 of .*'Colour'. Did you mean 'Color'\\? Valid choices: AutoContrast, .*TranslateY",
    ),
    "a probability above 1": ('[[["Rotate", 1.5, 0.5], ["Color", 0.3, 0.4]]]', "a probability is .* not 1.5"),
    "a probability below 0": ('[[["Rotate", -0.1, 0.5], ["Color", 0.3, 0.4]]]', "a probability is .* not -0.1"),
    "a level above 1": ('[[["Rotate", 1, 0.5], ["Color", 0.3, 7]]]', "a level is a number from 0 to 1, not 7"),
    "a level that is no number": ('[[["Rotate", 1, NaN], ["Color", 0.3, 1]]]', "a level is .* not nan"),
    "a level without bounds": ('[[["Rotate", 1, Infinity], ["Color", 0.3, 1]]]', "a level is .* not inf"),
    "a huge level": ('[[["Rotate", 1, 1' + 400 * "0" + '], ["Color", 0.3, 1]]]', "a level is .* not 1000"),
    "a text for a level": ('[[["Rotate", 1, "high"], ["Color", 0.3, 1]]]', "a level is .* not 'high'"),
    "a truth value for a level": ('[[["Rotate", 1, true], ["Color", 0.3, 1]]]', "a level is .* not True"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_mistakes_are_named_with_file_and_place(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as raised:
        Holder.model_validate({"policy": str(path)})
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 700


def test_a_file_that_is_not_there_is_named_with_the_way_on(tmp_path: Path) -> None:
    path = tmp_path / "My Policies.json"
    with pytest.raises(UserError, match=r"cannot be read: No such file.*leave `policy` out") as raised:
        read_policy(str(path))
    assert str(path) in str(raised.value)
    with pytest.raises(UserError, match="cannot be read"):
        read_policy(str(tmp_path))  # a folder


@pytest.mark.parametrize("name", ["a pipe", "/dev/null", "", "~nosuchuser/policy.json", "x" * 100_000, "a\0b"])
def test_what_is_no_file_is_named_at_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("a pipe")
    problem = "`policy` is empty" if not name else "cannot be read: "
    with pytest.raises(UserError, match=f"{problem}.*leave `policy` out") as raised:
        read_policy(name)
    assert ascii(name[:100])[1:-1] in str(raised.value)
    assert len(str(raised.value)) < 700


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policy.json").write_text(json.dumps(CONTENT))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_policy("~/policy.json") == READ


def test_a_long_name_of_an_operation_is_quoted_in_part() -> None:
    with pytest.raises(UserError, match=r"no operation 'RotateRotate.*…'\.") as raised:
        read_policy([[["Rotate" * 20_000, 0.5, 0.5], ["Color", 0.3, 0.4]]])
    assert len(str(raised.value)) < 700


def test_files_of_editors_are_read_or_their_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(CONTENT), "utf-8-sig")
    assert read_policy(str(path)) == READ
    path.write_text(json.dumps(CONTENT), "utf-16")
    with pytest.raises(UserError, match="is written in UTF-16"):
        read_policy(str(path))


@pytest.mark.parametrize("given_value", [5, True, [1, 2], [["Rotate", 0.5, 0.5]], {"sub_policies": {}}])
def test_content_that_is_wrong_is_named_too(given_value: object) -> None:
    with pytest.raises(UserError, match=re.escape("`policy`")):
        read_policy(given_value)


def test_published_policies_can_be_read() -> None:
    folder = os.environ.get("AUGBENCH_POLICIES")
    if not folder:
        pytest.skip("AUGBENCH_POLICIES names no folder of published policies")
    files = sorted(Path(folder).glob("*.json"))
    assert files
    for file in files:
        policy = read_policy(str(file))
        assert policy is not None
        assert len(policy) == len(json.loads(file.read_text("utf-8"))["sub_policies"])
