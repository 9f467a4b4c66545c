"""Text from records and logs, made safe to print: nothing in it acts as anything but text."""

import json
import re

KEPT = "\n\t"
NO_PLAIN_TEXT = re.compile(rb"\\[ubf]|[\x7f-\xff]")
"""Matches JSON with other characters than printable ASCII."""


def safe(text: str) -> str:
    r"""Write characters that control a terminal as escapes, such as `\x1b`; line breaks and tabs stay."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")  # progress bars go back to the start of their line
    if lines.isprintable():
        return lines
    return "".join(one if one in KEPT or one.isprintable() else _escaped(one) for one in lines)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def safe_json(content: bytes) -> bytes:
    """Apply `safe` to every text in JSON, keys included; anything else is returned as it is."""
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
    """Apply `safe` to a text that a page template writes, but not to our own markup."""
    return safe(value) if type(value) is str else value
