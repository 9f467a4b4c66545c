"""Probes with corrupted test images: scores of each corruption and severity, their files and figure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from augbench.bench.training.corrupted_images import corrupted_images
from augbench.bench.training.shift import corrupted_scores
from augbench.results.figures import write_figure
from augbench.results.figures.corruptions import severity_figure
from augbench.results.model.corruptions import COLUMNS, probe_file
from augbench.results.model.csv_text import write_csv
from augbench.results.studies.probes import FinishedRun, opened_runs


@dataclass(frozen=True)
class CorruptionProbe:
    """What runs make of corrupted test images.

    Attributes:
        frame: A row for each run, corruption and severity, with `COLUMNS`; first those of the clean images.
        right: By folder of the run: for each test image, the share of its main corruptions, over all severities, in
            which the most probable class is the label; (N,).
    """

    frame: pd.DataFrame
    right: dict[str, NDArray[np.float64]]


def probe_corrupted(
    runs: Sequence[FinishedRun],
    name: str,
    *,
    draws: int,
    data_root: Path,
    device: torch.device,
    on: str | None = None,
    after_each: Callable[[float], object] = lambda _: None,
) -> CorruptionProbe:
    """Score runs on corrupted test images, which are the same for all runs on a data set.

    The images are those that the network takes, as in CIFAR-10-C: what a data set has done to them stays done.

    Args:
        runs: From `finished_runs`.
        name: One of the `SETS` of corruptions.
        draws: Test-time draws from a run's own policy; 0 for none. Methods without a policy have none.
        data_root: Folder of downloaded data sets.
        device: Where to compute.
        on: Name of the data set whose test images are corrupted; None for each run's own.
        after_each: Called for each run as by `corrupted_scores`.

    Raises:
        UserError: If a trained network or a data set is missing or damaged, or the images of `on` are of another kind.
    """
    rows: list[dict[str, Any]] = []
    right: dict[str, NDArray[np.float64]] = {}
    for run in opened_runs(runs, data_root, device, on):
        policy_draws = run.draws(draws)
        corrupted = corrupted_images(run.data.test, name, data_root)
        bins = run.trained.spec.protocol.calibration_bins
        found = corrupted_scores(run.network, corrupted, bins, policy_draws, after_each)
        common = run.keys | {"test_dataset": run.test_dataset, "test_images": len(run.data.test)}
        common |= {"draws": policy_draws.count if policy_draws else 0, "corruptions": name, "images": corrupted.images}
        rows += [common | row for row in found.rows]
        right[run.keys["folder"]] = found.right
    return CorruptionProbe(pd.DataFrame(rows, columns=list(COLUMNS)), right)


def write_corruptions(probe: CorruptionProbe, out: Path) -> list[Path]:
    """Write `probe-<set>.csv` with the unrounded numbers, and the curves as PNG, PDF and SVG.

    Raises:
        UserError: If the folder cannot be written to.
    """
    (name,) = probe.frame["corruptions"].unique()
    table = write_csv(probe.frame, out / probe_file(name))
    return [table, *write_figure(severity_figure(probe.frame), table.with_suffix(""))]
