"""Commands as typer calls them: groups of options spread out, and paths as their user means them."""

import functools
import inspect
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from typer.models import ArgumentInfo, OptionInfo

from augbench.bench.common.user_input import user_path


def for_typer(command: Any) -> Any:
    """Make of a command what typer can call.

    A parameter that is a dataclass becomes an option for each of its fields. Whichever option a path comes from, `~` in
    it is the home directory.

    Raises:
        UserError: When it is called with a path that cannot be meant.
    """
    groups: dict[str, tuple[type[Any], Mapping[str, inspect.Parameter]]] = {}
    options: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        group = parameter.annotation
        if isinstance(group, type) and is_dataclass(group):
            groups[name] = (group, fields := inspect.signature(group).parameters)
            options |= fields
        else:
            options[name] = parameter

    @functools.wraps(command)
    def call(**given: Any) -> Any:
        meant = {name: _meant(value, options[name]) for name, value in given.items()}
        for name, (group, fields) in groups.items():
            meant[name] = group(**{field: meant.pop(field) for field in fields})
        return command(**meant)

    keywords = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options.values()]
    call.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return call


def _meant(value: Any, option: inspect.Parameter) -> Any:
    if value == option.default:  # a folder in a home that perhaps nobody has, nor needs
        return value
    if isinstance(value, list):
        return [_meant(one, option) for one in value]
    return user_path(value, _shown(option)) if isinstance(value, Path) else value


def _shown(option: inspect.Parameter) -> str:
    """Return what a user types to give an option or argument."""
    about = next(iter(getattr(option.annotation, "__metadata__", ())), None)
    if isinstance(about, ArgumentInfo):
        return about.metavar or option.name.upper()
    # typer keeps the first name in the place of a default value, which stands elsewhere in our signatures
    given = (about.default, *(about.param_decls or ())) if isinstance(about, OptionInfo) else ()
    names = [name for name in given if isinstance(name, str) and name.startswith("--")]
    return names[0] if names else f"--{option.name.replace('_', '-')}"
