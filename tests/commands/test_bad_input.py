"""Mistakes on the command line: one paragraph with the way on, status 2, no traceback, nothing lost."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from paragraphs import fails_in_one_paragraph

from augbench.bench.common.files import write_json
from augbench.bench.runs.output_folder import mark_output_folder
from augbench.bench.runs.run_folder import RunState

CommandLine = Callable[..., tuple[int, str, str]]

DEMO = Path(__file__).parents[2] / "results" / "measured" / "demo.parquet"


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
        (["run", "demo", "--out", "a\nb"], ["--out 'a\\nb' holds a line break"]),
        (["tables", "--from", "a\nb"], ["--from 'a\\nb' holds"]),
        (["probe", "a\nb", "--out", "x"], ["RUNS 'a\\nb' holds"]),
        (["plan", "a\nb.toml"], ["The path 'a\\nb.toml' holds"]),
        (["--plugin", "a\nb.py", "list", "methods"], ["The plug-in 'a\\nb.py' holds", "--plugin my.py"]),
        (["run", "demo", "--out", ""], ["Nothing is given after --out", "shell variable"]),
        (["run", "demo", "--out="], ["Nothing is given after --out"]),
        (["plan", ""], ["Nothing is given after plan"]),
        (["tables", "--from", str(DEMO), "--no-published", "--published-file", "no.csv"], ["no.csv cannot be read"]),
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


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["status", "--out=~/mine"], {}),
        (["tables", "--from=~/mine"], {}),
        (["tables", "--from={digits}", "--published-file=~/mine"], {}),
        (["probe", "~/mine", "--out", "x"], {}),
        (["data", "verify", "--data=~/mine"], {}),
        (["data", "verify"], {"AUGBENCH_DATA": "~/mine"}),
        (["data", "prepare", "mnist", "--from=~/mine"], {}),
        (["plan", "~/mine.toml"], {}),
        (["plan", "demo", "--profile=~/mine.toml"], {}),
        (["plan", "demo"], {"AUGBENCH_PROFILE": "~/mine.toml"}),
        (["--plugin=~/mine.py", "list", "methods"], {}),
        (["list", "methods"], {"AUGBENCH_PLUGINS": "~/mine.py"}),
    ],
)
def test_a_tilde_that_no_shell_has_replaced_is_the_home_directory(
    arguments: list[str],
    variables: dict[str, str],
    augbench: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in ({"HOME": str(tmp_path)} | variables).items():
        monkeypatch.setenv(name, value)
    outcome = augbench(*(argument.format(digits=DEMO) for argument in arguments))
    assert fails_in_one_paragraph(outcome, str(tmp_path / "mine"))
    assert "~" not in outcome[2]


@pytest.mark.parametrize("command", [["plan"], ["plan", "demo", "--profile"]])
def test_a_file_that_cannot_be_read(command: list[str], augbench: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    for encoding, words in (
        ("utf-16", "is written in UTF-16, as PowerShell and some editors do. Save it in UTF-8."),
        ("latin-1", "is not written in UTF-8 (line 2). Save it in UTF-8."),
    ):
        file.write_text("# of my own\n# in Zürich", encoding)
        assert fails_in_one_paragraph(augbench(*command, file), f"{file} cannot be read: it ", words)
    file.unlink()
    os.mkfifo(file)  # which is not waited for
    assert fails_in_one_paragraph(augbench(*command, file), "it is no file")


def test_an_output_folder_that_is_a_file(augbench: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for command in (["run", "demo", "--out"], ["plan", "demo", "--out"], ["tables", "--out", tmp_path, "--from"]):
        said = "is no file of runs" if command[0] == "tables" else "is a file"
        assert fails_in_one_paragraph(augbench(*command, tmp_path / "file"), said)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("command", ["tables", "figures"])
def test_a_folder_without_results(command: str, plant: Any, augbench: CommandLine, tmp_path: Path) -> None:
    def refused(*words: str) -> None:
        assert fails_in_one_paragraph(augbench(command, "--from", plant.out, "--out", tmp_path / "to"), *words)

    plant.out.mkdir()
    refused("holds no runs", "augbench demo")
    (plant.out / "runs" / "holiday-pictures").mkdir(parents=True)
    refused("none of a run: holiday-pictures", "augbench run")
    plant.ended(RunState.CANCELLED)
    refused("1 cancelled", "augbench run")


@pytest.mark.parametrize("command", [["plan", "demo", "--out"], ["run", "demo", "--out"], ["demo", "--out"]])
def test_an_output_folder_of_a_newer_version(command: list[str], augbench: CommandLine, tmp_path: Path) -> None:
    mark_output_folder(tmp_path)
    write_json(tmp_path / "runs" / "protocol.json", {"protocol_version": 99})
    assert fails_in_one_paragraph(augbench(*command, tmp_path), "protocol version 99", "Install a newer augbench")


@pytest.mark.slow
def test_missing_data(
    augbench: CommandLine, write_suite: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUGBENCH_OFFLINE", "1")
    outcome = augbench(
        "run", write_suite(dataset='{ name = "mnist" }'), "--out", tmp_path / "out", "--data", tmp_path / "data"
    )
    assert fails_in_one_paragraph(outcome, "train-images-idx3-ubyte", "md5", str(tmp_path / "data"))
    assert not list((tmp_path / "out").glob("runs/*/"))


ODD_PLUGIN = """
import torch
from torch import nn
from augbench.bench.conformance.problem import GREY
from augbench.bench.data.dataset import DatasetOptions, DatasetSource, ImageData, Split
from augbench.bench.networks.base import NetworkSource
from augbench.bench.registry.registry import register

