"""`augbench check`: does your own method, data set, network or predictor keep the contract?"""

import tomllib
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from augbench.bench.commands.options import DEFAULT_DATA, AsJson, Data, Device
from augbench.bench.commands.plain import new_console, print_json
from augbench.bench.commands.screen import waiting
from augbench.bench.common.errors import UserError
from augbench.bench.common.plain_text import safe

if TYPE_CHECKING:
    from augbench.bench.conformance.outcome import Report

SECONDS_TO_CHECK = 600.0

app = typer.Typer(help="Check your own method, data set, network or predictor.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Registered name. For your own: `augbench --plugin my.py check …`.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A hyperparameter or option; can be repeated."),
]
Size = Annotated[int, typer.Option("--size", min=1, max=1024, help="Side of the images in pixels.")]
Limit = Annotated[float, typer.Option("--limit", min=1, help="Seconds that the checks may take.")]


@app.command("method")
def method(
    name: Name,
    settings: Settings = None,
    device: Device = "cpu",
    limit: Limit = SECONDS_TO_CHECK,
    as_json: AsJson = False,
) -> None:
    """Check on small synthetic images whether a method keeps the contract; exit status 1 if it does not."""
    order = {"do": "check method", "name": name, "settings": _parsed(settings or []), "device": device}
    _check(name, order, limit, as_json=as_json)


@app.command("dataset")
def dataset(
    name: Name,
    settings: Settings = None,
    data: Data = DEFAULT_DATA,
    limit: Limit = SECONDS_TO_CHECK,
    as_json: AsJson = False,
) -> None:
    """Load a data set twice and check whether runs can use it; exit status 1 if they cannot."""
    order = {"do": "check dataset", "name": name, "settings": _parsed(settings or []), "data": str(data)}
    _check(name, order, limit, as_json=as_json)


@app.command("network")
def network(
    name: Name,
    size: Size = 32,
    limit: Limit = SECONDS_TO_CHECK,
    as_json: AsJson = False,
) -> None:
    """Check on synthetic images whether runs can use a network; exit status 1 if they cannot."""
    _check(name, {"do": "check network", "name": name, "size": size}, limit, as_json=as_json)


@app.command("predictor")
def predictor(
    name: Name,
    settings: Settings = None,
    network: Annotated[str, typer.Option("--network", help="The network that it is to convert.")] = "tiny",
    size: Size = 32,
    limit: Limit = SECONDS_TO_CHECK,
    as_json: AsJson = False,
) -> None:
    """Check on synthetic images whether runs can use a predictor with a network; exit status 1 if they cannot."""
    given = {"name": name, "settings": _parsed(settings or []), "network": network, "size": size}
    _check(name, {"do": "check predictor", **given}, limit, as_json=as_json)


def _check(name: str, order: Mapping[str, Any], limit: float, *, as_json: bool) -> None:
    """Check something in a process of its own, which it may hang, crash or end, and show the outcome.

    Raises:
        UserError: If it did one of these, or the order is wrong.
        typer.Exit: With status 1 if a check failed.
    """
    from augbench.bench.conformance.apart import run_apart
    from augbench.bench.conformance.outcome import Report

    console = new_console()
    with waiting(f"Checking {name} …"):
        show = partial(typer.echo, nl=False, err=as_json)
        report = Report.from_json(run_apart(f"Checking {name}", order, limit, lambda text: show(safe(text))))
    if as_json:
        print_json(report.as_json())
    else:
        _print(report, console)
    if not report.passed:
        raise typer.Exit(1)


def _parsed(settings: list[str]) -> dict[str, Any]:
    """Read `key=value` with values as in TOML; anything else is text."""
    parsed = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {setting} is no KEY=VALUE, such as --set learning_rate=0.1.")
        if key.strip() in parsed:
            raise UserError(f"--set gives {key.strip()} twice. Give it once.")
        parsed[key.strip()] = _value(text)
    return parsed


def _value(text: str) -> Any:
    try:
        values = tomllib.loads(f"value = {text}")
    except ValueError:
        return text.strip()
    return values["value"] if len(values) == 1 else text


def _print(report: "Report", console: Console) -> None:
    from augbench.bench.conformance.outcome import Result

    styles = {Result.PASSED: "green", Result.FAILED: "bold red"}
    table = Table("check", "result", "what is checked")
    for outcome in report.outcomes:
        told_below = outcome.result is Result.FAILED
        what = outcome.meaning if told_below or not outcome.text else outcome.text
        table.add_row(outcome.check, Text(outcome.result, styles.get(outcome.result, "dim")), what)
    console.print(table)
    for failure in report.failures:
        console.print(f"\n{failure.check}", style="bold red")
        console.print(f"{failure.text} {failure.advice}".strip(), highlight=False)
    checks = len(report.outcomes)
    failed = f"does not keep the contract: it fails {len(report.failures)} of {checks} checks."
    end = "keeps the contract." if report.passed else failed
    console.print(f"\n{report.method} {end}", highlight=False)
