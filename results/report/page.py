"""The page itself: one file, which needs no network."""

import base64
import hashlib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import augbench
from augbench.bench.common.errors import UserError
from augbench.bench.common.files import make_folder, write_text
from augbench.bench.common.plain_text import safe_in_page
from augbench.bench.runs.run_folder import RunState
from augbench.results.model.corruptions import BENCHMARKS
from augbench.results.model.findings import findings
from augbench.results.model.frame import Runs
from augbench.results.model.notes import run_notes
from augbench.results.report.chart_data import Json, looks_data, overlap_data, pareto_data, reliability_data, shift_data
from augbench.results.report.cost_grid import cost_grid
from augbench.results.report.failed import failed_groups
from augbench.results.report.grid import Grid, grid_of
from augbench.results.report.learning import learned_data, learned_grid
from augbench.results.report.looks import colour_styles
from augbench.results.report.origin import commits, environment_grid, result_commands, run_commands
from augbench.results.report.pictures import gallery
from augbench.results.report.results_grids import results_grids
from augbench.results.report.subject import definitions, headline_numbers, notes, subject_grids
from augbench.results.tables import all_tables
from augbench.results.tables.ensembles import ensembles_table

TITLE = "Comparison of augmentation learners"
OF_SHIFT = (*BENCHMARKS, "ood")
"""Tables of the part on other images than those of the test."""

STYLES = ("page", "tables", "charts", "print")
CHARTS = ("pareto", "reliability", "shift", "overlap", "learned")
SCRIPTS = ("dom", "axes", "marks", "pointing", "methods", "tables", *CHARTS, "start")


def write_report(runs: Runs, path: Path, title: str = TITLE, *, calibrate: bool = False) -> Path:
    """Write the report to `path`, whose folder is made if need be; returns the path.

    The runs may lack finished ones; the other arguments are those of `report_page`.

    Raises:
        UserError: If the name does not end in .html, or the file cannot be written; also as `report_page`.
    """
    check_page(path)
    make_folder(path.parent)
    write_text(path, report_page(runs, title, calibrate=calibrate))
    return path


def check_page(path: Path) -> None:
    """Check the name of a page before anything is read.

    Raises:
        UserError: If it is a folder, or its name does not end in .html.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder. Give --out the name of a file, such as {path / 'report.html'}.")
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(
            f"{path} does not end in .html, and the report is a page for a browser. Give --out a file such as "
            f"{path.with_name(path.name + '.html')}."
        )


def report_page(runs: Runs, title: str = TITLE, *, calibrate: bool = False) -> str:
    """Make the report as HTML, the same for the same runs.

    Args:
        runs: What to show.
        title: Heading of the page.
        calibrate: Whether to show ensembles of seeds and temperatures, which take long to compute.

    Raises:
        DamagedError: If predictions are damaged.
        UserError: If `calibrate`, and no run is finished or none kept its probabilities.
    """
    parts = {
        "pareto": pareto_data(runs),
        "reliability": reliability_data(runs),
        "shift": shift_data(runs),
        "overlap": overlap_data(runs),
        "learned": learned_data(runs),
    }
    data: Json = {"looks": looks_data(runs), **{name: part for name, part in parts.items() if part is not None}}
    looks = [*data["looks"].values(), *data.get("learned", {}).get("looks", {}).values()]
    style = _joined("css", STYLES) + colour_styles(look["colour"] for look in looks)
    script = f'"use strict";\n(() => {{\n{_joined("js", SCRIPTS)}}})();\n'
    environment = Environment(
        loader=PackageLoader("augbench.results.report"),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=safe_in_page,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "ensure_ascii": False, "separators": (",", ":")}
    return environment.get_template("report.html.jinja").render(
        title=title,
        version=augbench.__version__,
        style=Markup(style),  # noqa: S704 - our own files, as they are
        script=Markup(script),  # noqa: S704
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=data,
        ensembles=_ensembles(runs) if calibrate else None,
        **_texts(runs),
        result_commands=result_commands(runs, calibrate=calibrate),
    )


def _texts(runs: Runs) -> Json:
    is_finished = RunState.DONE.value in runs.states
    grids = results_grids(runs)
    tables = _tables(runs, [note for grid in grids for note in grid.notes]) if is_finished else {}
    return {
        "sources": [str(source) for source in runs.sources],
        "numbers": headline_numbers(runs),
        "warnings": runs.warnings(),
        "damaged": list(runs.damaged),
        "subjects": subject_grids(runs),
        "notes": notes(runs),
        "definitions": definitions(runs),
        "grids": grids,
        "tables": [grid for name, found in tables.items() if name not in OF_SHIFT for grid in found],
        "shift_grids": [grid for name in OF_SHIFT for grid in tables.get(name, ())],
        "findings": findings(runs) if is_finished else [],
        "learned_grid": learned_grid(runs),
        "gallery": gallery(runs),
        "failed": failed_groups(runs),
        "costs": cost_grid(runs),
        "environments": environment_grid(runs),
        "commits": commits(runs),
        "run_commands": run_commands(runs),
    }


def _tables(runs: Runs, notes: Iterable[str]) -> dict[str, list[Grid]]:
    """Tables by name as `augbench tables` writes them, without the comparison, whose numbers the page has already.

    Args:
        runs: The runs.
        notes: Sentences below other tables of the page.
    """
    files, finished = all_tables(runs, without=("comparison",)), runs.finished()
    said = {*run_notes(runs, finished), *definitions(runs), *notes}
    return {name: [grid_of(table, said) for table in tables] for name, tables in files.items()}


def _ensembles(runs: Runs) -> Grid:
    """The table of `augbench calibrate`."""
    return grid_of(ensembles_table(runs), {*run_notes(runs, runs.finished()), *definitions(runs)})


def _joined(folder: str, names: Iterable[str]) -> str:
    root = resources.files("augbench.results.report") / folder
    return "".join((root / f"{name}.{folder}").read_text("utf-8") for name in names)


def _hash(text: str) -> str:
    """Name a text as a content security policy does, so that the page runs no other script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
