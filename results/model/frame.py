"""From run folders to data frames: one row for each run, and tidy frames of everything measured in them."""

import gc
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.runs.run_folder import RunState
from augbench.bench.training.examples import Examples, read_examples
from augbench.results.model.corruptions import COLUMNS as CORRUPTION_COLUMNS
from augbench.results.model.corruptions import recorded_scores
from augbench.results.model.naming import labels_of, run_order, without_law
from augbench.results.model.outside import COLUMNS as OUTSIDE_COLUMNS
from augbench.results.model.overlap import COLUMNS as OVERLAP_COLUMNS
from augbench.results.records import rows
from augbench.results.records.anonymous import Anonymiser
from augbench.results.records.cache import OutcomesCache
from augbench.results.records.collecting import Collected, collect
from augbench.results.records.outcomes import Kept, Outcomes
from augbench.results.records.problems import Problem, blurred_probes, in_other_comparisons, warnings
from augbench.results.records.readings import counted_in_others
from augbench.results.records.record import Record
from augbench.results.records.rows import KEYS

__all__ = ["KEYS", "Runs", "load_runs"]

SECONDS_WORTH_KEEPING = 1.0
METRICS = ("accuracy", "nll", "brier", "ece", "ece_equal_mass")

T = TypeVar("T")


@dataclass(frozen=True)
class Runs:
    """All runs of some sources. Every frame has the columns `KEYS` and keeps the order of `runs`.

    Attributes:
        sources: What was read.
        runs: A row for each run, ordered by comparison, method and seed. Beside `KEYS`: `identity`; `state`, and of
            runs without a result `cause` and `reason` in words, else empty; `asked`, the number of different seeds
            among all runs of the same comparison, finished or not: the N of "n/N"; `source`, where it was read;
            `method` names the predictor too where it is not `single`, as in `scale × mc-dropout`, and `predictor` is
            its name with the settings that differ from their defaults; `method_version`; `settings` (of the method,
            those that differ from their defaults, as text); `dataset`, `dataset_label`, `dataset_version` and
            `checksum` of its source files; `split`, what is evaluated; `network`, `network_version`, `budget` and its
            `epochs` and `baseline_copies`, `protocol`, `protocol_version`; `device`, and `on_gpu`, whether that is a
            GPU, None if unknown; `host`; `code`, `commit` and `dirty`, whether files differed from it; `train_images`,
            `test_images`; `seconds_<phase>` (NaN for a run that changed its device) and `image_passes_<phase>` for each
            of `PHASES`; `plain_steps` of search and training together, over all devices, and of the last attempt the
            median `plain_step_seconds` that one took and its `plain_step_spread`, the distance of the quartiles as a
            fraction of that (NaN where earlier versions took part); and the decisions of the protocol that tables and
            figures quote: `calibration_bins`, `test_time_repeats`, `maximum_rotation` (radians), `maximum_log_scale`,
            `maximum_shear`. For planted data: `law`, the name of the distribution; `recovery_error` over all
            coordinates and `recovery_error_planted` over those that it changes; `law_comparison` and `law_label`,
            `comparison` and `label` as if no distribution told the data sets apart. For tuned hyperparameters:
            `tuning_trials`, `tuning_search`, `tuning_device` and `tuning_seconds` of all trials together, the same for
            each seed (NaN for several devices), and `tuning_values`, those chosen, as text. Results of unfinished runs
            are NaN or None.
        scores: Finished runs × `draws` × `metric`: `value`, the mean over repeats, and `sd_repeats`.
        learned: Finished runs × `quantity`: `value` at the end of training and at its `start`, NaN if unknown.
        probe: Finished runs × `degrees`: `accuracy` in [0, 1] on turned test images, unless small ones were turned.
        recovery: Finished runs on planted data × `coordinate`: `distance` of what was learned from what was planted,
            and `planted`, whether the distribution changes the coordinate.
        corruptions: Finished runs with scores on corrupted test images × `corruption` × `severity`: those of probes
            that were read, too, else those of `shift`; see `COLUMNS` in `corruptions.py`.
        outside: Finished runs with a probe × `against` × `score`; see `COLUMNS` in `outside.py`.
        overlap: Finished runs with a probe × `corruption` × `severity`; see `COLUMNS` in `overlap.py`.
        problems: What was left out, and why.
        records: What the rows of `runs` are made from.
        trial_records: Trials of a tuning, which are in no frame.
        caches: By source, what became of the test images of its runs.
        probes: Folders of `augbench probe` that were read, too.
        counted_in_others: How many rows are runs of another comparison that count in theirs, too.
    """

    sources: tuple[Path, ...]
    runs: pd.DataFrame
    scores: pd.DataFrame
    learned: pd.DataFrame
    probe: pd.DataFrame
    recovery: pd.DataFrame
    problems: tuple[Problem, ...] = ()
    records: tuple[Record, ...] = field(default=(), repr=False)
    trial_records: tuple[Record, ...] = field(default=(), repr=False)
    caches: Mapping[str, OutcomesCache] = field(default_factory=dict, repr=False)
    corruptions: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(CORRUPTION_COLUMNS)))
    outside: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(OUTSIDE_COLUMNS)))
    overlap: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(OVERLAP_COLUMNS)))
    probes: tuple[Path, ...] = ()
    counted_in_others: int = 0

    @cached_property
    def trajectories(self) -> pd.DataFrame:
        """Runs × `epoch` (from 1) × `quantity`: `value`; of running runs, the epochs saved so far.

        Quantities are `loss`, `accuracy` in [0, 1] and the learned numbers `probability/<block>` and `range/<block>`.

        Raises:
            DamagedError: If what was recorded of an epoch cannot be read.
        """
        return rows.tidy(self.runs, self._chosen_records(), rows.trajectory, ("epoch", "quantity", "value"))

    @cached_property
    def reliability(self) -> pd.DataFrame:
        """Finished runs × `draws` × `bin` (from 0): `count`, mean `confidence` and `accuracy`, NaN in empty bins.

        The repeats of test-time draws are pooled: their images are counted as if they were different ones.

        Raises:
            DamagedError: If predictions are damaged.
        """
        columns = ("draws", "bin", "count", "confidence", "accuracy")
        records = self._chosen_records()
        outcomes = dict(zip((record.name for record in records), self.outcomes(records), strict=True))
        for cache in self.caches.values():
            cache.save()
        return rows.tidy(self.runs, records, lambda record: rows.reliability(outcomes[record.name]), columns)

    @cached_property
    def shift(self) -> pd.DataFrame:
        """Finished runs with `shift` in their protocol × `corruption` × `severity`: scores on corrupted test images.

        Columns are `corruptions`, the name of the set; `images`, "recomputed" or "original"; `corruption` ("clean" with
        severity 0 for the images themselves) and `severity`, from 1 to 5; `extra`, whether it counts in no mean;
        `accuracy` in [0, 1], `nll` in nats and `ece`.
        """
        return rows.tidy(self.runs, self._chosen_records(), rows.shift, rows.SHIFT_COLUMNS)

    @cached_property
    def environments(self) -> pd.DataFrame:
        """Runs × attempts: when, where and with what each was made, as far as is known.

        Columns are `attempt` (from 1), `host`, `device`, `device_uuid` (of a GPU), `platform`, `python`, `augbench`,
        `commit`, `dirty`, `command`, `torch`, `torchvision`, `numpy`, all `packages` and `plugins` as text, `threads`,
        `cores` and `workers`.
        """
        return rows.tidy(self.runs, self._chosen_records(), rows.environments, rows.ENVIRONMENT_COLUMNS)

    @property
    def states(self) -> dict[str, int]:
        """Number of runs in each state that occurs."""
        return dict(sorted(Counter(str(state) for state in self.runs["state"]).items()))

    @property
    def damaged(self) -> tuple[str, ...]:
        """What is wrong with run folders that were left out."""
        return tuple(problem.text for problem in self.problems if problem.kind == "damaged")

    @property
    def trials(self) -> int:
        """Number of runs that are left out as trials of a tuning, which are evaluated on validation images."""
        return sum(problem.kind == "trial of a tuning" for problem in self.problems)

    def warnings(self) -> list[str]:
        """Report what is unfinished, left out, or of several versions, a sentence each."""
        blurred = sum(record.has_blurred_probe for record in self._chosen_records())
        shared = in_other_comparisons(self.counted_in_others)
        return [*warnings(self.runs, self.problems), *blurred_probes(blurred), *shared]

    def finished(self) -> pd.DataFrame:
        """Rows of `runs` that are done.

        Raises:
            UserError: If none is, with the states of the runs and the command that continues them.
        """
        done = self.runs[self.runs["state"] == RunState.DONE.value]
        if len(done):
            return done
        states = [f"{count} {state}" for state, count in self.states.items()]
        damaged = len(self.damaged)
        states += [f"{damaged} damaged"] if damaged else []
        given = " and ".join(map(str, self.sources))
        folder = next((source for source in self.sources if source.is_dir()), "OUT")
        raise UserError(
            f"None of the {len(self.runs) + damaged} runs in {given} is finished: {', '.join(states)}. Continue with "
            f"`{to_paste('run', 'SUITE', '--out', folder)}`, or make a small comparison with `augbench demo`."
        )

    def correct(self, comparison: str, label: str, draws: int) -> pd.DataFrame:
        """Which test images were classified right.

        Args:
            comparison: Comparison of the runs.
            label: Their label.
            draws: Number of test-time draws, 0 for none.

        Returns:
            A row for each finished run, indexed by its `seed`, rising, and a column for each test image, from 0: the
            fraction of repeats of test-time draws that classified it right, 0 or 1 without draws. Empty if there are
            no predictions with so many draws.

        Raises:
            DamagedError: If predictions are damaged.
            UserError: If the runs were evaluated on different numbers of images.
        """
        chosen = (self.runs["comparison"] == comparison) & (self.runs["label"] == label)
        records = [record for record, of_them in zip(self._chosen_records(), chosen, strict=True) if of_them]
        seeds = (record.spec.seed for record in records)
        drawn = {seed: of_run.get(draws) for seed, of_run in zip(seeds, self.outcomes(records), strict=True)}
        right = {seed: found.right.mean(axis=0) for seed, found in sorted(drawn.items()) if found is not None}
        images = sorted({len(values) for values in right.values()})
        if len(images) > 1:
            raise UserError(
                f"Runs of {label} on {comparison} were evaluated on {' and '.join(map(str, images))} test images, so "
                "they cannot be compared image by image. Leave out the runs of one version of the code."
            )
        values = np.array(list(right.values()), dtype=float).reshape(len(right), images[0] if images else 0)
        return pd.DataFrame(values, index=pd.Index(list(right), dtype="int64", name="seed"))

    def examples(self, folder: str) -> Examples | None:
        """Training images as they are and as a run augmented them in the end.

        Args:
            folder: The run, as in the column `folder`.

        Returns:
            The images; None where the run kept none or was read from a file that has none.

        Raises:
            DamagedError: If they are damaged.
        """
        record = self._by_name[folder]
        return read_examples(record.stored.folder) if record.stored.folder is not None else None

    def kept(self, folder: str) -> Kept | None:
        """Class probabilities of the test images without test-time draws, and their labels.

        Args:
            folder: The run, as in the column `folder`.

        Returns:
            None where the run is not done, or was read from a parquet file, which has none.

        Raises:
            DamagedError: If they are damaged.
        """
        return self._by_name[folder].kept()

    def table(self) -> pd.DataFrame:
        """Make the one tidy table for a notebook: runs × `draws`.

        Returns:
            All columns of `runs`, `draws` (<NA> for a run without a result, which has one row), `accuracy` in [0, 1],
            `nll` in nats, `brier`, `ece`, `ece_equal_mass`, and for each of them `<metric>_sd_repeats`, the standard
            deviation over the repeats of test-time draws, NaN without any.
        """
        return self._table.copy()

    @cached_property
    def _table(self) -> pd.DataFrame:
        parts = [
            self.scores.pivot(index=["folder", "draws"], columns="metric", values=values)
            .reindex(columns=list(METRICS))
            .astype(float)
            .add_suffix(suffix)
            for values, suffix in (("value", ""), ("sd_repeats", "_sd_repeats"))
        ]
        wide = pd.concat(parts, axis=1).reset_index()
        return self.runs.merge(wide, on="folder", how="left").astype({"draws": "Int64"})

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Memoise what is made of these runs; a selection of them starts with an empty memory.

        Args:
            key: Equal for equal results.
            make: Makes the result from these runs.

        Returns:
            The result of the first call, which must not be modified.
        """
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found

    @cached_property
    def _known(self) -> dict[Hashable, Any]:
        return {}

    @cached_property
    def _by_name(self) -> dict[str, Record]:
        return {record.name: record for record in self.records}

    def _chosen_records(self) -> list[Record]:
        """Find the record of each row of `runs`, which may be a selection."""
        return [self._by_name[name] for name in self.runs["folder"]]

    def outcomes(self, records: Sequence[Record]) -> list[Outcomes]:
        """What became of each test image, for each run; empty for those that are not done.

        Raises:
            DamagedError: If predictions are damaged.
        """
        caches = [self.caches[record.stored.source] for record in records]
        found = [
            cache.of(record) if record.result is not None else {} for cache, record in zip(caches, records, strict=True)
        ]
        for cache in set(caches):
            cache.save(worth=SECONDS_WORTH_KEEPING)
        return found


def load_runs(
    sources: Path | str | Sequence[Path | str],
    *,
    skip_damaged: bool = False,
    cache: bool = True,
    anonymiser: Anonymiser | None = None,
    as_stored: bool = False,
) -> Runs:
    """Read every run of one or several sources.

    Args:
        sources: One or several output folders, as given to `augbench run` or `augbench demo` as --out; files ending
            in .tar.gz or .parquet that `augbench archive` wrote.
        skip_damaged: Leave damaged folders out and list them in `Runs.problems`.
        cache: Keep what takes long to read in the output folder, if it is writable.
        anonymiser: Takes out what says who executed the runs, where and from which folders.
        as_stored: Have each run once. By default, runs of learners with one copy of each image also count in
            comparisons that differ from theirs in how copies count alone (`equal` and `copies_in_batch` of a budget).

    Raises:
        DamagedError: If a folder is damaged or holds the same run as another one of the same source, unless
            `skip_damaged`.
        UserError: If a source does not exist or cannot be read, holds no runs, or there are only trials of a tuning.
    """
    given = [Path(source) for source in ([sources] if isinstance(sources, Path | str) else sources)]
    if not given:
        raise UserError("There is nothing to read runs from. Give an output folder, or a file with runs.")
    with _no_garbage():
        collected = collect(given, skip_damaged=skip_damaged, cache=cache, anonymiser=anonymiser)
        if collected.trials and not collected.records:
            raise UserError(
                f"{' and '.join(map(str, given))} holds only runs that are evaluated on validation images, as trials "
                "of a tuning are: there are no results on test images. `augbench tune` has written a suite to "
                "run; where the trials are those of a suite with [tuning], the same `augbench run` goes on. In a "
                "suite of your own, remove `evaluated_on`."
            )
        return _runs(given, collected, [] if as_stored else counted_in_others(collected.records))


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Pause the garbage collector, which takes a third of the time with ten thousand records."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _runs(sources: Sequence[Path], collected: Collected, shared: Sequence[Record]) -> Runs:
    """Make the frames."""
    counted = [*collected.records, *shared]
    named = sorted(zip(counted, labels_of(counted), strict=True), key=lambda pair: run_order(pair[0].spec, pair[1]))
    records = tuple(record for record, _ in named)
    is_planted = any(record.result is not None and record.result.planted is not None for record in records)
    bare = labels_of(records, without_law) if is_planted else [None] * len(records)
    made = [rows.run_row(*pair, law) for pair, law in zip(named, bare, strict=True)]
    runs = pd.DataFrame(made, columns=[*KEYS, *rows.RUN_COLUMNS])
    runs["asked"] = runs.groupby("comparison")["seed"].transform("nunique").astype(int)
    return Runs(
        sources=tuple(sources),
        runs=runs,
        scores=rows.tidy(runs, records, rows.scores, ("draws", "metric", "value", "sd_repeats")),
        learned=rows.tidy(runs, records, rows.learned, ("quantity", "value", "start")),
        probe=rows.tidy(runs, records, rows.probe, ("degrees", "accuracy")),
        recovery=rows.tidy(runs, records, rows.recovery, ("coordinate", "distance", "planted")),
        corruptions=recorded_scores(rows.tidy(runs, records, rows.shift, rows.SHIFT_COLUMNS), runs),
        trial_records=tuple(collected.trials),
        problems=tuple(collected.problems),
        records=records,
        caches=collected.caches,
        counted_in_others=len(shared),
    )
