"""`augbench export`: the policy of a run as a file to use elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.options import DEFAULT_DATA, Data, data_folder
from augbench.bench.common.errors import UserError, one_of
from augbench.results.export import TARGETS


def export(
    out: Annotated[Path, typer.Option(help="File to write.")],
    run: Annotated[
        str | None,
        typer.Argument(help="Folder OUT/runs/NAME of a finished run; with --from its name, or the start of that."),
    ] = None,
    target: Annotated[
        str, typer.Option("--to", help=f"{', '.join(TARGETS)}: code for a library, or a file for the method `policy`.")
    ] = "torchvision",
    sources: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Output folder, or a file that `augbench archive` wrote, to choose a run from."),
    ] = None,
    method: Annotated[str | None, typer.Option(help="Method of the run.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Data set of the run.")] = None,
    network: Annotated[str | None, typer.Option(help="Network of the run.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the run. Default: the lowest, never the best on test images.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that an export has not written.")] = False,
    data: Data = DEFAULT_DATA,
) -> None:
    """Write the learned policy of a finished run as a transform for a library, or as JSON."""
    if target not in TARGETS:
        raise UserError(f"--to: {one_of('target', target, TARGETS)}")
    from augbench.results.export.choosing import Wanted, choose
    from augbench.results.export.describing import policy_of
    from augbench.results.export.evidence import evidence
    from augbench.results.export.files import check_target_file, policy_text, usage, write_policy

    check_target_file(out, force=force)
    chosen = choose(run, sources or [], Wanted(method, dataset, network, seed))
    policy = policy_of(chosen.record, lambda: data_folder(data))
    known = evidence(chosen)
    write_policy(out, policy_text(policy, target, known))
    typer.echo(f"{out}: the policy of {chosen.record.name}, seed {chosen.record.spec.seed} ({chosen.why})")
    typer.echo(usage(out, target))
