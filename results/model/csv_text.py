"""Frames as CSV files, which people open in spreadsheets."""

from pathlib import Path

import pandas as pd

from augbench.bench.common.files import make_folder, write_text
from augbench.bench.common.plain_text import safe

BEGINS_A_FORMULA = ("=", "+", "-", "@")


def csv_text(frame: pd.DataFrame) -> str:
    """Write a frame as CSV, with an apostrophe before texts that a spreadsheet would take for formulas."""
    texts = frame.select_dtypes(exclude=["number", "bool"])
    plain = frame.assign(**{str(name): texts[name].map(_plain, na_action="ignore") for name in texts})
    return plain.rename(columns=_plain).to_csv(index=False, lineterminator="\n")


def write_csv(frame: pd.DataFrame, path: Path) -> Path:
    """Write a frame as `csv_text` does, below a folder that is made if need be; returns the file.

    Raises:
        UserError: If the folder cannot be written to.
    """
    make_folder(path.parent)
    write_text(path, csv_text(frame))
    return path


def _plain(value: object) -> object:
    if not isinstance(value, str):
        return value
    return f"'{safe(value)}" if value.lstrip().startswith(BEGINS_A_FORMULA) else safe(value)
