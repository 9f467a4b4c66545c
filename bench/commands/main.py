"""Entry point of the command `augbench`."""

import functools
import inspect
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import islice, pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group
from typer.models import ArgumentInfo, OptionInfo

import augbench
from augbench.bench.commands.interrupts import ended_by_ctrl_c
from augbench.bench.commands.streams import OutputError, silence
from augbench.bench.common.errors import UserError, shortened
from augbench.bench.common.plain_text import safe
from augbench.bench.common.user_input import user_path
from augbench.bench.registry.plugins import PLUGINS_VARIABLE, plugins_added

PLUGIN = "--plugin"
HELP = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True)
class Place:
    """Where a command stands, and what the list of all commands says of it.

    Attributes:
        module: Its module in this folder.
        attribute: Its function, or the app of a group of commands.
        help: The first paragraph of the function's docstring, or the app's help.
    """

    module: str
    attribute: str
    help: str


COMMANDS = {
    "demo": Place(
        "demo",
        "demo",
        "Compare five learners on upright and rotated digits: a table, what each one found, figures and a report.",
    ),
    "list": Place("listing", "list_registered", "List what is registered, or show the card of one entry."),
    "plan": Place(
        "planning", "plan", "Show how many runs of a suite are done and missing, and what is left to pay for."
    ),
    "run": Place(
        "running",
        "run",
        "Execute every run of a suite that has no result yet; the same command again goes on where it was.",
    ),
    "status": Place(
        "following", "status", "Show the states of all runs in a folder, and how far those are that are being executed."
    ),
    "watch": Place(
        "following",
        "watch",
        "Show the same as `augbench status` until nothing runs or waits any more; without a terminal, each change.",
    ),
    "logs": Place("logs", "logs", "Show what a run, and its job, have printed, and why it has no result."),
    "failures": Place(
        "failing",
        "failures",
        "Show runs that have ended without a result, grouped by cause: why, what helps, and the command for it.",
    ),
    "retry": Place(
        "failing",
        "retry",
        "Place runs again that have ended without a result: failed ones anew, others from where they were.",
    ),
    "cancel": Place(
        "cancelling",
        "cancel_runs",
        "Take runs out of the queue, and have those that go on save and stop; nothing that was computed is lost.",
    ),
    "tables": Place(
        "showing",
        "tables",
        "Write every table that there is something for, as Markdown, LaTeX, CSV and HTML; or show some here.",
    ),
    "figures": Place("showing", "figures", "Write every figure that there is something for, as PNG, PDF and SVG."),
    "report": Place(
        "reporting",
        "report",
        "Write one HTML page that needs no network: results, charts, images, failures, and how to make it all again.",
    ),
    "archive": Place("archiving", "archive", "Pack runs into one file that `--from` of other commands reads."),
    "verify": Place(
        "verifying",
        "verify",
        "Read everything that is stored of runs with all checks, and say what is good, repairable or lost.",
    ),
    "bound": Place(
        "bound", "bound", "Evaluate the PAC-Bayes bound of SCALE for one run, term by term, and say what it is worth."
    ),
    "probe": Place(
        "probing",
        "probe",
        "Measure and draw the accuracy of finished runs on test images that are turned, scaled or sheared.",
    ),
    "toy": Place(
        "toy",
        "toy",
        "Train on points with a planted rotation: without augmentation, with too much, and with a learned amount of "
        "it.",
    ),
    "tune": Place(
        "tuning",
        "tune",
        "Look for a method's best hyperparameters on validation images; the same command again goes on where it was.",
    ),
    "new": Place("creating", "app", "Write the files of something new."),
    "check": Place("checking", "app", "Check something of your own."),
    "data": Place("data", "app", "Prepare data sets once, which may download them, and verify them."),
}
"""Every command, groups of commands last; `--help` shows them in this order, and imports none of their modules."""


