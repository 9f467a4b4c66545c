"""`augbench demo`: the first comparison, end to end."""

from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.options import LaunchDevice, LaunchOptions, RetryFailed, Workers
from augbench.bench.commands.plain import new_console
from augbench.bench.commands.showing import show_tables
from augbench.bench.experiment.suite import load_suite


def demo(
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("augbench-demo"),
    workers: Workers = None,
    device: LaunchDevice = None,
    retry_failed: RetryFailed = False,
) -> None:
    """Compare five learners on upright and rotated digits: a table, what each one found, figures and a report."""
    from augbench.bench.commands.executing import execute
    from augbench.bench.commands.placing import raise_unfinished

    request = LaunchOptions(launcher="local", workers=workers, device=device or "cpu").request(out)
    ended = execute(load_suite("demo"), request, retry_failed=retry_failed).plan
    if len(ended.unfinished()) < len(ended.runs):
        show(out)
    raise_unfinished(ended, out)


def show(out: Path) -> None:
    """Print the table and the findings of an output folder and write tables, figures and a report beside its runs."""
    from augbench.results.figures import write_figures
    from augbench.results.model.findings import findings
    from augbench.results.model.frame import load_runs
    from augbench.results.report import TITLE, write_report
    from augbench.results.tables import write_tables

    console = new_console()
    runs = load_runs(out)
    show_tables(runs, ["comparison"])
    console.print("\nWhich symmetries did each learner find?", style="bold")
    for sentence in findings(runs):
        console.print(f"• {sentence}", highlight=False)
    written = [*write_tables(runs, out / "tables"), *write_figures(runs, out / "figures")]
    report = write_report(runs, out / "report.html", TITLE)
    typer.echo(f"\n{len(written)} files with tables and figures are in {out / 'tables'} and {out / 'figures'}.")
    typer.echo(f"Everything on one page, for a browser: {report}")
