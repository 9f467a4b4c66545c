"""`augbench check`: does something of one's own keep the contract?"""

import json
import tomllib
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from augbench.bench.catalogues import methods
from augbench.bench.commands.interrupts import ended_by_ctrl_c
from augbench.bench.commands.options import Device
from augbench.bench.commands.screen import waiting
from augbench.bench.errors import UserError
from augbench.bench.foreign import prints_apart

if TYPE_CHECKING:
    from augbench.bench.conformance import Report

app = typer.Typer(help="Check something of your own.", no_args_is_help=True)


@app.command("method")
def method(
    name: Annotated[
        str, typer.Argument(help="Registered name; `augbench --plugin my.py check method …` for your own.")
    ],
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A hyperparameter; can be repeated.")
    ] = None,
    device: Device = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check whether a method keeps the contract, on small made-up images; exit status 1 if it does not."""
    with ended_by_ctrl_c():  # torch takes seconds to import, which `--help` need not wait for
        from augbench.bench.conformance import check_method

    target = methods().get(name)
    console = Console()
    with waiting(f"Checking {name} …"), prints_apart() if as_json else nullcontext():
        report = check_method(target, _parsed(settings or []), device)
    if as_json:
        typer.echo(json.dumps(report.as_json(), indent=1))
    else:
        _print(report, console)
    if not report.passed:
        raise typer.Exit(1)


def _parsed(settings: list[str]) -> dict[str, Any]:
    """Read `key=value` with values as in TOML; what is no TOML value is a text."""
    parsed = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {setting} is no KEY=VALUE, such as --set learning_rate=0.1.")
        parsed[key.strip()] = _value(text)
    return parsed


def _value(text: str) -> Any:
    try:
        values = tomllib.loads(f"value = {text}")
    except ValueError:
        return text.strip()
    return values["value"] if len(values) == 1 else text


def _print(report: "Report", console: Console) -> None:
    from augbench.bench.conformance import CHECKS, Result

    styles = {Result.PASSED: "green", Result.FAILED: "bold red"}
    table = Table("check", "result", "what is checked")
    for check, outcome in zip(CHECKS, report.outcomes, strict=True):
        told_below = outcome.result is Result.FAILED
        what = check.meaning if told_below or not outcome.text else outcome.text
        table.add_row(check.name, f"[{styles.get(outcome.result, 'dim')}]{outcome.result}", escape(what))
    console.print(table)
    for failure in report.failures:
        console.print(f"\n{failure.check}", style="bold red")
        console.print(f"{failure.text} {failure.advice}".strip(), markup=False, highlight=False)
    failed = f"does not keep the contract: it fails {len(report.failures)} of {len(CHECKS)} checks."
    end = "keeps the contract." if report.passed else failed
    console.print(f"\n{report.method} {end}", markup=False, highlight=False)
