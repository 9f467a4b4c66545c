"""A share of a suite, for one of several machines: whole configurations, so that trials stay with what they are for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from augbench.bench.common.errors import UserError
from augbench.bench.common.wording import counted
from augbench.bench.experiment.spec import RunSpec

MOST_SHARES = 1000


@dataclass(frozen=True)
class Shard:
    """The `number`-th of `of` shares, counted from 1: every `of`-th configuration, with all its seeds and trials."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def chosen(self, specs: Sequence[RunSpec]) -> tuple[RunSpec, ...]:
        """Choose the runs of this share.

        Args:
            specs: All runs of a suite, in the order in which it has them.

        Raises:
            UserError: If there are more shares than configurations.
        """
        places = {kind: place for place, kind in enumerate(dict.fromkeys(spec.configuration for spec in specs))}
        if self.of > len(places):
            raise UserError(
                f"--shard {self}: the suite has {counted(len(places), 'method')} on data sets to share out, each with "
                f"all its seeds and trials, so it can have {len(places)} shares at most. Give a smaller N."
            )
        return tuple(spec for spec in specs if places[spec.configuration] % self.of == self.number - 1)


def shard_named(text: str | None) -> Shard | None:
    """Read a share such as `2/4`, the second of four; None gives None.

    Raises:
        UserError: If it is none.
    """
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text.strip())
    number, of = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= of <= MOST_SHARES:
        raise UserError(
            f"--shard {text} is no share of a suite. Give K/N, the K-th of N shares, such as 2/4: each machine gets "
            f"the same N, at most {MOST_SHARES}, and another K from 1 to N."
        )
    return Shard(number, of)
