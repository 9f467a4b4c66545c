"""Learners can be told apart by the colour-blind, and by everybody on paper.

Colour blindness is simulated by the matrices of Machado, Oliveira and Fernandes (2009) for complete dichromacy, in
linear RGB; distances are Euclidean in CIELAB.
"""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from augbench.bench.experiment.labels import KNOWN_METHODS
from augbench.results.figures.style import Colour, Look, method_looks

Array = NDArray[np.float64]

DICHROMACIES = {
    "none": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = TO_XYZ.sum(axis=1)


def linear(colour: Colour) -> Array:
    """Linear RGB of an sRGB colour."""
    values = np.array(colour)
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: Array) -> Array:
    """CIELAB, under D65, of linear RGB."""
    ratios = TO_XYZ @ np.clip(rgb, 0, 1) / WHITE
    x, y, z = np.where(ratios > (6 / 29) ** 3, np.cbrt(ratios), ratios / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def looks() -> dict[str, Look]:
    return method_looks(pd.DataFrame({"method": KNOWN_METHODS, "label": KNOWN_METHODS}))


def test_cielab_of_known_colours() -> None:
    assert lab(linear((1, 1, 1))) == pytest.approx([100, 0, 0], abs=0.02)
    assert lab(linear((1, 0, 0))) == pytest.approx([53.24, 80.09, 67.20], abs=0.05)


@pytest.mark.parametrize("kind", DICHROMACIES)
def test_colours_of_learners_are_apart(kind: str) -> None:
    colours = {look.colour for look in looks().values()}
    seen = [lab(DICHROMACIES[kind] @ linear(colour)) for colour in colours]
    assert len(seen) == 8
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) > 10


def test_learners_of_one_colour_differ_in_dashes_and_marker() -> None:
    for one, other in combinations(looks().values(), 2):
        if one.colour == other.colour:
            assert one.dashes != other.dashes
            assert one.marker != other.marker


def test_lines_are_seen_on_white() -> None:
    for look in looks().values():
        luminance = float(TO_XYZ[1] @ linear(look.colour))
        assert 1.05 / (luminance + 0.05) > 2.5
