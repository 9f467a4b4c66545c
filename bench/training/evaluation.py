"""The one evaluation: probabilities without and with test-time draws, metrics, recovered symmetry."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.augmentation.transform_distribution import RECOVERY_DRAWS, PlantedDistribution, recovery
from augbench.bench.common.errors import DivergedError
from augbench.bench.common.randomness import generator
from augbench.bench.contract.method import Method, Policy
from augbench.bench.data.dataset import Split
from augbench.bench.experiment.protocol import Protocol
from augbench.bench.training.cost import Cost
from augbench.bench.training.metrics import score

CHUNK = 1000  # images that are transformed at a time, on which their random numbers depend


@dataclass(frozen=True)
class Predictions:
    """Test probabilities of a run.

    Attributes:
        labels: (N,).
        probabilities: By number of test-time draws, 0 for none: (repeats, N, classes), float32, one repeat for 0.
    """

    labels: NDArray[np.int64]
    probabilities: dict[int, NDArray[np.float32]]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays by the names that they have in `predictions.npz`."""
        return {"labels": self.labels} | {f"draws_{n}": values for n, values in self.probabilities.items()}


@torch.no_grad()
def predict(
    network: nn.Module,
    images: Tensor,
    transform: Callable[[Tensor], Tensor] = to_unit_interval,
    between: Callable[[], object] = lambda: None,
) -> Tensor:
    """Softmax probabilities of images, which become floats a chunk at a time.

    Args:
        network: Takes images in [0, 1].
        images: (N, C, H, W), uint8.
        transform: Makes floats in [0, 1] of a chunk of the images; called with the chunks in their order.
        between: Called after each chunk; may raise to break off.

    Returns:
        (N, classes).
    """
    chunks = map(transform, images.split(CHUNK))
    return torch.cat(list(_outputs(network, chunks, between, images.device))).softmax(-1)


@torch.no_grad()
def logits(network: nn.Module, images: Tensor) -> Tensor:
    """Outputs of a network, which takes images in [0, 1], for uint8 images (N, C, H, W); (N, classes)."""
    chunks = map(to_unit_interval, images.split(CHUNK))
    return torch.cat(list(_outputs(network, chunks, lambda: None, images.device)))


@torch.no_grad()
def predict_with_draws(
    network: nn.Module,
    images: Tensor,
    policy: Policy,
    counts: tuple[int, ...],
    source: torch.Generator,
    between: Callable[[], object] = lambda: None,
) -> dict[int, Tensor]:
    """Average softmax probabilities over test-time draws.

    Args:
        network: Takes images in [0, 1].
        images: (N, C, H, W), uint8.
        policy: What to draw from.
        counts: Numbers of draws, rising; a larger number goes on from the draws of a smaller one.
        source: Source of randomness.
        between: Called after each chunk of images; may raise to break off.

    Returns:
        (N, classes) for each number of draws.
    """
    most, chunks = max(counts, default=0), images.split(CHUNK)
    drawn_chunks = (policy(chunk, source) for _ in range(most) for chunk in chunks)
    found = _outputs(network, drawn_chunks, between, images.device)
    total = torch.zeros((), device=images.device)
    averages = {}
    for drawn in range(1, most + 1):
        total = total + torch.cat(list(islice(found, len(chunks)))).softmax(-1)
        if drawn in counts:
            averages[drawn] = total / drawn
    return averages


def chunks_at_once(device: torch.device) -> int:
    """Most chunks in one forward pass: on a CPU more than one is no faster, a GPU gets as much as may fit."""
    return 16 if device.type == "cuda" else 1


def _outputs(
    network: nn.Module, chunks: Iterable[Tensor], between: Callable[[], object], device: torch.device
) -> Iterator[Tensor]:
    """Outputs for chunks of images, one by one; several go through the network together where they fit."""
    left, most = iter(chunks), chunks_at_once(device)
    while waiting := list(islice(left, most)):
        while waiting:
            together = waiting[:most]
            try:
                found = network(torch.cat(together) if len(together) > 1 else together[0])
            except torch.OutOfMemoryError:
                if len(together) == 1:
                    raise
                most = len(together) // 2
                continue
            for outputs in found.split([len(chunk) for chunk in together]):
                between()
                yield outputs
            waiting = waiting[len(together) :]


def evaluate(
    network: nn.Module,
    policy: Policy | None,
    test: Split,
    protocol: Protocol,
    seed: int,
    cost: Cost,
    between: Callable[[], object] = lambda: None,
) -> Predictions:
    """Predict the test images without test-time draws and, where there is a policy, with them.

    `between` is called after each chunk of images and may raise to break off.

    Raises:
        DivergedError: If the network's outputs are not finite.
    """
    network.eval()
    device = test.images.device
    with cost.phase("evaluation"):
        plain = predict(network, test.images, between=between)
        if not plain.isfinite().all():
            raise DivergedError(
                "The network's outputs are not finite after the last epoch. Lower the learning rate of the budget or "
                "of the method in the suite and run it again."
            )
        probabilities = {0: plain.cpu().numpy()[None]}
        cost.count("evaluation", len(test))
        if policy is not None:
            repeats = []
            for repeat in range(protocol.test_time_repeats):
                source = generator(seed, f"test/{repeat}", device)
                counts = protocol.test_time_draws
                repeats.append(predict_with_draws(network, test.images, policy, counts, source, between))
                cost.count("evaluation", len(test) * max(protocol.test_time_draws, default=0))
            for count in protocol.test_time_draws:
                probabilities[count] = torch.stack([repeat[count] for repeat in repeats]).cpu().numpy()
    return Predictions(test.labels.cpu().numpy(), probabilities)


def summarise(predictions: Predictions, bins: int) -> dict[str, dict[str, dict[str, Any]]]:
    """Compute every metric for every number of draws.

    Returns:
        By number of draws (as text), by metric: `mean` and `values` over the repeats, and their standard deviation
        `sd` (n − 1 in the divisor; None for a single repeat).
    """
    summary = {}
    for count, repeats in predictions.probabilities.items():
        scores = [score(probabilities, predictions.labels, bins) for probabilities in repeats]
        summary[str(count)] = {name: _mean_and_deviation([values[name] for values in scores]) for name in scores[0]}
    return summary


def _mean_and_deviation(values: list[float]) -> dict[str, Any]:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "sd": deviation, "values": values}


@torch.no_grad()
def compare_with_planted(
    method: Method[Any], law: PlantedDistribution | None, protocol: Protocol, seed: int
) -> dict[str, Any]:
    """Compare what a method learned with what was planted. It counts towards no phase, since it needs no image.

    Returns:
        `planted`: the name of the distribution and the coordinates that it changes. `recovery`: a distance for each
        coordinate (see `bench/augmentation/transform_distribution.py`); left out for methods that do not map the
        plane. Empty where nothing was planted.

    Raises:
        DivergedError: If a learned map is not finite or cannot be inverted.
    """
    if law is None:
        return {}
    context = method.context
    transforms = method.sample_transforms(RECOVERY_DRAWS, generator(seed, "recovery", context.device))
    planted = {"planted": {"law": law.label, "coordinates": law.coordinates}}
    if transforms is None:
        return planted
    try:
        distances = recovery(transforms, law, protocol.space(context.space.image_size))
    except ValueError as error:
        raise DivergedError(
            f"{error} Lower the learning rate of the method in the suite, or strengthen its regulariser, and run it "
            "again."
        ) from None
    return planted | {"recovery": distances}
