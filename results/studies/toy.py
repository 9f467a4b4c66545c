"""The toy problem of the TRM paper's first figure: points of the plane with a planted rotation, three ways of training.

The geometry is this project's own, since the paper shows its figure without numbers. Six short arcs lie on three
rings, two on each, and the classes alternate like the fields of a chessboard:

    radius     1    1.5    2
    at 0°      A    B      A
    at 180°    B    A      B

A point is the centre of its arc, with a little noise in the radius, rotated by the planted distribution U[−45°, 45°].
On a ring the ends of the two classes are therefore 90° apart. That makes ±45° the widest distribution of rotations
that never takes a point to where the other class is, and it is this width that TRM can find: its regulariser asks for
the widest range, the loss for no confusion. The planted range is the same number because the arcs are as long as the
gaps between them; with arcs of ±30° the gaps would allow ±60°, and TRM would go towards those. In a small sample the
arcs do not reach their ends, so the range that it allows, `harmless_range`, lies a little above 45°; α mostly ends a
little above that again, since a slight overlap costs less loss than it gains in the regulariser. A rotation by
U[−180°, 180°] leaves nothing of the class on any ring.

The three ways are methods of this project on points in the place of images: they get the same network at its start, the
same points, the same number of steps and of copies. TRM is the method `scale` itself with a single block.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn

from augbench.bench.augmentation.affine_space import Block, Draw, Space
from augbench.bench.augmentation.network_input import NetworkInput
from augbench.bench.common.randomness import derived_seed, generator
from augbench.bench.contract.method import Hyperparameters, Method, RunContext, SharedSpaceMethod
from augbench.methods.none import NoAugmentation
from augbench.methods.scale import Scale, ScaleHyperparameters

RADII = (1.0, 1.5, 2.0)
RADIAL_NOISE = 0.05
"""Standard deviation of the radius: a tenth of the distance between two rings."""

PLANTED_RANGE = math.pi / 4
"""Radians: points are rotated from the centre of their arc by a uniform angle within ± this."""

TRAINING_POINTS, TEST_POINTS = 8, 500
"""Points of each arc."""

STEPS = 1000
"""Full-batch steps of Adam; its rate falls to 0 along half a cosine, as that of (π, α) falls linearly."""

COPIES = 4
"""Copies of each point in a step, for each of the three ways."""

NETWORK_RATE, HIDDEN_UNITS = 0.01, 64

REGULARISATION, DISTRIBUTION_RATE = 0.05, 0.1
"""λ_reg and the rate of (π, α). Everything else of SCALE is at its default.

