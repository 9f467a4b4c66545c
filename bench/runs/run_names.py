"""Find the runs that are meant by a name, or by the beginning of one."""

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from augbench.bench.common.errors import UserError, shortened

MOST_NAMES = 5


def run_named(given: str, names: Sequence[str]) -> str:
    """Find the run that somebody means.

    Args:
        given: The name of its folder, the beginning of that, or of the identity at its end; or a path that ends so.
        names: Names of all run folders.

    Raises:
        UserError: If there is none, or several.
    """
    wanted = Path(given).name
    if wanted in names:
        return wanted
    found = [name for name in names if name.startswith(wanted) or name.rpartition("_")[2].startswith(wanted)]
    if wanted and len(found) == 1:
        return found[0]
    if not wanted or not found:
        raise UserError(_there_is_none(given, wanted, names))
    others = f" and {len(found) - MOST_NAMES} more" if len(found) > MOST_NAMES else ""
    raise UserError(
        f"{shortened(given)!r} matches {len(found)} runs: {', '.join(found[:MOST_NAMES])}{others}. Give more of the "
        "name, or the digits at its end."
    )


def runs_named(given: Sequence[str], names: Sequence[str]) -> list[str]:
    """Find the runs that somebody means, each once.

    Args:
        given: As for one run; or patterns with `*`, which stand for any number of runs.
        names: Names of all run folders.

    Raises:
        UserError: If one of them stands for no run, or is no pattern and stands for several.
    """
    found: dict[str, None] = {}
    for one in given:
        matching = [name for name in names if fnmatchcase(name, one)] if "*" in one else [run_named(one, names)]
        if not matching:
            raise UserError(_there_is_none(one, one.strip("*"), names))
        found |= dict.fromkeys(matching)
    return list(found)


def _there_is_none(given: str, wanted: str, names: Sequence[str]) -> str:
    close = get_close_matches(wanted, names, n=3, cutoff=0.5)
    example = f" There is, for instance, {names[0]}." if names else ""  # none where every folder is damaged
    guess = f" Did you mean {' or '.join(close)}?" if close else example
    return (
        f"There is no run {shortened(given)!r}.{guess} Give the name of its folder, the start of that name, or the "
        "start of the digits at its end."
    )
