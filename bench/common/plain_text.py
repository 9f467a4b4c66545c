"""Text of others, such as records and what runs have printed, so that nothing in it is taken for anything but text."""

import json
import re

KEPT = "\n\t"
NO_PLAIN_TEXT = re.compile(rb"\\[ubf]|[\x7f-\xff]")
"""What there is in JSON with other characters than those of plain English text."""


def safe(text: str) -> str:
    r"""Show characters that a terminal would obey, such as escape sequences, as `\x1b`; lines and tabs stay."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")  # progress bars go back to the start of their line
    if lines.isprintable():
        return lines
    return "".join(one if one in KEPT or one.isprintable() else _escaped(one) for one in lines)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def safe_json(content: bytes) -> bytes:
    """Do the same to every text in JSON, keys included; what is no JSON is left to whoever reads it."""
    if not NO_PLAIN_TEXT.search(content):
        return content
    try:
        return json.dumps(_safe_inside(json.loads(content))).encode()
    except (ValueError, RecursionError):
        return content


def _safe_inside(content: object) -> object:
    if isinstance(content, str):
        return safe(content)
    if isinstance(content, list):
        return [_safe_inside(part) for part in content]
    if isinstance(content, dict):
        return {safe(key): _safe_inside(part) for key, part in content.items()}
    return content


def safe_in_page(value: object) -> object:
    """Do the same to what a template of a page is about to write, other than mark-up of our own."""
    return safe(value) if type(value) is str else value
