"""The invariance probe: what each kind does to images, and that accuracy is counted on them."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from augbench.bench.augmentation.affine_space import Draw, resample, shared_space, to_unit_interval
from augbench.bench.data.dataset import Split
from augbench.bench.experiment.protocol import Protocol
from augbench.bench.networks.base import Normalised
from augbench.bench.training.cost import Cost
from augbench.bench.training.evaluation import CHUNK, evaluate
from augbench.bench.training.metrics import score
from augbench.bench.training.probe import PolicyDraws, accuracies, rotation_probe
from augbench.bench.training.probe_kinds import KINDS, ROTATION

CPU = torch.device("cpu")
SIDE = 9


class Brightest(nn.Module):
    """Takes the position of the brightest pixel for the class of an image, and keeps the images that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, images: Tensor) -> Tensor:
        """Pixels row by row, of the first channel; (N, H·W)."""
        self.seen.append(images)
        return images[:, 0].flatten(1)


def spot(row: int, column: int) -> Tensor:
    """One image with one white pixel; (1, 1, 9, 9)."""
    image = torch.zeros(1, 1, SIDE, SIDE, dtype=torch.uint8)
    image[0, 0, row, column] = 255
    return image


def some_images(count: int = 5, side: int = 12, channels: int = 1) -> Tensor:
    source = torch.Generator().manual_seed(3)
    return torch.randint(256, (count, channels, side, side), dtype=torch.uint8, generator=source)


def transformed(kind: str, value: float, images: Tensor) -> Tensor:
    network = Brightest()
    accuracies(network, Split(images, torch.zeros(len(images), dtype=torch.int64)), KINDS[kind], [value])
    return torch.cat(network.seen)


@pytest.mark.parametrize(
    ("kind", "value", "before", "after"),
    [
        ("rotation", 90, (4, 6), (6, 4)),  # clockwise: from right of the centre to below it
        ("rotation", -90, (4, 6), (2, 4)),
        ("rotation", 180, (2, 3), (6, 5)),
        ("x-scale", 2, (5, 6), (5, 8)),  # twice as far to the right, the row stays
        ("x-scale", 0.5, (5, 8), (5, 6)),
        ("y-scale", 2, (6, 5), (8, 5)),
        ("scale", 2, (5, 3), (6, 2)),
        ("x-shear", 1, (6, 4), (6, 6)),  # what is below goes to the right by as much as it is below
        ("x-shear", -1, (6, 4), (6, 2)),
        ("x-shear", 1, (4, 6), (4, 6)),
    ],
)
def test_where_a_white_pixel_goes(kind: str, value: float, before: tuple[int, int], after: tuple[int, int]) -> None:
    row, column = after
    expected, elsewhere = torch.tensor([SIDE * row + column]), torch.tensor([SIDE * row + column + 1])
    assert accuracies(Brightest(), Split(spot(*before), expected), KINDS[kind], [value]) == [1]
    assert accuracies(Brightest(), Split(spot(*before), elsewhere), KINDS[kind], [value]) == [0]


def one_draw(magnitudes: dict[int, float]) -> Draw:
    """A draw with only these continuous blocks active."""
    active, drawn = torch.zeros(1, 7, dtype=torch.bool), torch.zeros(1, 4)
    for block, magnitude in magnitudes.items():
        active[0, block], drawn[0, block] = True, magnitude
    still = torch.zeros(1, dtype=torch.bool)
    return Draw(active, drawn, still, still, torch.zeros(1, 2, dtype=torch.int64))


BLOCKS: dict[str, tuple[tuple[int, ...], Callable[[float], float]]] = {
    "rotation": ((0,), math.radians),
    "x-scale": ((1,), math.log),
    "y-scale": ((2,), math.log),
    "scale": ((1, 2), math.log),
    "x-shear": ((3,), float),
}


def test_every_kind_is_compared_with_a_block() -> None:
    assert set(BLOCKS) == set(KINDS)


