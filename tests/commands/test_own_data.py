"""`augbench data prepare images`, `arrays` and `table`, and what suites, tables and `verify` make of the result."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from data_files import has
from own_images import encoded, noise, nothing_left, write_images
from paragraphs import fails_in_one_paragraph

CommandLine = Callable[..., tuple[int, str, str]]

SUITE = """
name = "mine"
title = "Mine"
seeds = [0]
[[comparisons]]
{datasets}
methods = [{{ name = "none" }}]
network = "tiny"
budget = {{ epochs = 1 }}
"""


@pytest.fixture
def pets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write images of classes with odd names, and name a folder of data sets."""
    monkeypatch.setenv("AUGBENCH_DATA", str(tmp_path / "data"))
    return write_images(tmp_path / "pets", {"[bold red]cat": 12, "dog\x1b[31m": 12})


def pasted(text: str) -> str:
    """The line to paste into a suite."""
    (line,) = [line for line in text.splitlines() if line.startswith("datasets = ")]
    return line


def name_in(line: str) -> str:
    return line.partition('prepared = "')[2].partition('"')[0]


def test_a_folder_becomes_a_data_set(pets: Path, augbench: CommandLine, tmp_path: Path) -> None:
    code, text, errors = augbench("data", "prepare", "images", pets, "--side", "8")
    assert (code, errors) == (0, "")
    assert has(
        text, "[bold red]cat", "dog\\x1b", "20 training images and 4 test images of 2 classes, 3×8×8", "images.png"
    )
    assert "\x1b" not in text
    code, again, _ = augbench("data", "prepare", "images", pets, "--side", "8")
    assert (code, pasted(again)) == (0, pasted(text))
    assert "it was there already" in again
    name = name_in(pasted(text))
    for names in ([], [name], ["pets"], ["own"]):
        code, shown, _ = augbench("data", "verify", *names, "--json")
        (found,) = json.loads(shown)
        assert (code, found["name"], found["train"], found["test"], found["shape"]) == (0, name, 20, 4, [3, 8, 8])
    assert has(augbench("data", "verify")[1], name, "ok")
    assert augbench("data", "verify", "pets", "mnist")[0] == 2


def test_damage_is_found(pets: Path, augbench: CommandLine, tmp_path: Path) -> None:
    augbench("data", "prepare", "images", pets)
    (images,) = (tmp_path / "data").glob("prepared/own/*/test_images.npy")
    content = images.read_bytes()
    images.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    outcome = augbench("data", "verify")
    assert fails_in_one_paragraph(outcome, "1 of 1 prepared", "changed", "KIND PATH --name pets", "replaces it")
    augbench("data", "prepare", "images", pets)
    assert augbench("data", "verify")[0] == 0


@pytest.mark.slow
def test_a_suite_runs_on_it_and_tables_have_its_name(pets: Path, augbench: CommandLine, tmp_path: Path) -> None:
    line = pasted(augbench("data", "prepare", "images", pets, "--side", "8")[1])
    other = pasted(augbench("data", "prepare", "images", pets, "--side", "8", "--name", "more-pets")[1])
    (tmp_path / "suite.toml").write_text(SUITE.format(datasets=line[:-1] + "," + other.removeprefix("datasets = [")))
    code, _, errors = augbench("data", "prepare", "--suite", tmp_path / "suite.toml")
    assert code == 0, errors
    assert augbench("run", tmp_path / "suite.toml", "--out", tmp_path / "out", "--workers", "1")[0] == 0
    text = augbench("tables", "--from", tmp_path / "out")[1]
    assert has(text, "more-pets", "pets")
    assert "prepared=" not in text
    assert "own" not in text.split()


def test_a_data_set_that_is_not_prepared(pets: Path, augbench: CommandLine, tmp_path: Path) -> None:
    name = name_in(pasted(augbench("data", "prepare", "images", pets)[1]))
    suite = tmp_path / "suite.toml"
    for given, words in {
        'prepared = "pets-000000000000"': ["no prepared data set 'pets-000000000000'", name],
        "": ["needs the option `prepared`", name],
        'prepared = "pets"': ["twelve digits of a checksum", "pets-1f3a9c0b2d4e"],
        f'prepared = "{name}", train_images = 1000': ["train_images = 1000 does not fit", "'pets'"],
        'prepared = "../../x-000000000000"': ["twelve digits"],
    }.items():
        suite.write_text(SUITE.format(datasets=f'datasets = [{{ name = "own", options = {{ {given} }} }}]'))
        outcome = augbench("run", suite, "--out", tmp_path / "out")
        assert fails_in_one_paragraph(outcome, *words)
        assert not list(tmp_path.glob("out/runs/*"))
    suite.write_text(SUITE.format(datasets='datasets = [{ name = "own", options = { prepared = "x-000000000000" } }]'))
    assert fails_in_one_paragraph(augbench("data", "prepare", "--suite", suite), "x-000000000000", name)


