"""Probes of finished runs: which runs, the frame of their accuracies, and its files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from augbench.bench.augmentation.affine_space import shrink
from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.data.dataset import ImageData, Split
from augbench.bench.experiment.catalogues import datasets
from augbench.bench.experiment.labels import RunLabels, label_runs, same_run_key
from augbench.bench.experiment.spec import Component, RunSpec, canonical_json, dataset_component
from augbench.bench.runs.output_folder import is_run_folder, run_folders
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.probe import PolicyDraws, accuracies
from augbench.bench.training.probe_kinds import KINDS, ProbeKind
from augbench.bench.training.trained import TrainedNetwork, finished_spec, load_network
from augbench.bench.training.worker import load_dataset
from augbench.results.figures import write_figure
from augbench.results.figures.probe import probe_figure
from augbench.results.model.csv_text import write_csv
from augbench.results.model.frame import KEYS
from augbench.results.model.naming import run_order

COLUMNS = (*KEYS, "dataset", "test_dataset", "kind", "value", "draws", "accuracy", "test_images")
"""Columns of the frame and of its CSV files: `accuracy` in [0, 1] at `value`, averaged over `draws` test-time draws,
on the test images of `test_dataset`. Its name begins with `untransformed` if the images are those from before the data
set transformed them. `dataset` is what the run was trained on."""


@dataclass(frozen=True)
class FinishedRun:
    """A run that can be probed, with the names that tell it from the others."""

    folder: RunFolder
    spec: RunSpec
    labels: RunLabels


def finished_runs(paths: Sequence[Path]) -> list[FinishedRun]:
    """Find finished runs, in the order of all tables and figures.

    Args:
        paths: Run folders, which must be of finished runs, and output folders, whose other runs are left out.

    Raises:
        DamagedError: If a folder is damaged.
        UserError: If a folder is not there, no run is finished, a run cannot be loaded here, or two folders hold the
            same run.
    """
    folders = [folder for path in paths for folder in _finished_folders(path)]
    by_place = {folder.path.resolve(): folder for folder in folders}  # a run may be given twice
    specs = {place: finished_spec(folder) for place, folder in by_place.items()}
    _check_different(specs)
    labels = label_runs(list(specs.values()))
    runs = [
        FinishedRun(by_place[place], spec, label) for (place, spec), label in zip(specs.items(), labels, strict=True)
    ]
    return sorted(runs, key=lambda run: run_order(run.spec, run.labels))


def _finished_folders(path: Path) -> list[RunFolder]:
    if is_run_folder(path):
        return [RunFolder(path)]
    folders = [folder for folder in run_folders(path) if folder.read_spec().protocol.evaluated_on == "test"]
    finished = [folder for folder in folders if folder.state() is RunState.DONE]
    if not finished:
        go_on = to_paste("run", "SUITE", "--out", path)
        raise UserError(
            f"None of the {len(folders)} runs in {path} is finished. Continue with `{go_on}`, "
            "then give this command again."
        )
    return finished


def _check_different(specs: Mapping[Path, RunSpec]) -> None:
    """Refuse copies of a run: counted twice it would look like another seed."""
    first: dict[str, Path] = {}
    for place, spec in specs.items():
        other = first.setdefault(same_run_key(spec), place)
        if other != place:
            raise UserError(f"{place} holds the same run as {other}. Give only one of the two.")


class LastDataset:
    """Loads data sets and keeps the last one, since runs on one data set come one after the other."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.key = ""
        self.data: ImageData | None = None

    def __call__(self, component: Component, root: Path) -> ImageData:
        """Load a data set of a specification, as `load_dataset`, unless it is the last one."""
        key = canonical_json(component.model_dump(mode="json"))
        if self.data is None or key != self.key:
            self.data = None  # before the next one comes into memory
            self.data, self.key = load_dataset(component, root).to(self.device), key
        return self.data


@dataclass(frozen=True)
class OpenedRun:
    """A trained network and the data set on whose test images it is probed.

    Attributes:
        keys: What tells the run from the others: `KEYS` and `dataset`.
        trained: The network and its method.
        test_dataset: Name of the data set of the test images.
        data: That data set.
    """

    keys: dict[str, Any]
    trained: TrainedNetwork
    test_dataset: str
    data: ImageData

    @property
    def network(self) -> nn.Module:
        """The trained network, in evaluation mode."""
        return self.trained.network

    def draws(self, count: int) -> PolicyDraws | None:
        """So many test-time draws of the run's own policy; None for 0 and for methods without a policy."""
        policy = self.trained.method.test_policy() if count else None
        return None if policy is None else PolicyDraws(policy, count, self.trained.spec.seed)


def opened_runs(
    runs: Sequence[FinishedRun], data_root: Path, device: torch.device, on: str | None
) -> Iterator[OpenedRun]:
    """Load one run after the other; arguments and errors are those of `probe_runs`."""
    load, load_other = LastDataset(device), LastDataset(device)
    for run in runs:
        trained = load_network(run.folder, data_root, device, load)
        if on is None:
            yield OpenedRun(_keys(run), trained, run.labels.dataset, trained.data)
            continue
        other = _other_dataset(run.spec.dataset, on)
        data = load_other(other, data_root)
        _check_fit(run, trained.data, other, data)
        yield OpenedRun(_keys(run), trained, other.label, data)


