"""The invariance probe: accuracy on the test images when one known transform is applied to all of them.

A transform g acts on images as in `bench/space.py`: (g I)(x) = I(g⁻¹x), x to the right, y downwards, the centre of the
image stays where it is. So a positive angle turns what is seen clockwise, a factor above 1 makes it larger, and a
positive shear pushes what is below the centre to the right.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from augbench.bench.clock import Cost
from augbench.bench.dataset import Split
from augbench.bench.evaluation import CHUNK, predict, predict_with_draws
from augbench.bench.method import Policy
from augbench.bench.randomness import generator
from augbench.bench.space import resample, to_unit_interval

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


@dataclass(frozen=True)
class PolicyDraws:
    """Test-time draws to average over.

    Attributes:
        policy: What to draw from.
        count: Draws for each image, at least 1.
        seed: The run's seed. The draws are those of the first repeat of the evaluation, anew for each transform.
    """

    policy: Policy
    count: int
    seed: int


def accuracies(
    network: nn.Module,
    test: Split,
    kind: ProbeKind,
    values: Sequence[float],
    draws: PolicyDraws | None = None,
    after_each: Callable[[], object] = lambda: None,
) -> list[float]:
    """Accuracy of a network on the test images under one transform after the other.

    Each matrix is applied to all test images in one resampling: bilinear, with black where nothing was. With test-time
    draws the transformed images are rounded to 256 grey levels first, since that is what a policy takes.

    Args:
        network: Takes images in [0, 1]; it is left in evaluation mode.
        test: Images and labels on the network's device.
        kind: Kind of the transforms.
        values: Their parameters.
        draws: Test-time draws; None for none.
        after_each: Called after each value.

    Returns:
        Accuracy in [0, 1] for each value.
    """
    network.eval()
    found = []
    for value in values:
        inverse = torch.tensor(kind.inverse(value), device=test.images.device)
        predicted = _predict(network, test.images, inverse, draws).argmax(-1)
        found.append((predicted == test.labels).float().mean().item())
        after_each()
    return found


def _predict(network: nn.Module, images: Tensor, inverse: Tensor, draws: PolicyDraws | None) -> Tensor:
    def transform(chunk: Tensor) -> Tensor:
        return resample(to_unit_interval(chunk), inverse.expand(len(chunk), 2, 2))

    if draws is None:
        return predict(network, images, transform)
    levels = torch.cat([(255 * transform(chunk)).round().to(torch.uint8) for chunk in images.split(CHUNK)])
    source = generator(draws.seed, "test/0", images.device)
    return predict_with_draws(network, levels, draws.policy, (draws.count,), source)[draws.count]


def rotation_probe(
    network: nn.Module, test: Split, angles: int, cost: Cost, after_each: Callable[[], object] = lambda: None
) -> dict[str, list[float]]:
    """Accuracy on the test images turned by each of `angles` angles, evenly spaced over the circle.

    `after_each` is called after each angle and may raise to break off.

    Returns:
        `degrees`, from −180 up, 180 left out, and `accuracy` in [0, 1].
    """
    degrees = [360 * index / angles - 180 for index in range(angles)]
    with cost.phase("evaluation"):
        accuracy = accuracies(network, test, ROTATION, degrees, after_each=after_each)
    cost.image_passes["evaluation"] += len(test) * angles
    return {"degrees": degrees, "accuracy": accuracy}
