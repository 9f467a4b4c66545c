"""Networks that are trained as one are the networks that are trained one by one."""

import pytest
import torch
from torch import Tensor

from benchmarks.made_up import CLASSES
from benchmarks.seeds import InTurn, Together, build

SEEDS, BATCH, SIZE = 3, 16, 14
CPU = torch.device("cpu")


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(0)
    images = torch.rand(SEEDS, BATCH, 1, SIZE, SIZE, generator=source)
    return images, torch.randint(CLASSES, (SEEDS, BATCH), generator=source)


def test_gradients_and_statistics_are_those_of_separate_networks(batch: tuple[Tensor, Tensor]) -> None:
    in_turn, together = InTurn(build(SEEDS, CPU)), Together(build(SEEDS, CPU))
    in_turn.step(*batch)
    together.step(*batch)
    for number, module in enumerate(in_turn.modules):
        for name, parameter in module.named_parameters():
            stacked = together.parameters[name].grad
            assert parameter.grad is not None
            assert stacked is not None
            torch.testing.assert_close(stacked[number], parameter.grad, rtol=1e-3, atol=1e-6, msg=name)
        for name, buffer in module.named_buffers():
            torch.testing.assert_close(together.buffers[name][number], buffer, rtol=1e-4, atol=1e-6, msg=name)


def test_seeds_have_networks_and_images_of_their_own(batch: tuple[Tensor, Tensor]) -> None:
    together = Together(build(SEEDS, CPU))
    together.step(*batch)
    weights = together.parameters["0.weight"]
    assert not torch.equal(weights[0], weights[1])
    alone = Together(build(SEEDS, CPU))
    others = batch[0].clone()
    others[1:] = others[1:].flip(-1)
    alone.step(others, batch[1])
    torch.testing.assert_close(alone.parameters["0.weight"][0], weights[0])
    assert not torch.allclose(alone.parameters["0.weight"][1], weights[1])