class _OptionsOnce(TyperCommand):
    """A command of which no option that has one value may be given twice: the last one would win without a word."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        given = Counter(one.opts[0] for one in order if _has_one_value(one))
        if twice := [name for name, count in given.items() if count > 1]:
            raise UserError(f"{twice[0]} is given {given[twice[0]]} times, and one value is all that it can have.")
        return super().parse_args(ctx, args)


def _has_one_value(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and not (parameter.multiple or parameter.is_flag or parameter.count)


class _ImportedWhenCalled(TyperGroup):
    """A group that imports the module of a command when that is called, since some modules take long."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, place in COMMANDS.items():
            self.add_command(TyperCommand(name, help=place.help, context_settings=HELP))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else command, rest


def load_command(name: str) -> Any:
    """Import a command and make of it what typer can call."""
    place = COMMANDS[name]
    with ended_by_ctrl_c():
        found = getattr(import_module(f"augbench.bench.commands.{place.module}"), place.attribute)
    holder = typer.Typer(context_settings=HELP)
    if isinstance(found, typer.Typer):
        group = typer.Typer(help=found.info.help, no_args_is_help=True, context_settings=HELP)
        for command in found.registered_commands:
            group.command(command.name, cls=_OptionsOnce, context_settings=HELP)(_taking_paths(command.callback))
        holder.add_typer(group, name=name)
    else:
        holder.command(name, cls=_OptionsOnce, context_settings=HELP)(_taking_paths(found))
    return get_group(holder).commands[name]


def _taking_paths(command: Any) -> Any:
    """Have a command called with the paths that its user means, whichever of its options they come from."""
    parameters = inspect.signature(command).parameters

    def meant(name: str, value: Any) -> Any:
        if value == parameters[name].default:  # a folder in a home that perhaps nobody has, nor needs
            return value
        if isinstance(value, list):
            return [meant(name, one) for one in value]
        return user_path(value, _shown(parameters[name])) if isinstance(value, Path) else value

    @functools.wraps(command)
    def call(**options: Any) -> Any:
        return command(**{name: meant(name, value) for name, value in options.items()})

    return call


def _shown(parameter: inspect.Parameter) -> str:
    """What a user types to give a parameter."""
    about = next(iter(getattr(parameter.annotation, "__metadata__", ())), None)
    if isinstance(about, ArgumentInfo):
        return about.metavar or parameter.name.upper()
    # typer keeps the first name in the place of a default value, which stands elsewhere in our signatures
    given = (about.default, *(about.param_decls or ())) if isinstance(about, OptionInfo) else ()
    names = [name for name in given if isinstance(name, str) and name.startswith("--")]
    return names[0] if names else f"--{parameter.name.replace('_', '-')}"


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
            help="Python file with methods, data sets, networks or launchers of your own; can be given several times, "
            f"and adds to the paths in {PLUGINS_VARIABLE}.",
        ),
    ] = None,
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
) -> None:
    context.with_resource(plugins_added(plugins or []))


def main() -> None:
    """Run the command line; a mistake of the user ends in one paragraph and exit status 2."""
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
        f"A library that this needs could not be loaded: {shortened(said)}. Where memory is limited (`ulimit -v` "
        "shows), allow some gigabytes; else install augbench again, with what it needs."
    )


def _print_error(error: Exception) -> None:
    from rich.console import Console  # here, since most commands end without

    text = safe(f"Error: {error}")  # may quote what the code of a run has said
    with suppress(OutputError):
        Console(stderr=True).print(text, style="red", markup=False, highlight=False, soft_wrap=True)


def _none_empty(arguments: Sequence[str]) -> Sequence[str]:
    """Refuse a gap, as a variable of the shell leaves that is not set: an empty path would be the present folder."""
    for before, word in pairwise(["augbench", *arguments]):
        gap = before if not word else word.rstrip("=") if word.startswith("--") and word.endswith("=") else ""
        if gap:
            raise UserError(
                f"Nothing is given after {gap}: perhaps a variable of the shell is not set. Give a value, or leave the "
                "option out."
            )
    return arguments


def _plugins_first(arguments: Sequence[str]) -> list[str]:
    """Move `--plugin FILE` before the command, where it belongs, since one thinks of it last."""
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
