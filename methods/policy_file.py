"""Policies given by a user: a JSON file of sub-policies in the form of Fast AutoAugment's archive, or its content."""

import json
import reprlib
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from augbench.bench.augmentation.image_operations import OPERATIONS
from augbench.bench.common.errors import UserError, one_of
from augbench.bench.common.user_input import read_user_text, user_path
from augbench.methods.subpolicies import STAGES

Step = tuple[str, float, float]
"""Operation, probability and level."""

SubPolicy = tuple[Step, Step]

STEP_EXAMPLE = '["Rotate", 0.5, 0.7]'
EXAMPLE = f'[{STEP_EXAMPLE}, ["Color", 0.3, 0.4]]'
LONGEST_QUOTE = 60  # characters
LONGEST_PATH = 200  # characters in a message


def read_policy(given: object) -> tuple[SubPolicy, ...] | None:
    """Read a policy from the path of a JSON file or from its content.

    Args:
        given: None for no policy; a path, relative to the current folder, in which ~ is the home folder; or what such
            a file contains: a list of sub-policies, each two lists [operation, probability, level], or an object with
            it under "sub_policies".

    Returns:
        The sub-policies.

    Raises:
        UserError: If there is no such file, it is no JSON, or a sub-policy is wrong; the text names the place.
    """
    if given is None:
        return None
    where = "`policy`"
    if isinstance(given, str):
        name = _shorten(given, LONGEST_PATH)
        where, given = f"the policy file {name}", _load(given, name)
    if isinstance(given, dict):
        if "sub_policies" not in given:
            raise UserError(f'There is no key "sub_policies" in {where}. {_expected()}')
        given = given["sub_policies"]
    if not isinstance(given, list | tuple) or not given:
        raise UserError(f"There are no sub-policies in {where}: {_quote(given)}. {_expected()}")
    return tuple(_sub_policy(content, f"Sub-policy {number} of {where}") for number, content in enumerate(given, 1))


PolicyContent = Annotated[tuple[SubPolicy, ...] | None, BeforeValidator(read_policy)]
"""Type of a hyperparameter that is a policy; a path is replaced by what the file contains when it is read."""


def _load(given: str, name: str) -> object:
    if not given:
        raise UserError(f"`policy` is empty. {_way_on()}")
    try:
        text = read_user_text(user_path(given))
    except (ValueError, UserError) as error:
        raise UserError(f"The policy file {name} cannot be read: {str(error).rstrip('.')}. {_way_on()}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # no JSON, a number or a nesting beyond all limits
        raise UserError(f"The policy file {name} is not valid JSON: {error}. {_expected()}") from None


def _way_on() -> str:
    return (
        f"Give the path of a JSON file, absolute or from the current folder, {Path.cwd()}, or leave `policy` out to "
        "have one searched for."
    )


def _sub_policy(content: object, where: str) -> SubPolicy:
    if not isinstance(content, list | tuple) or len(content) != STAGES:
        raise UserError(f"{where} must be {STAGES} operations, such as {EXAMPLE}, not {_quote(content)}.")
    first, second = (_step(step, where) for step in content)
    return first, second


def _step(step: object, where: str) -> Step:
    if not isinstance(step, list | tuple) or len(step) != 3 or not isinstance(step[0], str):
        raise UserError(f"{where}: {_quote(step)} is no [operation, probability, level], such as {STEP_EXAMPLE}.")
    operation, probability, level = step
    if operation not in OPERATIONS:
        raise UserError(f"{where}: {one_of('operation', _shorten(operation, LONGEST_QUOTE), OPERATIONS)}")
    return operation, _fraction(probability, "probability", where), _fraction(level, "level", where)


def _fraction(value: object, kind: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UserError(f"{where}: a {kind} is a number from 0 to 1, not {_quote(value)}.")
    return float(value)


def _expected() -> str:
    return f'A policy is a list of sub-policies such as {EXAMPLE}, or an object with that list under "sub_policies".'


def _quote(value: object) -> str:
    return _shorten(reprlib.repr(value), LONGEST_QUOTE)  # bounded in depth and width


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
