"""Files with runs of which a bit has flipped or an end is gone: the numbers that were written, or a refusal by name."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from pandas.testing import assert_frame_equal

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder
from augbench.results.model.frame import Runs, load_runs
from augbench.results.model.packing import pack
from augbench.results.records.outcome_columns import OUTCOMES, RECORDS
from augbench.results.records.parquet_runs import METADATA

WriteRun = Callable[..., RunFolder]

FLIPS = 25


@pytest.fixture
def out(tmp_path: Path, write_run: WriteRun) -> Path:
    """Two runs."""
    for seed in (0, 1):
        write_run("none", root=tmp_path / "out", seed=seed, gpu=False)
    return tmp_path / "out"


def frames(runs: Runs) -> list[pd.DataFrame]:
    return [
        *(runs.runs.drop(columns="source"), runs.scores, runs.reliability, runs.probe),
        *(runs.trajectories, runs.environments),
    ]


def sound_or_refused(path: Path, expected: list[pd.DataFrame]) -> bool:
    """Whether a file gives the numbers that were written; what is refused must be named."""
    try:
        found = frames(load_runs(path))
    except UserError as error:
        assert str(path) in str(error)
        return False
    for one, other in zip(found, expected, strict=True):
        assert_frame_equal(one, other)
    return True


def flipped(content: bytes, positions: range, source: np.random.Generator) -> bytes:
    changed = bytearray(content)
    changed[positions[source.integers(len(positions))]] ^= 1 << source.integers(8)
    return bytes(changed)


def places_of_values(path: Path) -> range:
    """Where in a parquet file those columns are that runs are read from."""
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    read = [one for one in columns if one.path_in_schema.split(".")[0] in {*RECORDS.names, *OUTCOMES.names}]
    starts = [min(filter(None, (one.dictionary_page_offset, one.data_page_offset))) for one in read]
    return range(min(starts), max(start + one.total_compressed_size for start, one in zip(starts, read, strict=True)))


@pytest.mark.parametrize("name", ["a.tar.gz", "a.parquet"])
def test_a_flipped_bit_changes_no_number(tmp_path: Path, out: Path, name: str) -> None:
    path, source = tmp_path / name, np.random.default_rng(0)
    pack([out], path)
    content, expected = path.read_bytes(), frames(load_runs(path))
    positions = range(len(content)) if name.endswith("gz") else places_of_values(path)
    refused = 0
    for _ in range(FLIPS):
        path.write_bytes(flipped(content, positions, source))
        refused += not sound_or_refused(path, expected)
    assert refused > FLIPS / 5, "else hardly any of the bits belonged to values"


def test_a_parquet_of_before_checksums_in_a_folder_named_like_a_column(tmp_path: Path, out: Path) -> None:
    pack([out], tmp_path / "a.parquet")
    expected = frames(load_runs(tmp_path / "a.parquet"))
    table = pq.read_table(tmp_path / "a.parquet")
    old = {METADATA: b'{"format": 1, "augbench": "1", "problems": []}'}
    path = tmp_path / "record_name=0" / "old.parquet"
    path.parent.mkdir()
    pq.write_table(table.replace_schema_metadata(old), path)
    assert sound_or_refused(path, expected)