class Options(DatasetOptions):
    side: int = 14
    train: int = 120
    fails: bool = False

@register("odd")
class Odd(DatasetSource):
    title, checksum, options_type = "odd", "md5:0", Options

    def load(self, options, root):
        if options.fails:
            return {}["images"]
        good = GREY.data()
        train = Split(good.train.images[: options.train, :, : options.side], good.train.labels[: options.train])
        return ImageData(train, Split(good.test.images[:, :, : options.side], good.test.labels), 5, "odd")

@register("no-module")
class NoModule(NetworkSource):
    title = "none"

    def build(self, channels, classes):
        return None

@register("elsewhere")
class Elsewhere(NetworkSource):
    title = "needs another device"

    def build(self, channels, classes):
        raise RuntimeError("needs another device")
"""


@pytest.fixture
def odd(write_suite: Callable[..., Path], tmp_path: Path) -> Callable[..., list[str | Path]]:
    """Write a plug-in and a suite; returns the beginning of a command and the suite."""

    def write(dataset: str = '{ name = "odd" }', network: str = "tiny") -> list[str | Path]:
        (tmp_path / "odd.py").write_text(ODD_PLUGIN)
        suite = write_suite(dataset=dataset, network=network, methods='{ name = "scale" }')
        return ["--plugin", tmp_path / "odd.py", suite]

    return write


OF_ODD = '{ name = "odd", options = { OPTIONS } }'
PLANTED = '{ name = "planted", options = { base = "odd", base_options = { OPTIONS }, rotation = 45.0 } }'


SMALL = ["'odd' cannot be used", "12×14 pixels"]
RAISES = ["cannot be loaded", "KeyError: 'images' (line 20 of odd.py)"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "dataset", "network", "words"),
    [
        (("run", "--yes"), OF_ODD.replace("OPTIONS", "side = 12"), "tiny", SMALL),
        (("run", "--dry-run"), PLANTED.replace("OPTIONS", "side = 12"), "tiny", SMALL),
        (("plan", "--calibrate"), OF_ODD.replace("OPTIONS", "fails = true"), "tiny", RAISES),
        (("run", "--yes"), OF_ODD.replace("OPTIONS", ""), "no-module", ["'no-module' cannot be used", "NoneType"]),
    ],
)
def test_data_and_networks_that_no_run_can_use_are_found_before_anything_is_started(
    command: tuple[str, str],
    dataset: str,
    network: str,
    words: list[str],
    odd: Callable[..., list[str | Path]],
    augbench: CommandLine,
    tmp_path: Path,
) -> None:
    *plugin, suite = odd(dataset, network)
    name, option = command
    outcome = augbench(*plugin, name, suite, option, "--out", tmp_path / "out")
    assert fails_in_one_paragraph(outcome, *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_what_cannot_be_tuned_on_is_found_before_anything_is_started(
    odd: Callable[..., list[str | Path]], augbench: CommandLine, tmp_path: Path
) -> None:
    *plugin, suite = odd(OF_ODD.replace("OPTIONS", "train = 10"))
    tune = ("tune", "scale", "--dataset", "odd", "--suite", suite, "--trials", "1", "--out", tmp_path / "out")
    assert fails_in_one_paragraph(augbench(*plugin, *tune), "'odd'", "0 of its 10 training images")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_whether_a_network_works_at_all_is_seen_where_it_runs(
    odd: Callable[..., list[str | Path]], augbench: CommandLine, tmp_path: Path
) -> None:
    """Here there is perhaps no GPU, which it may need."""
    *plugin, suite = odd(network="elsewhere")
    code, text, errors = augbench(*plugin, "run", suite, "--dry-run", "--out", tmp_path / "out")
    assert code == 0, errors
    assert "1 run would be placed" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "demo", "--out", "a", "--out", "b"], "--out is given 2 times"),
        (["run", "demo", "--workers", "9" * 20], "--workers must be at least 1 and at most 4096"),
        (["tables", "--from", "a", "--json", "--out", "b"], "--json prints tables as JSON"),
        (["plna", "demo"], "Did you mean 'plan'?"),
        (["list", "planets"], "'planets' is not one of 'methods'"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: list[str], words: str, augbench: CommandLine) -> None:
    code, _, errors = augbench(*arguments)
    assert code == 2
    assert words in " ".join(errors.split())


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ('launcher = "slrum"', "no launcher 'slrum'. Did you mean 'slurm'?"),
        ('[local]\ndevice = "gpu"', "line 2: local.device: must be auto, cpu, cuda or"),
    ],
)
def test_a_wrong_profile(command: str, profile: str, words: str, augbench: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(profile)
    outcome = augbench(command, "demo", "--profile", tmp_path / "p.toml", "--out", tmp_path / "out")
    assert fails_in_one_paragraph(outcome, words)


def test_help_has_a_short_name_everywhere(augbench: CommandLine) -> None:
    for command in ([], ["plan"], ["check"], ["check", "method"]):
        code, text, _ = augbench(*command, "-h")
        assert code == 0
        assert "Usage: " in text


@pytest.mark.slow
def test_a_library_that_cannot_be_loaded_is_one_sentence() -> None:
    limited = 'ulimit -v 2600000; exec "$0" -m augbench.bench.commands list methods'
    done = subprocess.run(["bash", "-c", limited, sys.executable], capture_output=True, text=True)
    assert done.returncode == 2
    assert "A required library could not be loaded: " in done.stderr
    assert "Traceback" not in done.stderr
