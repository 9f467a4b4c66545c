"""The examples run, with files that are exported here."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from described import learned_method

from augbench.results.export.files import policy_text

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(("name", "channels"), [("scale", 1), pytest.param("autoaugment", 3, marks=pytest.mark.slow)])
def test_training_with_an_exported_policy(name: str, channels: int, tmp_path: Path) -> None:
    policy = learned_method(name).describe_policy()
    assert policy is not None
    (tmp_path / "policy.py").write_text(policy_text(policy, "torchvision", {}))
    labels = np.arange(200) % 3
    images = np.random.default_rng(0).integers(0, 60, (200, channels, 16, 16), dtype=np.uint8)
    images[np.arange(200), :, 6:10, 6:10] += (60 * labels[:, None, None, None]).astype(np.uint8)
    np.savez(tmp_path / "data.npz", images=images, labels=labels)
    command = [sys.executable, EXAMPLES / "train_with_exported_policy.py", "policy.py", "--data", "data.npz"]
    done = subprocess.run([*command, "--epochs", "2"], cwd=tmp_path, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        *("epoch 1", "epoch 2", "test accuracy, plain", "test accuracy, 8 draws")
    ], done.stderr
    assert all(0 <= float(line.rpartition(" ")[2]) <= 1 for line in lines[2:])


def test_the_training_loop_is_short() -> None:
    assert len((EXAMPLES / "train_with_exported_policy.py").read_text().splitlines()) < 60
