"""What is said about the bases of the runs of a plan."""

from collections import Counter
from collections.abc import Sequence

from augbench.bench.common.wording import counted
from augbench.bench.experiment.base import base_in_words
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import RunSpec


def about_bases(specs: Sequence[RunSpec]) -> list[str]:
    """Say how many runs have which base, and which methods have steps of it already; nothing where none has one."""
    bases = Counter(base_in_words(spec.budget.base) for spec in specs if spec.budget.base)
    sentences = [
        f"Base of {counted(count, 'run')} of {len(specs)}: {words}, on training images, under every method alike."
        for words, count in bases.items()
    ]
    twice = {
        spec.method.name: steps
        for spec in specs
        if (steps := [step.name for step in spec.budget.base if step.name in methods().get(spec.method.name).own_base])
    }
    return sentences + [
        f"{method} has {' and '.join(steps)} of its own, too; both are applied." for method, steps in twice.items()
    ]
