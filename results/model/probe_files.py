"""What `augbench probe` has written about some runs, read again to be shown beside their results."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from augbench.bench.common.errors import UserError, shortened, to_paste
from augbench.bench.common.plain_text import safe
from augbench.bench.common.user_input import read_user_text
from augbench.bench.common.wording import few_names
from augbench.bench.training.metrics import CLEAN
from augbench.results.model import corruptions, outside, overlap
from augbench.results.model.frame import KEYS, Runs
from augbench.results.records.contents import Amount, Count, Positive, Share

SEVERITIES = frozenset(range(1, 6))
ADVICE = "Give the folder that `augbench probe` has written to with --out, or make the probe again."

Name = Annotated[str, StringConstraints(min_length=1), AfterValidator(safe)]


class _Line(BaseModel):
    """What all probes say: the run, and its data set. Other columns are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    folder: Name
    dataset: Name
    test_images: Positive


class CorruptionLine(_Line):
    """A line of `probe-corruptions.csv` or `probe-corruptions-bar.csv`; earlier versions knew one set, recomputed."""

    test_dataset: Name
    corruption: Name
    severity: Count
    extra: bool
    draws: Count
    accuracy: Share
    nll: Amount
    ece: Share
    corruptions: Literal["corruptions", "corruptions-bar"] = "corruptions"
    images: Literal["recomputed", "original"] = "recomputed"

    @model_validator(mode="after")
    def _has_a_severity(self) -> "CorruptionLine":
        if self.severity not in ({0} if self.corruption == CLEAN else SEVERITIES):
            raise ValueError(f"{self.corruption} of severity {self.severity}: severities are 1 to 5, and 0 of {CLEAN}")
        return self


class OutsideLine(_Line):
    """A line of `probe-ood.csv`."""

    against: Name
    score: Literal["confidence", "energy"]
    auroc: Share
    fpr95: Share
    against_images: Positive


class OverlapLine(_Line):
    """A line of `probe-overlap.csv`."""

    corruptions: Literal["corruptions", "corruptions-bar"]
    images: Literal["recomputed", "original"]
    corruption: Name
    severity: int = Field(ge=1, le=5)
    extra: bool
    distance: Amount
    identity: Amount
    transforms: Positive


@dataclass(frozen=True)
class _Kind:
    """A kind of probe: its files, what the frame of `Runs` is called, and how runs are checked against each other.

    Attributes:
        field: Name of the frame in `Runs`.
        files: Names of the files.
        line: What a line is.
        columns: Columns of the frame.
        key: Columns that tell the lines of a run apart.
        groups: Columns that tell apart what is compared.
        same: Columns in which runs of one group may not differ.
        what: What these are, in words.
    """

    field: str
    files: tuple[str, ...]
    line: type[_Line]
    columns: tuple[str, ...]
    key: tuple[str, ...]
    groups: tuple[str, ...]
    same: tuple[str, ...]
    what: str


_KINDS = (
    _Kind(
        "corruptions",
        tuple(map(corruptions.probe_file, corruptions.BENCHMARKS)),
        CorruptionLine,
        corruptions.COLUMNS,
        key=("folder", "corruptions", "corruption", "severity"),
        groups=("comparison", "corruptions"),
        same=("corruption", "severity", "extra", "images", "test_dataset", "test_images"),
        what="of the same corruptions of the same test images",
    ),
    _Kind(
        "outside",
        (outside.PROBE_FILE,),
        OutsideLine,
        outside.COLUMNS,
        key=("folder", "against", "score"),
        groups=("comparison", "score"),  # not all runs have an energy
        same=("against", "test_images", "against_images"),
        what="against the same images",
    ),
    _Kind(
        "overlap",
        (overlap.PROBE_FILE,),
        OverlapLine,
        overlap.COLUMNS,
        key=("folder", "corruptions", "corruption", "severity"),
        groups=("comparison", "corruptions"),
        same=("corruption", "severity", "extra", "images", "transforms", "test_images"),
        what="of distances to the same corruptions of the same test images",
    ),
)


_FILES = [file for kind in _KINDS for file in kind.files]