@pytest.mark.parametrize("name", BLOCKS)
@given(data=st.data())
def test_the_matrix_is_that_of_the_block_of_the_space(name: str, data: st.DataObject) -> None:
    kind = KINDS[name]
    value = data.draw(st.floats(max(kind.lowest, -200), min(kind.highest, 200)))
    blocks, unit = BLOCKS[name]
    expected = shared_space(12).inverse_matrices(one_draw(dict.fromkeys(blocks, unit(value))))[0]
    torch.testing.assert_close(torch.tensor(kind.inverse(value)), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_usual_values_are_in_range_and_contain_the_identity(name: str) -> None:
    kind = KINDS[name]
    assert list(kind.usual) == sorted(set(kind.usual))
    assert kind.identity in kind.usual
    assert kind.lowest <= kind.usual[0] < kind.usual[-1] <= kind.highest
    images = some_images()
    torch.testing.assert_close(transformed(name, kind.identity, images), images.float() / 255, atol=1e-5, rtol=0)


@pytest.fixture
def many() -> Split:
    """More images than go through a network at once, with the labels of a network that turned images confuse."""
    images = some_images(CHUNK + 50, side=14)
    with torch.no_grad():
        labels = a_network()(images.float() / 255).argmax(-1)
    return Split(images, labels)


def a_network() -> nn.Module:
    """Untrained, but with all ten answers to random images of 14×14."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Tanh(), nn.Flatten(), nn.Linear(8 * 144, 10))
    return Normalised(layers, torch.tensor([0.5]), torch.tensor([0.3])).eval()


def test_the_rotation_probe_is_that_of_all_images_at_once(many: Split) -> None:
    network, cost = a_network(), Cost(CPU)
    probe = rotation_probe(network, many, 8, cost)
    expected = []
    for degrees in probe["degrees"]:
        cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        inverse = torch.tensor([[cosine, sine], [-sine, cosine]]).expand(len(many), 2, 2)
        at_once = (resample(to_unit_interval(many.images), inverse) * 255).round() / 255
        with torch.no_grad():
            predicted = torch.cat([network(chunk).softmax(-1) for chunk in at_once.split(CHUNK)]).argmax(-1)
        expected.append((predicted == many.labels).float().mean().item())
    assert probe["accuracy"] == expected
    assert probe["degrees"] == [-180, -135, -90, -45, 0, 45, 90, 135]
    assert expected[4] > 0.99
    assert len(set(expected)) > 2
    assert cost.image_passes["evaluation"] == 8 * len(many)
    (seconds,) = cost.seconds.values()
    assert seconds["evaluation"] > 0


def test_the_rotation_probe_turns_by_whole_quarters() -> None:
    corners = torch.cat([spot(*place) for place in ((0, 0), (0, 8), (8, 8), (8, 0))])
    split = Split(corners, torch.tensor([0, 8, 80, 72]))
    # At a quarter turn each white corner lies where that of another class was, at a half turn too.
    found = rotation_probe(Brightest(), split, 4, Cost(CPU))
    assert found == {"degrees": [-180, -90, 0, 90], "accuracy": [0, 0, 1, 0], "pixels": SIDE}
    assert rotation_probe(Brightest(), split, 0, Cost(CPU)) == {"degrees": [], "accuracy": [], "pixels": SIDE}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("value", [0.5, 1, 1.7])
def test_images_larger_than_the_network_takes_are_transformed_first_and_then_averaged_down(
    name: str, value: float
) -> None:
    images, network = some_images(channels=3), Brightest()
    split = Split(images, torch.zeros(len(images), dtype=torch.int64))
    accuracies(network, split, KINDS[name], [value], side=6)
    at_full_size = (255 * transformed(name, value, images)).round()
    squares = at_full_size.unfold(2, 2, 2).unfold(3, 2, 2).mean((-1, -2))
    assert torch.equal((255 * network.seen[0]).round(), squares.round())


def test_after_each_value_is_told(many: Split) -> None:
    told: list[int] = []
    network = a_network().train()
    found = accuracies(network, many, ROTATION, [0, 10, 20], after_each=lambda: told.append(len(told)))
    assert told == [0, 1, 2]
    assert len(found) == 3
    assert not network.training


@pytest.mark.parametrize("name", KINDS)
def test_a_policy_gets_the_images_themselves_at_the_identity(name: str) -> None:
    given_images = some_images(channels=3)
    split = Split(given_images, torch.zeros(len(given_images), dtype=torch.int64))
    got: list[Tensor] = []

    def policy(images: Tensor, generator: torch.Generator) -> Tensor:
        got.append(images)
        return images.float() / 255

    accuracies(Brightest(), split, KINDS[name], [KINDS[name].identity], PolicyDraws(policy, 2, seed=0))
    assert len(got) == 2
    assert all(torch.equal(images, given_images) for images in got)


def noisy(images: Tensor, generator: torch.Generator) -> Tensor:
    return (images.float() / 255 + torch.rand(images.shape, generator=generator)) / 2


def test_draws_are_those_of_the_evaluations_first_repeat(many: Split) -> None:
    protocol = Protocol(test_time_draws=(1, 3), test_time_repeats=1)
    found = evaluate(a_network(), noisy, many, protocol, 5, Cost(CPU))
    for draws in protocol.test_time_draws:
        (accuracy,) = accuracies(a_network(), many, ROTATION, [0], PolicyDraws(noisy, draws, seed=5))
        expected = score(found.probabilities[draws][0], many.labels.numpy(), 15)["accuracy"]
        assert accuracy == pytest.approx(expected)
        assert 0.2 < accuracy < 1


def test_draws_do_not_depend_on_what_else_is_asked(many: Split) -> None:
    draws = PolicyDraws(noisy, 2, seed=1)
    together = accuracies(a_network(), many, ROTATION, [-20, 0, 20], draws)
    assert together[2:] == accuracies(a_network(), many, ROTATION, [20], draws)
    assert together[2:] != accuracies(a_network(), many, ROTATION, [20])
