"""Common to all figures: sizes, fonts, notes, and one look for each learner, data set and block."""

import textwrap
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D

from augbench.results.figures.text import FONT, LINE, text_width, wrap_text

ONE_COLUMN = 3.4
"""Width of a figure in one column of a journal, in inches."""
TWO_COLUMNS = 7.0
"""Width of a figure across a page of a journal, in inches."""

TITLE_SIZE, LABEL_SIZE, LEGEND_SIZE = 8, 7.5, 7
"""Sizes of fonts, points."""

Colour = tuple[float, float, float]
Dashes = tuple[float, tuple[float, ...]] | str
LegendPlace = Literal["lower left", "upper center"]

_SETTINGS: Any = {
    "font.family": FONT,
    "font.size": LABEL_SIZE,
    "axes.titlesize": TITLE_SIZE,
    "axes.labelsize": LABEL_SIZE,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": LEGEND_SIZE,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.color": "0.9",
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,
    "svg.hashsalt": "augbench",  # the same numbers give the same file
    "text.parse_math": False,  # names are text, whatever dollar signs are in them
    "savefig.dpi": 200,
}

_CROWDED_SETTINGS: Any = {"lines.linewidth": 0.9, "lines.markersize": 2.6}

CROWD = 8
"""Learners in a panel; more are spread over several, since nobody tells so many lines apart."""

# In place of seaborn's tan, grey and yellow: tan and green, grey and green look alike to some of the colour-blind, and
# a yellow line on white to hardly anyone like a line. By position in the palette.
_REPLACED_COLOURS = {5: (0.5, 0.3, 0.15), 7: (0.42, 0.42, 0.42), 8: (0.3, 0.15, 0.55)}

# Positions in the palette; blocks and data sets use what learners leave over.
_OTHER_METHOD_COLOURS = (8, 5, 9, 3, 6)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
# Position of the colour, of the marker and of the dashes: relatives share a colour.
_METHOD_LOOKS = {
    "none": (7, 0, 0),
    "fixed": (4, 1, 0),
    "trivialaugment": (2, 2, 0),
    "randaugment": (2, 5, 1),
    "trivialaugment-wide": (8, 2, 0),
    "randaugment-wide": (8, 5, 1),
    "autoaugment": (8, 6, 2),
    "fast-aa": (5, 7, 0),
    "faster-aa": (5, 8, 1),
    "dada": (3, 9, 0),
    "augerino": (1, 3, 0),
    "augerino+flips": (1, 1, 1),
    "augerino-pb": (1, 0, 2),
    "scale-norm": (0, 3, 1),
    "scale": (0, 4, 0),
}
_DASHES: tuple[Dashes, ...] = ("solid", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
_DATASET_COLOURS = (9, 3, 5, 8, 6, 2, 7, 4, 1, 0)
_OTHER_BLOCK_COLOURS = (0, 2, 1, 4, 8, 6, 7)

_ORANGE_RED, _BROWN, _SKY = 3, 5, 9
_NOTE_SIZE, _NOTE_COLOUR = 6, "0.35"
_BLACK, _GREY = (0.0, 0.0, 0.0), (0.55, 0.55, 0.55)
_BLOCK_LOOKS: Mapping[str, tuple[int | Colour, int]] = {
    "rotation": (_ORANGE_RED, 0),
    "x-scale": (_SKY, 0),
    "uniform-scale": (_SKY, 0),
    "y-scale": (_SKY, 1),
    "stretch": (_SKY, 1),
    "x-shear": (_BROWN, 0),
    "symmetric-shear": (_BROWN, 0),
    "half-turn": (_BLACK, 0),
    "flip": (_BLACK, 1),
    "crop": (_GREY, 0),
    "x-translation": (_GREY, 0),
    "y-translation": (_GREY, 1),
}


FEW = 9
"""Values on the horizontal axis, up to which a line has markers, so that nobody takes what is between for measured."""


@dataclass(frozen=True)
class Look:
    """How one thing is drawn in every figure: colour in RGB, dashes and marker of matplotlib, filled or hollow.

    What is `behind` stands in grey behind the others, without its seeds and without a name.
    """

    colour: Colour
    dashes: Dashes
    marker: str
    filled: bool = True
    behind: bool = False

    @property
    def inside(self) -> Colour:
        """Colour of the inside of markers."""
        return self.colour if self.filled else (1.0, 1.0, 1.0)


@contextmanager
def figure_style(lines: int = 1) -> Iterator[None]:
    """Use matplotlib's defaults with the common settings within the block; with many `lines` in a panel, thin ones."""
    settings = _SETTINGS | (_CROWDED_SETTINGS if lines > CROWD else {})
    with style.context(["default", settings]), warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box, which is enough.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        yield


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure, in inches, that needs no screen and is unknown to pyplot."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def with_note(
    width: float, height: float, *sentences: str, below_left: float | None = None
) -> tuple[Figure, FigureBase]:
    """Make an empty figure with small grey text below it.

    Args:
        width: In inches.
        height: In inches, without the text.
        sentences: The text; each sentence starts a line.
        below_left: Width of the left part of the figure that the text is about, in inches; all of it by default.

    Returns:
        The figure, and the part of it to draw in.
    """
    wide = width if below_left is None else below_left
    letters = int(wide / 0.049)  # at this size of the font
    lines = [line for sentence in sentences for line in textwrap.wrap(sentence, letters)]
    room = 0.06 + 0.11 * len(lines)
    figure = new_figure(width, height + room)
    body, foot = figure.subfigures(2, 1, squeeze=False, height_ratios=(height, room))[:, 0]
    centre = wide / width / 2
    foot.text(centre, 0.95, "\n".join(lines), fontsize=_NOTE_SIZE, color=_NOTE_COLOUR, ha="center", va="top")
    return figure, body