def probe_runs(
    runs: Sequence[FinishedRun],
    values: Mapping[str, Sequence[float]],
    *,
    draws: int,
    data_root: Path,
    device: torch.device,
    on: str | None = None,
    after_each: Callable[[], object] = lambda: None,
) -> pd.DataFrame:
    """Measure the accuracy of runs on transformed test images.

    Args:
        runs: From `finished_runs`.
        values: Parameters of the transforms by name of the kind.
        draws: Test-time draws from a run's own policy; 0 for none. Methods without a policy have none.
        data_root: Folder of downloaded data sets.
        device: Where to compute.
        on: Name of the data set whose test images are transformed; None for each run's own. The images are those from
            before the data set turned, shrank or otherwise transformed them.
        after_each: Called after each value of each run.

    Returns:
        A row for each run, kind and value, in this order, with `COLUMNS`.

    Raises:
        UserError: If a trained network or a data set is missing or damaged, or the images of `on` are of another kind.
    """
    rows: list[dict[str, Any]] = []
    for run in opened_runs(runs, data_root, device, on):
        test_dataset, test = _probed(run.test_dataset, run.data)
        policy_draws = run.draws(draws)
        for name, asked in values.items():
            found = accuracies(run.network, test, KINDS[name], asked, policy_draws, after_each, run.data.image_size)
            count = policy_draws.count if policy_draws else 0
            common = run.keys | {"test_dataset": test_dataset, "kind": name, "draws": count, "test_images": len(test)}
            rows += [
                common | {"value": value, "accuracy": accuracy} for value, accuracy in zip(asked, found, strict=True)
            ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _probed(name: str, data: ImageData) -> tuple[str, Split]:
    """Name and images of the test images of a data set that runs are probed on."""
    probed = data.probe_images
    only_shrunk = torch.equal(shrink(probed.images, data.image_size), data.test.images)
    return name if only_shrunk else f"untransformed {name}", probed


def _other_dataset(own: Component, name: str) -> Component:
    """Identify another data set, with those of a run's options that it has too."""
    known = datasets().get(name).options_type.model_fields
    return dataset_component(name, {key: own.all_settings[key] for key in own.all_settings if key in known}, "--on")


def _check_fit(run: FinishedRun, own: ImageData, other: Component, data: ImageData) -> None:
    """Check that the images of another data set fit a run's network."""
    wanted, found = (
        f"{one.channels} × {one.image_size} × {one.image_size} values and {one.classes} classes" for one in (own, data)
    )
    if wanted != found:
        raise UserError(
            f"The network in {run.folder.path} takes images of {wanted}; those of {other.label} have {found}. Choose "
            "another data set with --on, omit it, or give only runs that fit."
        )


def _keys(run: FinishedRun) -> dict[str, Any]:
    labels, spec = run.labels, run.spec
    keys = (run.folder.path.resolve().name, labels.comparison, labels.label, spec.learner, spec.seed)
    return dict(zip(KEYS, keys, strict=True)) | {"dataset": labels.dataset}


def summarise_probe(frame: pd.DataFrame, kind: ProbeKind, asked: Sequence[float]) -> pd.DataFrame:
    """Summarise a probe of one kind.

    Args:
        frame: Accuracies at the values and at the identity, from `probe_runs`.
        kind: The kind.
        asked: The values that count.

    Returns:
        A row for each comparison and label, in the order of `frame`: `comparison`, `label`, `seeds`, and of the mean
        over the seeds `identity`, `mean` and `worst` over the values asked for, all in [0, 1], and `worst_value`.
        Values that are the same transform, such as −180° and 180°, count once.
    """
    rows = []
    for (comparison, label), group in frame[frame["kind"] == kind.name].groupby(["comparison", "label"], sort=False):
        by_value = group.groupby("value")["accuracy"].mean()
        counted = by_value[kind.different(asked)]
        rows.append(
            {
                "comparison": comparison,
                "label": label,
                "seeds": group["seed"].nunique(),
                "identity": by_value[kind.identity],
                "mean": counted.mean(),
                "worst": counted.min(),
                "worst_value": counted.idxmin(),
            }
        )
    return pd.DataFrame(rows)


def write_probe(frame: pd.DataFrame, kind: ProbeKind, out: Path) -> list[Path]:
    """Write `probe-<kind>.csv` with the unrounded numbers and `probe-<kind>.png` and `.pdf` with the curves.

    Args:
        frame: From `probe_runs`, of one kind.
        kind: The kind.
        out: Folder, made if need be.

    Returns:
        The files.

    Raises:
        UserError: If the folder cannot be written to.
    """
    stem = out / f"probe-{kind.name}"
    table = write_csv(frame, stem.with_suffix(".csv"))
    return [table, *write_figure(probe_figure(frame, kind), stem)]
