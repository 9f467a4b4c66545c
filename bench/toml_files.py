"""Suites and profiles as TOML: those that come with the package, by name, and a user's own, by path."""

import tomllib
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from typing import Any

from augbench.bench.errors import UserError, one_of
from augbench.bench.user_input import read_user_text, user_path


def built_in_texts(folder: Traversable) -> dict[str, str]:
    """Read every .toml file of a folder of the package, by name."""
    files = [file for file in folder.iterdir() if file.name.endswith(".toml")]
    return {file.name.removesuffix(".toml"): file.read_text("utf-8") for file in sorted(files, key=lambda f: f.name)}


def find_text(kind: str, name_or_path: str, built_in: Mapping[str, str]) -> tuple[str, str]:
    """Find a text by the name of a built-in one or the path of a file.

    Args:
        kind: What it is, as messages call it.
        name_or_path: What the user has typed.
        built_in: Built-in ones, by name.

    Returns:
        The text, and what messages call its place.

    Raises:
        UserError: If there is none, or it cannot be read.
    """
    if name_or_path in built_in:
        return built_in[name_or_path], f"built-in {kind} {name_or_path!r}"
    path = user_path(name_or_path)
    if path.suffix != ".toml":
        raise UserError(one_of(kind, name_or_path, built_in) + " The path of a .toml file is valid too.")
    try:
        return read_user_text(path), str(path)
    except ValueError as error:
        raise UserError(
            f"The {kind} {path} cannot be read: {error}. Give the path of a .toml file or one of: "
            f"{', '.join(built_in)}."
        ) from None


def parse_toml(text: str, where: str, example: str) -> dict[str, Any]:
    """Read TOML.

    Args:
        text: The text.
        where: Where it stands.
        example: Command that prints one to copy.

    Raises:
        UserError: If it is none.
    """
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also what Python says of a number with thousands of digits
        raise UserError(f"{where} is not valid TOML: {error}. `{example}` prints one to copy.") from None
