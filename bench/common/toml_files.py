"""Suites and profiles as TOML: built-in ones by name, a user's own by path."""

import json
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources.abc import Traversable
from typing import Any

from augbench.bench.common.errors import UserError, one_of
from augbench.bench.common.user_input import read_user_text, user_path

STANDARD_INPUT = "-"


def built_in_texts(folder: Traversable) -> dict[str, str]:
    """Read every .toml file of a folder of the package, by name."""
    files = [file for file in folder.iterdir() if file.name.endswith(".toml")]
    return {file.name.removesuffix(".toml"): file.read_text("utf-8") for file in sorted(files, key=lambda f: f.name)}


def find_text(kind: str, name_or_path: str, built_in: Mapping[str, str]) -> tuple[str, str]:
    """Find a text by the name of a built-in one or the path of a file.

    Args:
        kind: What it is, as messages call it.
        name_or_path: What the user typed.
        built_in: Built-in ones, by name.

    Returns:
        The text, and what messages call its place.

    Raises:
        UserError: If there is none, or it cannot be read.
    """
    if name_or_path in built_in:
        return built_in[name_or_path], f"built-in {kind} {name_or_path!r}"
    if name_or_path == STANDARD_INPUT:
        return _standard_input(kind), f"the {kind} on standard input"
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


def _standard_input(kind: str) -> str:
    text = sys.stdin.buffer.read().decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise UserError(f"Standard input, from which - reads the {kind}, is empty.")
    return text


def parse_toml(text: str, where: str, example: str) -> dict[str, Any]:
    """Read TOML.

    Args:
        text: The text.
        where: Where it comes from.
        example: Command that prints one to copy.

    Raises:
        UserError: If it is no TOML.
    """
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also for a number with thousands of digits
        raise UserError(f"{where} is not valid TOML: {error}. `{example}` prints one to copy.") from None
    except RecursionError:
        raise UserError(f"{where} is nested too deeply to be read. `{example}` prints one to copy.") from None


def in_toml(value: Any) -> str:
    """Write a value in one line of TOML; keys of tables whose value is None are left out."""
    if isinstance(value, Mapping):
        given = {key: each for key, each in value.items() if each is not None}
        return f"{{ {', '.join(f'{_key(key)} = {in_toml(each)}' for key, each in given.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(in_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else json.dumps(key, ensure_ascii=False)


HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]\]?")
KEY = re.compile(r"""\s*([\w."'-]+)\s*=""")


def line_of(text: str, place: Sequence[int | str]) -> int | None:
    """Find the line of a key or table in TOML, or of the innermost table around it that has a line.

    Args:
        text: Valid TOML.
        place: Keys and, in lists, numbers from 0.

    Returns:
        The line, from 1; None if there is none.
    """
    counts: dict[tuple[int | str, ...], int] = {}
    table: tuple[int | str, ...] = ()
    best: tuple[int, int | None] = (0, None)
    for number, line in enumerate(text.splitlines(), 1):
        if header := HEADER.match(line):
            table = _table(_keys(header[2]), header[1] == "[[", counts)
            found = table
        elif key := KEY.match(line):
            found = (*table, *_keys(key[1]))
        else:
            continue
        if tuple(place[: len(found)]) == found and len(found) > best[0]:
            best = (len(found), number)
    return best[1]


def _keys(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _table(keys: tuple[str, ...], is_of_list: bool, counts: dict[tuple[int | str, ...], int]) -> tuple[int | str, ...]:
    """Return the place of a table from its header, counting the tables of each list."""
    place: tuple[int | str, ...] = ()
    for key in keys:
        place = (*place, key)
        is_last = len([part for part in place if isinstance(part, str)]) == len(keys)
        if is_last and is_of_list:
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place = (*place, counts[place])
    return place
