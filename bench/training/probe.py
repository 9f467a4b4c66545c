"""The invariance probe: accuracy on the test images when one known transform is applied to all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from augbench.bench.augmentation.affine_space import to_unit_interval, transform_and_shrink
from augbench.bench.common.randomness import generator
from augbench.bench.contract.method import Policy
from augbench.bench.data.dataset import Split
from augbench.bench.training.cost import Cost
from augbench.bench.training.evaluation import CHUNK, predict, predict_with_draws
from augbench.bench.training.probe_kinds import ROTATION, ProbeKind


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
    side: int | None = None,
) -> list[float]:
    """Accuracy of a network on the test images under one transform after the other.

    Each acts on all test images as in a data set of transformed images: bilinear, black outside, then averaged down to
    the images that the network takes, in whole grey levels.

    Args:
        network: Takes images in [0, 1]; it is left in evaluation mode.
        test: Images, which may be larger than those that the network takes, and labels on the network's device.
        kind: Kind of the transforms.
        values: Their parameters.
        draws: Test-time draws; None for none.
        after_each: Called after each value.
        side: Side of the images that the network takes, in pixels; that of the test images if it is not given.

    Returns:
        Accuracy in [0, 1] for each value.
    """
    network.eval()
    found = []
    for value in values:
        inverse = torch.tensor(kind.inverse(value), device=test.images.device)
        predicted = _predict(network, test.images, inverse, side or test.images.shape[-1], draws).argmax(-1)
        found.append((predicted == test.labels).float().mean().item())
        after_each()
    return found


def _predict(network: nn.Module, images: Tensor, inverse: Tensor, side: int, draws: PolicyDraws | None) -> Tensor:
    def transform(chunk: Tensor) -> Tensor:
        return transform_and_shrink(chunk, inverse.expand(len(chunk), 2, 2), side)

    if draws is None:
        return predict(network, images, lambda chunk: to_unit_interval(transform(chunk)))
    return probabilities(network, torch.cat([transform(chunk) for chunk in images.split(CHUNK)]), draws)


def probabilities(network: nn.Module, images: Tensor, draws: PolicyDraws | None) -> Tensor:
    """Softmax probabilities of uint8 images (N, C, H, W), averaged over test-time draws if there are any; (N, K)."""
    if draws is None:
        return predict(network, images)
    source = generator(draws.seed, "test/0", images.device)
    return predict_with_draws(network, images, draws.policy, (draws.count,), source)[draws.count]


def rotation_probe(
    network: nn.Module,
    test: Split,
    angles: int,
    cost: Cost,
    after_each: Callable[[], object] = lambda: None,
    side: int | None = None,
) -> dict[str, Any]:
    """Accuracy on the test images turned by each of `angles` angles, evenly spaced over the circle.

    `after_each` is called after each angle and may raise to break off; `side` is that of `accuracies`.

    Returns:
        `degrees`, from −180 up, 180 left out; `accuracy` in [0, 1]; and `pixels`, the side at which images were turned.
    """
    degrees = [360 * index / angles - 180 for index in range(angles)]
    with cost.phase("evaluation"):
        accuracy = accuracies(network, test, ROTATION, degrees, after_each=after_each, side=side)
    cost.count("evaluation", len(test) * angles)
    return {"degrees": degrees, "accuracy": accuracy, "pixels": test.images.shape[-1]}
