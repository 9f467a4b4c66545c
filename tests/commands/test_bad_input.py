"""Mistakes on the command line: one paragraph with the way on, status 2, no traceback, nothing lost."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from augbench.bench.files import write_json
from augbench.bench.run_folder import RunFolder, RunState, mark_output_folder
from augbench.bench.spec import RunSpec

CommandLine = Callable[..., tuple[int, str, str]]
MakeSpec = Callable[..., RunSpec]

SUITE = """
name = "small"
title = "Small"
seeds = [0]
[[comparisons]]
datasets = [{{ name = "{dataset}" }}]
methods = [{{ name = "none" }}]
network = "tiny"
budget = {{ epochs = 1 }}
"""


def fails_in_one_paragraph(outcome: tuple[int, str, str], *words: str) -> bool:
    code, _, errors = outcome
    assert code == 2
    assert "Traceback" not in errors
    assert errors.startswith("Error: ")
    assert "\n" not in errors.strip(), "more than one paragraph"
    missing = [word for word in words if word not in errors]
    assert not missing, errors
    return True


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "methods", "scael"], ["no method 'scael'", "Did you mean 'scale'?", "trivialaugment"]),
        (["list", "suites", "x"], ["no suite 'x'", "demo"]),
        (["plan", "dmeo"], ["no suite 'dmeo'", "Did you mean 'demo'?", ".toml"]),
        (["run", "demo", "--launcher", "lcoal"], ["no launcher 'lcoal'", "Did you mean 'local'?"]),
        (["run", "demo", "--device", "cuda:9"], ["no device 'cuda:9'", "--device: auto, cpu"]),
        (["run", "demo", "--workers", "0"], ["--workers must be at least 1"]),
        (["run", "demo", "--out", "/proc/nowhere"], ["/proc/nowhere", "cannot be written", "--out"]),
        (["run", "demo", "--out", "x" * 300], ["File name too long", "Choose another one"]),
        (["run", "demo", "--data", "~nosuchuser/x"], ["--data", "home directory"]),
        (["run", "demo", "--data", "/proc/cpuinfo"], ["--data /proc/cpuinfo is a file"]),
        (["run", "/"], ["no suite '/'", "demo"]),
        (["tables", "--from", "x" * 300, "--out", "x"], ["File name too long"]),
        (["tables", "--from", "/nowhere", "--out", "x"], ["/nowhere", "does not exist", "augbench demo"]),
        (["figures", "--from", "/nowhere", "--out", "x"], ["/nowhere", "does not exist", "augbench demo"]),
    ],
)
def test_wrong_arguments(
    arguments: list[str], words: list[str], augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert fails_in_one_paragraph(augbench(*arguments), *words)
    assert not list(tmp_path.iterdir()), "something was written"


def test_a_kind_that_cannot_be_listed(augbench: CommandLine) -> None:
    code, _, errors = augbench("list", "planets")
    assert code == 2
    assert "planets" in errors
    assert "methods" in errors


def test_an_output_folder_that_is_a_file(augbench: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for command in (["run", "demo", "--out"], ["plan", "demo", "--out"], ["tables", "--out", tmp_path, "--from"]):
        assert fails_in_one_paragraph(augbench(*command, tmp_path / "file"), "is a file")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("command", ["tables", "figures"])
def test_an_empty_folder(command: str, augbench: CommandLine, tmp_path: Path) -> None:
    outcome = augbench(command, "--from", tmp_path, "--out", tmp_path / "out")
    assert fails_in_one_paragraph(outcome, "holds no runs", "augbench demo")


@pytest.mark.parametrize("command", ["tables", "figures"])
def test_runs_without_results(command: str, make_spec: MakeSpec, augbench: CommandLine, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / "a")
    folder.write_spec(make_spec())
    folder.write_status(RunState.CANCELLED)
    outcome = augbench(command, "--from", tmp_path, "--out", tmp_path / "out")
    assert fails_in_one_paragraph(outcome, "1 cancelled", "augbench run")


@pytest.mark.parametrize("command", ["tables", "figures"])
def test_nothing_but_foreign_folders(command: str, augbench: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "runs" / "holiday-pictures").mkdir(parents=True)
    outcome = augbench(command, "--from", tmp_path, "--out", tmp_path / "out")
    assert fails_in_one_paragraph(outcome, "none of a run: holiday-pictures", "augbench run")


def test_a_truncated_run_folder_stops_run_and_plan_before_anything_is_written(
    augbench: CommandLine, tmp_path: Path
) -> None:
    suite = tmp_path / "small.toml"
    suite.write_text(SUITE.format(dataset="mnist5k"))
    code, text, _ = augbench("plan", suite, "--out", tmp_path, "--json")
    assert code == 0
    folder = Path(json.loads(text)["runs"][0]["folder"])
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text('{"identity": "ab')
    for command in ("plan", "run"):
        assert fails_in_one_paragraph(augbench(command, suite, "--out", tmp_path), folder.name, "delete it")
    assert [path.name for path in folder.iterdir()] == ["spec.json"]


@pytest.mark.parametrize("command", [["plan", "demo", "--out"], ["run", "demo", "--out"], ["demo", "--out"]])
def test_an_output_folder_of_a_newer_version(command: list[str], augbench: CommandLine, tmp_path: Path) -> None:
    mark_output_folder(tmp_path)
    write_json(tmp_path / "runs" / "protocol.json", {"protocol_version": 99})
    assert fails_in_one_paragraph(augbench(*command, tmp_path), "protocol version 99", "Install a newer augbench")


def test_missing_data(augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGBENCH_OFFLINE", "1")
    suite = tmp_path / "small.toml"
    suite.write_text(SUITE.format(dataset="mnist"))
    outcome = augbench("run", suite, "--out", tmp_path / "out", "--data", tmp_path / "data")
    assert fails_in_one_paragraph(outcome, "train-images-idx3-ubyte", "md5", str(tmp_path / "data"))
    assert not list((tmp_path / "out").glob("runs/*/"))
