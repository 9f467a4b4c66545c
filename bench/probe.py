"""The invariance probe: accuracy on the test images when one known transform is applied to all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from augbench.bench.clock import Cost
from augbench.bench.dataset import Split
from augbench.bench.evaluation import CHUNK, predict, predict_with_draws
from augbench.bench.method import Policy
from augbench.bench.probe_kinds import ROTATION, ProbeKind
from augbench.bench.randomness import generator
from augbench.bench.space import resample, to_unit_interval


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
