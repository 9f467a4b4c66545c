"""What `augbench probe` has written about some runs, read again to be shown beside their results."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator

from augbench.bench.common.errors import UserError, shortened, to_paste
from augbench.bench.common.plain_text import safe
from augbench.bench.common.user_input import read_user_text
from augbench.bench.common.wording import few_names
from augbench.bench.training.metrics import CLEAN
from augbench.results.model.corruptions import COLUMNS, PROBE_FILE
from augbench.results.model.frame import KEYS, Runs
from augbench.results.records.contents import Amount, Count, Positive, Share

SEVERITIES = frozenset(range(1, 6))

Name = Annotated[str, StringConstraints(min_length=1), AfterValidator(safe)]


class _Line(BaseModel):
    """What all probes say: the run, and the data set of the test images. Other columns are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    folder: Name
    dataset: Name
    test_dataset: Name
    test_images: Positive


class CorruptionLine(_Line):
    """A line of `probe-corruptions.csv`."""

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


def with_probes(runs: Runs, folders: Sequence[Path]) -> Runs:
    """Return runs with what `augbench probe` has found out about them.

    Args:
        runs: The runs; those that are not finished have no probes.
        folders: What was given to `augbench probe` as --out. Probes of other runs are left out.

    Raises:
        UserError: If a folder has no file of a probe that can be read, none is of these runs, a run was probed twice,
            or probes of one data set differ in their images.
    """
    if not folders:
        return runs
    lines = pd.concat([_read(folder / PROBE_FILE) for folder in folders], ignore_index=True)
    names = ("folder", *(name for name in COLUMNS if name not in KEYS))
    found = runs.finished()[list(KEYS)].merge(lines[list(names)], on="folder")[list(COLUMNS)]
    if found.empty:
        raise UserError(
            f"The probes in {few_names([str(folder) for folder in folders])} are of other runs, such as "
            f"{shortened(lines['folder'].iloc[0])}. Give the folder that `{_command(runs)}` writes to."
        )
    _check_corruptions(found)
    return replace(runs, corruptions=found, probes=tuple(folders))


def _command(runs: Runs) -> str:
    return to_paste("probe", runs.sources[0], "--kind", "corruptions", "--out", "PROBES")


def _read(path: Path) -> pd.DataFrame:
    """Read a file of a probe."""
    advice = "Give the folder that `augbench probe` has written to with --out, or make the probe again."
    try:
        lines = csv.DictReader(io.StringIO(read_user_text(path), newline=""), strict=True)
        read = [_line(CorruptionLine, path, lines.line_num, line) for line in lines]
        if not read:
            raise ValueError("it has no lines")
    except (ValueError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as a probe with corrupted images: {error}. {advice}") from None
    return pd.DataFrame([line.model_dump() for line in read])


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
            f"{path}, line {number}{f', column {place}' if place else ''}: {safe(shortened(message))}. Make the probe "
            "again with `augbench probe`."
        ) from None


def _check_corruptions(frame: pd.DataFrame) -> None:
    """Check that runs of one comparison have the same corruptions of the same images, each once.

    Raises:
        UserError: If they have not.
    """
    twice = frame[frame.duplicated(["folder", "corruption", "severity"])]
    if len(twice):
        raise UserError(
            f"Probes of {twice['folder'].iloc[0]} are given twice. Give --probes one folder for each run, whose probes "
            "have one number of draws and one data set of test images."
        )
    for comparison, group in frame.groupby("comparison", sort=False):
        for what, of_run in _SAME.items():
            if len({of_run(inside) for _, inside in group.groupby("folder")}) > 1:
                raise UserError(
                    f"The probes of {comparison} cannot be compared: they differ in their {what}. Probe all of these "
                    "runs with one command."
                )
        lacking = [name for name, inside in group.groupby("corruption") if not _is_complete(str(name), inside)]
        if lacking or CLEAN not in set(group["corruption"]):
            raise UserError(
                f"The probes of {comparison} are cut off: there are not all severities of "
                f"{few_names(list(map(str, lacking)) or [CLEAN])}. Make them again with `augbench probe`."
            )


def _is_complete(name: str, inside: pd.DataFrame) -> bool:
    return name == CLEAN or set(inside["severity"]) == SEVERITIES


_SAME: Mapping[str, Callable[[pd.DataFrame], object]] = {
    "test images": lambda inside: frozenset(inside[["test_dataset", "test_images"]].itertuples(index=False, name=None)),
    "corruptions": lambda inside: frozenset(
        inside[["corruption", "severity", "extra"]].itertuples(index=False, name=None)
    ),
}
