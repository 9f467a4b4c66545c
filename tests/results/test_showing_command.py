"""`augbench tables` and `augbench figures`: several sources, chosen formats, and what is said on standard error."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.published.loader import OURS

CommandLine = Callable[..., tuple[int, str, str]]
WriteRun = Callable[..., RunFolder]


def test_several_sources_and_a_format(tmp_path: Path, write_run: WriteRun, augbench: CommandLine) -> None:
    write_run("none", root=tmp_path / "one")
    write_run("scale", root=tmp_path / "two")
    sources = ("--from", tmp_path / "one", "--from", tmp_path / "two")
    code, output, error = augbench("tables", *sources, "--out", tmp_path / "tables", "--format", "csv")
    assert (code, error) == (0, "")
    files = [Path(line) for line in output.splitlines()]
    assert tmp_path / "tables" / "comparison.csv" in files and {file.suffix for file in files} == {".csv"}
    text = (tmp_path / "tables" / "comparison.csv").read_text()
    assert "none" in text and "scale" in text


def test_what_is_mixed_or_left_out_goes_to_standard_error(
    tmp_path: Path, write_run: WriteRun, augbench: CommandLine
) -> None:
    write_run("none", root=tmp_path / "out", version=1)
    write_run("none", root=tmp_path / "out", version=2, seed=1)
    failed = write_run("none", root=tmp_path / "out", seed=2, state=RunState.FAILED)
    command = ("tables", "--from", tmp_path / "out", "--out", tmp_path / "tables", "--no-published", "--no-cache")
    code, output, error = augbench(*command)
    assert code == 0 and "Note:" not in output and not (tmp_path / "out" / "cache").exists()
    assert error.splitlines() == [
        "Note: 1 of 3 runs has no result and is in no average: 1 failed.",
        "Note: Why runs failed: 1 exception.",
        "Note: Versions of a method are separate rows: none (1, 2).",
    ]
    (failed.path / "spec.json").write_text("\x1b[2J")
    code, _, error = augbench(*command)
    assert code == 2 and "--skip-damaged" in error
    code, _, error = augbench(*command, "--skip-damaged")
    assert code == 0 and error.startswith("Left out: ") and "\x1b" not in error


def test_published_numbers_that_no_table_shows_are_said(
    tmp_path: Path, write_run: WriteRun, augbench: CommandLine
) -> None:
    write_run("none", root=tmp_path / "out")
    published = ("--from", tmp_path / "out", "--published-file", OURS)
    assert "`published`, which was not made" in augbench("tables", *published)[2]
    assert "`published`" in augbench("tables", *published, "--no-published", "--out", tmp_path / "to")[2]
    assert augbench("tables", *published, "--out", tmp_path / "to")[2] == ""


def test_one_format_and_one_that_there_is_not(tmp_path: Path, write_run: WriteRun, augbench: CommandLine) -> None:
    write_run("none")
    for command, name in (("tables", "tex"), ("figures", "svg")):
        given = (command, "--from", tmp_path, "--out", tmp_path / command, "--format")
        code, _, error = augbench(*given, "docx")
        assert code == 2 and "no format 'docx'" in error and not (tmp_path / command).exists()
        code, output, _ = augbench(*given, name)
        assert code == 0 and {Path(line).suffix for line in output.splitlines()} == {f".{name}"}


@pytest.mark.parametrize(
    ("command", "target"),
    [("tables", "to"), ("figures", "to --format svg"), ("report", "page.html"), ("archive", "runs.parquet")],
)
def test_damage_that_shows_late_is_said_and_can_be_left_out(
    tmp_path: Path, write_run: WriteRun, augbench: CommandLine, command: str, target: str
) -> None:
    """Predictions are read after everything else, and by what needs them only."""
    write_run("none")
    write_run("none", seed=1)
    write_run("scale", seed=1)
    damaged = write_run("scale", seed=0).predictions
    content = bytearray(damaged.read_bytes())
    content[60:200] = bytes(140)
    damaged.write_bytes(content)
    name, *options = target.split()
    given = (command, "--from", tmp_path, "--out", tmp_path / name, *options)
    code, _, error = augbench(*given)
    assert code == 2 and error.count("\n\n") == 0 and "predictions.npz" in error and "--skip-damaged" in error
    code, _, error = augbench(*given, "--skip-damaged")
    assert code == 0 and "Left out: " in error and "predictions.npz" in error


def test_damaged_example_images_can_be_left_out(tmp_path: Path, write_run: WriteRun, augbench: CommandLine) -> None:
    write_run("none")
    write_run("none", seed=1)
    write_run("scale").examples.write_bytes(b"PK")
    given = ("report", "--from", tmp_path, "--out", tmp_path / "page.html")
    code, _, error = augbench(*given)
    assert code == 2 and "examples.npz" in error and "--skip-damaged" in error
    code, _, error = augbench(*given, "--skip-damaged")
    assert code == 0 and "Left out: " in error and "examples.npz" in error


def test_tables_are_shown_in_the_terminal(tmp_path: Path, write_run: WriteRun, augbench: CommandLine) -> None:
    for method in ("none", "scale"):
        write_run(method, accuracy={0: 0.9, 4: 0.95})
    code, output, _ = augbench("tables", "--from", tmp_path)
    assert code == 0 and "Comparison of augmentation learners" in output and "95.0" in output
    code, output, _ = augbench("tables", "--from", tmp_path, "--table", "differences", "--table", "accuracy")
    assert code == 0 and "Differences" in output and "Accuracy and cost" in output and "Comparison" not in output
    assert {path.name for path in tmp_path.iterdir()} <= {"runs", "cache"}


def test_single_tables_are_written(tmp_path: Path, write_run: WriteRun, augbench: CommandLine) -> None:
    write_run("none")
    given = ("tables", "--from", tmp_path, "--out", tmp_path / "to", "--format", "csv")
    code, output, _ = augbench(*given, "--table", "accuracy", "--table", "comparison")
    assert code == 0 and [Path(line).name for line in output.split()] == ["comparison.csv", "accuracy.csv"]
    code, _, error = augbench(*given, "--table", "svhn")
    assert code == 2 and "no data for the table svhn" in error
    code, _, error = augbench(*given, "--table", "acuracy")
    assert code == 2 and "There is no table 'acuracy'. Did you mean 'accuracy'?" in error
    code, _, error = augbench(*given, "--table", "published", "--no-published")
    assert code == 2 and "no data for the table published" in error


def test_tables_as_json_have_every_number_as_it_was_computed(
    tmp_path: Path, write_run: WriteRun, augbench: CommandLine
) -> None:
    for seed in (0, 1):
        write_run("none", seed=seed, root=tmp_path / "out")
    code, text, _ = augbench("tables", "--from", tmp_path / "out", "--table", "accuracy", "--json")
    assert code == 0
    ((table, *_),) = json.loads(text).values()
    cell = table["rows"][0]["cells"][0]
    assert (cell["mean"], cell["sd"], cell["count"]) == (0.9, 0.0, 2)
    assert table["title"] == "Accuracy and cost" and len(table["columns"]) == len(table["rows"][0]["cells"])
