"""`augbench verify`: what is good, what can be repaired, what is lost."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from augbench.bench.common.files import write_torch
from augbench.bench.runs.run_folder import RunFolder
from augbench.bench.training.worker import execute
from augbench.results.model.packing import pack
from augbench.results.records import record

CommandLine = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def real_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare results with predictions as outside of tests."""
    monkeypatch.setattr(record, "AGREEMENT", 1e-6)


@pytest.fixture
def run(finished: Callable[..., RunFolder]) -> RunFolder:
    """Execute a run."""
    return finished("none")


def flip(path: Path, place: float) -> None:
    """Flip a bit somewhere in a file."""
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 0x10
    path.write_bytes(content)


def verdict(augbench: CommandLine, *sources: Path) -> tuple[int, Any]:
    code, text, _ = augbench("verify", *sources, "--json")
    return code, json.loads(text)


def test_sound_runs_are_good_wherever_they_are_and_files_that_are_cut_short_lost(
    run: RunFolder, augbench: CommandLine, tmp_path: Path
) -> None:
    out, files = run.path.parent.parent, [tmp_path / name for name in ("a.tar.gz", "a.parquet")]
    for file in files:
        pack([out], file)
    code, found = verdict(augbench, out, *files)
    assert (code, found["counts"]) == (0, {"good": 3})
    for file in files:
        file.write_bytes(file.read_bytes()[:-30])
        code, found = verdict(augbench, file)
        assert (code, found["counts"]) == (1, {"lost": 1})


DAMAGE: tuple[tuple[str, Callable[[RunFolder], object], str], ...] = (
    ("repairable", lambda run: flip(run.model, 0.5), "model.pt"),
    ("repairable", lambda run: run.examples.write_bytes(b"x"), "examples.npz"),
    ("repairable", lambda run: (run.path / "environment.json").write_text("garbage"), "environment.json"),
    ("lost", lambda run: flip(run.predictions, 0.3), "predictions.npz"),
    ("lost", lambda run: run.metrics.write_text("{}"), "metrics.jsonl"),
    ("lost", lambda run: (run.path / "result.json").write_text("{}"), "result"),
    ("lost", lambda run: (run.path / "spec.json").write_text("{}"), "spec"),
)


def test_damage_is_repairable_or_lost(run: RunFolder, augbench: CommandLine, tmp_path: Path) -> None:
    for number, (soundness, damage, words) in enumerate(DAMAGE):
        out = tmp_path / str(number)
        damage(RunFolder(shutil.copytree(run.path, out / "runs" / run.path.name)))
        code, found = verdict(augbench, out)
        assert (code, found["counts"]) == (1, {soundness: 1}), words
        (one,) = found["runs"]
        assert words in one["problem"] and one["way_on"]
    code, text, _ = augbench("verify", out)
    assert code == 1 and f"1 run: 1 {soundness}." in text


def test_a_damaged_checkpoint_is_lost(
    make_spec: Any, make_folder: Any, settings: Any, stop_after: Any, few_digits: None, augbench: CommandLine
) -> None:
    folder = make_folder(make_spec())
    execute(folder, settings, stop_after(2))
    out = folder.path.parent.parent
    assert verdict(augbench, out)[0] == 0
    write_torch(folder.checkpoint, {"identity": "x"})
    flip(folder.checkpoint, 0.3)
    code, found = verdict(augbench, out)
    assert (code, found["counts"]) == (1, {"lost": 1})


def test_what_holds_no_runs_is_a_mistake(augbench: CommandLine, tmp_path: Path) -> None:
    assert augbench("verify", tmp_path / "nothing")[0] == 2
    assert augbench("verify", tmp_path)[0] == 2
