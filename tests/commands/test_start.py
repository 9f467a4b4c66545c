"""Ctrl-C while the program is starting."""

import signal
import subprocess
import sys

import pytest


@pytest.mark.parametrize("seconds", [0.8, 1.1])
def test_ctrl_c_while_libraries_are_imported_ends_quietly(seconds: float) -> None:
    command = [sys.executable, "-m", "augbench.bench.commands", "list", "methods"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode in (130, 0)
    assert errors == ""
