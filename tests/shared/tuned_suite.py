"""Small suites with `[tuning]`, and trials that have ended: what several files of tests share."""

from collections.abc import Callable, Sequence
from pathlib import Path

from augbench.bench.experiment.suite import Suite, parse_suite
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.tuning.stages import Stages

EndRun = Callable[..., RunFolder]

SUITE = """
name = "small"
title = "Small"
seeds = [0, 1, 2]
[tuning]
trials = 3
[[comparisons]]
datasets = [{ name = "mnist5k", options = { size = 14 } }, { name = "rotmnist5k", options = { size = 14 } }]
methods = [{ name = "none" }, { name = "scale", hyperparameters = { copies = 2 } }, { name = "randaugment" }]
network = "tiny"
budget = { epochs = 3 }
"""
SHORT = """
name = "short"
title = "Short"
seeds = [0, 1]
[tuning]
trials = 2
[[comparisons]]
datasets = [{ name = "mnist5k", options = { size = 14 } }]
methods = [{ name = "none" }, { name = "scale" }, { name = "randaugment" }]
network = "tiny"
budget = { epochs = 1 }
"""


def suite_with(*changes: tuple[str, str]) -> Suite:
    text = SUITE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_suite(text, "a test")


def end_trials(stages: Stages, out: Path, end_run: EndRun, accuracies: Sequence[float | None], which: int = 0) -> None:
    """End the trials of one search; None is one that has failed."""
    search = stages.searches[which]
    for trial, accuracy in zip(search.trials, accuracies, strict=True):
        for spec in search.tuning.specs(trial.values):
            end_run(spec, out, accuracy or 0.0, RunState.FAILED if accuracy is None else RunState.DONE)
