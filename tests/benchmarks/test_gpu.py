"""The prepared script for a machine with a GPU: what it carries along, and that all of it runs, on a CPU."""

import json
import math
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from augbench.bench.augmentation import fused_resampling
from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import ImageData, Split
from benchmarks import gpu, gpu_pack, gpu_run
from benchmarks.gpu_pack import pack, read_digits, read_photographs
from benchmarks.gpu_parts import Outcome, Part, State, Work
from benchmarks.made_up import made_up_images

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def small_data(monkeypatch: pytest.MonkeyPatch) -> dict[str, ImageData]:
    """Stand in for the prepared data sets, with few images, and for pip."""
    found = {}
    for name, channels, size, count in (("rotmnist", 1, 28, 40), ("cifar10", 3, 32, 200)):
        images = made_up_images(count, channels, size)
        split = Split(images, torch.arange(count) % 10)
        found[name] = ImageData(split, split.subset(torch.arange(count // 2)), 10, "made up")
    monkeypatch.setattr(gpu_pack, "_load", lambda name, root: found[name])
    monkeypatch.setattr(gpu_pack, "CIFAR_IMAGES", (100, 50))
    monkeypatch.setattr(gpu_pack, "_download_wheels", lambda folder: (folder / "new.whl").write_bytes(b"PK"))
    return found


@pytest.fixture
def unpacked(tmp_path: Path, small_data: dict[str, ImageData]) -> Path:
    """Pack the small data and unpack them."""
    pack(tmp_path / "carried", tmp_path)
    (tmp_path / "carried" / "new.whl").unlink()  # which is none
    gpu.unpack(tmp_path / "carried", tmp_path / "unpacked")
    return tmp_path / "unpacked"


def test_images_are_read_as_they_were_packed(unpacked: Path, small_data: dict[str, ImageData]) -> None:
    digits, photographs = read_digits(unpacked), read_photographs(unpacked)
    assert digits.train.images.equal(small_data["rotmnist"].train.images)
    assert digits.test.labels.equal(digits.train.labels)
    assert (len(photographs.train), len(photographs.test)) == (100, 50)
    assert photographs.train.labels.bincount().tolist() == [10] * 10
    all_images = {image.numpy().tobytes() for image in small_data["cifar10"].train.images}
    assert {image.numpy().tobytes() for image in photographs.train.images} <= all_images
    assert len(read_photographs(unpacked, 7).train) == len(read_digits(unpacked, 7).test) == 7


def test_old_wheels_are_taken_out_and_too_much_is_refused(
    tmp_path: Path, small_data: dict[str, ImageData], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old.whl").touch()
    size = pack(tmp_path, tmp_path)
    names = ["cifar10.npz", "new.whl", "rotmnist.npz"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert size == sum((tmp_path / name).stat().st_size for name in names)
    monkeypatch.setattr(gpu_pack, "LARGEST", size - 1)
    with pytest.raises(UserError, match=f"has {size} bytes, more than the {size - 1} that can be carried"):
        pack(tmp_path, tmp_path)


def test_wheels_are_found_before_other_packages(tmp_path: Path) -> None:
    carried = tmp_path / "carried"
    carried.mkdir()
    with zipfile.ZipFile(carried / "pydantic-0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("pydantic/__init__.py", "raise SystemExit(7)")
    (carried / "notes.txt").touch()
    gpu.unpack(carried, tmp_path / "there")
    assert gpu.start("pydantic", [], tmp_path / "there" / "packages") == 7


def test_numbers_that_are_not_finite_are_written_as_words(tmp_path: Path) -> None:
    found = {"errors": {"values": math.nan, "sizes": [math.inf, 1.0]}}

    def part(work: Work) -> None:
        for name, value in found.items():
            work.add(name, value)

    gpu_run.measure(Work(torch.device("cpu"), tmp_path), [Part("kernel", 5, part)], 60, tmp_path / "out.json")
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["parts"]["kernel"]["found"] == {"errors": {"values": "NaN", "sizes": ["Infinity", 1.0]}}
    assert content["about"]["device"] == "cpu"


def test_the_summary_names_goals_and_failures() -> None:
    goal = {"value": 0.512345, "bound": 0.6, "at_least": True, "met": False}
    found = {"goal: share": goal, "rate": 3.0, "compiled": {"failed": "OutOfMemoryError: no room"}}
    outcomes = {
        "kernel": Outcome(State.DONE, allowed=50, seconds=12.34, found=found),
        "next": Outcome(State.FAILED, "Traceback\n  line 1\nRuntimeError: broken\n", 20, 1),
    }
    assert list(gpu_run.summary(outcomes)) == [
        "kernel: done, 12.3 s of 50 s",
        "    share: 0.5123 (≥ 0.6: NOT MET)",
        "    compiled: OutOfMemoryError: no room",
        "next: failed, 1.0 s of 20 s RuntimeError: broken",
    ]


def test_the_plain_path_is_measured_where_the_kernel_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_resampling, "usable", lambda device: True)
    fused = "fused, float32 against float64, a case"
    told = "resampling"
    earlier: list[tuple[dict[str, Any], bool]] = [
        ({}, True),  # before the kernel's turn, or without it
        ({"kernel": {fused: {"failed": "RuntimeError"}, "plain, a case": {"forward": [1.0]}}}, False),
        ({"kernel": {}}, False),  # it was killed before anything was found
        ({"kernel": {fused: {"values": 0.0}, "fused, a case": {"failed": "RuntimeError"}}}, True),
    ]
    for before, used in earlier:
        found: dict[str, Any] = {}
        work = Work(torch.device("cuda"), tmp_path, earlier=before, add=found.__setitem__)
        usable: list[bool] = []
        gpu_run.with_a_kernel_that_works(
            lambda each, seen=usable: seen.append(fused_resampling.usable(each.device)), work
        )
        assert usable == [used]
        assert (told in found) is not used


@pytest.mark.parametrize(("folder", "out"), [("nowhere", "out.json"), ("carried", "nowhere/out.json")])
def test_folders_that_are_not_there_are_named_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: str, out: str
) -> None:
    (tmp_path / "carried").mkdir()
    monkeypatch.setattr("sys.argv", ["gpu", "run", str(tmp_path / folder), "--out", str(tmp_path / out)])
    with pytest.raises(SystemExit, match="2"):
        gpu.parse()
    assert "nowhere" in capsys.readouterr().err


def test_all_parts_fit_the_time_and_need_different_names() -> None:
    parts = gpu_run.parts()
    assert sum(part.seconds for part in parts) <= gpu.SECONDS <= 8 * 60
    assert len({part.name for part in parts}) == len(parts)


@pytest.mark.slow
def test_nothing_looks_for_a_gpu_before_the_first_fork() -> None:
    program = (
        "import os, sys, torch; from benchmarks import gpu_run; gpu_run.parts()\n"
        "if not os.fork(): os._exit(torch.cuda._is_in_bad_fork())\n"
        "first = os.waitstatus_to_exitcode(os.wait()[1]); torch._C._cuda_getDeviceCount()\n"
        "if not os.fork(): os._exit(torch.cuda._is_in_bad_fork())\n"
        "sys.exit(10 * first + os.waitstatus_to_exitcode(os.wait()[1]))"
    )
    # a fork after the first look at the GPUs of the machine cannot use any, one before that can
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 1


@pytest.mark.slow
def test_everything_runs_on_a_cpu(tmp_path: Path, small_data: dict[str, ImageData]) -> None:
    pack(tmp_path / "carried", tmp_path)
    (tmp_path / "carried" / "new.whl").unlink()
    names = [part.name for part in gpu_run.parts() if part.name != "section memory"]  # which starts many processes
    command = [sys.executable, "-m", "benchmarks.gpu", "run", str(tmp_path / "carried"), "--out", str(tmp_path / "out")]
    command += ["--device", "cpu", "--quick", "--parts", *names]
    ended = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    parts = json.loads((tmp_path / "out").read_text())["parts"]
    assert list(parts) == names
    skipped = {name: part["reason"] for name, part in parts.items() if part["state"] != "done"}
    assert skipped == {"waiting": "It needs a GPU.", "launches": "It needs a GPU."}, ended.stdout
    failed = [line for line in ended.stdout.splitlines() if "Error:" in line]
    assert not failed
    assert set(parts["cifar10"]["found"]) >= {"none, evaluated", "scale, evaluated"}
    for name in ("none, not compiled", "scale, not compiled"):
        assert parts["leaderboard"]["found"][name]["seconds to train on all images"] > 0
    assert np.isfinite(parts["rotmnist"]["found"]["scale, bfloat16"]["seconds of a run"])
    assert "rotmnist: done" in ended.stdout
