"""Archives and parquet files: the same bytes for the same runs, nothing of a stranger's that is not asked for."""

import io
import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.protocol import Protocol
from augbench.bench.runs.run_folder import DamagedError, RunFolder
from augbench.results.model.frame import load_runs
from augbench.results.model.packing import pack
from augbench.results.records import archives
from augbench.results.records.archives import Archive
from augbench.results.records.parquet_runs import METADATA

WriteRun = Callable[..., RunFolder]
CommandLine = Callable[..., tuple[int, str, str]]


@pytest.fixture
def parquet(tmp_path: Path, write_run: WriteRun) -> Path:
    """Two runs in a parquet file."""
    for seed in (0, 1):
        write_run("none", root=tmp_path / "out", seed=seed)
    pack([tmp_path / "out"], tmp_path / "runs.parquet")
    return tmp_path / "runs.parquet"


def write_tar(path: Path, *members: tuple[str, bytes] | tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            name, content = (member.name, b"") if isinstance(member, tarfile.TarInfo) else member
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def link(kind: bytes, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo("runs/a/spec.json")
    info.type, info.linkname = kind, target
    return info


def sparse() -> tarfile.TarInfo:
    """Describe a file that unpacks to 30 MB from an archive of a few bytes."""
    info = tarfile.TarInfo("runs/a/spec.json")
    size = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,0,30000000,0"}
    info.pax_headers = size | {"GNU.sparse.size": "30000000", "GNU.sparse.name": "runs/a/spec.json"}
    return info


def test_only_what_people_need_is_packed(tmp_path: Path, write_run: WriteRun) -> None:
    folder = write_run("none", root=tmp_path / "out", gpu=False)
    for name in ("model.pt", "checkpoint.pt", "lock", "claim-1.json", "cancel", "diary.txt", ".spec.json.x.tmp"):
        (folder.path / name).write_text("private")
    (folder.path / "log.txt").write_text("log")
    pack([tmp_path / "out"], tmp_path / "a.tar.gz")
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        names = {Path(name).name for name in archive.getnames()}
        assert all((member.mtime, member.uid, member.uname) == (0, 0, "") for member in archive)
    expected = {"spec.json", "status.json", "result.json", "metrics.jsonl", "environment.json", "predictions.npz"}
    assert names == expected | {"log.txt", "archive.json"}


@pytest.mark.parametrize("name", ["a.tar.gz", "a.parquet"])
def test_the_same_runs_give_the_same_bytes_from_wherever_they_come(
    tmp_path: Path, write_run: WriteRun, name: str
) -> None:
    for seed in (0, 1):
        write_run("none", root=tmp_path / "out", seed=seed)
    pack([tmp_path / "out"], tmp_path / "first" / name)
    pack([tmp_path / "first" / name], tmp_path / "second" / name)
    assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_an_archive_packed_by_hand_is_read(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", root=tmp_path / "mine")
    (tmp_path / "mine" / "runs" / "notes.txt").touch()
    with tarfile.open(tmp_path / "mine.tgz", "w:gz") as archive:
        archive.add(tmp_path / "mine", "mine")
    runs = load_runs(tmp_path / "mine.tgz")
    assert len(runs.runs) == 1
    assert runs.warnings() == ["1 file belongs to no run and is ignored: notes.txt."]


def test_a_foreign_folder_in_an_archive_is_said(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", root=tmp_path / "mine")
    (tmp_path / "mine" / "runs" / "holiday").mkdir()
    (tmp_path / "mine" / "runs" / "holiday" / "beach.jpg").touch()
    with tarfile.open(tmp_path / "mine.tgz", "w:gz") as archive:
        archive.add(tmp_path / "mine" / "runs", "runs")
    (problem,) = load_runs(tmp_path / "mine.tgz").problems
    assert problem.kind == "foreign" and re.search(r"holiday in .*mine\.tgz is no run folder", problem.text)


@pytest.mark.parametrize(
    "member",
    [
        *(("../x", b"1"), ("runs/../../x", b"1"), ("/etc/x", b"1")),
        *(link(tarfile.SYMTYPE, "/etc/passwd"), link(tarfile.LNKTYPE, "runs/b"), link(tarfile.CHRTYPE, "")),
        sparse(),
    ],
)
def test_an_archive_that_reaches_outside_is_refused(
    tmp_path: Path, member: tuple[str, bytes] | tarfile.TarInfo
) -> None:
    path = write_tar(tmp_path / "bad.tar.gz", ("runs/a/spec.json", b"{}"), member)
    with pytest.raises(UserError, match=r"was not unpacked.*a link, a special file or a path that leads out of it"):
        load_runs(path)
    assert [file.name for file in tmp_path.iterdir()] == ["bad.tar.gz"]


def test_an_archive_with_an_impossible_date_is_read(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", root=tmp_path / "mine")

    def dated(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime = 1e30  # as a header may say
        return member

    with tarfile.open(tmp_path / "mine.tgz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.add(tmp_path / "mine" / "runs", "runs", filter=dated)
    assert len(load_runs(tmp_path / "mine.tgz").runs) == 1


@pytest.mark.parametrize(("name", "value"), [("MOST_BYTES_OF_A_FILE", 3), ("FRACTION_OF_FREE_SPACE", 0)])
def test_an_archive_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    path = write_tar(tmp_path / "large.tar.gz", ("runs/a/spec.json", b"1234"))
    monkeypatch.setattr(archives, name, value)
    with pytest.raises(UserError, match=r"was not unpacked: .*(more than any|does not fit on)"):
        load_runs(path)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([], "holds no runs"),
        ([("a/spec.json", b"{}")], "holds no runs.*augbench archive"),
        ([("one/runs/a/spec.json", b"{}"), ("two/runs/a/spec.json", b"{}")], "several folders `runs`, in one and two"),
        ([("archive.json", b"{"), ("runs/a/spec.json", b"{}")], r"archive\.json .* damaged"),
        ([("archive.json", b'{"format": 2, "states": {}}'), ("runs/a/spec.json", b"{}")], "newer augbench"),
        ([("runs/protocol.json", b'{"protocol_version": 9}'), ("runs/a/spec.json", b"")], r"bad\.tar\.gz was written"),
    ],
)
def test_an_archive_without_runs_or_of_the_future(tmp_path: Path, members: list[tuple[str, bytes]], words: str) -> None:
    with pytest.raises(UserError, match=words):
        load_runs(write_tar(tmp_path / "bad.tar.gz", *members))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.tar.gz", "no complete archive"),
        ("a.parquet", r"a\.parquet is damaged or no parquet file.*augbench archive"),
    ],
)
def test_a_truncated_file(tmp_path: Path, write_run: WriteRun, name: str, words: str) -> None:
    write_run("none", root=tmp_path / "out")
    pack([tmp_path / "out"], tmp_path / name)
    content = (tmp_path / name).read_bytes()
    for keep in (0, 3, 10, 200, len(content) // 2, len(content) * 9 // 10, -9, -8, -4, -1):
        (tmp_path / name).write_bytes(content[:keep])
        with pytest.raises(UserError, match=words):
            load_runs(tmp_path / name)


def test_the_temporary_folder_goes_with_the_runs(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", root=tmp_path / "out")
    pack([tmp_path / "out"], tmp_path / "a.tar.gz")
    archive = Archive(tmp_path / "a.tar.gz")
    folder = archive.folder
    assert folder.is_dir()
    del archive
    assert not folder.exists()


def test_a_parquet_file_is_a_table_for_everyone(parquet: Path) -> None:
    table = pd.read_parquet(parquet)
    assert table["seed"].tolist() == [0, 1] and table["accuracy"].tolist() == [0.9, 0.9]
    assert json.loads(table["record_result"].iloc[0])["test_images"] == 4
    assert "source" not in table, "which is a path of whoever packed it"


def replace_column(path: Path, column: str, values: pa.Array) -> None:
    """Change a column of a file as earlier versions wrote it, without checksums."""
    table = pq.read_table(path)
    about = json.loads(table.schema.metadata[METADATA])
    del about["sha256"]
    changed = table.set_column(table.column_names.index(column), column, values)
    pq.write_table(changed.replace_schema_metadata({METADATA: json.dumps(about)}), path)


def change_metadata(path: Path, content: bytes | None) -> None:
    table = pq.read_table(path)
    metadata = {key: value for key, value in table.schema.metadata.items() if key != METADATA}
    pq.write_table(table.replace_schema_metadata(metadata | ({METADATA: content} if content else {})), path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no parquet file of augbench"),
        (b"{", "damaged"),
        (b"[]", "damaged"),
        (b'{"format": 1e400, "augbench": "1", "problems": []}', "damaged"),
        (b'{"format": 1, "augbench": "1", "problems": ' + b"[" * 5000 + b"]" * 5000 + b"}", "damaged"),
        (b'{"format": 1, "augbench": "1", "problems": [{"kind": "odd", "text": "", "folder": ""}]}', "damaged"),
        (b'{"format": 1, "augbench": "1", "problems": [{"kind": "damaged", "text": [1], "folder": ""}]}', "damaged"),
        (b'{"format": 2, "augbench": "9.0", "problems": []}', r"written by augbench 9\.0, in a newer format"),
    ],
)
def test_a_parquet_that_is_foreign_or_newer(parquet: Path, content: bytes | None, words: str) -> None:
    change_metadata(parquet, content)
    with pytest.raises(UserError, match=words):
        load_runs(parquet)


@pytest.mark.parametrize("column", ["record_spec", "record_result", "predictions_right"])
def test_a_parquet_without_a_column(parquet: Path, column: str) -> None:
    pq.write_table(pq.read_table(parquet).drop_columns([column]), parquet)
    with pytest.raises(UserError, match="damaged"):
        _ = load_runs(parquet).reliability


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("record_spec", pa.array([1, 2])),
        ("record_spec", pa.array([[1], [2]])),
        ("record_state", pa.array(["done", "lost"])),
        ("record_name", pa.array(["one", None])),
        ("predictions_right", pa.array([b"1", b"2"])),
        ("predictions_right", pa.array([[b"123"], [b"1"]], pa.list_(pa.large_binary()))),
        ("predictions_images", pa.array([7000, 4])),
        ("predictions_images", pa.array([-4, 4])),
        ("predictions_repeats", pa.array([[-1], [1]])),
        ("predictions_draws", pa.array([3, 4])),
        ("predictions_draws", pa.array([[-1], [0]])),
        ("predictions_draws", pa.array([["none"], ["none"]])),
        ("predictions_bin_count", pa.array([[[3]], [[4]]])),
        ("predictions_bin_count", pa.array([[[None] * 15]] * 2, pa.list_(pa.list_(pa.int64())))),
        ("predictions_bin_confidence", pa.array([[[0.5]], [[0.5]]])),
    ],
)
def test_a_parquet_with_values_that_are_wrong_or_contradict_one_another(
    parquet: Path, column: str, values: pa.Array
) -> None:
    replace_column(parquet, column, values)
    with pytest.raises(UserError, match=r"runs\.parquet"):
        _ = load_runs(parquet).reliability


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("record_result", pa.nulls(2, pa.large_string()), r"result\.json in .* is truncated"),
        ("predictions_draws", pa.nulls(2, pa.list_(pa.int64())), "no predictions without test-time draws"),
        ("predictions_draws", pa.array([[5], [5]]), "no predictions without test-time draws"),
        ("record_result", '"test_images": 5', "holds 4 images, but the result counts 5"),
    ],
)
def test_finished_runs_in_a_parquet_are_whole(parquet: Path, column: str, values: pa.Array | str, words: str) -> None:
    if isinstance(values, str):
        texts = pq.read_table(parquet)[column].to_pylist()
        values = pa.array([text.replace('"test_images": 4', values) for text in texts], pa.large_string())
    replace_column(parquet, column, values)
    with pytest.raises(DamagedError, match=words):
        _ = load_runs(parquet).reliability


