"""Warnings about runs that are unfinished, left out, duplicated or of mixed versions."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from augbench.bench.common.wording import counted, few_names
from augbench.bench.runs.run_folder import RunState

ProblemKind = Literal["damaged", "duplicate", "contradiction", "foreign", "trial of a tuning"]

MOST_NAMED = 3  # of the folders that a sentence speaks of


@dataclass(frozen=True)
class Problem:
    """Something that is left out.

    Attributes:
        kind: `damaged`, a run folder that cannot be read; `duplicate`, a run that was read from somewhere else already;
            `contradiction`, the same with another result; `foreign`, a file that belongs to no run; `trial of a
            tuning`, a run that is evaluated on validation images.
        text: What is wrong, where, and what helps.
        folder: Name of the folder or file.
    """

    kind: ProblemKind
    text: str
    folder: str


def warnings(runs: pd.DataFrame, problems: Sequence[Problem]) -> list[str]:
    """Report what is mixed, unfinished or left out, a sentence each.

    Args:
        runs: `Runs.runs`.
        problems: What was left out.
    """
    finished = runs[runs["state"] == RunState.DONE.value]
    return [
        *_unfinished(runs),
        *left_out(problems),
        *_code(finished),
        *_versions(finished, "method", "method_version", "Versions of a method are separate rows"),
        *_versions(finished, "dataset", "dataset_version", "Versions of a data set are separate groups of rows"),
        *_checksums(finished),
        *_versions(finished, "network", "network_version", "Versions of a network are separate groups of rows"),
        *_protocols(finished),
        *_images(finished),
    ]


def _unfinished(runs: pd.DataFrame) -> Iterator[str]:
    without = runs[runs["state"] != RunState.DONE.value]
    if len(without):
        states = _counts(without["state"].tolist())
        have, are = ("has", "is") if len(without) == 1 else ("have", "are")
        yield f"{len(without):,} of {counted(len(runs), 'run')} {have} no result and {are} in no average: {states}."
    causes = without.loc[without["state"] == RunState.FAILED.value, "cause"]
    if len(causes):
        yield f"Why runs failed: {_counts([cause or 'unknown' for cause in causes])}."


_LEFT_OUT = {
    "damaged": ("damaged run folder", "is left out", "are left out"),
    "duplicate": ("run", "was found twice and counts once", "were found twice and count once"),
    "contradiction": (
        "run",
        "was found twice with different results, of which the first counts",
        "were found twice with different results, of which the first count",
    ),
    "foreign": ("file", "belongs to no run and is ignored", "belong to no run and are ignored"),
}


def left_out(problems: Sequence[Problem]) -> Iterator[str]:
    """Report what was left out, counted, a sentence each."""
    for kind, (noun, one, many) in _LEFT_OUT.items():
        names = [problem.folder for problem in problems if problem.kind == kind]
        if names:
            yield f"{counted(len(names), noun)} {one if len(names) == 1 else many}: {few_names(names, MOST_NAMED)}."
    trials = sum(problem.kind == "trial of a tuning" for problem in problems)
    if trials:
        verb, they = ("is", "it is") if trials == 1 else ("are", "they are")
        yield f"{counted(trials, 'trial')} of a tuning {verb} left out: {they} evaluated on validation images."


def blurred_probes(count: int) -> Iterator[str]:
    """Report rotation probes that are left out: they turned images that had been shrunk."""
    if count:
        yield (
            f"{counted(count, 'rotation probe')} of an earlier version {'is' if count == 1 else 'are'} left out: "
            "it turned shrunken images, which blurred them and lowered the accuracy. "
            "`augbench probe` measures run folders again."
        )


def in_other_comparisons(count: int) -> Iterator[str]:
    """Report runs that count in more comparisons than their own."""
    if count:
        yield (
            f"{counted(count, 'run')} of learners with one copy of each image {'counts' if count == 1 else 'count'} in "
            "another comparison, too, which differs from their own in how copies count alone: such runs are the same "
            "in both, bit for bit, and were computed once."
        )


def _code(finished: pd.DataFrame) -> Iterator[str]:
    versions = [str(commit)[:10] if pd.notna(commit) else "unknown" for commit in finished["commit"]]
    if len(set(versions)) > 1:
        yield f"The runs were made by {len(set(versions))} versions of the code: {_counts(versions)}."
    dirty = int((finished["dirty"] == True).sum())  # noqa: E712 - None is neither
    if dirty:
        verb = "was" if dirty == 1 else "were"
        yield f"{dirty:,} of {counted(len(finished), 'run')} {verb} made by code with uncommitted changes."


def _versions(finished: pd.DataFrame, name: str, version: str, what_then: str) -> Iterator[str]:
    pairs = finished[[name, version]].drop_duplicates()
    several = pairs[pairs[name].duplicated(keep=False)]
    parts = [f"{thing} ({', '.join(map(str, sorted(group[version])))})" for thing, group in several.groupby(name)]
    if parts:
        yield f"{what_then}: {', '.join(parts)}."


def _checksums(finished: pd.DataFrame) -> Iterator[str]:
    labels = finished["dataset_label"].drop_duplicates()
    differing = sorted(label for label in labels if "checksum=" in label)  # see `label_runs`
    if differing:
        yield f"Data sets of the same name were read from different files: {', '.join(differing)}."


def _protocols(finished: pd.DataFrame) -> Iterator[str]:
    versions = sorted({int(version) for version in finished["protocol_version"]})
    if len(versions) > 1:
        listed = ", ".join(map(str, versions))
        yield f"Runs under protocol versions {listed} cannot be compared and are separate groups of rows."


def _images(finished: pd.DataFrame) -> Iterator[str]:
    for column, kind in (("test_images", "test"), ("train_images", "training")):
        several = finished.groupby("comparison")[column].nunique()
        names = [str(name) for name in several.index[several > 1]]
        if names:
            yield f"Runs that are compared had different numbers of {kind} images: {', '.join(names)}."


def _counts(values: Sequence[str]) -> str:
    return ", ".join(f"{count:,} {value}" for value, count in sorted(Counter(values).items()))
