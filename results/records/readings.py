"""Runs that are the same under every reading of a budget: those of learners with one copy of each image."""

from collections.abc import Sequence
from dataclasses import replace

from augbench.bench.experiment.labels import comparison_key, same_run_key
from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.spec import RunSpec, canonical_json
from augbench.results.records.record import Configuration, Record

Reading = tuple[str, bool]
"""How copies count: `equal` and `copies_in_batch` of a budget."""


def counted_in_others(records: Sequence[Record]) -> list[Record]:
    """Find runs that count in comparisons which differ from their own in how copies count, and in nothing else.

    A learner with one copy of each image trains alike, bit for bit, whatever is equal for all and whatever a batch
    counts. So where others have runs under several readings of a budget, such a learner needs them under one. Runs that
    it has under another reading as well stand for themselves.

    Returns:
        The finished runs as runs of the other comparisons, each with a name of its own.
    """
    places = {record.configuration.text: comparison_key(record.spec, any_reading=True) for record in records}
    readings: dict[str, dict[Reading, None]] = {}
    for record in records:
        readings.setdefault(places[record.configuration.text], {})[_reading(record.spec.budget)] = None
    known = {record.same for record in records}
    found = []
    for record in records:
        several = readings[places[record.configuration.text]]
        if len(several) > 1 and _has_one_copy(record):
            for other in (_read_as(record, reading) for reading in several):
                if other.same not in known:
                    known.add(other.same)
                    found.append(other)
    return found


def _reading(budget: Budget) -> Reading:
    return budget.equal, budget.copies_in_batch


def _with(spec: RunSpec, reading: Reading) -> RunSpec:
    equal, copies_in_batch = reading
    budget = spec.budget.model_copy(update={"equal": equal, "copies_in_batch": copies_in_batch})
    return spec.model_copy(update={"budget": budget})


def _has_one_copy(record: Record) -> bool:
    """Whether a run is done and has trained on each image once an epoch; members of predictors count as copies, too."""
    result, spec = record.result, record.spec
    if result is None or spec.predictor is not None:
        return False
    return result.image_passes.get("training") == spec.budget.epochs * result.train_images


def _read_as(record: Record, reading: Reading) -> Record:
    spec, like = _with(record.spec, reading), _with(record.configuration.spec, reading)
    text = canonical_json(like.model_dump(mode="json", exclude={"seed"}))
    equal, copies_in_batch = reading
    name = f"{record.name} (equal {equal}{', copies in the batch' if copies_in_batch else ''})"
    configuration = Configuration(like, text, same_run_key(like.with_seed(0)))
    return replace(record, configuration=configuration, spec=spec, stored=replace(record.stored, name=name))
