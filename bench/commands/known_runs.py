"""`--have`: runs that were computed elsewhere count as done."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from augbench.bench.commands.executing import find_stages
from augbench.bench.commands.plain import tell_notes
from augbench.bench.common.errors import UserError
from augbench.bench.experiment.suite import Suite
from augbench.bench.planning.plan import PlannedRun, runs_in_words
from augbench.bench.runs.output_folder import mark_output_folder
from augbench.bench.runs.run_folder import RunState
from augbench.bench.training.provenance import code_state
from augbench.bench.tuning.stages import Stages

if TYPE_CHECKING:  # pandas takes a second to import, which a command without --have need not wait for
    from augbench.results.records.restoring import KnownRuns


def take_over(suite: Suite, out: Path, sources: Sequence[Path]) -> None:
    """Put the finished runs of a suite that some files hold into an output folder, where they are missing.

    Args:
        suite: What is to be run; final runs of a tuned one follow from its trials.
        out: The output folder.
        sources: The files.

    Raises:
        UserError: If a file cannot be read, or none holds a run of the suite.
    """
    known = _known_runs(sources)
    taken: set[str] = set()
    mark_output_folder(out)
    stages = find_stages(suite, out)
    while missing := _missing(stages, known):
        for run in missing:
            known.restore(run.spec.identity, run.folder)
        taken |= {run.spec.identity for run in missing}
        stages = find_stages(suite, out)
    _tell(known, _of_the_suite(stages, known), f"{runs_in_words(len(taken))} taken over into {out}")


def count_known(stages: Stages, sources: Sequence[Path]) -> Stages:
    """Return the stages as if the runs that some files hold were done, and say how many these are.

    Raises:
        UserError: As for `take_over`.
    """
    known = _known_runs(sources)
    missing = {run.spec.identity for run in _missing(stages, known)}
    more = "; runs that wait for values which they give are not counted" if stages.waiting else ""
    taken = f"{runs_in_words(len(missing))} would be taken over by `augbench run` with the same --have{more}"
    _tell(known, _of_the_suite(stages, known), taken)

    def as_known(runs: Sequence[PlannedRun]) -> tuple[PlannedRun, ...]:
        return tuple(_done(run, known) if run.spec.identity in missing else run for run in runs)

    searches = tuple(replace(one, runs=as_known(one.runs)) for one in stages.searches)
    return replace(stages, searches=searches, final=as_known(stages.final))


def _known_runs(sources: Sequence[Path]) -> "KnownRuns":
    from augbench.results.records.restoring import KnownRuns

    return KnownRuns(sources)


def _missing(stages: Stages, known: "KnownRuns") -> list[PlannedRun]:
    """Return the planned runs that nobody has begun here and that are known to be done."""
    runs = stages.plan.runs
    return [run for run in runs if run.state is RunState.PLANNED and run.spec.identity in known.records]


def _of_the_suite(stages: Stages, known: "KnownRuns") -> set[str]:
    return {run.spec.identity for run in stages.plan.runs} & set(known.records)


def _done(run: PlannedRun, known: "KnownRuns") -> PlannedRun:
    result = known.records[run.spec.identity].result
    if result is None:
        return run
    return replace(run, state=RunState.DONE, seconds=result.seconds, accuracy=result.metrics[0]["accuracy"].mean)


def _tell(known: "KnownRuns", planned: set[str], taken: str) -> None:
    """Say what was found.

    Raises:
        UserError: If none of the runs is of the suite.
    """
    from augbench.results.records.contents import Code
    from augbench.results.records.restoring import of_other_code

    if not planned:
        raise UserError(
            f"None of the {len(known.records)} finished runs in {known.named} is one of this suite as it is now: "
            "method, version, hyperparameters, data, network, budget, protocol and seed must be the same. `augbench "
            "tables` with --from in place of --have shows what is in there. Leave out --have to compute all runs."
        )
    other = of_other_code(known.codes(planned), Code.model_validate(code_state()).label)
    notes = [f"{known.named}: {runs_in_words(len(planned))} of this suite; {taken}.", *known.contradictions]
    tell_notes(
        [*notes, *[f"made with other code, though with the same versions of methods and data: {other}"] * bool(other)]
    )