def test_arrays_and_tables(augbench: CommandLine, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.RandomState(0)
    np.savez(tmp_path / "a.npz", x=random.randint(0, 256, (20, 8, 8)).astype(np.uint8), y=np.arange(20) % 2)
    names = ("--array", "train_images=x", "--array", "train_labels=y")
    code, text, _ = augbench("data", "prepare", "arrays", tmp_path / "a.npz", *names, "--data", tmp_path)
    assert code == 0
    assert has(text, "1×8×8")
    pq.write_table(
        pa.table({"i": [encoded(noise(n)) for n in range(20)], "l": ["a", "b"] * 10}), tmp_path / "t.parquet"
    )
    code, text, _ = augbench("data", "prepare", "table", tmp_path / "t.parquet", "--data", tmp_path, "--grey")
    assert code == 0
    assert has(text, "1×32×32", "16 training images and 4 test images")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mnist", "--side", "8"], ["--side belongs to `augbench data prepare images`"]),
        (["--leave-out", "cat"], ["--leave-out belongs to"]),
        (["mnist", "--array", "a=b"], ["--array belongs to"]),
        (["images"], ["needs one path", "augbench data prepare images PATH", "none given"]),
        (["images", "a", "b"], ["needs one path", "2 given"]),
        (["images", "nowhere"], ["There is no nowhere"]),
        (["images", "pets", "--offline"], ["--offline belongs to published data sets"]),
        (["images", "pets", "--from", "."], ["--from belongs to published data sets"]),
        (["images", "pets", "--suite", "demo"], ["--suite belongs to published data sets"]),
        (["images", "pets", "--side", "0"], ["--side must be a whole number from 1 to 1024"]),
        (["images", "pets", "--channels", "last"], ["--channels belongs to `augbench data prepare arrays`"]),
        (["images", "pets", "--name", "cifar10"], ["cifar10 is the name of a data set that augbench knows"]),
        (["arrays", "pets"], ["pets is a folder", ".npz"]),
        (["arrays", "pets", "--array", "x"], ["--array x is no OURS=YOURS"]),
        (["table", "pets"], ["has no .parquet files"]),
        (["own"], ["images of your own", "augbench data prepare images PATH"]),
    ],
)
def test_mistakes(
    arguments: list[str], words: list[str], pets: Path, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pets.parent)
    assert fails_in_one_paragraph(augbench("data", "prepare", *arguments), *words)
    assert not (pets.parent / "data").exists()


def test_damaged_names_reach_no_terminal(pets: Path, augbench: CommandLine) -> None:
    (pets / "dog\x1b[31m" / "[red]\x1b[2J.png").write_bytes(b"hello")
    outcome = augbench("data", "prepare", "images", pets)
    assert fails_in_one_paragraph(outcome, "1 image of 25", "[red]\\x1b[2J.png is no image")
    assert "\x1b" not in outcome[2]
    code, text, _ = augbench("data", "prepare", "images", pets, "--skip-damaged")
    assert code == 0
    assert "[red]\\x1b[2J.png" in text
    assert "\x1b" not in text


def test_ctrl_c_leaves_nothing(pets: Path, tmp_path: Path) -> None:
    noise(1, 2000, 2000).save(tmp_path / "large.jpg")
    for index in range(200):
        (pets / "[bold red]cat" / f"more{index}.jpg").hardlink_to(tmp_path / "large.jpg")
    command = [sys.executable, "-m", "augbench.bench.commands", "data", "prepare", "images", str(pets)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    while process.poll() is None and not list((tmp_path / "data").rglob("*.npy")):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == "Stopped. Nothing was prepared.\n"
    assert process.returncode == 130
    assert nothing_left(tmp_path / "data")
