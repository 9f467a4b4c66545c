"""The files that `augbench export` writes: a policy as code for a library, or as JSON."""

import json
import math
import re
import textwrap
from collections.abc import Mapping
from keyword import iskeyword
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from augbench.bench.augmentation.generators import GENERATORS
from augbench.bench.augmentation.image_operations import GEOMETRIC
from augbench.bench.augmentation.policy_description import (
    CONTINUOUS,
    MOST_BYTES,
    VERSION_KEY,
    AffinePolicy,
    OperationLaw,
    PolicyDescription,
    as_file_content,
)
from augbench.bench.common.errors import UserError, one_of
from augbench.bench.common.files import make_folder, open_file, write_text
from augbench.bench.common.plain_text import safe
from augbench.results.export import EXPORTED, TARGETS

MARK = "# Written by `augbench export`"
WIDTH = 118  # characters of a comment's line
MOST_OF_A_LINE = 2000  # characters that a comment quotes of a record
NO_OPERATIONS = {
    "kornia": "its Posterize and Equalize follow other rules, up to 16 and 64 grey levels apart, and its shears keep "
    "the centre where it is, not the corner",
    "albumentations": "its Sharpen has another kernel, and its shears keep the centre where it is, not the corner",
}
"""Why policies of image operations are not written for a library."""


def policy_text(policy: PolicyDescription, target: str, origin: Mapping[str, str]) -> str:
    """Write a policy for a target.

    Args:
        policy: The policy.
        target: One of `TARGETS`.
        origin: What is known of where it comes from, by what it is called.

    Raises:
        UserError: If there is no such target, or it cannot draw from this policy exactly.
    """
    if target not in TARGETS:
        raise UserError(f"--to: {one_of('target', target, TARGETS)}")
    if target == "json":
        return json.dumps(as_file_content(policy, origin), indent=1, allow_nan=False) + "\n"
    is_affine = isinstance(policy, AffinePolicy)
    if not is_affine and target in NO_OPERATIONS:
        raise UserError(
            f"The policy draws image operations, which are not written for {target}: {NO_OPERATIONS[target]}. Choose "
            "--to torchvision or --to json, which have every operation exactly."
        )
    environment = Environment(
        loader=PackageLoader("augbench.results.export", "templates"),
        autoescape=False,  # noqa: S701 - Python, whose only texts from outside are comments of `_header`
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"number": _number, "law": _law}
    template = environment.get_template(f"{target}_{policy.kind}.py.jinja")
    values: dict[str, Any] = {"header": _header(origin), "policy": policy}
    if isinstance(policy, AffinePolicy):
        values |= {"blocks": any(policy.compositions), "continuous": CONTINUOUS, "generators": GENERATORS}
    else:
        used = {law.operation for law in policy.laws()}
        values |= {"used": used, "geometric": bool(used & set(GEOMETRIC))}
    return re.sub(r"\n+(?=(?:class|def) )", "\n\n\n", template.render(values)).rstrip("\n") + "\n"


def _number(value: object) -> str:
    """Write a number as Python does; one that fits into 32 bits with no more digits than these need."""
    if isinstance(value, float) and math.isfinite(value) and float(np.float32(value)) == value:
        return str(np.float32(value))
    return repr(value)


def _law(law: OperationLaw) -> str:
    """Write when and how strongly an operation acts as a dictionary."""
    parts = [f'"{key}": {_number(value)}' for key, value in law.model_dump().items() if key != "operation"]
    return "{" + ", ".join(parts) + "}"


def _header(origin: Mapping[str, str]) -> str:
    """Write where a policy comes from as comments; whatever a record says, each line of it begins with #.

    The second line is empty: Python would take an encoding from there, and a record must not choose one.
    """
    lines = [f"{MARK}, which replaces it if it is given the same --out again.", "#"]
    for name, text in origin.items():
        shown = " ".join(safe(f"{name}: {text}").split())[:MOST_OF_A_LINE]
        lines += textwrap.wrap(shown, WIDTH, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)
    return "\n".join(lines)


def check_target_file(out: Path, *, force: bool) -> None:
    """Make sure that a file may be written.

    Raises:
        UserError: If it is there and was not written by an export, unless `force`; or is no file.
    """
    if out.is_dir() or (out.exists() and not out.is_file()):
        raise UserError(f"--out {out} is no file. Give the name of a file, such as policy.py.")
    if out.exists() and not force and not _is_exported(out):
        raise UserError(
            f"{out} exists, and `augbench export` has not written it. Choose another name with --out, or replace it "
            "with --force."
        )


def _is_exported(path: Path) -> bool:
    try:
        with open_file(path)[0] as file:
            text = file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return False
    return text.startswith(MARK) or (f'"{VERSION_KEY}"' in text and f'"{EXPORTED}"' in text)


def write_policy(out: Path, text: str) -> None:
    """Write an exported file, and the folder that it is in."""
    make_folder(out.parent)
    write_text(out, text)


def usage(out: Path, target: str) -> str:
    """Say how a file is used."""
    if target == "json":
        return f'In a suite: methods = [{{ name = "policy", hyperparameters = {{ policy = {json.dumps(str(out))} }} }}]'
    if out.suffix == ".py" and out.stem.isidentifier() and not iskeyword(out.stem):
        return f"In Python: from {out.stem} import LearnedPolicy"
    return f"In Python: import runpy; LearnedPolicy = runpy.run_path({str(out)!r})['LearnedPolicy']"
