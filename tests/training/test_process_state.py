"""What a run changes in its process is put back for the next one, and what it prints stands in its log."""

import os
import random
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from short_runs import Runs
from torch.nn import functional as F

from augbench.bench.contract.method import Method
from augbench.bench.runs import run_log
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.run_log import log_to
from augbench.bench.training.process_state import put_back

CHANGES: dict[str, Callable[[], object]] = {
    "torch's default type": lambda: torch.set_default_dtype(torch.float64),
    "torch's default device": lambda: torch.set_default_device("meta"),
    "torch's gradient mode": lambda: torch.set_grad_enabled(False),
    "torch's search for anomalies": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
    "torch's deterministic mode": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "torch's precision": lambda: torch.set_float32_matmul_precision("medium"),
    "cuDNN's search": lambda: setattr(torch.backends.cudnn, "benchmark", not torch.backends.cudnn.benchmark),
    "cuDNN's choice": lambda: setattr(torch.backends.cudnn, "deterministic", not torch.backends.cudnn.deterministic),
    "torch's number of threads": lambda: torch.set_num_threads(3),
    "the random state of Python": lambda: random.seed(7),
    "the random state of NumPy": lambda: np.random.seed(7),
    "NumPy's treatment of errors": lambda: np.seterr(all="raise"),
    "the working folder": lambda: os.chdir("/"),
    "variables of the environment": lambda: os.environ.update(LEFT_BEHIND="1"),
    "the handlers of signals": lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
    "the file mode mask": lambda: os.umask(0o031),
    "functions of torch": lambda: setattr(torch, "relu", print),
    "functions of torch.nn.functional": lambda: setattr(F, "cross_entropy", None),
    "functions of torch.Tensor": lambda: setattr(torch.Tensor, "add", print),  # hides the one that is inherited
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_changed_is_put_back_and_named(name: str) -> None:
    told: list[str] = []
    with put_back(told.extend):
        CHANGES[name]()
    assert told == [name]
    told.clear()
    with put_back(told.extend):
        pass
    assert told == []


def test_libraries_may_change_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(torch, "relu", torch.relu)  # put back at the end of the test
    with put_back(told.extend):
        torch.relu = torch.sigmoid  # as torch does when it compiles for the first time
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = "there"
    assert told == []
    del os.environ["TORCHINDUCTOR_CACHE_DIR"]


def test_a_run_that_leaves_everything_changed_does_not_disturb_the_next(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, outcome: Callable[[RunFolder], object]
) -> None:
    undisturbed, leaving = runs.done(), runs.folder()

    def leave(self: Method[object]) -> dict[str, float]:
        for change in CHANGES.values():
            change()
        raise RuntimeError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(Method, "test_policy", leave)
        assert runs.execute(leaving) is RunState.FAILED
    assert f"put back for the next one in this process: {', '.join(CHANGES)}." in leaving.log.read_text()
    assert outcome(runs.done()) == outcome(undisturbed)


@pytest.mark.filterwarnings("default")
def test_what_is_printed_and_warned_of_stands_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_log, "MOST_PRINTED", 40)
    for name in ("first", "second"):
        with log_to(tmp_path / name):
            sys.stdout.write("half ")
            sys.stdout.write("a line\n")
            warnings.warn("careful", stacklevel=1)
            sys.stderr.write("without end")
        lines = (tmp_path / name).read_text().splitlines()
        assert "INFO half a line" in lines[0]
        assert "WARNING UserWarning: careful (" in lines[1]
        assert lines[2].endswith("INFO without end")
    with log_to(tmp_path / "much"):
        for number in range(100):
            sys.stdout.write(f"line {number:04}\n")
    lines = (tmp_path / "much").read_text().splitlines()
    assert len(lines) == 5
    assert "More than 40 characters were printed" in lines[-1]
    assert capsys.readouterr() == ("", "")
