"""Names of runs in tables and figures, and their order."""

from collections.abc import Callable, Sequence

from augbench.bench.augmentation.transform_distribution import PlantedDistribution
from augbench.bench.experiment.labels import RunLabels, label_runs, method_rank
from augbench.bench.experiment.spec import RunSpec
from augbench.results.records.record import Record


def labels_of(records: Sequence[Record], change: Callable[[RunSpec], RunSpec] = lambda spec: spec) -> list[RunLabels]:
    """Name runs by their changed specifications; those that differ in nothing but their seed have the same names."""
    specs = {record.configuration.text: change(record.configuration.spec) for record in records}
    tuned = {record.configuration.text: record.tuning.values for record in records if record.tuning is not None}
    labels = label_runs(list(specs.values()), [tuned.get(text) for text in specs])
    by_text = dict(zip(specs, labels, strict=True))
    return [by_text[record.configuration.text] for record in records]


def without_law(spec: RunSpec) -> RunSpec:
    """Take the planted distribution out of the data set's options, to name and group runs across distributions."""
    dataset, law = spec.dataset, PlantedDistribution.model_fields
    kept = {
        "settings": {name: value for name, value in dataset.settings.items() if name not in law},
        "defaults": {name: value for name, value in dataset.defaults.items() if name not in law},
    }
    return spec.model_copy(update={"dataset": dataset.model_copy(update=kept)})


def run_order(spec: RunSpec, labels: RunLabels) -> tuple[str, int, str, int]:
    """Sort runs by this in all tables and figures."""
    return labels.comparison, method_rank(spec.method.name), labels.label, spec.seed
