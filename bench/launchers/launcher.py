"""The contract of launchers: they place runs and do nothing else; the state of a run is in its folder."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from augbench.bench.planning.plan import PlannedRun
from augbench.bench.planning.profile import Profile
from augbench.bench.registry.plugins import plugin_files
from augbench.bench.registry.registry import Catalogue, build_catalogue
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder


@dataclass(frozen=True)
class LaunchRequest:
    """What a launcher is asked to do.

    Attributes:
        out: Output folder of the runs.
        settings: Device, threads and data of each run.
        profile: Resources and settings of the launcher.
        fail_fast: Whether the first run that fails stops the others.
        allow_changed_code: Whether a run that waits may be executed with other code than that of now.
        from_scratch: Whether what is saved of unfinished runs is forgotten.
    """

    out: Path
    settings: ExecutionSettings
    profile: Profile
    fail_fast: bool = False
    allow_changed_code: bool = False
    from_scratch: bool = False


@dataclass(frozen=True)
class Activity:
    """What a launcher is doing at the moment.

    Attributes:
        running: Runs that are being executed.
        ended: Runs that have ended, in whatever state, in order.
        notes: Sentences for whoever waits; each is to be shown once.
    """

    running: tuple[RunFolder, ...]
    ended: tuple[RunFolder, ...]
    notes: tuple[str, ...] = ()


class EndedAtOnce(KeyboardInterrupt):
    """Runs were ended before they could save what they did last.

    Args:
        runs: Their folders.
    """

    def __init__(self, runs: Sequence[RunFolder]) -> None:
        super().__init__()
        self.runs = tuple(runs)


class Launcher(ABC):
    """A way of placing runs.

    Attributes:
        name: The registered name; set by the decorator.
        title: One line for lists.
        waits: Whether `launch` returns only when all runs have ended.
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""
    waits: ClassVar[bool] = True

    def check(self, runs: Sequence[PlannedRun], request: LaunchRequest) -> None:  # noqa: B027 - by default there is nothing
        """Find mistakes before anything is placed.

        Raises:
            UserError: If there is one.
        """

    def describe(self, runs: Sequence[PlannedRun], request: LaunchRequest) -> list[str]:
        """Say in a few lines which runs would be placed where."""
        return [f"{len(runs)} to do, placed by {self.name}."]

    @abstractmethod
    def launch(self, runs: Sequence[PlannedRun], request: LaunchRequest, poll: Callable[[Activity], None]) -> None:
        """Place every run, each to be executed by one process at a time.

        Args:
            runs: What to run; runs that are done by then are passed over.
            request: Where and how.
            poll: Called a few times a second while runs go on.

        Raises:
            KeyboardInterrupt: After every run of a launcher that waits has been stopped with its state saved.
            EndedAtOnce: If a second Ctrl-C ended runs before they were saved.
            UserError: If nothing can be placed.
        """

    def follow_up(self, command: Sequence[str], runs: Sequence[RunFolder], request: LaunchRequest) -> str:
        """Have a command given when runs that were placed have ended, whatever became of them.

        Args:
            command: Its words after `augbench`.
            runs: The runs.
            request: Where and how they were placed.

        Returns:
            A sentence on what follows; empty where the launcher waits, so that nothing is left to follow.
        """
        return ""


def launchers() -> Catalogue[Launcher]:
    """Catalogue of the launchers."""
    return _launchers(plugin_files())


@cache
def _launchers(plugins: tuple[Path, ...]) -> Catalogue[Launcher]:
    return build_catalogue("launcher", Launcher, "augbench.bench.launchers", "augbench.launchers", plugins)  # type: ignore[type-abstract]
