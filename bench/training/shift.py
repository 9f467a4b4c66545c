"""Scores on corrupted test images, for the record of a run and for probes of finished ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from augbench.bench.augmentation.corruptions.corrupt import SETS, SEVERITIES, corrupt, offered
from augbench.bench.data.dataset import Split
from augbench.bench.training.cost import Cost
from augbench.bench.training.metrics import score
from augbench.bench.training.probe import PolicyDraws, probabilities

CLEAN = "clean"
RECOMPUTED = "recomputed"
SCORES = ("accuracy", "nll", "ece")


@dataclass(frozen=True)
class CorruptedScores:
    """What a network makes of corrupted test images.

    Attributes:
        rows: For each corruption and severity `corruption`, `severity`, `extra` (whether it counts in no mean) and
            `SCORES`; first those of the clean images, with the name "clean" and severity 0.
        right: For each test image, the share of its main corruptions, over all severities, in which the most probable
            class is the label; (N,).
    """

    rows: list[dict[str, Any]]
    right: NDArray[np.float64]


def corrupted_scores(
    network: nn.Module,
    test: Split,
    name: str,
    bins: int,
    draws: PolicyDraws | None = None,
    after_each: Callable[[], object] = lambda: None,
) -> CorruptedScores:
    """Score a network on corrupted test images.

    Args:
        network: Takes images in [0, 1]; in evaluation mode.
        test: Images that the network takes, and labels.
        name: One of the `SETS` of corruptions.
        bins: Bins of the calibration error.
        draws: Test-time draws; None for none.
        after_each: Called after each severity of each corruption of the set, offered for these images or not; may
            raise to break off.

    Raises:
        UserError: If the images are too small to be corrupted.
    """
    labels, rows, right = test.labels.cpu().numpy(), list[dict[str, Any]](), []

    def add(images: Tensor, corruption: str, severity: int, *, extra: bool) -> None:
        found = probabilities(network, images, draws).cpu().numpy()
        scores = score(found, labels, bins)
        kept = {metric: scores[metric] for metric in SCORES}
        rows.append({"corruption": corruption, "severity": severity, "extra": extra} | kept)
        if severity and not extra:
            right.append(found.argmax(1) == labels)

    add(test.images, CLEAN, 0, extra=False)
    here = offered(test.images.shape[1], name)
    for corruption, definition in SETS[name].items():
        for severity in SEVERITIES:
            if corruption in here:
                images = corrupt(test.images, corruption, severity)
                add(images, corruption, severity, extra=definition.extra)
            after_each()
    return CorruptedScores(rows, np.mean(right, axis=0))


def shift_probe(
    network: nn.Module, test: Split, name: str, bins: int, cost: Cost, after_each: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """Score a network at the end of its training, without test-time draws; arguments as `corrupted_scores`.

    Returns:
        `name`, that of the set; `images`, "recomputed"; and `scores`, the rows of `CorruptedScores`.
    """
    with cost.phase("evaluation"):
        scores = corrupted_scores(network, test, name, bins, after_each=after_each).rows
    cost.image_passes["evaluation"] += len(test) * len(scores)
    return {"name": name, "images": RECOMPUTED, "scores": scores}
