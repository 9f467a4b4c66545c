"""Runs that fail, are refused or cannot go on: recorded with the reason, and nothing saved is lost."""

import errno
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from run_here import Here

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import read_torch, write_torch
from augbench.bench.contract.method import Method, learned_numbers
from augbench.bench.data.dataset import ImageData
from augbench.bench.data.prepared import NotPreparedError
from augbench.bench.experiment.spec import Component
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.claim import BusyError
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training import execution, worker
from augbench.bench.training.trainer import Trainer
from augbench.datasets.mnist import Mnist
from augbench.methods.none import NoAugmentation

pytestmark = pytest.mark.usefixtures("few_digits")


def test_an_exception_is_recorded_with_its_traceback(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Method[Any], epoch: int) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Method, "start_epoch", fail)
    folder = here.folder()
    status = here.failure(folder)
    assert status["reason"] == "ZeroDivisionError: planted"
    assert "in fail" in status["traceback"]
    assert "planted" in folder.log.read_text()


def test_a_loss_that_is_not_finite_is_a_failure_with_its_epoch(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    loss = Method.loss

    def diverge(self: Method[Any], logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return loss(self, logits, labels) * self.__dict__.setdefault("factor", 1.0)

    def start_epoch(self: Method[Any], epoch: int) -> None:
        self.__dict__["factor"] = float("nan") if epoch == 2 else 1.0

    monkeypatch.setattr(execution, "SHARE_OF_SAVING", 0.0)  # the epochs before are kept, whenever was saved last
    monkeypatch.setattr(Method, "loss", diverge)
    monkeypatch.setattr(Method, "start_epoch", start_epoch)
    folder = here.folder(epochs=3)
    status = here.failure(folder)
    assert status["exception"] == "DivergedError"
    assert "epoch 3 of 3" in status["reason"]
    assert [row["epoch"] for row in folder.read_metrics()] == [1, 2]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_regulariser_that_is_no_number_is_a_failure(
    value: float, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Method, "regulariser", lambda self: torch.tensor(value))  # has no gradient to show in weights
    assert here.failure(here.folder())["exception"] == "DivergedError"


def test_weights_that_are_not_finite_after_the_last_step_are_a_failure(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Trainer._close_epoch

    def spoil(self: Trainer, epoch: int) -> None:
        close(self, epoch)
        with torch.no_grad():
            next(self.network.parameters()).fill_(float("nan"))

    monkeypatch.setattr(Trainer, "_close_epoch", spoil)
    assert here.failure(here.folder())["exception"] == "DivergedError"


def test_a_damaged_checkpoint_is_a_failure_that_says_so(here: Here) -> None:
    folder = here.folder()
    write_torch(folder.checkpoint, {"identity": "x", "weights": torch.ones(9)})
    for content in (b"", b"no checkpoint", folder.checkpoint.read_bytes()[:-100]):
        folder.checkpoint.write_bytes(content)
        reason = here.failure(folder)["reason"]
        assert "damaged" in reason and "--retry-failed" in reason
        folder.write_status(RunState.KILLED)


def test_a_checkpoint_that_does_not_fit_is_refused_and_a_sound_one_goes_on(here: Here) -> None:
    folder = here.stopped(2)
    sound = read_torch(folder.checkpoint)
    lacking = {key: value for key, value in sound.items() if key != "device_type"}
    for checkpoint, state, words in (
        (lacking, RunState.FAILED, ["cannot resume from its checkpoint", "KeyError: 'device_type'", "--retry-failed"]),
        (sound | {"identity": "another"}, RunState.FAILED, ["another run"]),
        (sound | {"device_type": "cuda"}, RunState.KILLED, ["started on cuda and cannot resume on cpu"]),
    ):
        write_torch(folder.checkpoint, checkpoint)
        assert here.run(folder) is state
        assert not [word for word in words if word not in folder.read_status()["reason"]]
        folder.write_status(RunState.KILLED)
    write_torch(folder.checkpoint, sound)
    assert here.run(folder) is RunState.DONE


@pytest.mark.parametrize("name", ["checkpoint.pt", "model.pt"])
def test_no_bit_of_stored_weights_can_change_unnoticed(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    state = {"identity": "x", "network": {"weight": torch.arange(300.0)}, "rows": [{"loss": 0.5}]}
    write_torch(path, state)
    sound, seen = path.read_bytes(), 0
    for place in range(0, len(sound), 7):
        damaged = bytearray(sound)
        damaged[place] ^= 0x40
        path.write_bytes(damaged)
        try:
            read = read_torch(path)
        except ValueError:
            seen += 1
        else:
            assert torch.equal(read["network"]["weight"], state["network"]["weight"])
            assert (read["identity"], read["rows"]) == ("x", [{"loss": 0.5}])
    assert seen > len(sound) / 7 / 3


def test_a_checkpoint_survives_damage_of_what_lies_beside_it(
    here: Here, outcome: Callable[[RunFolder], dict[str, Any]]
) -> None:
    whole, parts = here.folder(), here.stopped(3)
    here.run(whole)
    for name in ("environment.json", "status.json", "metrics.jsonl", "log.txt"):
        (parts.path / name).write_bytes(b"garbage\xff")
    assert here.run(parts) is RunState.DONE
    assert "attempt 2 goes on from step 2" in parts.log.read_text(errors="replace")
    assert (parts.path / "environment-damaged.json").read_bytes() == b"garbage\xff"
    assert outcome(parts) == outcome(whole)


def test_a_state_that_cannot_be_read_again_fails_at_once(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Method, "state_dict", lambda self: {"best": np.float64(0.25)})
    assert "`state_dict` of the method 'none'" in here.failure(here.folder())["reason"]


@pytest.mark.parametrize("number", [np.float32(0.5), np.array([0.5]), torch.tensor(0.5), 0.5])
def test_learned_numbers_may_be_of_any_library(number: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    method = object.__new__(Method)
    monkeypatch.setattr(Method, "learned", lambda self: {"strength": number})
    (learned,) = learned_numbers(method).values()
    assert (learned, type(learned)) == (0.5, float)


def test_what_is_learned_and_is_no_number_is_named(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in ([0.5], torch.ones(2), None, "0.5", 1j):
        with pytest.raises(UserError, match=f"for 'strength', a {type(number).__name__}"):
            learned_numbers(object.__new__(NoAugmentation), {"strength": number})
    monkeypatch.setattr(Method, "learned", lambda self: {"strength": None})
    assert here.failure(here.folder())["reason"].startswith("`learned` of the method 'none' says None for 'strength'")


def test_a_device_that_is_not_there_is_the_fault_of_the_machine(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "NoDevFiles")
    folder = here.folder()
    assert here.run(folder, device="cuda:99") is RunState.KILLED
    status = folder.read_status()
    assert status["cause"] == Cause.UNFIT_MACHINE
    assert status["reason"].startswith(f"On {socket.gethostname()}: There is no device 'cuda:99' here (CUDA_VISIBLE")
    assert here.run(folder) is RunState.DONE


def test_a_run_that_another_launcher_saw_fail_is_left_alone(here: Here) -> None:
    folder = here.folder()
    folder.write_status(RunState.FAILED, reason="planted")
    assert here.failure(folder)["reason"] == "planted"
    with folder.claim(), pytest.raises(BusyError):
        folder.set_failure_aside()
    folder.set_failure_aside()
    assert here.run(folder) is RunState.DONE
    folder.set_failure_aside()
    assert folder.state() is RunState.DONE, "a run that is done has nothing to forget"


def test_a_full_disk_leaves_a_run_that_can_go_on(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = here.folder(epochs=2)
    replace, calls = Path.replace, 0

    def full(self: Path, target: Path) -> Path:
        nonlocal calls
        calls += target.name == "checkpoint.pt"
        if calls == 2:
            calls += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    assert here.run(folder) is RunState.KILLED
    assert "No space left on device" in folder.read_status()["reason"]
    assert here.run(folder) is RunState.DONE
    assert "goes on from step 7" in folder.log.read_text()


def test_a_run_goes_on_when_its_data_are_there_again(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(component: Component, root: Path) -> ImageData:
        raise NotPreparedError([Mnist()], root)

    folder = here.stopped(3)
    with monkeypatch.context() as patch:
        patch.setattr(worker, "load_dataset", gone)
        assert here.run(folder) is RunState.KILLED
    assert "augbench data prepare mnist" in folder.read_status()["reason"]
    assert here.run(folder) is RunState.DONE
    assert "attempt 3 goes on from step " in folder.log.read_text()
