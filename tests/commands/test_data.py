"""`augbench data`: preparing and verifying, alone, at the same time, killed in the middle, and what can go wrong."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_files import PAGE, has, md5
from patience import PATIENCE

from augbench.bench.data.prepared import PreparedSource
from augbench.bench.runs.output_folder import run_folders

CommandLine = Callable[..., tuple[int, str, str]]

PLUGIN = '''
import os
from pathlib import Path
import numpy as np
from augbench import Arrays, PreparedSource, RemoteFile, SourceFile, register

HERE = Path(__file__).parent


@register("{name}")
class Made(PreparedSource):
    """Made-up images."""

    title = "Made up"
    checksum = "md5:{checksum}"
    classes = 10

    @classmethod
    def sources(cls):
        """One file."""
        file = RemoteFile("{name}.bin", "{md5}", {size}, ("{url}",))
        return (SourceFile(file.path, file.md5, file),)

    def read(self, files):
        """Make images up, once nobody keeps the gate closed."""
        with (HERE / "read.log").open("a") as log:
            log.write("read ")
        if (HERE / "gate").exists():
            (HERE / "gate").read_bytes()
        images = np.frombuffer(files["{name}.bin"].read_bytes(), np.uint8).reshape(-1, 1, 14, 14)
        labels = np.arange(len(images)) % 10
        return Arrays(images, labels, images[:50], labels[:50])
'''
CONTENT = bytes(range(256)) * 49 * 5  # 320 images of 14×14 pixels
SUITE = """
name = "small"
title = "Small"
seeds = [0]
[[comparisons]]
datasets = [{{ name = "{first}" }}, {{ name = "planted", options = {{ base = "{second}", rotation = 45.0 }} }}]
methods = [{{ name = "none" }}]
network = "tiny"
budget = {{ epochs = 1 }}
"""


def write_plugin(folder: Path, name: str, url: str) -> Path:
    folder.mkdir(exist_ok=True)
    checksum = md5(md5(CONTENT).encode())
    path = folder / f"{name}.py"
    path.write_text(PLUGIN.format(name=name, checksum=checksum, md5=md5(CONTENT), size=len(CONTENT), url=url))
    return path


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a data set of one's own, which is on no server."""
    monkeypatch.setenv("AUGBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AUGBENCH_OFFLINE", "1")
    return write_plugin(tmp_path / "plugin", "made-up", "http://127.0.0.1:1/made-up.bin")