def method_looks(runs: pd.DataFrame) -> dict[str, Look]:
    """Choose the look of each label: the colour shows the learner, the dashes its settings.

    Only the first settings of a learner have filled markers. The known learners have colours of their own; others take
    the remaining ones in the order of their names.

    Args:
        runs: A frame with the columns `method` and `label`.
    """
    others = sorted(set(runs["method"]) - set(_METHOD_LOOKS))
    palette = _palette()
    looks: dict[str, Look] = {}
    variants: dict[str, int] = {}
    for method, label in runs[["method", "label"]].drop_duplicates().itertuples(index=False):
        variant = variants[method] = variants.get(method, -1) + 1
        position, number, first_dashes = _METHOD_LOOKS.get(method) or _other_look(others.index(method))
        dashes, marker = _DASHES[(first_dashes + variant) % len(_DASHES)], _MARKERS[number]
        looks[label] = Look(palette[position], dashes, marker, filled=variant == 0)
    return looks


def _other_look(position: int) -> tuple[int, int, int]:
    colour = _OTHER_METHOD_COLOURS[position % len(_OTHER_METHOD_COLOURS)]
    return colour, (5 + position) % len(_MARKERS), position // len(_OTHER_METHOD_COLOURS)


BEHIND = Look((0.8, 0.8, 0.8), "solid", ".", behind=True)


def in_front(looks: Mapping[str, Look], labels: Collection[str]) -> dict[str, Look]:
    """Keep the looks of these labels and put all others behind them."""
    return {label: look if label in labels else BEHIND for label, look in looks.items()}


def draw_mean(axes: Axes, x: Sequence[float], y: Sequence[float], label: str, look: Look, *, marked: bool) -> None:
    """Draw the line of a label; if `marked`, with a marker at each point (behind others only at a single one)."""
    (line,) = axes.plot(x, y, color=look.colour, linestyle=look.dashes)
    if look.behind:
        line.set(linewidth=0.6, zorder=1.5, marker=look.marker if len(x) == 1 else "")
        return
    line.set_label(label)
    if marked:
        line.set(marker=look.marker, markerfacecolor=look.inside)


def dataset_look(position: int) -> Look:
    """Choose the look of a data set by its position in a figure; ten have colours of their own."""
    turn, place = divmod(position, len(_DATASET_COLOURS))
    return Look(_palette()[_DATASET_COLOURS[place]], "solid", _MARKERS[(place + turn) % len(_MARKERS)])


