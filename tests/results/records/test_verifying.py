"""`augbench verify`: what is good, what can be repaired, what is lost."""

import json
from collections.abc import Callable, Iterator
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
def run(finished: Callable[..., RunFolder]) -> Iterator[RunFolder]:
    """Execute a run."""
    yield finished("none")


def flip(path: Path, place: float) -> None:
    """Flip a bit somewhere in a file."""
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 0x10
    path.write_bytes(content)


def verdict(augbench: CommandLine, *sources: Path) -> tuple[int, Any]:
    code, text, _ = augbench("verify", *sources, "--json")
    return code, json.loads(text)


def test_sound_runs_are_good_wherever_they_are(run: RunFolder, augbench: CommandLine, tmp_path: Path) -> None:
    out = run.path.parent.parent
    for name in ("a.tar.gz", "a.parquet"):
        pack([out], tmp_path / name)
    code, found = verdict(augbench, out, tmp_path / "a.tar.gz", tmp_path / "a.parquet")
    assert (code, found["counts"]) == (0, {"good": 3})


@pytest.mark.parametrize(
    ("damage", "soundness", "words"),
    [
        (lambda run: flip(run.model, 0.5), "repairable", "model.pt"),
        (lambda run: run.examples.write_bytes(b"x"), "repairable", "examples.npz"),
        (lambda run: (run.path / "environment.json").write_text("garbage"), "repairable", "environment.json"),
        (lambda run: flip(run.predictions, 0.3), "lost", "predictions.npz"),
        (lambda run: run.metrics.write_text("{}"), "lost", "metrics.jsonl"),
        (lambda run: (run.path / "result.json").write_text("{}"), "lost", "result"),
        (lambda run: (run.path / "spec.json").write_text("{}"), "lost", "spec"),
    ],
)
def test_damage_is_repairable_or_lost(
    damage: Callable[[RunFolder], object], soundness: str, words: str, run: RunFolder, augbench: CommandLine
) -> None:
    damage(run)
    code, found = verdict(augbench, run.path.parent.parent)
    assert (code, found["counts"]) == (1, {soundness: 1})
    (one,) = found["runs"]
    assert words in one["problem"] and one["way_on"]
    code, text, _ = augbench("verify", run.path.parent.parent)
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


def test_a_file_that_is_cut_short_is_lost_as_a_whole(run: RunFolder, augbench: CommandLine, tmp_path: Path) -> None:
    for name in ("a.tar.gz", "a.parquet"):
        pack([run.path.parent.parent], tmp_path / name)
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-30])
        code, found = verdict(augbench, tmp_path / name)
        assert (code, found["counts"]) == (1, {"lost": 1})


def test_what_holds_no_runs_is_a_mistake(augbench: CommandLine, tmp_path: Path) -> None:
    assert augbench("verify", tmp_path / "nothing")[0] == 2
    assert augbench("verify", tmp_path)[0] == 2
