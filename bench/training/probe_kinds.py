"""What an invariance probe does to the test images: families of transforms with one parameter.

A transform g acts on images as in `bench/augmentation/affine_space.py`: (g I)(x) = I(g⁻¹x), x to the right, y
downwards, the centre of the image stays where it is. So a positive angle turns what is seen clockwise, a factor above 1
makes it larger, and a positive shear pushes what is below the centre to the right.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Matrix = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True)
class ProbeKind:
    """A family of transforms with one parameter.

    Attributes:
        name: What users type.
        unit: What its values are, as messages call them.
        lowest: Smallest value.
        highest: Largest value.
        identity: Value that changes nothing.
        usual: Values to take where none are given.
        inverse: Matrix of g⁻¹ for a value, from output to input coordinates.
        period: Values that differ by it are one transform; None where there is no such number.
    """

    name: str
    unit: str
    lowest: float
    highest: float
    identity: float
    usual: tuple[float, ...]
    inverse: Callable[[float], Matrix]
    period: float | None = None

    def different(self, values: Sequence[float]) -> list[float]:
        """Return the first value of each transform among some."""
        first: dict[float, float] = {}
        for value in values:
            first.setdefault(value if self.period is None else value % self.period, value)
        return list(first.values())


def _rotation(degrees: float) -> Matrix:
    angle = math.radians(degrees)
    return (math.cos(angle), math.sin(angle)), (-math.sin(angle), math.cos(angle))


def _scales(x: float, y: float) -> Matrix:
    return (1 / x, 0.0), (0.0, 1 / y)


def _factors(name: str, inverse: Callable[[float], Matrix]) -> ProbeKind:
    usual = tuple(round(2 ** (step / 6), 3) for step in range(-6, 7))  # even steps of the logarithm
    return ProbeKind(name, "factors", 0.01, 100.0, 1.0, usual, inverse)


ROTATION = ProbeKind(
    name="rotation",
    unit="degrees",
    lowest=-360.0,
    highest=360.0,
    identity=0.0,
    usual=tuple(map(float, range(-180, 181, 15))),
    inverse=_rotation,
    period=360.0,
)
X_SCALE = _factors("x-scale", lambda factor: _scales(factor, 1.0))
Y_SCALE = _factors("y-scale", lambda factor: _scales(1.0, factor))
SCALE = _factors("scale", lambda factor: _scales(factor, factor))
X_SHEAR = ProbeKind(
    name="x-shear",
    unit="entries of the shear's matrix",
    lowest=-100.0,
    highest=100.0,
    identity=0.0,
    usual=tuple(step / 8 for step in range(-8, 9)),
    inverse=lambda shear: ((1.0, -shear), (0.0, 1.0)),
)

KINDS = {kind.name: kind for kind in (ROTATION, X_SCALE, Y_SCALE, SCALE, X_SHEAR)}