def block_looks(names: Iterable[str]) -> dict[str, Look]:
    """Choose the looks of the blocks of one panel: known ones have theirs, others take colours in turn.

    Related blocks, which never stand in one panel, share a look.
    """
    looks: dict[str, Look] = {}
    others = 0
    for name in dict.fromkeys(names):
        if name in _BLOCK_LOOKS:
            colour, dashes = _BLOCK_LOOKS[name]
        else:
            dashes, place = divmod(others, len(_OTHER_BLOCK_COLOURS))
            colour = _OTHER_BLOCK_COLOURS[place]
            others += 1
        in_rgb = colour if isinstance(colour, tuple) else _palette()[colour]
        looks[name] = Look(in_rgb, _DASHES[dashes % len(_DASHES)], "o", filled=dashes == 0)
    return looks


def _palette() -> Sequence[Colour]:
    """Ten colours that the colour-blind can tell apart, too; learners, data sets and blocks choose from them."""
    colours = [(red, green, blue) for red, green, blue in sns.color_palette("colorblind", 10)]
    return [_REPLACED_COLOURS.get(position, colour) for position, colour in enumerate(colours)]


def angle_axis(axes: Axes) -> None:
    """Label a horizontal axis of angles from −180° to 180°."""
    axes.set_xlim(-187, 187)
    axes.set_xticks([-180, -90, 0, 90, 180], ["−180", "−90", "0", "90", "180"])


_HANDLE, _DASHED_HANDLE = 1.6, 3.4
"""Lengths of what stands before a legend's entry, in sizes of its font."""


def legend_below(figure: FigureBase, found: Mapping[str, Artist], width: float, order: Sequence[str] = ()) -> None:
    """Put one legend below a figure, if there is anything for it; entries wider than the figure are broken into lines.

    Args:
        figure: Where to put it.
        found: What is drawn, by label, from `drawn_in`.
        width: Room for it, in inches.
        order: Entries that come first, in this order; the others follow as they are found.
    """
    entries = {label: found[label] for label in (*(label for label in order if label in found), *found)}
    if entries:
        figure.legend(**_legend_options(entries, width), loc="outside lower center")


def legend_in(axes: Axes, entries: Mapping[str, Artist], width: float, place: LegendPlace, pad: float) -> None:
    """Put a legend, `width` inches wide, into a panel without data, `pad` sizes of the font from its edge."""
    axes.set_axis_off()
    if entries:
        axes.legend(**_legend_options(entries, width), loc=place, borderaxespad=pad)


def drawn_in(panels: Iterable[Axes]) -> dict[str, Artist]:
    """Collect what is drawn in any of the panels, by label, as it is drawn in the first of them."""
    found: dict[str, Artist] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        found = {**dict(zip(labels, handles, strict=True)), **found}
    return found


def _legend_options(entries: Mapping[str, Artist], width: float) -> dict[str, Any]:
    # Dashed lines are told apart by their dashes: the legend shows enough of them. Named styles are never alike.
    dashed = any(isinstance(entry, Line2D) and entry.get_linestyle() == "--" for entry in entries.values())
    handlelength = _DASHED_HANDLE if dashed else _HANDLE
    texts, ncols = _fit_legend(list(entries), width, handlelength)
    spacing = {"columnspacing": 1.2, "handlelength": handlelength}
    return {"handles": list(entries.values()), "labels": texts, "ncols": ncols, **spacing}


def legend_height(labels: Iterable[str], width: float) -> float:
    """Greatest height of the legend that `legend_below` makes of these labels in `width` inches, in inches."""
    texts, ncols = _fit_legend(list(labels), width, _DASHED_HANDLE)
    return LINE * max((sum(text.count("\n") + 1 for text in column) for column in _in_columns(texts, ncols)), default=0)


def _fit_legend(labels: Sequence[str], width: float, handlelength: float) -> tuple[list[str], int]:
    """Break entries into lines and choose the number of columns so that a legend is no wider than `width` inches."""
    rest = (handlelength + 2.4) * LEGEND_SIZE / 72  # from an entry's text to the next one's
    texts = [wrap_text(label, width - rest, LEGEND_SIZE) for label in labels]
    for count in range(len(texts), 1, -1):
        if sum(_widest(column) + rest for column in _in_columns(texts, count)) <= width:
            return texts, count
    return texts, 1


def _widest(texts: Sequence[str]) -> float:
    return max(text_width(line, LEGEND_SIZE) for text in texts for line in text.split("\n"))


def _in_columns(texts: Sequence[str], count: int) -> list[list[str]]:
    """Fill in entries column by column, as legends do."""
    return [list(map(str, column)) for column in np.array_split(texts, count)]
