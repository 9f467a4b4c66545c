"""A training step of SCALE, as a multiple of a plain step on equally many images.

`python -m benchmarks.step_cost` measures every method and takes its step apart.
"""

from functools import partial

import torch

from augbench.bench.experiment.protocol import Budget
from benchmarks.made_up import made_up_data, new_run
from benchmarks.rows import Entry, Goal, Row, Settings, compare

SECTION = "step"
GOAL = Goal(1.10)
PLAIN = "none"
# network, size, batch: on a CPU and on a GPU
ON_CPU = (("tiny", 14, 128), ("tiny", 28, 128), ("smallnet", 14, 32))
ON_GPU = (("tiny", 14, 128), ("tiny", 28, 128), ("smallnet", 28, 128))
QUICK = (("tiny", 14, 8),)


def measure(settings: Settings) -> list[Row]:
    """Compare steps of `scale` with steps of `none` that has as many copies of each image."""
    cases = QUICK if settings.quick else ON_GPU if settings.device.type == "cuda" else ON_CPU
    rows = []
    for done, (network, size, batch) in enumerate(cases):
        data = made_up_data(batch, 1, size)
        budget = Budget(epochs=100, batch_size=batch)
        scale = new_run("scale", network, data, settings.device, budget)
        copies = scale.method.copies
        budget = budget.model_copy(update={"baseline_copies": copies})
        plain = new_run(PLAIN, network, data, settings.device, budget)
        case = f"{network}, {size}×{size}, {copies} copies of {batch}"
        settings.progress(done, len(cases), case)
        indices = torch.arange(batch, device=settings.device)
        entries = {
            PLAIN: Entry(partial(plain.train_step, indices)),
            "scale": Entry(partial(scale.train_step, indices), PLAIN, GOAL),
        }
        rows += compare(SECTION, case, entries, settings, images=copies * batch)
    return rows
