"""Probes of overlap: how near a learner comes, in training, to the corruptions that networks are tested on.

The minimal sample distance of Mintun, Kirillov and Xie, "On interaction between augmentations and corruptions in
natural corruption robustness" (2021), section 4: with φ(t) the features of images under a transform t, averaged over
images, min ‖φ(a) − φ(c)‖ over transforms a drawn from the augmentation.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from torch import Tensor, nn

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.augmentation.corruptions.corrupt import SETS, SEVERITIES
from augbench.bench.common.errors import UserError
from augbench.bench.common.randomness import generator
from augbench.bench.common.wording import counted, few_names
from augbench.bench.contract.method import Method, repeat
from augbench.bench.data.dataset import Split
from augbench.bench.training.corrupted_images import corrupted_images
from augbench.bench.training.features import features
from augbench.results.model.corruptions import REFERENCE
from augbench.results.model.overlap import COLUMNS
from augbench.results.studies.probes import FinishedRun, OpenedRun, opened_runs

IMAGES, TRANSFORMS = 100, 1000
FEWEST_IMAGES = 10
COMPARED = 32  # copies in which to look whether what becomes of an image depends on the others

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OverlapProbe:
    """How near learners come to corruptions.

    Attributes:
        frame: A row for each run, corruption and severity, with `COLUMNS`.
        without: Labels of learners whose transforms cannot be shared by several images, so that they have no rows.
    """

    frame: pd.DataFrame
    without: tuple[str, ...]


def probe_overlap(
    runs: Sequence[FinishedRun],
    *,
    data_root: Path,
    device: torch.device,
    transforms: int = TRANSFORMS,
    after_each: Callable[[], object] = lambda: None,
) -> OverlapProbe:
    """Measure the smallest distance between what learners make of images and each corruption and severity.

    Features are those of the network of `none` with the same seed in the same comparison, on up to 100 test images,
    evenly spaced.

    Args:
        runs: From `finished_runs`.
        data_root: Folder of downloaded data sets.
        device: Where to compute.
        transforms: How many are drawn from each learner.
        after_each: Called after each run.

    Raises:
        UserError: If `none` is missing, a trained network or a data set is missing or damaged, or there are fewer than
            ten test images or images too small to be corrupted.
    """
    _check_references(runs)
    rows: list[dict[str, Any]] = []
    without: dict[str, None] = {}
    references: dict[tuple[str, int], _Reference] = {}
    for finished, run in zip(runs, opened_runs(runs, data_root, device, None), strict=True):
        comparison, seed = finished.labels.comparison, finished.spec.seed
        references = {key: one for key, one in references.items() if key[0] == comparison}
        if _is_reference(finished):  # the first ones of a comparison
            references[comparison, seed] = _reference(finished, run, data_root)
        reference = references[comparison, seed]
        drawn = transform_features(reference.network, run.trained.method, reference.images, transforms, seed)
        if drawn is None:
            without[finished.labels.label] = None
        else:
            common = run.keys | {"transforms": transforms, "test_images": len(reference.images)}
            distances = smallest_distances(drawn, reference.features)
            rows += [
                common | row | {"distance": float(distance)}
                for row, distance in zip(reference.rows, distances, strict=True)
            ]
        after_each()
    return OverlapProbe(pd.DataFrame(rows, columns=list(COLUMNS)), tuple(without))


@dataclass(frozen=True)
class _Reference:
    """A network of `none`, and what it makes of corrupted images.

    Attributes:
        network: The network, in evaluation mode.
        images: Test images; (N, C, H, W), uint8.
        rows: What is said of each corruption and severity in every run, with `identity`.
        features: Their mean features, in the order of the rows; (·, features).
    """

    network: nn.Module
    images: Tensor
    rows: Sequence[dict[str, Any]]
    features: Floats


def _reference(finished: FinishedRun, run: OpenedRun, root: Path) -> _Reference:
    test = run.data.test
    chosen = _evenly_spaced(test, finished)
    rows, found = [], []
    plain = _mean_features(run.network, to_unit_interval(test.images[chosen]))
    for name in SETS:
        corrupted = corrupted_images(test, name, root).of_some(chosen)
        common = {"corruptions": name, "images": corrupted.images}
        for corruption, extra in corrupted.extra.items():
            for severity in SEVERITIES:
                images = to_unit_interval(corrupted.corrupted(corruption, severity))
                found.append(_mean_features(run.network, images))
                identity = float(np.linalg.norm(found[-1] - plain))
                own = {"corruption": corruption, "severity": severity, "extra": extra, "identity": identity}
                rows.append(common | own)
    return _Reference(run.network, test.images[chosen], rows, np.stack(found))


def _mean_features(network: nn.Module, images: Tensor) -> Floats:
    found: Floats = features(network, images).mean(0).cpu().numpy()
    return found


def _evenly_spaced(test: Split, finished: FinishedRun) -> Tensor:
    """Choose images that are spread over the test images, which may be sorted by class."""
    if len(test) < FEWEST_IMAGES:
        raise UserError(
            f"{finished.labels.dataset} has {counted(len(test), 'test image')}. Distances are between means over test "
            f"images, of which there must be at least {FEWEST_IMAGES}. Leave the runs on this data set out."
        )
    return torch.linspace(0, len(test) - 1, min(IMAGES, len(test)), device=test.images.device).round().long()


def smallest_distances(drawn: Floats, corrupted: Floats) -> Floats:
    """Find the smallest Euclidean distance of each corruption (C, features) to a transform (K, features); (C,)."""
    smallest: Floats = cdist(drawn, corrupted).min(axis=0)
    return smallest


def transform_features(
    network: nn.Module, method: Method[Any], images: Tensor, transforms: int, seed: int
) -> Floats | None:
    """Compute mean features of images under transforms that a learner draws, each of them applied to every image.

    A learner gets copies of one image after the other, with the same random numbers each time.

    Args:
        network: Where features come from.
        method: The learner.
        images: At least two; (N, C, H, W), uint8.
        transforms: Number of transforms K.
        seed: Seed of the draws.

    Returns:
        (K, features), or (1, features) where all K are the same; None where the learner mixes images of a batch, so
        that it has no transform of one image.
    """
    if not _keeps_images_apart(method, images, seed):
        return None
    total: Any = 0.0
    for image in images:
        made = _made(method, repeat(image[None], -(-transforms // method.copies)), seed)[:transforms]
        different = made[:1] if (made == made[:1]).all() else made
        total = total + features(network, different).cpu().numpy()
    mean: Floats = total / len(images)
    return mean


def _keeps_images_apart(method: Method[Any], images: Tensor, seed: int) -> bool:
    """Tell whether what a learner makes of an image does not depend on the others in the batch."""
    one, other = images[:1], images[-1:]
    alone = _made(method, repeat(one, 2 * COMPARED), seed)
    among = _made(method, repeat(torch.cat((one, other)), COMPARED), seed)
    return torch.allclose(alone[::2], among[::2], atol=1e-4)


@torch.no_grad()
def _made(method: Method[Any], images: Tensor, seed: int) -> Tensor:
    return method.augment(images, generator(seed, "overlap", images.device)).images


def _is_reference(run: FinishedRun) -> bool:
    return run.labels.label == REFERENCE


def _check_references(runs: Sequence[FinishedRun]) -> None:
    """Check that there is a network of `none` for every run.

    Raises:
        UserError: If there is not.
    """
    present = {(run.labels.comparison, run.spec.seed) for run in runs if _is_reference(run)}
    missing: dict[str, set[int]] = defaultdict(set)
    for run in runs:
        if (run.labels.comparison, run.spec.seed) not in present:
            missing[run.labels.comparison].add(run.spec.seed)
    if missing:
        named = [
            f"{comparison} (seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, sorted(seeds)))})"
            for comparison, seeds in missing.items()
        ]
        raise UserError(
            "Distances are measured between features of the network of `none` with the same seed. No finished run of "
            f"`none` is given for {few_names(named)}. Add `none` to the methods of the suite and run it again, give "
            "these runs, too, or leave out the runs with these seeds."
        )
