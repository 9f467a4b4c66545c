"""Parquet tables with a column of image files and a column of labels, as Hugging Face's `datasets` writes them."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError, check_known
from augbench.bench.common.wording import counted, few_names, listed
from augbench.bench.data.own.examples import PARTS, TRAIN, Content, Examples, Unreadable, names_of_rows
from augbench.bench.data.own.labels import number_labels, whole_numbers_or_texts
from augbench.bench.data.own.settings import OwnSettings

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

LABEL_NAMES = ("label", "labels", "class", "target")
SPLIT_NAMES = ("split",)
BATCH = 16  # images that are read at a time
BUFFER = 1 << 20  # bytes of a column that are read at a time


@dataclass(frozen=True)
class _Columns:
    """Columns of a table.

    Attributes:
        image: The image files.
        label: Their labels.
        split: Part of the data set, if there is such a column.
        group: Group, if the user names such a column.
        class_names: Names of the classes by label, if the table has them.
    """

    image: str
    label: str
    split: str | None
    group: str | None
    class_names: Sequence[str] | None

    @property
    def small(self) -> list[str]:
        """All but the images."""
        return [name for name in (self.label, self.split, self.group) if name is not None]


def read_table(path: Path, settings: OwnSettings) -> Examples:
    """Read all of a table but its images.

    Raises:
        UserError: If it is no Parquet, columns cannot be told apart, or labels cannot be used.
    """
    files = _files(path)
    schema = _common_schema(files)
    columns = _columns(path, schema, settings)
    table = {name: _column(files, name) for name in columns.small}
    parts = _parts(path, files, columns, table)
    values, missing = _label_values(path, table[columns.label], columns)
    present = np.flatnonzero(~missing)
    labels, class_names = number_labels(values, settings.leave_out, _naming(columns.class_names))
    kept = present[labels >= 0]
    inside = path if path.is_dir() else path.parent
    name_of = names_of_rows([file.relative_to(inside).as_posix() for file in files], [_rows(file) for file in files])
    return Examples(
        labels=labels[labels >= 0],
        class_names=class_names,
        parts=parts[kept],
        contents=lambda: _contents(files, columns.image, np.isin(np.arange(len(parts)), kept)),
        name_of=lambda index: name_of(int(kept[index])),
        groups=None if columns.group is None else _groups(path, columns.group, table[columns.group], kept),
        unreadable=[Unreadable(name_of(int(row)), "has no label") for row in np.flatnonzero(missing)],
    )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors of a damaged file into one paragraph."""
    import pyarrow as pa  # here, since only tables need it

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise UserError(f"{path} cannot be read as Parquet: {reason}.") from None


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted(path.rglob("*.parquet"))
    files = [file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    if not files:
        raise UserError(f"{path} has no .parquet files in it. Give such a file, or a folder of them.")
    return files


def _open(path: Path) -> "pq.ParquetFile":
    import pyarrow.parquet as pq

    with _readable(path):
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER)


def _common_schema(files: Sequence[Path]) -> "pa.Schema":
    with _open(files[0]) as first:
        schema = first.schema_arrow
    for path in files[1:]:
        with _open(path) as other:
            if not other.schema_arrow.equals(schema):
                raise UserError(f"{path} has other columns than {files[0]}. Give only files with the same columns.")
    return schema


def _columns(path: Path, schema: "pa.Schema", settings: OwnSettings) -> _Columns:
    named = {
        "image": settings.image_column,
        "label": settings.label_column,
        "split": settings.split_column,
        "group": settings.group_column,
    }
    for what, name in named.items():
        check_known(f"column for --{what}-column", [] if name is None else [name], schema.names)
    classes = _class_labels(schema)
    others = [field.name for field in schema if field.name not in named.values()]
    images = [name for name in others if _holds_files(schema.field(name).type)]
    image = named["image"] or _only("image", images, path, schema)
    others = [name for name in others if name not in images]
    split = named["split"] or next((name for name in others if name in SPLIT_NAMES), None)
    others = [name for name in others if name != split]
    likely = [name for name in others if name in classes] or [name for name in others if name in LABEL_NAMES] or others
    label = named["label"] or _only("label", likely, path, schema)
    return _Columns(image, label, split, named["group"], classes.get(label))


def _only(what: str, candidates: Sequence[str], path: Path, schema: "pa.Schema") -> str:
    if len(candidates) == 1:
        return candidates[0]
    raise UserError(
        f"{path} has {counted(len(candidates), 'column')} that may be the {what}s. Name it: --{what}-column NAME. The "
        f"columns are {listed(schema.names)}."
    )


