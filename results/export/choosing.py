"""Which run to export: the one that was named, or the one that fits a method, a data set and a seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from augbench.bench.common.errors import UserError, one_of, to_paste
from augbench.bench.common.wording import counted, few_names
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.output_folder import is_run_folder
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.run_names import run_named
from augbench.results.model.frame import Runs, load_runs
from augbench.results.records.record import Record, RecordReader
from augbench.results.records.stored import read_stored

MOST_NAMED = 6
GIVEN = "the run was named"


@dataclass(frozen=True)
class Wanted:
    """What a run to export has; None for whatever there is.

    Attributes:
        method: Name of its method.
        dataset: Name of its data set.
        network: Name of its network.
        seed: Its seed; the lowest one by default.
    """

    method: str | None = None
    dataset: str | None = None
    network: str | None = None
    seed: int | None = None

    def fits(self, spec: RunSpec) -> bool:
        """Whether a run has all of it."""
        found = (spec.method.name, spec.dataset.name, spec.network.name, spec.seed)
        wanted = (self.method, self.dataset, self.network, self.seed)
        return all(one is None or one == other for one, other in zip(wanted, found, strict=True))

    def __bool__(self) -> bool:
        return self != Wanted()

    def options(self) -> list[str]:
        """The options that say so."""
        return [f"--{name} {value}" for name, value in vars(self).items() if value is not None]


@dataclass(frozen=True)
class Chosen:
    """A run to export.

    Attributes:
        record: The run.
        runs: All runs beside it, for evidence; None where it lies alone.
        why: Why this seed, in words.
    """

    record: Record
    runs: Runs | None
    why: str


def choose(run: str | None, sources: Sequence[Path], wanted: Wanted) -> Chosen:
    """Find the run to export.

    Args:
        run: Folder of a run or, with sources, its name.
        sources: Output folders and files with runs.
        wanted: What it has, where it is not named.

    Raises:
        DamagedError: If the run is damaged.
        UserError: If there is no such run, or there are several of different configurations.
    """
    if run is not None and wanted:
        raise UserError(f"{run} names one run, so {', '.join(wanted.options())} has nothing to choose. Omit it.")
    if run is not None and not sources:
        return _in_folder(Path(run))
    if not sources:
        raise UserError(
            "Nothing says which run to export. Give the folder of one, OUT/runs/NAME; or --from OUT with --method NAME."
        )
    runs = load_runs(sources, skip_damaged=True, as_stored=True)
    if run is not None:
        name = run_named(run, [record.name for record in runs.records])
        return Chosen(next(record for record in runs.records if record.name == name), runs, GIVEN)
    return lowest_seed(runs, wanted)


def _in_folder(path: Path) -> Chosen:
    if not is_run_folder(path):
        raise UserError(
            f"{path} is no run folder. Give that of one run, OUT/runs/NAME, with OUT as in --out OUT; "
            "or choose from an output folder or a file of `augbench archive`: --from OUT --method NAME."
        )
    path = path.resolve()
    record = RecordReader().read(read_stored(RunFolder(path)))
    if record.spec.protocol.evaluated_on != "test":
        raise UserError(
            f"The run in {path} is a trial of a tuning, trained without the validation images. Export "
            "a run of the comparison: of the suite with [tuning], or of the one that `augbench tune` has written."
        )
    runs = load_runs(path.parent.parent, skip_damaged=True, as_stored=True) if path.parent.name == "runs" else None
    return Chosen(record, runs, GIVEN)


def lowest_seed(runs: Runs, wanted: Wanted) -> Chosen:
    """Choose among the finished runs of one configuration; never by what they reach on test images.

    Raises:
        UserError: If none fits or is finished, or they are of several configurations.
    """
    given = " and ".join(map(str, runs.sources))
    fitting = [record for record in runs.records if wanted.fits(record.spec)]
    if not fitting:
        raise _none_fits(runs, wanted, given)
    done = [record for record in fitting if record.state is RunState.DONE]
    if not done:
        states = ", ".join(sorted({str(record.state) for record in fitting}))
        folder = next((source for source in runs.sources if source.is_dir()), "OUT")
        raise UserError(
            f"None of the {counted(len(fitting), 'run')} in {given} that fit is finished ({states}). Go on with "
            f"`{to_paste('run', 'SUITE', '--out', folder)}`, then repeat this command."
        )
    kinds: dict[str, list[Record]] = {}
    for record in done:
        kinds.setdefault(record.configuration.same, []).append(record)
    if len(kinds) > 1:
        raise _several(runs, list(kinds.values()), given)
    first, *others = sorted(done, key=lambda record: record.spec.seed)
    if wanted.seed is not None:
        return Chosen(first, runs, "the seed was asked for")
    return Chosen(first, runs, f"the lowest of {len(others) + 1} seeds" if others else "the only one")


def _none_fits(runs: Runs, wanted: Wanted, given: str) -> UserError:
    """Say which part of what is wanted does not occur."""
    found = {
        "method": {record.spec.method.name for record in runs.records},
        "dataset": {record.spec.dataset.name for record in runs.records},
        "network": {record.spec.network.name for record in runs.records},
    }
    for name, present in found.items():
        value = getattr(wanted, name)
        if value is not None and value not in present:
            return UserError(f"--{name}: {one_of(f'{name} in {given}', value, present)}")
    without_seed = Wanted(wanted.method, wanted.dataset, wanted.network)
    seeds = sorted({record.spec.seed for record in runs.records if without_seed.fits(record.spec)})
    if wanted.seed is not None and seeds:
        return UserError(f"There is no run with --seed {wanted.seed} in {given}. Seeds: {', '.join(map(str, seeds))}.")
    return UserError(f"No run in {given} has all of {', '.join(wanted.options())}. Omit one of them.")


def _several(runs: Runs, kinds: list[list[Record]], given: str) -> UserError:
    """Name what differs, and one run of each kind."""
    rows = runs.runs.set_index("folder")
    firsts = [rows.loc[kind[0].name] for kind in kinds]
    names = [f"{row['label']} on {row['comparison']} ({row.name})" for row in firsts]
    differing = [
        f"--{name}"
        for name in ("method", "dataset", "network")
        if len({getattr(kind[0].spec, name).name for kind in kinds}) > 1
    ]
    way = f"Choose with {', '.join(differing)}; or name" if differing else "Name"
    return UserError(
        f"{given} holds {len(kinds)} kinds of runs that fit: {few_names(names, MOST_NAMED)}. {way} the run: "
        f"`{to_paste('export', 'RUN', '--from', runs.sources[0])} …`."
    )