@pytest.fixture
def root(plugin: Path, tmp_path: Path) -> Path:
    """Put its file into the folder of data sets."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "made-up.bin").write_bytes(CONTENT)
    return tmp_path / "data"


def fails(outcome: tuple[int, str, str], *words: object) -> bool:
    code, _, errors = outcome
    assert code == 2, errors
    assert "Traceback" not in errors
    paragraph = errors[errors.index("Error: ") :].strip()
    assert "\n" not in paragraph, "more than one paragraph"
    return has(paragraph, *words)


def prepared(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "prepared").glob("[!.]*"))


def test_preparing_once_and_verifying(plugin: Path, root: Path, augbench: CommandLine) -> None:
    for _ in range(2):
        code, _, errors = augbench("--plugin", plugin, "data", "prepare", "made-up", "made-up")
        assert (code, prepared(root)) == (0, [f"made-up-v1-{md5(md5(CONTENT).encode())[:12]}"])
        assert f"made-up: ready in {root}" in errors
    assert (plugin.parent / "read.log").read_text() == "read "
    code, text, _ = augbench("--plugin", plugin, "data", "verify", "--json")
    assert code == 0
    (found,) = json.loads(text)
    pixels = np.frombuffer(CONTENT, np.uint8) / 255
    assert (found["name"], found["train"], found["test"], found["shape"]) == ("made-up", 320, 50, [1, 14, 14])
    assert found["mean"] == pytest.approx([pixels.mean()], abs=1e-6)
    assert found["deviation"] == pytest.approx([pixels.std()], abs=1e-6)
    assert (found["problem"], found["folder"]) == ("", str(root / "prepared" / prepared(root)[0]))
    for names in ([], ["made-up"]):
        code, text, _ = augbench("--plugin", plugin, "data", "verify", *names)
        assert code == 0
        assert has(text, "made-up", "320", "1×14×14", "ok", root)


@pytest.mark.slow
def test_a_suite_is_prepared_and_run(plugin: Path, root: Path, augbench: CommandLine, tmp_path: Path) -> None:
    suite = tmp_path / "suite.toml"
    suite.write_text(SUITE.format(first="made-up", second="made-up"))
    run = ("--plugin", plugin, "run", suite, "--out", tmp_path / "out", "--workers", "1")
    assert fails(augbench(*run), "made-up is not prepared", f"`augbench data prepare made-up --data {root}`")
    assert augbench("--plugin", plugin, "data", "prepare", "--suite", suite)[0] == 0
    assert augbench(*run)[0] == 0
    assert len(run_folders(tmp_path / "out")) == 2


def test_damage_is_found_and_mended(plugin: Path, root: Path, augbench: CommandLine) -> None:
    augbench("--plugin", plugin, "data", "prepare", "made-up")
    (images,) = root.glob("prepared/*/test_images.npy")
    content = images.read_bytes()
    images.write_bytes(content[:-1] + b"\x7f")
    outcome = augbench("--plugin", plugin, "data", "verify")
    assert "damaged" in outcome[1]
    command = f"`augbench data prepare made-up --data {root}`"
    assert fails(outcome, "1 of 1", "test_images.npy has changed", "sha256", command)
    code, text, _ = augbench("--plugin", plugin, "data", "verify", "--json")
    assert (code, json.loads(text)[0]["problem"].split()[0]) == (2, "test_images.npy")
    assert augbench("--plugin", plugin, "data", "prepare", "made-up")[0] == 0
    assert augbench("--plugin", plugin, "data", "verify")[0] == 0
    assert images.read_bytes() == content


def test_what_fails_while_it_is_read_is_explained(plugin: Path, root: Path, augbench: CommandLine) -> None:
    plugin.write_text(plugin.read_text().replace("labels = np", "labels = {}['x'] + np"))
    outcome = augbench("--plugin", plugin, "data", "prepare", "made-up")
    assert fails(outcome, "'made-up' cannot be prepared: KeyError: 'x' (line 31 of made-up.py)", "Correct its `read`")
    assert prepared(root) == []


def test_arrays_that_no_run_can_use_are_found_by_verify_and_made_anew(
    plugin: Path, root: Path, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mended = plugin.with_name("mended.py")  # as in another process, which would read it anew
    mended.write_text(plugin.read_text())
    plugin.write_text(plugin.read_text().replace("return Arrays(images,", "return Arrays(images[:, :, :12],"))
    with monkeypatch.context() as patch:
        patch.setattr("augbench.bench.data.prepared.check_arrays_fit", lambda *_: None)  # as before there were checks
        assert augbench("--plugin", plugin, "data", "prepare", "made-up")[0] == 0
    outcome = augbench("--plugin", plugin, "data", "verify")
    assert fails(outcome, "1 of 1", "made-up: `train.images`", "12×14 pixels", "augbench data prepare made-up")
    assert all(augbench("--plugin", mended, "data", command, "made-up")[0] == 0 for command in ("prepare", "verify"))
    assert fails(augbench("data", "verify"), *prepared(root), "of unknown data sets. Is a --plugin missing?")


def test_a_missing_file_is_downloaded(file_server: Any, augbench: CommandLine, tmp_path: Path) -> None:
    (file_server.folder / "x").write_bytes(CONTENT)
    plugin = write_plugin(tmp_path / "plugin", "made-up", file_server.url("x"))
    code, _, errors = augbench("--plugin", plugin, "data", "prepare", "made-up", "--data", tmp_path / "data")
    assert (code, len(file_server.asked)) == (0, 1), errors
    file_server.page = PAGE
    shutil.rmtree(tmp_path / "data")
    outcome = augbench("--plugin", plugin, "data", "prepare", "made-up", "--data", tmp_path / "data")
    assert fails(outcome, "could not be downloaded", "web page", "--from FOLDER")
    outcome = augbench("--plugin", plugin, "data", "prepare", "made-up", "--data", tmp_path / "data", "--offline")
    assert fails(outcome, "Nothing is downloaded because --offline is given")
    assert len(file_server.asked) == 2


def test_all_missing_files_are_named_at_once_and_the_rest_is_prepared(
    plugin: Path, root: Path, augbench: CommandLine
) -> None:
    outcome = augbench("--plugin", plugin, "data", "prepare", "cifar10", "made-up", "svhn", "--offline")
    places = [root / name for name in ("cifar-10-python.tar.gz", "train_32x32.mat", "test_32x32.mat")]
    assert fails(outcome, "3 published files are not in place", *places, "--from FOLDER")
    assert f"made-up: ready in {root}" in outcome[2]


def test_files_from_another_folder(plugin: Path, augbench: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "stick").mkdir()
    command = ("--plugin", plugin, "data", "prepare", "made-up", "--from", tmp_path / "stick")
    assert fails(augbench(*command), str(tmp_path / "stick"), "AUGBENCH_OFFLINE", "made-up.bin", md5(CONTENT))
    (tmp_path / "stick" / "made-up.bin").write_bytes(PAGE)
    assert fails(augbench(*command), str(tmp_path / "stick" / "made-up.bin"), "web page", md5(CONTENT))
    (tmp_path / "stick" / "made-up.bin").write_bytes(CONTENT)
    assert augbench(*command)[0] == 0
    assert len(prepared(tmp_path / "data")) == 1


def test_an_interruption_is_said_in_one_line(
    plugin: Path, root: Path, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    command = ("--plugin", plugin, "data", "prepare", "made-up")
    with monkeypatch.context() as patch:
        patch.setattr(PreparedSource, "_make", interrupted)
        assert augbench(*command) == (130, "", "Stopped. The same command continues from here.\n")
    assert prepared(root) == []
    assert augbench(*command)[0] == 0


def test_a_file_in_the_place_of_a_folder_is_to_be_moved(plugin: Path, root: Path, augbench: CommandLine) -> None:
    (root / "prepared").write_text("mine")
    outcome = augbench("--plugin", plugin, "data", "prepare", "made-up")
    assert fails(outcome, "Move away the file that is in the place of a folder", str(root / "prepared"))
    assert (root / "prepared").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["prepare"], ["--suite", "augbench list datasets"]),
        (["prepare", "mnits"], ["no data set 'mnits'", "Did you mean 'mnist'?", "cifar10"]),
        (["verify", "mnits"], ["no data set 'mnits'", "Did you mean 'mnist'?"]),
        (["prepare", "planted"], ["made from another one", "augbench data prepare"]),
        (["prepare", "--suite", "dmeo"], ["no suite 'dmeo'", "Did you mean 'demo'?"]),
        (["prepare", "mnist", "--from", "nowhere"], ["--from nowhere is not a folder"]),
        (["prepare", "mnist", "--data", "/proc/cpuinfo"], ["--data /proc/cpuinfo is a file"]),
        (["prepare", "mnist", "--data", "/proc/nowhere"], ["/proc/nowhere", "--data"]),
        (["verify", "mnist5k"], ["Nothing is prepared for mnist5k"]),
        (["verify", "mnist", "cifar10"], ["mnist and cifar10 are not prepared", "augbench data prepare mnist cifar10"]),
        (["verify"], ["No known data set is prepared in", "augbench data prepare NAME"]),
    ],
)
def test_mistakes(
    arguments: list[str], words: list[str], augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUGBENCH_DATA", str(tmp_path / "data"))
    assert fails(augbench("data", *arguments), *words)
    assert not list(tmp_path.iterdir()), "something was written"


def test_what_comes_with_a_package_needs_nothing(augbench: CommandLine, tmp_path: Path) -> None:
    for arguments in (["mnist5k", "rotmnist5k"], ["--suite", "demo"]):
        code, _, errors = augbench("data", "prepare", *arguments, "--data", tmp_path)
        assert (code, errors.count("comes with a package")) == (0, 2)
    assert not list(tmp_path.iterdir())


def test_one_paragraph_names_all_that_a_suite_lacks(augbench: CommandLine, tmp_path: Path) -> None:
    suite = tmp_path / "suite.toml"
    suite.write_text(SUITE.format(first="mnist", second="cifar10"))
    outcome = augbench("run", suite, "--out", tmp_path / "out", "--data", tmp_path / "data")
    command = f"`augbench data prepare mnist cifar10 --data {tmp_path / 'data'}`"
    words = ["train-images-idx3-ubyte.gz (md5 f68b3c2dcbeaaa9fbdd348bbdeb94873)", "cifar-10-python.tar.gz (md5 "]
    assert fails(outcome, command, "repeat this command", *words)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "data").exists()


# Processes


class Gate:
    """Keeps processes waiting that prepare the data set, once they have its file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    def wait(self, process: "subprocess.Popen[str]") -> int:
        """Wait until a process stands before it; returns what has to be closed to let it go on."""
        for _ in range(3000):
            try:
                return os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # nobody reads yet
                pass
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
            pytest.fail(f"it ended too early: {process.communicate()}")
        pytest.fail("nobody came within five minutes")