def test_a_result_of_a_run_that_is_not_done_is_none(parquet: Path) -> None:
    replace_column(parquet, "record_state", pa.array(["done", "killed"]))
    runs = load_runs(parquet)
    assert runs.scores["seed"].unique().tolist() == [0] and runs.reliability["seed"].unique().tolist() == [0]


def test_what_was_left_out_is_told_without_the_folders_of_whoever_packed(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", root=tmp_path / "out")
    (write_run("none", seed=1, root=tmp_path / "out").path / "result.json").write_text("{")
    pack([tmp_path / "out"], tmp_path / "a.parquet", skip_damaged=True)
    (text,) = load_runs(tmp_path / "a.parquet").damaged
    assert "out/runs/none_mnist5k_tiny_seed1" in text and str(tmp_path) not in text


def test_records_in_a_parquet_are_checked_as_those_in_folders(parquet: Path) -> None:
    texts = pq.read_table(parquet)["record_result"].to_pylist()
    changed = pa.array([texts[0].replace('"mean": 0.9', '"mean": "high"'), texts[1]], pa.large_string())
    replace_column(parquet, "record_result", changed)
    with pytest.raises(DamagedError, match=r"seed0.* in .*runs\.parquet .*metrics\.0\.accuracy\.mean"):
        load_runs(parquet)
    assert load_runs(parquet, skip_damaged=True).runs["seed"].tolist() == [1]


@pytest.mark.parametrize(
    ("name", "words"),
    [("runs.zip", "has an unknown ending"), ("folder.parquet", "is a folder")],
)
def test_where_runs_cannot_be_packed(tmp_path: Path, write_run: WriteRun, name: str, words: str) -> None:
    write_run("none")
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(UserError, match=words):
        pack([tmp_path], tmp_path / name)


def test_no_archive_is_made_of_a_parquet_file(parquet: Path) -> None:
    out = parquet.with_name("a.tar.gz")
    with pytest.raises(UserError, match=r"has no predictions.*ends in \.parquet"):
        pack([parquet], out)
    assert not out.exists()


def test_a_file_of_a_run_that_cannot_be_read_is_named(tmp_path: Path, write_run: WriteRun) -> None:
    folder = write_run("none", root=tmp_path / "out")
    folder.log.mkdir()
    with pytest.raises(DamagedError, match=rf"log\.txt in {folder.path} cannot be read: Is a directory"):
        pack([tmp_path / "out"], tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


def test_the_command_names_and_counts_what_it_leaves_out(
    tmp_path: Path, write_run: WriteRun, augbench: CommandLine
) -> None:
    write_run("none")
    (write_run("none", seed=1).path / "spec.json").write_text("{")
    for seed in (2, 3):
        write_run("none", seed=seed, protocol=Protocol(evaluated_on="validation"))
    out = tmp_path / "a.parquet"
    code, _, error = augbench("archive", "--from", tmp_path, "--out", out)
    assert code == 2 and "leave it out with --skip-damaged" in error.replace("\n", " ")
    code, output, error = augbench("archive", "--from", tmp_path, "--out", out, "--skip-damaged")
    assert code == 0 and output.startswith(f"{out}: 3 runs, ") and "Left out:" in error and "seed1" in error
    assert "trials of a tuning" not in error, "which are packed, too"
