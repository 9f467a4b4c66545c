"""The sections: what is measured side by side, each by a function from settings to rows."""

from collections.abc import Callable
from importlib import import_module

from benchmarks.rows import Row, Settings

# Name and title; the module of that name has the function `measure`.
SECTIONS = {
    "augmentation": "Augmented images: the shared space, bare grid_sample and four libraries",
    "step": "A step of SCALE beside a plain step on equally many images",
    "epoch": "A whole epoch beside the bare network's forward and backward passes",
    "overhead": "What a run, a suite and the command line cost beside training and evaluation",
    "plain_steps": "Cost in plain steps with one thread and with two",
    "networks": "Accuracy against seconds: networks that train in few passes beside the others",
    "memory": "Memory at the peak of training",
    "own_images": "Preparing photographs of one's own beside what Pillow alone needs",
    "seeds": "Several seeds of one configuration: one after the other, or stacked",
}


def section(name: str) -> Callable[[Settings], list[Row]]:
    """Return the function that measures a section; its module is imported only now."""
    found: Callable[[Settings], list[Row]] = import_module(f"benchmarks.{name}").measure
    return found