Both are larger than the defaults, which are for hundreds of epochs of hundreds of steps: α has 1000 steps to grow from
0.1 rad. At the end of them it lies below the harmless range for some seeds with λ_reg = 0.02, and for all of them, at
less than 30°, with the default 0.006.
"""

ROWS = 50  # of a trajectory


class Way(StrEnum):
    """A way of training: without rotations, with rotations by U[−180°, 180°], or by a learned distribution."""

    RM = "rm"
    FIXED = "fixed-180"
    TRM = "trm"


@dataclass(frozen=True)
class Points:
    """Labelled points of the plane.

    Attributes:
        places: (N, 2).
        labels: 0 for class A, 1 for class B; (N,).
    """

    places: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class ToyResult:
    """What one training ended with.

    Attributes:
        way: How it was trained.
        seed: Of the points, the network's start and the augmentation.
        test_accuracy: In [0, 1], without test-time augmentation.
        probability: Probability π of a rotation at the end; 0 without augmentation.
        range_degrees: Range α of the rotation at the end; 0 without augmentation.
        harmless_degrees: What `harmless_range` says of the training points.
        trajectory: Step, π and α in degrees over the training of TRM, else empty.
    """

    way: Way
    seed: int
    test_accuracy: float
    probability: float
    range_degrees: float
    harmless_degrees: float
    trajectory: tuple[tuple[int, float, float], ...]


@dataclass(frozen=True)
class ToyRun:
    """A finished training, with what is needed to draw it."""

    result: ToyResult
    network: nn.Module
    method: Method[Any]
    training: Points
    test: Points

    @torch.no_grad()
    def probabilities(self, places: Tensor) -> Tensor:
        """Probability of class B at each place (N, 2); (N,)."""
        return torch.softmax(self.network(places), -1)[:, 1]

    @torch.no_grad()
    def augmented(self, draws: int) -> Points:
        """Draw at least so many augmented copies of each training point, the same ones in every call."""
        source = generator(self.result.seed, "drawn copies")
        copies = -(-draws // self.method.copies)
        places = [self.method.augment(self.training.places, source).images for _ in range(copies)]
        return Points(torch.cat(places), self.training.labels.repeat(copies * self.method.copies))


def rotate(places: Tensor, angles: Tensor) -> Tensor:
    """Rotate each place (N, 2) about the origin, from the first axis towards the second, by its angle in rad (N,)."""
    cosine, sine = angles.cos(), angles.sin()
    x, y = places.unbind(1)
    return torch.stack((cosine * x - sine * y, sine * x + cosine * y), dim=1)


def sample_points(for_each_arc: int, source: torch.Generator, planted_range: float = PLANTED_RANGE) -> Points:
    """Draw points of every arc.

    Args:
        for_each_arc: Number of points of each of the six arcs.
        source: Source of randomness.
        planted_range: Radians; points are rotated from the centre of their arc by a uniform angle within ± this.
    """
    ring = torch.arange(len(RADII)).repeat_interleave(2 * for_each_arc)
    opposite = torch.arange(2).repeat_interleave(for_each_arc).repeat(len(RADII))  # whether the arc is at 180°
    radius = torch.tensor(RADII)[ring] + RADIAL_NOISE * torch.randn(len(ring), generator=source)
    centres = torch.stack((radius * (1 - 2 * opposite), torch.zeros(len(ring))), dim=1)
    angles = planted_range * (2 * torch.rand(len(ring), generator=source) - 1)
    return Points(rotate(centres, angles), (ring + opposite) % 2)


def harmless_range(points: Points) -> float:
    """Widest range ±r of rotations, in rad, that mixes no classes on a ring: half the smallest gap between the two.

    For rotations within ±r, copies of two points whose directions are d apart can meet if and only if d ≤ 2r.
    """
    x, y = points.places.unbind(1)
    direction = torch.atan2(y, x)
    ring = (points.places.norm(dim=1)[:, None] - torch.tensor(RADII)).abs().argmin(1)
    apart = (direction[:, None] - direction).abs()
    apart = torch.minimum(apart, 2 * math.pi - apart)
    rivals = (ring[:, None] == ring) & (points.labels[:, None] != points.labels)
    return float(apart[rivals].min()) / 2


@dataclass(frozen=True)
class PointRotations(Space):
    """An augmentation space of one block, the rotation, that acts on points; they stand where images do elsewhere.

    Learners use `blocks`, `maxima`, `supports`, `sample` and `apply`; the rest of `Space` is about images.
    """

    image_size: int = 1
    padding: int = 0

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The rotation alone."""
        return (Block("rotation", "rad", maximum=self.maximum_rotation),)

    def sample(self, count: int, probabilities: Tensor, ranges: Tensor, generator: torch.Generator) -> Draw:
        """Draw rotations: with probability π (1,) by α·ε for α (1,) and ε uniform on [−1, 1], differentiable in α."""
        uniform = torch.rand(count, 2, generator=generator)
        active = uniform[:, :1] < probabilities.detach()
        magnitudes = ranges * (2 * uniform[:, 1:] - 1)
        return Draw(active, magnitudes, *self.sample_elements(count, generator))

    def apply(
        self,
        images: Tensor,
        draw: Draw,
        *,
        indices: Tensor | None = None,
        network_input: NetworkInput | None = None,
    ) -> Tensor:
        """Rotate points (B, 2): draw n acts on point n mod B. Points are not normalised."""
        points = images if indices is None else images[indices]
        return rotate(points.repeat(len(draw) // len(points), 1), (draw.magnitudes * draw.active)[:, 0])


class FixedRotation(SharedSpaceMethod[Hyperparameters]):
    """Rotates every copy by U[−180°, 180°]: an augmentation that does not suit the problem."""

    def draw(self, count: int, generator: torch.Generator) -> Draw:
        """Draw the rotations."""
        return self.context.space.sample(count, torch.ones(1), self.context.space.maxima(), generator)


def train(way: Way, seed: int, steps: int = STEPS, planted_range: float = PLANTED_RANGE) -> ToyRun:
    """Train once on the CPU, deterministically.

    Args:
        way: How to train.
        seed: Decides on the points, the network's start and the augmentation; all ways share the first two.
        steps: Steps of the optimiser.
        planted_range: Radians, of the training and the test points.
    """
    training = sample_points(TRAINING_POINTS, generator(seed, "training points"), planted_range)
    test = sample_points(TEST_POINTS, generator(seed, "test points"), planted_range)
    method, network = _new_method(way, len(training), steps), _new_network(seed)
    trajectory = _optimise(network, method, training, generator(seed, "augmentation"), steps)
    with torch.no_grad():
        accuracy = (network(test.places).argmax(-1) == test.labels).double().mean()
    decided = (steps, 1.0, 180.0) if way is Way.FIXED else (steps, 0.0, 0.0)
    _, probability, range_degrees = _row(steps, method) or decided
    harmless = math.degrees(harmless_range(training))
    result = ToyResult(way, seed, float(accuracy), probability, range_degrees, harmless, trajectory)
    return ToyRun(result, network, method, training, test)


def _new_method(way: Way, train_size: int, steps: int) -> Method[Any]:
    context = RunContext(
        space=PointRotations(),
        channels=1,
        classes=2,
        train_size=train_size,
        epochs=steps,  # a step sees all points
        baseline_copies=COPIES,
        device=torch.device("cpu"),
    )
    if way is Way.RM:
        return NoAugmentation(Hyperparameters(), context)
    if way is Way.FIXED:
        return FixedRotation(Hyperparameters(), context)
    chosen = {"copies": COPIES, "regularisation": REGULARISATION, "learning_rate": DISTRIBUTION_RATE}
    return Scale(ScaleHyperparameters.model_validate(chosen), context)


def _new_network(seed: int) -> nn.Module:
    with torch.random.fork_rng([]):
        torch.manual_seed(derived_seed(seed, "network"))
        return nn.Sequential(
            nn.Linear(2, HIDDEN_UNITS),
            nn.ReLU(),
            nn.Linear(HIDDEN_UNITS, HIDDEN_UNITS),
            nn.ReLU(),
            nn.Linear(HIDDEN_UNITS, 2),
        )


def _optimise(
    network: nn.Module, method: Method[Any], points: Points, source: torch.Generator, steps: int
) -> tuple[tuple[int, float, float], ...]:
    """Train the network, and along with it what the method learns; returns the trajectory of the latter."""
    optimizer = torch.optim.Adam(network.parameters(), lr=NETWORK_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    trajectory = [_row(0, method)]
    for step in range(steps):
        method.start_epoch(step)
        copies = method.augment(points.places, source)
        losses = method.loss(network(copies.images).view(method.copies, len(points), 2), points.labels)
        regulariser = method.regulariser()
        objective = losses.mean() if regulariser is None else losses.mean() + regulariser
        optimizer.zero_grad(set_to_none=True)
        objective.backward()
        method.after_backward(losses.detach(), copies)
        optimizer.step()
        schedule.step()
        if (step + 1) % max(1, steps // ROWS) == 0:
            trajectory.append(_row(step + 1, method))
    return tuple(row for row in trajectory if row is not None)


def _row(step: int, method: Method[Any]) -> tuple[int, float, float] | None:
    learned = method.learned()
    if not learned:
        return None
    return step, learned["probability/rotation"], math.degrees(learned["range/rotation"])
