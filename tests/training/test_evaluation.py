"""Evaluation: averages of probabilities over test-time draws, repeats, and the rotation probe."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from augbench.bench.common.randomness import derived_seed, epoch_order
from augbench.bench.data.dataset import Split
from augbench.bench.experiment.protocol import Protocol
from augbench.bench.training import evaluation
from augbench.bench.training.cost import Cost
from augbench.bench.training.evaluation import (
    CHUNK,
    Predictions,
    chunks_at_once,
    evaluate,
    predict,
    predict_with_draws,
    summarise,
)

CPU = torch.device("cpu")


class Corner(nn.Module):
    """Takes the brightest quarter of an image for its class."""

    def forward(self, images: Tensor) -> Tensor:
        """Mean brightness of the four quarters times 100 (N, 4), row by row."""
        return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1) * 100


def bright_quarters() -> Split:
    images = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
    for quarter in range(4):
        row, column = divmod(quarter, 2)
        images[quarter, 0, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 255
    return Split(images, torch.arange(4))


def shaking(images: Tensor, generator: torch.Generator) -> Tensor:
    return images / 255 * torch.rand(len(images), 1, 1, 1, generator=generator) * 0.02


def test_probabilities_are_averaged_over_draws() -> None:
    split = bright_quarters()
    averages = predict_with_draws(Corner(), split.images, shaking, (2, 3), torch.Generator().manual_seed(7))
    source = torch.Generator().manual_seed(7)
    draws = [Corner()(shaking(split.images, source)).softmax(-1) for _ in range(3)]
    torch.testing.assert_close(averages[2], (draws[0] + draws[1]) / 2)
    torch.testing.assert_close(averages[3], (draws[0] + draws[1] + draws[2]) / 3)


def test_images_become_floats_a_chunk_at_a_time() -> None:
    images = torch.randint(256, (2 * CHUNK + 7, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)).eval()
    seen: list[tuple[int, torch.dtype]] = []

    def transform(chunk: Tensor) -> Tensor:
        seen.append((len(chunk), chunk.dtype))
        return chunk.float() / 255

    with torch.no_grad():
        at_once = torch.cat([network(chunk).softmax(-1) for chunk in (images.float() / 255).split(CHUNK)])
    assert torch.equal(predict(network, images, transform), at_once)
    assert torch.equal(predict(network, images), at_once)
    assert seen == [(CHUNK, torch.uint8), (CHUNK, torch.uint8), (7, torch.uint8)]


class Small(nn.Module):
    """Tells images apart by their brightness, and has memory for a few at a time."""

    def __init__(self, fits: int) -> None:
        super().__init__()
        self.fits = fits
        self.passes: list[int] = []

    def forward(self, images: Tensor) -> Tensor:
        """Map images (N, 1, H, W) to logits (N, 2)."""
        self.passes.append(len(images))
        if len(images) > self.fits:
            raise torch.OutOfMemoryError
        brightness = images.mean((1, 2, 3))
        return torch.stack([brightness, 1 - brightness], -1)


def noisy(images: Tensor, generator: torch.Generator) -> Tensor:
    """Make images of random numbers, each of which depends on how many were drawn before and how many with it."""
    return images / 255 + torch.randn(images.shape, generator=generator).cumsum(0)


def drawn_one_by_one(network: nn.Module, images: Tensor, draws: int, source: torch.Generator) -> list[Tensor]:
    """Probabilities for each draw, with a forward pass for each chunk."""
    return [torch.cat([network(noisy(chunk, source)).softmax(-1) for chunk in images.split(10)]) for _ in range(draws)]


@pytest.mark.parametrize(
    ("fits", "passes"),
    [
        (1000, [114, 114, 114, 38]),  # 10 draws of 10, 10, 10 and 8 images: 12 chunks at a time, then 4
        (60, [114, 58, 56, 58, 56, 58, 56, 38]),
    ],
)
def test_chunks_that_go_through_the_network_together_are_drawn_as_before(
    fits: int, passes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "CHUNK", 10)
    monkeypatch.setattr(evaluation, "chunks_at_once", lambda device: 12)
    images = torch.randint(256, (38, 1, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    network, seen = Small(fits), list[int]()
    source, same = (torch.Generator().manual_seed(5) for _ in range(2))
    averages = predict_with_draws(network, images, noisy, (1, 10), source, lambda: seen.append(1))
    draws = drawn_one_by_one(Small(10), images, 10, same)
    torch.testing.assert_close(averages[1], draws[0])
    torch.testing.assert_close(averages[10], torch.stack(draws).mean(0))
    assert torch.equal(source.get_state(), same.get_state())
    assert len(seen) == 10 * 4
    assert network.passes == passes


def test_a_chunk_that_does_not_fit_alone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "CHUNK", 10)
    monkeypatch.setattr(evaluation, "chunks_at_once", lambda device: 16)
    network = Small(9)
    with pytest.raises(torch.OutOfMemoryError):
        predict(network, torch.zeros(160, 1, 4, 4, dtype=torch.uint8))
    assert network.passes == [160, 80, 40, 20, 10]


def test_a_gpu_gets_more_than_a_cpu() -> None:
    assert chunks_at_once(CPU) == 1
    assert chunks_at_once(torch.device("cuda")) == 16


def test_repeats_are_independent_and_repeatable() -> None:
    protocol = Protocol(test_time_draws=(1, 4), test_time_repeats=3)
    first, again, other = (
        evaluate(Corner(), shaking, bright_quarters(), protocol, seed, Cost(CPU)) for seed in (0, 0, 1)
    )
    assert {count: array.shape for count, array in first.probabilities.items()} == {
        0: (1, 4, 4),
        1: (3, 4, 4),
        4: (3, 4, 4),
    }
    for count in (1, 4):
        assert np.array_equal(first.probabilities[count], again.probabilities[count])
        assert not np.array_equal(first.probabilities[count], other.probabilities[count])
        assert len({array.tobytes() for array in first.probabilities[count]}) == 3


def test_methods_without_a_policy_have_no_test_time_rows() -> None:
    cost = Cost(CPU)
    predictions = evaluate(Corner(), None, bright_quarters(), Protocol(), 0, cost)
    assert set(predictions.probabilities) == {0}
    assert cost.image_passes["evaluation"] == 4


def test_summary_has_mean_and_deviation_over_repeats() -> None:
    right, wrong = [0.9, 0.1], [0.2, 0.8]
    repeats = np.array([[right, right], [right, wrong], [wrong, wrong]], dtype=np.float32)
    predictions = Predictions(np.zeros(2, dtype=np.int64), {0: repeats[:1], 2: repeats})
    summary = summarise(predictions, bins=15)
    assert summary["0"]["accuracy"] == {"mean": 1.0, "sd": None, "values": [1.0]}
    assert summary["2"]["accuracy"] == {"mean": 0.5, "sd": pytest.approx(0.5), "values": [1.0, 0.5, 0.0]}


def test_the_order_changes_from_epoch_to_epoch_and_repeats_under_a_seed() -> None:
    orders = [epoch_order(seed, epoch, 100).tolist() for seed, epoch in ((0, 0), (0, 1), (1, 0), (0, 0))]
    assert orders[0] == orders[3]
    assert orders[0] != orders[1]
    assert orders[0] != orders[2]
    assert sorted(orders[1]) == list(range(100))


def test_seeds_are_the_same_in_every_process() -> None:
    assert derived_seed(3, "order/1") == 5970557047402141468
    assert derived_seed(3, "order/1") not in {derived_seed(3, "order/2"), derived_seed(4, "order/1")}
