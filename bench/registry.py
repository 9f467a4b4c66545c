"""Registration by name of methods, data sets, networks and launchers.

A file in the project's folders or an entry point of an installed package brings them in. The decorator only
marks a class and a catalogue is built by looking, so that importing a module has no effect on others.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Generic, TypeVar

from augbench.bench.errors import UserError, one_of

T = TypeVar("T")
C = TypeVar("C", bound=type)

# What importing a stranger's module may end in, apart from being asked to stop.
FOREIGN_ERRORS = (
    SystemExit,
    *(ImportError, SyntaxError, AttributeError, NameError, TypeError, ValueError, LookupError, OSError),
    *(RuntimeError, ArithmeticError, AssertionError),
)
NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9+-]*")


def register(name: str) -> Callable[[C], C]:
    """Mark a class so that catalogues list it under `name`.

    Args:
        name: Lower-case letters, digits, `+` and `-`; it becomes part of folder names and table rows.

    Raises:
        ValueError: If the name has other characters.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise ValueError(f"{name!r} is no name for a table row: use lower-case letters, digits, '+' and '-'.")

    def mark(target: C) -> C:
        target.name = name  # type: ignore[attr-defined]
        return target

    return mark


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered class and the module that it comes from."""

    name: str
    target: type[T]
    origin: str


@dataclass(frozen=True)
class Broken:
    """A module that could not be imported, and why."""

    origin: str
    reason: str

    def __str__(self) -> str:
        return f"{self.origin} could not be imported: {self.reason.rstrip('.')}."


class Catalogue(Generic[T]):
    """What is registered of one kind."""

    def __init__(self, kind: str, entries: dict[str, Entry[T]], broken: tuple[Broken, ...]) -> None:
        self.kind = kind
        self.entries = entries
        self.broken = broken

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(sorted(self.entries.values(), key=lambda entry: entry.name))

    def get(self, name: str) -> type[T]:
        """Return the class registered under a name.

        Raises:
            UserError: If there is none; the text lists the valid names and the modules that could not be imported.
        """
        if name in self.entries:
            return self.entries[name].target
        more = f"`augbench list {self.kind.replace(' ', '')}s` shows all."
        raise UserError(" ".join([one_of(self.kind, name, self.entries), *map(str, self.broken), more]))


def build_catalogue(kind: str, base: type[T], package: str, group: str) -> Catalogue[T]:
    """Look for registered subclasses of `base` in a package of ours and in the entry points of others.

    Raises:
        UserError: If two classes have one name; the text names both places.
    """
    entries: dict[str, Entry[T]] = {}
    broken: list[Broken] = []
    for origin, load in _origins(package, group):
        loaded = _load(origin, load)
        if isinstance(loaded, Broken):
            broken.append(loaded)
            continue
        for target in _registered_classes(loaded, base):
            entry = Entry(vars(target)["name"], target, f"{target.__module__}.{target.__qualname__}")
            other = entries.setdefault(entry.name, entry)
            if other.target is not target:
                raise UserError(
                    f"Two {kind}s are called {entry.name!r}: {other.origin} and {entry.origin}. "
                    "Rename one of them or uninstall the package that it comes from."
                )
    return Catalogue(kind, entries, tuple(broken))


def _origins(package: str, group: str) -> list[tuple[str, Callable[[], object]]]:
    """Where to look, each with what loads it: modules of ours, then entry points (a module or a class)."""
    folder = importlib.import_module(package).__path__
    names = [f"{package}.{module.name}" for module in pkgutil.iter_modules(folder)]
    built_in: list[tuple[str, Callable[[], object]]] = [
        (name, partial(importlib.import_module, name)) for name in names
    ]
    return built_in + [(point.value, point.load) for point in sorted(entry_points(group=group))]


def _load(origin: str, load: Callable[[], object]) -> object:
    try:
        return load()
    except FOREIGN_ERRORS as error:
        return Broken(origin, f"{type(error).__name__}: {error}")


def _registered_classes(loaded: object, base: type[T]) -> list[type[T]]:
    """Classes that carry the decorator's mark: the loaded one, or those of a module itself (not those it imports)."""
    if isinstance(loaded, ModuleType):
        found: list[Any] = [member for _, member in inspect.getmembers(loaded, inspect.isclass)]
        members = [member for member in found if member.__module__ == loaded.__name__]
    else:
        members = [loaded] if isinstance(loaded, type) else []
    return [member for member in members if issubclass(member, base) and "name" in vars(member)]
