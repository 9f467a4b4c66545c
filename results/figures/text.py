"""Text that fits: how wide it is in print, and where to break it into lines."""

import re
from collections.abc import Callable, Iterator

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

FONT = "DejaVu Sans"
"""Comes with matplotlib, so that every machine draws the same."""

LINE = 0.145
"""Height of a line of a legend or title, inches."""

_SLACK = 1.03  # a screen's letters are hinted and a little wider than those of the font


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Measure one line of text in a font of `size` points; returns its width in inches, or a little more."""
    font = FontProperties(family=FONT, size=size, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return _SLACK * float(width) / 72


def wrap_text(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """Break text into lines that are no wider than `width` inches, within words only where a word is too wide.

    A text that fits is returned unchanged. Each line has at least one letter, however narrow the room.
    """

    def fits(line: str) -> bool:
        return text_width(line, size, bold=bold) <= width

    if fits(text):
        return text
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}".lstrip()
        if fits(joined):
            lines[-1] = joined
            continue
        lines.append("")
        for part in _parts(word, fits):
            if not fits(lines[-1] + part):
                lines.append("")
            lines[-1] += part
    return "\n".join(line for line in lines if line)


def _parts(word: str, fits: Callable[[str], bool]) -> Iterator[str]:
    """Take a word apart where that is needed: after its hyphens and the like, else between letters."""
    if fits(word):
        yield word
        return
    for part in re.split(r"(?<=[-/_=])", word):
        yield from [part] if fits(part) else part
