"""Read published numbers: those that come with the project, and any files of the same columns."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from augbench.bench.common.errors import UserError, one_of
from augbench.bench.common.user_input import read_user_text
from augbench.bench.experiment.budgets import budgets

OURS = Path(__file__).with_name("published.csv")
SHARES = ("accuracy", "ece", "ece_equal_mass")
METRICS = (*SHARES, "nll", "brier", "gpu_hours", "extra_gpu_hours")
LEARNED = re.compile(r"(range|probability)/\S+")  # as in the frame `learned`: radians, log factors or shares


EmptyIsNone = BeforeValidator(lambda text: None if text == "" else text)
Name = Annotated[str, Field(min_length=1)]
Count = Annotated[Annotated[int, Field(ge=1)] | None, EmptyIsNone]


class PublishedNumber(BaseModel):
    """One number of one source.

    Attributes:
        source: Who has published it, as tables name it.
        table: Where in the source it stands.
        dataset: Data set, by our registered name.
        network: Network, by our registered name.
        method: Method, by our registered name if it is the same method, such as "none" or "none × batch-ensemble" with
            a predictor, else by its name in the source.
        variant: What sets it apart from other numbers of the same method in the source, or empty.
        draws: Number of test-time draws; 0 for none, empty where it does not apply.
        metric: One of `METRICS`, or a learned number such as "range/rotation".
        value: In the units of our frames: fractions in [0, 1], nats, hours, radians.
        sd: Standard deviation in the same unit, empty where the source has none.
        sd_over: What the standard deviation is over: "seeds", or "repeats" of the test-time draws of one network.
        n: Number of values behind mean and standard deviation; this and the next three are empty if not stated.
        epochs: Epochs of training.
        batch_size: Images in a batch, copies not counted.
        copies: Copies of each image in a batch.
        setup: Other differences from our method of this name, and what is not stated: clauses without a full stop.
        recipe: Name of the recipe, as in `augbench list budgets`, that a run must have to stand beside the number;
            numbers without one stand beside runs without one.
        settings: Where there is a recipe, the hyperparameters and settings of a predictor that differ from their
            defaults, as labels show them: a run must have these and no others.
        note: What else a reader has to know.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    source: Name
    table: str
    dataset: Name
    network: Name
    method: Name
    variant: str = ""
    draws: Annotated[Annotated[int, Field(ge=0)] | None, EmptyIsNone] = None
    metric: Name
    value: float
    sd: Annotated[Annotated[float, Field(ge=0)] | None, EmptyIsNone] = None
    sd_over: Literal["", "seeds", "repeats"] = ""
    n: Count = None
    epochs: Count = None
    batch_size: Count = None
    copies: Count = None
    setup: str = ""
    recipe: str = ""
    settings: str = ""
    note: str = ""

    @model_validator(mode="after")
    def _is_in_our_units(self) -> Self:
        if self.metric not in METRICS and not LEARNED.fullmatch(self.metric):
            raise ValueError(one_of("metric", self.metric, METRICS))
        if self.metric in SHARES and not 0 <= self.value <= 1:
            raise ValueError(f"{self.metric} is a fraction between 0 and 1, not a percentage, but it is {self.value:g}")
        if self.recipe:
            budgets().paper(self.dataset, self.network, self.recipe)
        elif self.settings:
            raise ValueError("settings mean something beside a recipe only")
        if self.sd is not None and not self.sd_over:
            raise ValueError("a standard deviation needs sd_over: seeds or repeats")
        return self


COLUMNS = tuple(PublishedNumber.model_fields)
OF_THE_SETUP = ("epochs", "batch_size", "copies", "setup", "recipe", "settings")
"""Columns that a file may lack, as if they were empty."""

WHOLE_NUMBERS = ("draws", "n", "epochs", "batch_size", "copies")


def load_published(paths: Sequence[Path] | None = None) -> pd.DataFrame:
    """Read published numbers.

    Args:
        paths: CSV files of your own, in the columns `COLUMNS`, that are read after the one that comes with the project.

    Returns:
        A row for each number, with the columns `COLUMNS`, described at `PublishedNumber`. `WHOLE_NUMBERS` are of type
        Int64, `sd` is NaN if unknown.

    Raises:
        UserError: If a file is missing, has other columns, or a line that makes no sense.
    """
    numbers = [number.model_dump() for path in (OURS, *(paths or ())) for number in _read(path)]
    frame = pd.DataFrame(numbers, columns=list(COLUMNS)).astype({"sd": float})
    return frame.assign(**{name: frame[name].astype("Int64") for name in WHOLE_NUMBERS})


def _read(path: Path) -> Iterator[PublishedNumber]:
    try:
        lines = csv.DictReader(io.StringIO(read_user_text(path), newline=""), strict=True)
        _check_columns(path, lines.fieldnames or ())
        for line in lines:
            yield _number(path, lines.line_num, line)
    except (ValueError, csv.Error) as error:
        raise UserError(
            f"{path} cannot be read as a file of published numbers: {error}. Give a CSV file in UTF-8 with the columns "
            f"{_columns()}."
        ) from None


def _columns() -> str:
    needed = ", ".join(name for name in COLUMNS if name not in OF_THE_SETUP)
    return f"{needed} and, optionally, {', '.join(OF_THE_SETUP)}"


def _check_columns(path: Path, names: Sequence[str]) -> None:
    missing = [name for name in COLUMNS if name not in names and name not in OF_THE_SETUP]
    foreign = [repr(name) for name in names if name not in COLUMNS]
    if missing or foreign:
        wrong = [f"without {', '.join(missing)}"] * bool(missing) + [f"with {', '.join(foreign)}"] * bool(foreign)
        raise UserError(
            f"{path} is a file {' and '.join(wrong)}; published numbers have exactly the columns {_columns()}."
        )


def _number(path: Path, line: int, fields: Mapping[str | Any, Any]) -> PublishedNumber:
    if None in fields or None in fields.values():
        raise UserError(
            f"{path}, line {line}, has more or fewer fields than columns. Put fields with commas in quotes."
        )
    try:
        return PublishedNumber.model_validate(fields)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        raise UserError(f"{path}, line {line}{f', column {place}' if place else ''}: {message}.") from None
