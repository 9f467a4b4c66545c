"""`augbench list`: what is registered, and the details of one entry."""

import textwrap
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from augbench.bench.commands.options import AsJson
from augbench.bench.commands.plain import new_console, print_json
from augbench.bench.common.errors import UserError, one_of
from augbench.bench.common.toml_files import in_toml
from augbench.bench.contract.search_space import KEY as TUNED
from augbench.bench.contract.search_space import Range
from augbench.bench.experiment.budgets import PaperBudget, budgets
from augbench.bench.experiment.catalogues import datasets, methods, networks, predictors
from augbench.bench.experiment.suite import built_in_suites, parse_suite
from augbench.bench.launchers.launcher import launchers
from augbench.bench.planning.profile import built_in_profiles, parse_profile
from augbench.bench.registry.registry import IN_A_FILE_OF_YOUR_OWN, Catalogue


class Kind(StrEnum):
    """What can be listed."""

    METHODS = "methods"
    DATASETS = "datasets"
    NETWORKS = "networks"
    PREDICTORS = "predictors"
    SUITES = "suites"
    BUDGETS = "budgets"
    LAUNCHERS = "launchers"
    PROFILES = "profiles"


SETTINGS = {"hyperparameters_type": "hyperparameters", "options_type": "options", "settings_type": "settings"}


def list_registered(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    name: Annotated[str | None, typer.Argument(help="Name of one entry: shows its details.")] = None,
    as_json: AsJson = False,
) -> None:
    """List what is registered, or show the details of one entry."""
    cards, broken = _cards(kind, in_full=as_json)
    if name is not None and name not in cards:
        hint = [] if kind in (Kind.SUITES, Kind.BUDGETS, Kind.PROFILES) else [IN_A_FILE_OF_YOUR_OWN]
        raise UserError(" ".join([one_of(kind.removesuffix("s"), name, cards), *broken, *hint]))
    if as_json:
        for reason in broken:
            typer.echo(reason, err=True)
        print_json(list(cards.values()) if name is None else cards[name])
    elif name is None:
        _print_overview(cards, broken)
    elif "toml" in cards[name]:
        typer.echo(cards[name]["toml"], nl=False)  # the text alone, to copy into a file
    else:
        _print_card(cards[name])


def _cards(kind: Kind, *, in_full: bool) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return cards by name, and what could not be imported; `in_full` adds facts that take long to find out."""
    if kind is Kind.SUITES:
        return {name: _suite_card(name, text, in_full) for name, text in built_in_suites().items()}, []
    if kind is Kind.BUDGETS:
        return _budget_cards(), []
    if kind is Kind.PROFILES:
        return {name: _profile_card(name, text, in_full) for name, text in built_in_profiles().items()}, []
    catalogues: dict[Kind, Callable[[], Catalogue[Any]]] = {
        Kind.METHODS: methods,
        Kind.DATASETS: datasets,
        Kind.NETWORKS: networks,
        Kind.PREDICTORS: predictors,
        Kind.LAUNCHERS: launchers,
    }
    catalogue = catalogues[kind]()
    cards = {entry.name: _card(entry.target) | {"origin": entry.origin, "source": entry.source} for entry in catalogue}
    return cards, list(map(str, catalogue.broken))


def _card(target: type[Any]) -> dict[str, Any]:
    card = {"name": target.name, "title": target.title, "description": (target.__doc__ or "").split("\n\n")[0].strip()}
    for attribute in ("paper", "version", "searches", "deviations", "checksum"):
        if hasattr(target, attribute):
            card[attribute] = getattr(target, attribute)
    for attribute, heading in SETTINGS.items():
        if hasattr(target, attribute):
            properties = getattr(target, attribute).model_json_schema().get("properties", {})
            card[heading] = {
                name: {k: v for k, v in facts.items() if k != "title"} for name, facts in properties.items()
            }
    return card


def _suite_card(name: str, text: str, in_full: bool) -> dict[str, Any]:
    suite = parse_suite(text, f"built-in suite {name!r}")
    more = {"runs": len(suite.specs())} if in_full else {}
    return {"name": name, "title": suite.title, **more, "toml": text}


def _profile_card(name: str, text: str, in_full: bool) -> dict[str, Any]:
    title = text.partition("\n")[0].lstrip("# ")
    more = {"launcher": parse_profile(text, name).launcher} if in_full else {}
    return {"name": name, "title": title, **more, "toml": text}


def _budget_cards() -> dict[str, dict[str, Any]]:
    """Return cards of the levels, then of the paper's budget for each data set and network."""
    known = budgets()
    cards = {}
    for name, level in known.levels.items():
        changes = level.model_dump(mode="json", exclude_defaults=True, exclude={"title"})
        cards[str(name)] = {"name": name, "title": level.title, "changes": _toml_lines(changes)}
    for entry in known.papers:
        cards |= {card["name"]: card for card in (_paper_card(dataset, entry) for dataset in entry.datasets)}
    return cards