def with_probes(runs: Runs, folders: Sequence[Path]) -> Runs:
    """Return runs with what `augbench probe` has found out about them.

    Args:
        runs: The runs; those that are not finished have no probes.
        folders: What was given to `augbench probe` as --out. Probes of other runs are left out.

    Raises:
        UserError: If a folder has no file of a probe or one that cannot be read, none is of these runs, a run was
            probed twice, or probes of one data set cannot be compared.
    """
    if not folders:
        return runs
    for folder in folders:
        if not any(_is_there(folder / file) for file in _FILES):
            raise UserError(f"{folder} has neither {' nor '.join(_FILES)}. {ADVICE}")
    frames = {kind.field: _read_all(runs, kind, folders) for kind in _KINDS}
    if all(frame.empty for frame in frames.values()):
        raise UserError(
            f"The probes in {few_names([str(folder) for folder in folders])} are of other runs. Give the folder that "
            f"`{to_paste('probe', runs.sources[0], '--kind', 'corruptions', '--out', 'PROBES')}` writes to."
        )
    for kind in _KINDS:
        _check(frames[kind.field], kind)
    _check_severities(frames["corruptions"], {CLEAN})
    _check_severities(frames["overlap"], set())
    together = corruptions.in_place_of(runs.corruptions, frames["corruptions"])
    _check_scores(frames["overlap"], together, runs)
    in_order = runs.finished()[list(KEYS)].merge(together.drop(columns=list(KEYS[1:])), on="folder")
    return replace(
        runs,
        corruptions=in_order[list(corruptions.COLUMNS)],
        outside=frames["outside"],
        overlap=frames["overlap"],
        probes=tuple(folders),
    )


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # reading it says why
        return True


def _read_all(runs: Runs, kind: _Kind, folders: Sequence[Path]) -> pd.DataFrame:
    """Read the files of a kind: the lines of finished runs, in their order and with their names."""
    places = (folder / file for folder in folders for file in kind.files)
    read = [_read(path, kind) for path in places if _is_there(path)]
    lines = pd.DataFrame([line.model_dump() for lines in read for line in lines], columns=list(kind.line.model_fields))
    return runs.finished()[list(KEYS)].merge(lines, on="folder")[list(kind.columns)]


def _read(path: Path, kind: _Kind) -> list[_Line]:
    try:
        lines = csv.DictReader(io.StringIO(read_user_text(path), newline=""), strict=True)
        read = [_line(kind.line, path, lines.line_num, line) for line in lines]
        if not read:
            raise ValueError("it has no lines")
    except (ValueError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as a probe: {error}. {ADVICE}") from None
    return read


def _line(model: type[_Line], path: Path, number: int, fields: Mapping[str | Any, Any]) -> _Line:
    """Check a line.

    Raises:
        UserError: If it has not what it must have.
    """
    try:
        return model.model_validate({str(name): value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ")
        raise UserError(
            f"{path}, line {number}{f', column {place}' if place else ''}: {safe(shortened(message))}. {ADVICE}"
        ) from None


def _check(frame: pd.DataFrame, kind: _Kind) -> None:
    """Check that each line is there once, and that runs of one comparison were probed alike.

    Raises:
        UserError: If they were not.
    """
    twice = frame[frame.duplicated(list(kind.key))]
    if len(twice):
        raise UserError(
            f"Probes of {twice['folder'].iloc[0]} are given twice. Give --probes folders with different "
            "runs, or probe again with one number of draws and one data set of test images."
        )
    for (comparison, *_), group in frame.groupby(list(kind.groups), sort=False):
        probed = (inside[list(kind.same)] for _, inside in group.groupby("folder"))
        if len({frozenset(lines.itertuples(index=False, name=None)) for lines in probed}) > 1:
            raise UserError(
                f"The probes of {comparison} cannot be compared: they are not {kind.what}. Probe all of these runs "
                "with one command."
            )


def _check_scores(distances: pd.DataFrame, scores: pd.DataFrame, runs: Runs) -> None:
    """Check that distances to corruptions have scores on these to stand beside.

    Raises:
        UserError: If none has.
    """
    keys = ["folder", "corruptions"]
    if len(distances) and distances[keys].merge(scores[keys]).empty:
        probe = to_paste("probe", runs.sources[0], "--kind", distances["corruptions"].iloc[0], "--out", "PROBES")
        raise UserError(
            "The distances of --kind overlap are shown beside scores on corrupted images, which these runs lack. Make "
            f"them with `{probe}`, and give that folder with --probes, too."
        )


def _check_severities(frame: pd.DataFrame, needed: set[str]) -> None:
    """Check that there is every severity of each corruption, and what else is needed.

    Raises:
        UserError: If the end of a file is missing, say.
    """
    for (comparison, _), group in frame.groupby(["comparison", "corruptions"], sort=False):
        found = group.groupby("corruption", sort=False)["severity"].agg(set)
        lacking = [str(name) for name, severities in found.items() if name != CLEAN and severities != SEVERITIES]
        lacking += sorted(needed - set(found.index))
        if lacking:
            raise UserError(
                f"The probes of {comparison} are cut off: there are not all severities of {few_names(lacking)}. Make "
                "them again with `augbench probe`."
            )
