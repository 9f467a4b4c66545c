"""Entry point of the command `augbench`."""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from itertools import islice, pairwise
from pathlib import Path
from pkgutil import get_data
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

import augbench
from augbench.bench.commands.signatures import for_typer
from augbench.bench.commands.streams import OutputError, silence
from augbench.bench.common.errors import UserError, shortened
from augbench.bench.common.plain_text import safe
from augbench.bench.registry.plugins import PLUGINS_VARIABLE, plugins_added

PLUGIN = "--plugin"
HELP = {"help_option_names": ["-h", "--help"]}


COMMANDS = {
    "demo": ("demo", "demo"),
    "recommend": ("recommending", "recommend"),
    "list": ("listing", "list_registered"),
    "plan": ("planning", "plan"),
    "run": ("running", "run"),
    "status": ("following", "status"),
    "watch": ("following", "watch"),
    "logs": ("logs", "logs"),
    "failures": ("failing", "failures"),
    "retry": ("failing", "retry"),
    "cancel": ("cancelling", "cancel_runs"),
    "tables": ("showing", "tables"),
    "compare": ("comparing", "compare"),
    "calibrate": ("calibrating", "calibrate"),
    "figures": ("showing", "figures"),
    "report": ("reporting", "report"),
    "archive": ("archiving", "archive"),
    "export": ("exporting", "export"),
    "verify": ("verifying", "verify"),
    "bound": ("bound", "bound"),
    "probe": ("probing", "probe"),
    "toy": ("toy", "toy"),
    "tune": ("tuning", "tune"),
    "new": ("creating", "app"),
    "check": ("checking", "app"),
    "data": ("data", "app"),
}
"""Each command's module in this folder, and its function there, or the app of a group; in the order of `--help`."""


class _OptionsOnce(TyperCommand):
    """A command that refuses an option given twice if it takes one value: the last one would silently win."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        given = Counter(one.opts[0] for one in order if _has_one_value(one))
        for name, count in given.items():
            if count > 1:
                raise UserError(f"{name} is given {count} times, but takes one value. Give it once.")
        return super().parse_args(ctx, args)


def _has_one_value(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and not (parameter.multiple or parameter.is_flag or parameter.count)


class _Listed(TyperCommand):
    """A command in the list of all; its text is read when it is shown, which most calls never need."""

    @property
    def help(self) -> str | None:
        return summary(str(self.name))

    @help.setter
    def help(self, text: str | None) -> None:
        """Do nothing: its base class sets what it was given."""


class _ImportedWhenCalled(TyperGroup):
    """A group that imports the module of a command when that is called, since some modules take long."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name in COMMANDS:
            self.add_command(_Listed(name, context_settings=HELP))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else command, rest


def summary(command: str) -> str:
    """Read the first paragraph of a command's docstring, or a group's help, without importing its module."""
    module, attribute = COMMANDS[command]
    try:
        source = (get_data(__package__ or "", f"{module}.py") or b"").decode()  # also from a zip file
    except OSError:  # there are compiled files only
        return ""
    pattern = r'typer\.Typer\(help="(.*?)"' if attribute == "app" else rf'^def {attribute}\(.*?"""(.*?)(\n\n|""")'
    found = re.search(pattern, source, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def load_command(name: str) -> Any:
    """Import a command and make of it what typer can call."""
    module, attribute = COMMANDS[name]
    found = getattr(import_module(f"augbench.bench.commands.{module}"), attribute)
    holder = typer.Typer(context_settings=HELP)
    if isinstance(found, typer.Typer):
        group = typer.Typer(help=found.info.help, no_args_is_help=True, context_settings=HELP)
        for command in found.registered_commands:
            group.command(command.name, cls=_OptionsOnce, context_settings=HELP)(for_typer(command.callback))
        holder.add_typer(group, name=name)
    else:
        holder.command(name, cls=_OptionsOnce, context_settings=HELP)(for_typer(found))
    return get_group(holder).commands[name]


app = typer.Typer(
    name="augbench",
    help="Compare methods that learn data augmentations, all in one augmentation space.",
    cls=_ImportedWhenCalled,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(augbench.__version__)
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    plugins: Annotated[
        list[Path] | None,
        typer.Option(
            PLUGIN,
            help="Python file with your own methods, data sets, networks or launchers. Can be repeated; adds to the "
            f"paths in {PLUGINS_VARIABLE}.",
        ),
    ] = None,
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
) -> None:
    context.with_resource(plugins_added(plugins or []))


def main() -> None:
    """Run the command line; a user's mistake ends in one paragraph and exit status 2."""
    try:
        try:
            app(_plugins_first(_none_empty(sys.argv[1:])))
        finally:
            sys.stdout.flush()  # what the code of others has printed may still be waiting
    except BrokenPipeError:
        silence(sys.stdout)
        sys.exit(1)
    except (UserError, OutputError) as error:
        _print_error(error)
        sys.exit(2)
    except (ImportError, MemoryError) as error:
        _print_error(_not_loaded(error))
        sys.exit(2)


def _not_loaded(error: Exception) -> UserError:
    """Say why a library could not be loaded, most often for lack of memory."""
    said = " ".join(str(error).split()) or type(error).__name__
    return UserError(
        f"A required library could not be loaded: {shortened(said)}. If memory is limited (see `ulimit -v`), "
        "allow several gigabytes; otherwise reinstall augbench and its requirements."
    )


def _print_error(error: Exception) -> None:
    from rich.console import Console  # here, since most commands end without

    text = safe(f"Error: {error}")  # may quote what the code of a run has said
    with suppress(OutputError):
        Console(stderr=True).print(text, style="red", markup=False, highlight=False, soft_wrap=True)


def _none_empty(arguments: Sequence[str]) -> Sequence[str]:
    """Refuse an empty word, as an unset shell variable leaves it: an empty path would be the present folder."""
    for before, word in pairwise(["augbench", *arguments]):
        gap = before if not word else word.rstrip("=") if word.startswith("--") and word.endswith("=") else ""
        if gap:
            raise UserError(
                f"Nothing is given after {gap}. Perhaps a shell variable is not set. Give a value, or omit the option."
            )
    return arguments


def _plugins_first(arguments: Sequence[str]) -> list[str]:
    """Move `--plugin FILE` before the command, where it belongs: users often think of it last."""
    plugins: list[str] = []
    others: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            others += [word, *words]
        elif word == PLUGIN:
            file = list(islice(words, 1))
            if not file:
                raise UserError(f"{PLUGIN} needs a Python file after it, as in `augbench {PLUGIN} my.py …`.")
            plugins += [word, *file]
        else:
            (plugins if word.startswith(f"{PLUGIN}=") else others).append(word)
    return [*plugins, *others]
