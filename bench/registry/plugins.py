"""Plug-ins: single files and installed packages that bring in methods, data sets, networks, predictors and launchers.

The variable `AUGBENCH_PLUGINS` names the files, so that worker processes, which inherit it, see the same ones.
"""

import hashlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from augbench.bench.common.errors import UserError
from augbench.bench.common.user_code import USER_CODE_ERRORS, format_exception
from augbench.bench.common.user_input import user_path

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLUGINS_VARIABLE = "AUGBENCH_PLUGINS"
FROM_VARIABLE = f", which the variable {PLUGINS_VARIABLE} names,"
GROUPS = ("augbench.methods", "augbench.datasets", "augbench.networks", "augbench.predictors", "augbench.launchers")
KINDS = "Method, DatasetSource, NetworkSource, Predictor or Launcher"
NOTHING_REGISTERED = f'registers nothing: put @register("a-name") above a class derived from {KINDS}'


@dataclass(frozen=True)
class Plugin:
    """A plug-in file as imported by this process.

    Attributes:
        path: The file.
        sha256: Checksum of the imported source, in hexadecimal.
        module: The module; None if it cannot be used.
        problem: Why it cannot be used, as a predicate of the path.
    """

    path: Path
    sha256: str
    module: ModuleType | None
    problem: str = ""


def plugin_files() -> tuple[Path, ...]:
    """Return the plug-in files of this process, each once."""
    named = os.environ.get(PLUGINS_VARIABLE, "").split(os.pathsep)
    return tuple(dict.fromkeys(_absolute(Path(name), FROM_VARIABLE) for name in named if name))


@contextmanager
def plugins_added(paths: Sequence[Path]) -> Iterator[None]:
    """Add plug-in files for the length of the block, for this process and its children.

    Raises:
        UserError: If one of them, or one named by the environment, is no Python file.
    """
    known = plugin_files()
    for path in known:
        _check(path, FROM_VARIABLE)
    files = dict.fromkeys([*known, *map(_absolute, paths)])
    for path in files:
        _check(path)
    before = os.environ.get(PLUGINS_VARIABLE)
    os.environ[PLUGINS_VARIABLE] = os.pathsep.join(map(str, files))
    try:
        yield
    finally:
        if before is None:
            del os.environ[PLUGINS_VARIABLE]
        else:
            os.environ[PLUGINS_VARIABLE] = before


def _absolute(path: Path, source: str = "") -> Path:
    try:
        return user_path(path, f"The plug-in{source}").resolve()
    except UserError as error:
        raise UserError(f"{error} {_how_to_name_one()}") from None
    except (RuntimeError, OSError) as error:  # a loop of links, a name that is too long
        reason = str(error).rstrip(".")
        raise UserError(f"The plug-in {path}{source} cannot be found: {reason}. {_how_to_name_one()}") from None


def _check(path: Path, source: str = "") -> None:
    if os.pathsep in str(path):
        problem = f"has {os.pathsep!r} in its path, which separates the paths in {PLUGINS_VARIABLE}"
    elif path.suffix != ".py":
        problem = "is no Python file"
    elif not os.access(path, os.R_OK):
        problem = "cannot be read" if path.exists() else "does not exist"
    elif not path.is_file():
        problem = "is no file"
    else:
        return
    raise UserError(f"The plug-in {path}{source} {problem}. {_how_to_name_one()}")


def _how_to_name_one() -> str:
    return (
        "Plug-ins are .py files, named by --plugin, as in `augbench --plugin my.py list methods`, or in the variable "
        f"{PLUGINS_VARIABLE}."
    )


@cache
def load_plugin(path: Path) -> Plugin:
    """Import a plug-in file, once per process, under a unique module name.

    Args:
        path: Absolute path of the file.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        return Plugin(path, "", None, f"cannot be read: {error.strerror}")
    checksum = hashlib.sha256(source).hexdigest()
    place = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    module = ModuleType(f"augbench_plugin_{re.sub(r'[^0-9A-Za-z]', '_', path.stem)}_{place}")
    module.__file__ = str(path)
    if module.__name__ in sys.modules:
        return Plugin(path, checksum, None, "looks up registered names while it is being imported")
    sys.modules[module.__name__] = module  # where dataclasses and pydantic look up names
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102 - what the user asks for
    except USER_CODE_ERRORS as error:
        del sys.modules[module.__name__]
        return Plugin(path, checksum, None, f"could not be imported: {format_exception(error, path)}")
    if not marked_classes(module):
        return Plugin(path, checksum, None, NOTHING_REGISTERED)
    return Plugin(path, checksum, module)


@contextmanager
def explaining(what: str, way_on: str) -> Iterator[None]:
    """Turn whatever user code raises into one paragraph for the user.

    Args:
        what: What failed; the cause follows, with the last line of a plug-in that raised it.
        way_on: A sentence on what to do.

    Raises:
        UserError: For every other exception; a UserError passes unchanged.
    """
    try:
        yield
    except UserError:
        raise
    except USER_CODE_ERRORS as error:
        raise UserError(f"{what}: {format_exception(error, *plugin_files())}. {way_on}") from error


def marked_classes(module: ModuleType) -> list[type[Any]]:
    """Return the classes defined in a module, not those it imports, that `register` has marked."""
    members = [member for member in vars(module).values() if isinstance(member, type)]
    return [member for member in members if member.__module__ == module.__name__ and "name" in vars(member)]


def plugin_of(target: type[Any]) -> Plugin | None:
    """Return the plug-in that defines a class; None if none does."""
    plugins = [load_plugin(path) for path in plugin_files()]
    return next((one for one in plugins if one.module and one.module.__name__ == target.__module__), None)


def package_of(point: "EntryPoint") -> str:
    """Return name and version of the package that an entry point belongs to."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown package"


def describe_plugins() -> dict[str, Any]:
    """Return what a run records: plug-in files with checksums, and installed packages with versions."""
    from importlib.metadata import entry_points  # here, so that `augbench --help` does not wait for it

    packages = {package_of(point) for group in GROUPS for point in entry_points(group=group)}
    files = [load_plugin(path) for path in plugin_files()]
    return {
        "plugins": [{"path": str(plugin.path), "sha256": plugin.sha256} for plugin in files],
        "plugin_packages": sorted(packages),
    }
