"""Probes with images of other data sets: can the scores of a network tell them from its own test images?"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import ImageData
from augbench.bench.data.own.settings import OWN
from augbench.bench.data.own.stored import PREPARED
from augbench.bench.experiment.catalogues import datasets
from augbench.bench.experiment.spec import Component, RunSpec, dataset_component
from augbench.bench.training.evaluation import logits
from augbench.results.model.outside import COLUMNS
from augbench.results.statistics.detection import auroc, false_positive_rate
from augbench.results.studies.probes import FinishedRun, LastDataset, OpenedRun, opened_runs


def probe_ood(
    runs: Sequence[FinishedRun],
    against: Sequence[str],
    *,
    data_root: Path,
    device: torch.device,
    after_each: Callable[[], object] = lambda: None,
) -> pd.DataFrame:
    """Score how well runs tell their test images from those of other data sets, without test-time draws.

    Args:
        runs: From `finished_runs`.
        against: Data sets, by name; those of one's own by the name that preparing them has printed. They get those of a
            run's options that they have, such as the size of the images.
        data_root: Folder of data sets.
        device: Where to compute.
        after_each: Called after each data set of each run.

    Returns:
        A row for each run, data set and score, with `COLUMNS`; no energy of runs with a predictor other than `single`,
        whose outputs can be logarithms of probabilities.

    Raises:
        UserError: If a trained network or a data set is missing or damaged, a data set is that of a run or has images
            of another kind, or outputs of a network are not finite.
    """
    rows: list[dict[str, Any]] = []
    loaders = {name: LastDataset(device) for name in against}
    for finished, run in zip(runs, opened_runs(runs, data_root, device, None), strict=True):
        scores = network_scores if finished.spec.predictor is None else _without_energy
        inside = scores(logits(run.network, run.data.test.images))
        for name, load in loaders.items():
            other = _other(finished.spec, name)
            data = load(other, data_root)
            _check(finished, run, other, data)
            outside = scores(logits(run.network, data.test.images))
            rows += _rows(finished, run, other.label, inside, outside)
            after_each()
    return pd.DataFrame(rows, columns=list(COLUMNS))


def network_scores(found: Tensor) -> dict[str, Tensor]:
    """Compute scores that should be higher for images like those of the training, in double precision on the CPU.

    Args:
        found: Outputs of a network; (N, classes).

    Returns:
        (N,) each: `confidence`, the highest softmax probability (Hendrycks and Gimpel, 2017), and `energy`, the
        logarithm of the sum of the exponentials of the outputs, which is the energy of Liu et al. (2020, equation 4)
        with the opposite sign, at temperature 1.
    """
    found = found.cpu().double()
    return {"confidence": found.softmax(-1).max(-1).values, "energy": found.logsumexp(-1)}


def _without_energy(found: Tensor) -> dict[str, Tensor]:
    """Leave out the energy, which is 0 for every image where outputs are logarithms of probabilities."""
    return {"confidence": network_scores(found)["confidence"]}


def _rows(
    finished: FinishedRun, run: OpenedRun, against: str, inside: dict[str, Tensor], outside: dict[str, Tensor]
) -> list[dict[str, Any]]:
    rows = []
    for score in inside:
        pair = inside[score].numpy(), outside[score].numpy()
        for name, values in zip((run.test_dataset, against), (inside[score], outside[score]), strict=True):
            if not values.isfinite().all():
                raise UserError(
                    f"Outputs of the network in {finished.folder.path} for images of {name} are not finite, so that "
                    "they cannot be ranked. Leave this run out."
                )
        measured = {"auroc": auroc(*pair), "fpr95": false_positive_rate(*pair)}
        counts = {"test_images": len(pair[0]), "against_images": len(pair[1])}
        rows.append(run.keys | {"against": against, "score": score} | measured | counts)
    return rows


def _other(spec: RunSpec, name: str) -> Component:
    """Identify another data set, with those of the options of a run that change its test images."""
    if PREPARED.fullmatch(name):
        return dataset_component(OWN, {"prepared": name}, "--against")
    own = spec.dataset
    known = set(datasets().get(name).options_type.model_fields) - {"train_images"}
    return dataset_component(
        name, {key: own.all_settings[key] for key in own.all_settings if key in known}, "--against"
    )


def _check(finished: FinishedRun, run: OpenedRun, other: Component, data: ImageData) -> None:
    """Check that images of another data set fit a run's network and are others than the run's own."""
    own, place = run.data, finished.folder.path
    if torch.equal(own.test.images, data.test.images) or _is_same(finished.spec.dataset, other):
        raise UserError(
            f"{other.label} is the data set of the run in {place}, so that there is nothing to tell apart. Choose one "
            "with other classes with --against, such as fashionmnist for digits or svhn for cifar10."
        )
    wanted, found = (f"{one.channels} × {one.image_size} × {one.image_size} values" for one in (own, data))
    if wanted != found:
        raise UserError(
            f"The network in {place} takes images of {wanted}; those of {other.label} have {found}. Choose another "
            "data set with --against, prepare images of your own in that size (`augbench data prepare images --help`), "
            "or give only runs that fit."
        )


def _is_same(one: Component, other: Component) -> bool:
    prepared = [component.all_settings.get("prepared") for component in (one, other)]
    return one.name == other.name and prepared[0] == prepared[1]
