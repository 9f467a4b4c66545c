"""What methods make of what they draw: copies for training, images for a test, and maps of the plane."""

from typing import Any

import pytest
import torch
from method_factories import make_method, seeded, some_images
from torch import Tensor

from augbench.bench.contract.method import Method, SharedSpaceMethod
from augbench.bench.experiment.catalogues import methods
from augbench.methods.wide_policy import WidePolicy, apply_in_turn


def drawn(method: Method[Any], images: Tensor, seed: int) -> Tensor | None:
    """Images as `draw` says: all blocks at once, or one operation after another."""
    source = seeded(seed)
    if isinstance(method, SharedSpaceMethod):
        return method.context.space.apply(images, method.draw(len(images), source))
    if isinstance(method, WidePolicy):
        return apply_in_turn(images, method.draw(len(images), source), method.image_space, source)
    return None


@pytest.mark.parametrize("name", [entry.name for entry in methods()])
def test_copies_test_time_draws_and_maps_are_those_that_are_drawn(name: str) -> None:
    kind = methods().get(name)
    policy = [[["Rotate", 0.5, 0.9], ["Invert", 0.5, 0.1]]]
    method = make_method(kind, channels=3, copies=2, settings={"policy": policy} if name == "fast-aa" else None)
    if name == "faster-aa":
        for tensor in method.learnable.values():
            tensor.uniform_(generator=seeded(1))
    images = some_images(20, channels=3)
    repeated = images.repeat(method.copies, 1, 1, 1)
    copies = method.augment(images, seeded(3)).images
    expected = drawn(method, repeated, 3)
    if expected is not None:
        torch.testing.assert_close(copies, expected, atol=1e-5, rtol=0)  # `fixed` moves whole pixels
        assert not torch.equal(copies, drawn(method, repeated, 4))
    if (test_policy := method.test_policy()) is not None:
        assert torch.equal(test_policy(repeated, seeded(3)), copies)
    matrices = method.sample_transforms(20, seeded(5))
    if isinstance(method, SharedSpaceMethod):
        assert torch.equal(matrices, method.context.space.matrices(method.draw(20, seeded(5))))
    else:
        assert (matrices is None) == isinstance(method, WidePolicy)
