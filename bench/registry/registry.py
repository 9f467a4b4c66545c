"""Registration by name of methods, data sets, networks, predictors and launchers.

They come from the project's folders, entry points of installed packages, and plug-in files. The decorator only marks a
class; a catalogue is built by looking for marks, so importing a module has no effect on others.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from augbench.bench.common.errors import UserError, one_of, shortened
from augbench.bench.common.user_code import USER_CODE_ERRORS, format_exception, prints_apart
from augbench.bench.registry.plugins import KINDS, NOTHING_REGISTERED, load_plugin, marked_classes, package_of

T = TypeVar("T")
C = TypeVar("C", bound=type)

LONGEST_NAME = 64  # characters; the names of method, data set and network make up a folder's name
NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9+-]*")
OURS = "augbench"
IN_A_FILE_OF_YOUR_OWN = "If it is in your own file, name that before the command: `augbench --plugin FILE …`."


def register(name: str) -> Callable[[C], C]:
    """Mark a class so that catalogues list it under `name`.

    Args:
        name: Lower-case letters, digits, `+` and `-`; it becomes part of folder names and table rows.

    Raises:
        ValueError: If the name has other or too many characters.
        TypeError: If no name is given, or what is marked is no class of a kind that has a catalogue.
    """
    if not isinstance(name, str):
        given = getattr(name, "__name__", repr(name))
        raise TypeError(f'@register needs a name: write @register("a-name") above the class, here above {given}.')
    if len(name) > LONGEST_NAME:
        raise ValueError(
            f"{shortened(repr(name))} has {len(name)} characters; names of folders have room for {LONGEST_NAME}."
        )
    if not NAME_PATTERN.fullmatch(name):
        raise ValueError(f"{name!r} cannot be registered: use lower-case letters, digits, '+' and '-'.")

    def mark(target: C) -> C:
        called = getattr(target, "__name__", repr(target))
        if not isinstance(target, type):
            raise TypeError(f"@register({name!r}) belongs above a class, and {called} is none.")
        if not _is_of_a_kind(target):
            raise TypeError(f"{called} must derive from {KINDS}.")
        target.name = name  # type: ignore[attr-defined]
        return target

    return mark


def _is_of_a_kind(target: type[Any]) -> bool:
    """Whether a base of a class declares a registered `name`; those bases cannot be imported here."""
    return any("name" in inspect.get_annotations(base) for base in target.__mro__[1:])


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered class and where it comes from.

    Attributes:
        name: The registered name.
        target: The class.
        origin: Its module or file, and class.
        source: Where it comes from: `augbench`, a package with its version, or a plug-in's file name.
    """

    name: str
    target: type[T]
    origin: str
    source: str = OURS


@dataclass(frozen=True)
class Broken:
    """A module that cannot be used, and why; the reason is a predicate of the origin."""

    origin: str
    reason: str

    def __str__(self) -> str:
        return f"{self.origin} {self.reason.rstrip('.')}."


class Catalogue(Generic[T]):
    """What is registered of one kind."""

    def __init__(self, kind: str, entries: dict[str, Entry[T]], broken: tuple[Broken, ...]) -> None:
        self.kind = kind
        self.entries = entries
        self.broken = broken

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(sorted(self.entries.values(), key=lambda entry: entry.name))

    def get(self, name: str) -> type[T]:
        """Return the class registered under a name, with the errors of `entry`."""
        return self.entry(name).target

    def entry(self, name: str) -> Entry[T]:
        """Return the entry of a name.

        Raises:
            UserError: If there is none; the text lists the valid names and the modules that cannot be used.
        """
        if name in self.entries:
            return self.entries[name]
        more = f"`augbench list {self.kind.replace(' ', '')}s` shows all."
        parts = [one_of(self.kind, name, self.entries), *map(str, self.broken), more, IN_A_FILE_OF_YOUR_OWN]
        raise UserError(" ".join(parts))

    @contextmanager
    def holding(self, entry: Entry[T]) -> Iterator[None]:
        """List an entry for the length of the block, in place of one with the same name."""
        before = self.entries.copy()
        self.entries[entry.name] = entry
        try:
            yield
        finally:
            self.entries.clear()
            self.entries.update(before)


def build_catalogue(kind: str, base: type[T], package: str, group: str, plugins: Sequence[Path] = ()) -> Catalogue[T]:
    """Look for registered subclasses of `base` in a package of the project, in entry points and in plug-ins.

    Args:
        kind: What is looked for, as messages call it.
        base: Its base class.
        package: Name of the project's package.
        group: Name of the entry-point group.
        plugins: Absolute paths of plug-in files.

    Raises:
        UserError: If two classes have the same name; the text names both places.
    """
    entries: dict[str, Entry[T]] = {}
    broken: list[Broken] = []
    for place in (*_modules(package), *_entry_points(group, base), *map(_plugin, plugins)):
        loaded = _load(place)
        if isinstance(loaded, Broken):
            broken.append(loaded)
            continue
        for target in _registered_classes(loaded, base):
            entry = Entry(vars(target)["name"], target, place.origin_of(target), place.source)
            other = entries.setdefault(entry.name, entry)
            if other.target is not target:
                raise UserError(
                    f"Two {kind}s are called {entry.name!r}: {other.origin} and {entry.origin}. "
                    "Rename one, or remove the plug-in or package that it comes from."
                )
    return Catalogue(kind, entries, tuple(broken))


@dataclass(frozen=True)
class _Place:
    """A place to look at: its name, and what loads a module or class from it, or the reason why it is broken."""

    origin: str
    source: str
    load: Callable[[], object]
    path: Path | None = None

    def origin_of(self, target: type[Any]) -> str:
        """Name the place of a class."""
        if self.path is not None:
            return f"{target.__qualname__} in {self.path}"
        inside = f"{target.__module__}.{target.__qualname__}"
        return inside if self.source == OURS else f"{inside} of {self.source}"


def _modules(package: str) -> list[_Place]:
    folder = importlib.import_module(package).__path__
    names = [f"{package}.{module.name}" for module in pkgutil.iter_modules(folder)]
    return [_Place(name, OURS, partial(importlib.import_module, name)) for name in names]


def _entry_points(group: str, base: type[Any]) -> list[_Place]:
    def load(point: EntryPoint) -> object:
        loaded = point.load()
        return loaded if _registered_classes(loaded, base) else Broken(origin(point), NOTHING_REGISTERED)

    def origin(point: EntryPoint) -> str:
        return f"{point.value} of {package_of(point)}"

    points = sorted(entry_points(group=group))
    return [_Place(origin(point), package_of(point), partial(load, point)) for point in points]


def _plugin(path: Path) -> _Place:
    def load() -> object:
        plugin = load_plugin(path)
        return plugin.module or Broken(str(path), plugin.problem)

    return _Place(str(path), f"plug-in {path.name}", load, path)


def _load(place: _Place) -> object:
    try:
        with prints_apart():
            return place.load()
    except USER_CODE_ERRORS as error:
        return Broken(place.origin, f"could not be imported: {format_exception(error)}")


def _registered_classes(loaded: object, base: type[T]) -> list[type[T]]:
    """Return the classes with the decorator's mark: the loaded one, or those that a loaded module defines."""
    if isinstance(loaded, ModuleType):
        members = marked_classes(loaded)
    else:
        members = [loaded] if isinstance(loaded, type) and "name" in vars(loaded) else []
    return [member for member in members if issubclass(member, base)]
