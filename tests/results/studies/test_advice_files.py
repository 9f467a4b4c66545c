"""The advice from run folders made by hand: the text, the picture, and what is left unsaid."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from augbench.bench.planning.short_comparison import ShortComparison
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.frame import load_runs
from augbench.results.studies.advice_files import Commands, write_advice

WriteRun = Callable[..., RunFolder]

COMPARISON = ShortComparison(prepared="pets-0123456789ab", minutes=10.0, network="tiny", epochs=2, seeds=5)
COMMANDS = Commands("augbench run MORE", "augbench recommend PETS")
IMAGES = 200
TURNING = {"probability/rotation": 0.9, "range/rotation": 3.0, "probability/flip": 0.01}


def export(label: str, path: Path) -> None:
    """Write something in place of a policy."""
    path.write_text(label)


def write_runs(write_run: WriteRun, out: Path, method: str, accuracies: Sequence[float], **others: object) -> None:
    """Write a run for each accuracy, with predictions that have it."""
    for seed, accuracy in enumerate(accuracies):
        right = np.arange(IMAGES)[:, None] < accuracy * IMAGES
        probabilities = np.where(right, [0.9, 0.1], [0.1, 0.9])
        given = {"probabilities": probabilities.tolist(), "labels": [0] * IMAGES, "accuracy": accuracy}
        write_run(out, method, seed=seed, **(given | others))


def test_the_text_says_what_to_use_and_what_was_found(write_run_below: WriteRun, tmp_path: Path) -> None:
    write_runs(write_run_below, tmp_path, "none", [0.70, 0.71, 0.70, 0.72, 0.71])
    write_runs(write_run_below, tmp_path, "scale", [0.90, 0.92, 0.90, 0.91, 0.93], learned=[TURNING])
    advice, text = write_advice(tmp_path, load_runs(tmp_path), COMPARISON, COMMANDS, export)
    assert advice.recommended == "scale"
    assert text == (tmp_path / "recommendation.md").read_text("utf-8")
    assert (
        "2 learners trained `tiny` with 5 seeds each: 2 passes of 4,000 training images, tested on 200 images." in text
    )
    assert "In all 5 runs, `scale` learned turning by any angle." in text
    assert "In all 5 runs, it left out, or hardly used, mirroring left to right." in text
    assert "`augbench run MORE`, then `augbench recommend PETS`" in text
    assert (tmp_path / "recommendation.png").stat().st_size > 5000
    assert (tmp_path / "policy.py").read_text() == "scale"
    assert "- `policy.py`: what `scale` draws, with its lowest seed, as a transform of torchvision." in text


def test_what_a_learner_found_is_not_told_where_it_did_worse_than_nothing(
    write_run_below: WriteRun, tmp_path: Path
) -> None:
    (tmp_path / "policy.py").write_text("of earlier advice")
    write_runs(write_run_below, tmp_path, "none", [0.90, 0.92, 0.90, 0.91, 0.93])
    write_runs(write_run_below, tmp_path, "scale", [0.70, 0.71, 0.70, 0.72, 0.71], learned=[TURNING])
    _, text = write_advice(tmp_path, load_runs(tmp_path), COMPARISON, COMMANDS, export)
    assert "`scale` did worse than no augmentation here, so what it learned says little about the images." in text
    assert "turning" not in text
    assert not (tmp_path / "policy.py").exists()


def test_a_learner_that_failed_is_left_out_with_its_reason(write_run_below: WriteRun, tmp_path: Path) -> None:
    write_runs(write_run_below, tmp_path, "none", [0.70, 0.71, 0.70, 0.72, 0.71])
    write_runs(write_run_below, tmp_path, "fixed", [0.90, 0.92, 0.90, 0.91, 0.93])
    status = {"reason": "its loss is not finite."}
    write_runs(write_run_below, tmp_path, "scale", [0.5] * 5, state=RunState.FAILED, status=status)
    advice, text = write_advice(tmp_path, load_runs(tmp_path), COMPARISON, COMMANDS, export)
    assert advice.recommended == "fixed"
    assert "Left out, since some of their runs have no result: `scale` (0 seeds). `scale` failed: its loss" in text


def test_seeds_that_were_added_count_where_every_learner_has_them(write_run_below: WriteRun, tmp_path: Path) -> None:
    write_runs(write_run_below, tmp_path, "none", [0.70, 0.71, 0.70, 0.72, 0.71, 0.70, 0.71])
    write_runs(write_run_below, tmp_path, "scale", [0.90, 0.92, 0.90, 0.91, 0.93, 0.9], learned=[TURNING])
    advice, _ = write_advice(tmp_path, load_runs(tmp_path), COMPARISON, COMMANDS, export)
    assert (advice.seeds, advice.left_out) == (6, {})
