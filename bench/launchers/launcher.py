"""What a launcher is: it places runs and does nothing else; their state is in their folders."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from augbench.bench.plugins import plugin_files
from augbench.bench.registry import Catalogue, build_catalogue
from augbench.bench.run_folder import RunFolder


@dataclass(frozen=True)
class Placement:
    """Where and how runs are to be executed.

    Attributes:
        device: A torch device, or `auto` for the first GPU where there is one.
        workers: Runs at the same time.
        threads: CPU threads of each run.
        data: Folder of downloaded data sets.
    """

    device: str
    workers: int
    threads: int
    data: Path


@dataclass(frozen=True)
class Activity:
    """What a launcher is doing at the moment.

    Attributes:
        running: Runs that are being executed.
        ended: Runs that have ended, in whatever state, in order.
    """

    running: tuple[RunFolder, ...]
    ended: tuple[RunFolder, ...]


class Launcher(ABC):
    """A way of placing runs.

    Attributes:
        name: The registered name; set by the decorator.
        title: One line for lists.
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""

    @abstractmethod
    def launch(self, runs: Sequence[RunFolder], placement: Placement, poll: Callable[[Activity], None]) -> None:
        """Have every run executed, each by one process at a time, and return when all have ended.

        Args:
            runs: Folders with a specification; runs that are done are passed over.
            placement: Where and how.
            poll: Called a few times a second while runs go on.

        Raises:
            KeyboardInterrupt: After every run has been stopped with its state saved.
        """


def launchers() -> Catalogue[Launcher]:
    """Catalogue of the launchers."""
    return _launchers(plugin_files())


@cache
def _launchers(plugins: tuple[Path, ...]) -> Catalogue[Launcher]:
    return build_catalogue("launcher", Launcher, "augbench.bench.launchers", "augbench.launchers", plugins)  # type: ignore[type-abstract]
