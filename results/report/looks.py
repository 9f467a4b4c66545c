"""Looks of learners and blocks on the page: those of the figures, with colours that are also seen on a dark page."""

import colorsys
from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.colors import to_hex, to_rgb

from augbench.results.figures.style import Look

BLACK = "#000000"  # drawn in the colour of the text, which is light on a dark page
DARK_PAPER = "#15171b"  # background of a dark page, as in page.css
CONTRAST = 3.5  # least contrast of a colour with the background; WCAG 2 asks for 3 in drawings
LINE_WIDTH = 1.8  # of lines on the page, pixels; matplotlib counts dashes in widths of the line
_STEP = 0.01  # of the lightness, from one try to the next


def look_data(look: Look) -> dict[str, Any]:
    """Write a look for the page: `colour` (six hexadecimal digits), `dashes`, `marker` and `filled`."""
    lengths = () if isinstance(look.dashes, str) else look.dashes[1]
    dashes = " ".join(f"{LINE_WIDTH * length:g}" for length in lengths)
    colour = to_hex(look.colour).removeprefix("#")
    return {"colour": colour, "dashes": dashes, "marker": look.marker, "filled": look.filled}


def colour_styles(colours: Iterable[str]) -> str:
    """Write a style sheet with a class for each colour, given as in `look_data`."""
    known = sorted({f"#{colour}" for colour in colours})
    light = [_rule(colour, "var(--ink)" if colour == BLACK else colour) for colour in known]
    dark = [_rule(colour, for_dark_pages(colour)) for colour in known if colour != BLACK]
    return "\n".join([*light, "@media screen and (prefers-color-scheme: dark) {", *dark, "}", ""])


def _rule(colour: str, value: str) -> str:
    return f".look-{colour.removeprefix('#')} {{ --look: {value}; }}"


def for_dark_pages(colour: str) -> str:
    """Lighten a colour, in its hue, until it stands out from a dark page."""
    hue, lightness, saturation = colorsys.rgb_to_hls(*to_rgb(colour))
    while contrast(colour, DARK_PAPER) < CONTRAST:
        lightness += _STEP
        colour = to_hex(colorsys.hls_to_rgb(hue, min(lightness, 1.0), saturation))
    return colour


def contrast(first: str, second: str) -> float:
    """Contrast of two colours as WCAG 2 defines it: 1 for the same colour, 21 for black and white."""
    darker, lighter = sorted((_luminance(first), _luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))