@pytest.fixture
def gate(plugin: Path) -> Iterator[Gate]:
    """Close a gate before the images are made."""
    gate = Gate(plugin.parent / "gate")
    yield gate
    gate.path.unlink(missing_ok=True)


def start(plugin: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "augbench.bench.commands", "--plugin", str(plugin), "data", "prepare", "made-up"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_killed_preparation_leaves_nothing_that_looks_finished(
    plugin: Path, root: Path, gate: Gate, augbench: CommandLine
) -> None:
    with start(plugin) as process:
        opened = gate.wait(process)
        process.kill()
        process.wait(300)
        os.close(opened)
    assert prepared(root) == []
    assert len(list((root / "prepared").glob(".made-up.*.tmp"))) == 1
    gate.path.unlink()
    assert fails(augbench("--plugin", plugin, "data", "verify"), "No known data set is prepared")
    assert augbench("--plugin", plugin, "data", "prepare", "made-up")[0] == 0
    assert augbench("--plugin", plugin, "data", "verify")[0] == 0
    assert not list((root / "prepared").glob(".*.tmp"))


@pytest.mark.slow
def test_a_second_process_waits_and_finds_it_done(plugin: Path, root: Path, gate: Gate) -> None:
    with start(plugin) as first:
        opened = gate.wait(first)
        with start(plugin) as second:
            assert second.stderr is not None
            said = second.stderr.readline()
            gate.path.unlink()
            os.close(opened)
            outcomes = first.communicate(timeout=PATIENCE), second.communicate(timeout=PATIENCE)
    assert "Another process prepares made-up at the moment; waiting for it." in said
    assert (first.returncode, second.returncode) == (0, 0), outcomes
    assert (plugin.parent / "read.log").read_text() == "read "
    assert len(prepared(root)) == 1


# The real files


@pytest.mark.slow
def test_real_data_sets(prepared_root: Path, augbench: CommandLine) -> None:
    code, text, _ = augbench("data", "verify", "--data", prepared_root, "--json")
    assert code == 0
    found = {one["name"]: one for one in json.loads(text)}
    assert set(found) == {"mnist", "rotmnist", "cifar10"}
    assert [round(value, 4) for value in found["cifar10"]["mean"]] == [0.4914, 0.4822, 0.4465]
    assert (found["cifar10"]["train"], found["cifar10"]["test"]) == (50_000, 10_000)


def test_the_data_set_of_the_page_is_prepared(augbench: CommandLine, tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "data-sets.md"
    (code,) = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (old,) = re.findall(r'MD5 = "(\w+)"', code)
    images = np.random.RandomState(0).randint(0, 256, (12, 1, 16, 16)).astype(np.uint8)
    labels = np.arange(12) % 2
    np.savez(tmp_path / "stripes.npz", train=images, train_labels=labels, test=images[:4], test_labels=labels[:4])
    (tmp_path / "stripes.py").write_text(code.replace(old, md5((tmp_path / "stripes.npz").read_bytes())), "utf-8")
    command = ("--plugin", tmp_path / "stripes.py", "data")
    status, _, errors = augbench(*command, "prepare", "stripes", "--data", tmp_path, "--offline")
    assert status == 0, errors
    status, text, _ = augbench(*command, "verify", "--data", tmp_path, "--json")
    (found,) = json.loads(text)
    assert (status, found["train"], found["test"], found["shape"]) == (0, 12, 4, [1, 16, 16])


def test_the_page_names_every_data_set(augbench: CommandLine) -> None:
    page = (Path(__file__).parents[2] / "docs" / "data-sets.md").read_text("utf-8")
    names = [card["name"] for card in json.loads(augbench("list", "datasets", "--json")[1])]
    assert len(names) >= 11
    assert all(f"`{name}`" in page for name in names)