def _toml_lines(table: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{key} = {in_toml(value)}" for key, value in table.items())


def _paper_card(dataset: str, entry: PaperBudget) -> dict[str, Any]:
    budget = entry.paper
    whose = "authors" if entry.recipe else "paper"
    lines = [f"# stated by the {whose}: {entry.stated}", f"# decided: {entry.decided}", "[comparisons.budget]"]
    content = budget.model_dump(exclude_unset=True)
    steps = [step.name if step.pixels is None else step.model_dump() for step in budget.base]
    base = {"base": steps} if steps else {}
    text = "\n".join([*lines, *_toml_lines(content | base), ""])
    optimizer = f"{budget.optimizer}, rate {budget.learning_rate:g}, {budget.schedule}"
    title = f"{optimizer}; {budget.epochs} epochs, batches of {budget.batch_size}"
    name = "/".join(filter(None, (dataset, entry.network, entry.recipe)))
    return {"name": name, "title": title, "toml": text}


def _print_overview(cards: dict[str, dict[str, Any]], broken: list[str]) -> None:
    columns = ("title", "source") if any("source" in card for card in cards.values()) else ("title",)
    table = Table("name", *({"title": "what", "source": "from"}[column] for column in columns))
    for name, card in cards.items():
        table.add_row(name, *(card[column] for column in columns))
    console = new_console()
    console.print(table)
    for reason in broken:
        console.print(reason, style="red", soft_wrap=True)


def _print_card(card: dict[str, Any]) -> None:
    console = new_console()
    for key, value in card.items():
        if isinstance(value, dict):
            lines = [f"  {name}: {_setting_line(details)}" for name, details in value.items()]
        elif isinstance(value, tuple):
            lines = [f"  - {line}" for line in value]
        else:
            lines = []
        first = f"{key}: {_in_words(value)}" if not lines else f"{key}:"
        for line in [first, *lines]:
            console.print(_wrapped(line, console), highlight=False, soft_wrap=True)


def _wrapped(line: str, console: Console) -> str:
    """Break a line between words for a terminal; a file or pipe gets it whole."""
    if not console.file.isatty():
        return line
    hanging = " " * (len(line) - len(line.lstrip()) + 4)
    width = max(console.width, 2 * len(hanging))
    return textwrap.fill(line, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def _in_words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(str(value).split()) if value else "none"


LIMITS = {"minimum": "≥ ", "exclusiveMinimum": "> ", "maximum": "≤ ", "exclusiveMaximum": "< "}


def _setting_line(details: dict[str, Any]) -> str:
    details = {**details, **next(iter(details.get("anyOf", [])), {})}  # limits of an optional number
    limits = [f"{sign}{details[key]}" for key, sign in LIMITS.items() if key in details]
    choices = ["one of " + ", ".join(map(str, details["enum"]))] if "enum" in details else []
    default = "left out by default" if details.get("default") is None else f"default {details['default']}"
    default = default if "default" in details else "required"
    tried = [f"tuned: {Range.model_validate(details[TUNED])}"] if TUNED in details else []
    facts = ", ".join([default, *choices, *limits, *tried])
    return f"{details.get('description', '')} ({facts})"