def _holds_files(kind: "pa.DataType") -> bool:
    import pyarrow.types as types

    if types.is_struct(kind):
        return any(kind.field(index).name == "bytes" for index in range(kind.num_fields))
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _class_labels(schema: "pa.Schema") -> Mapping[str, list[str]]:
    """Return the names of classes that Hugging Face's `datasets` stores, by column; empty if there are none."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        found = {name: feature.get("names") for name, feature in features.items() if isinstance(feature, dict)}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
    return {
        name: names
        for name, names in found.items()
        if isinstance(names, list) and all(isinstance(each, str) for each in names)
    }


def _column(files: Sequence[Path], name: str) -> "pa.ChunkedArray":
    import pyarrow as pa
    import pyarrow.types as types

    chunks = []
    for path in files:
        with _readable(path), _open(path) as file:
            chunks += file.read(columns=[name]).column(name).chunks
    column = pa.chunked_array(chunks)
    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column


def _parts(
    path: Path, files: Sequence[Path], columns: _Columns, table: Mapping[str, "pa.ChunkedArray"]
) -> NDArray[np.int8]:
    """Return the part of each row, by its column or the name of its file."""
    counts = [_rows(file) for file in files]
    if columns.split is not None:
        values = [str(value).lower() for value in table[columns.split].to_pylist()]
        check_known(f"part of a data set in the column {columns.split}", sorted(set(values)), PARTS)
        return np.array([PARTS[value] for value in values], dtype=np.int8)
    found = [_part_of_file(file, path) for file in files]
    if len(files) == 1 or not any(part is not None for part in found):
        return np.full(sum(counts), TRAIN, dtype=np.int8)
    if None in found:
        without = [file.name for file, part in zip(files, found, strict=True) if part is None]
        raise UserError(
            f"{path} has files for training or testing, by their names, and others: {few_names(without)}. Let all "
            "names begin with train, validation or test, or none."
        )
    return np.repeat(np.array(found, dtype=np.int8), counts)


def _part_of_file(path: Path, root: Path) -> int | None:
    """Tell the part of a file by its name, such as `train-00000-of-00002.parquet` or `test/0000.parquet`."""
    for name in (path.stem, "" if path.parent == root else path.parent.name):
        word = re.match(r"[a-z]*", name.lower())
        if word and word[0] in PARTS:
            return PARTS[word[0]]
    return None


def _rows(path: Path) -> int:
    with _open(path) as file:
        return int(file.metadata.num_rows)


def _label_values(path: Path, column: "pa.ChunkedArray", columns: _Columns) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the labels that are there, and which rows have none; (P,) and (N,) bool."""
    import pyarrow.types as types

    missing = np.array(column.is_null(nan_is_null=True))
    there = column.drop_null() if not types.is_floating(column.type) else column.filter(~missing)
    is_text = types.is_string(column.type) or types.is_large_string(column.type)
    try:
        values = whole_numbers_or_texts(np.array(there.to_pylist(), dtype=str) if is_text else there.to_numpy())
    except ValueError as error:
        raise UserError(
            f"{path} has labels that cannot be used: those in {columns.label} {error}. Name another column with "
            "--label-column."
        ) from None
    if columns.class_names is not None and values.dtype.kind == "i":
        unknown = (values < 0) | (values >= len(columns.class_names))  # -1 stands for a hidden label
        missing[np.flatnonzero(~missing)[unknown]] = True
        values = values[~unknown]
    if not len(values):
        raise UserError(f"{path} has no labels in the column {columns.label}. Name another one with --label-column.")
    return values, missing


def _naming(class_names: Sequence[str] | None) -> Callable[[Any], str]:
    return lambda label: str(label) if class_names is None or isinstance(label, str) else class_names[label]


def _groups(path: Path, name: str, column: "pa.ChunkedArray", kept: NDArray[np.intp]) -> NDArray[np.int64]:
    groups = column.take(kept)
    if groups.null_count:
        raise UserError(f"{path} has {counted(groups.null_count, 'row')} without a value in the group column {name}.")
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(str(group), len(numbers)) for group in groups.to_pylist()], dtype=np.int64)


def _contents(files: Sequence[Path], column: str, kept: NDArray[np.bool_]) -> Iterator[Content]:
    """Yield the image files of the rows that are kept."""
    row = 0
    for path in files:
        with _readable(path), _open(path) as file:
            for batch in file.iter_batches(BATCH, columns=[column]):
                for cell in batch.column(0):
                    if kept[row]:
                        yield _content(cell.as_py())
                    row += 1


def _content(cell: object) -> Content:
    found = cell.get("bytes") if isinstance(cell, dict) else cell
    return found if isinstance(found, bytes) else "holds no image file"
