"""Scores on corrupted test images, for the record of a run and for probes of finished ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from augbench.bench.augmentation.corruptions.corrupt import SEVERITIES
from augbench.bench.training.corrupted_images import CorruptedImages
from augbench.bench.training.cost import Cost
from augbench.bench.training.metrics import CLEAN, CORRUPTED_SCORES, score
from augbench.bench.training.probe import PolicyDraws, probabilities


@dataclass(frozen=True)
class CorruptedScores:
    """What a network makes of corrupted test images.

    Attributes:
        rows: For each corruption and severity `corruption`, `severity`, `extra` (whether it counts in no mean) and
            `CORRUPTED_SCORES`; first those of the clean images, with the name "clean" and severity 0.
        right: For each test image, the share of its main corruptions, over all severities, in which the most probable
            class is the label; (N,).
    """

    rows: list[dict[str, Any]]
    right: NDArray[np.float64]


def corrupted_scores(
    network: nn.Module,
    corrupted: CorruptedImages,
    bins: int,
    draws: PolicyDraws | None = None,
    after_each: Callable[[float], object] = lambda _: None,
) -> CorruptedScores:
    """Score a network on corrupted test images.

    Args:
        network: Takes images in [0, 1]; in evaluation mode.
        corrupted: The images.
        bins: Bins of the calibration error.
        draws: Test-time draws; None for none.
        after_each: Called with its share of the work after each corruption and severity; may raise to break off.

    Raises:
        UserError: If the images are too small to be corrupted.
    """
    labels, rows, right = corrupted.test.labels.cpu().numpy(), list[dict[str, Any]](), []

    def add(images: Tensor, corruption: str, severity: int, *, extra: bool) -> None:
        found = probabilities(network, images, draws).cpu().numpy()
        scores = score(found, labels, bins)
        kept = {metric: scores[metric] for metric in CORRUPTED_SCORES}
        rows.append({"corruption": corruption, "severity": severity, "extra": extra} | kept)
        if severity and not extra:
            right.append(found.argmax(1) == labels)

    add(corrupted.test.images, CLEAN, 0, extra=False)
    for corruption, extra in corrupted.extra.items():
        for severity in SEVERITIES:
            add(corrupted.corrupted(corruption, severity), corruption, severity, extra=extra)
            after_each(1 / (len(SEVERITIES) * len(corrupted.extra)))
    return CorruptedScores(rows, np.mean(right, axis=0))


def shift_probe(
    network: nn.Module, corrupted: CorruptedImages, bins: int, cost: Cost, check: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """Score a network at the end of its training, without test-time draws.

    Arguments are those of `corrupted_scores`; `check` is called after each corruption and severity and may raise.

    Returns:
        `name`, that of the set; `images`, "recomputed" or "original"; and `scores`, the rows of `CorruptedScores`.
    """
    with cost.phase("evaluation"):
        scores = corrupted_scores(network, corrupted, bins, after_each=lambda _: check()).rows
    cost.count("evaluation", len(corrupted.test) * len(scores))
    return {"name": corrupted.name, "images": corrupted.images, "scores": scores}
