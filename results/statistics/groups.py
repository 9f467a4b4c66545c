"""Groups of methods that nothing tells apart, as letters: methods with no letter in common differ significantly."""

from collections.abc import Mapping, Sequence
from string import ascii_lowercase

from augbench.results.statistics.moderated import LEVEL

Pair = tuple[str, str]


def letters(ordered: Sequence[str], p_values: Mapping[Pair, float | None], level: float = LEVEL) -> Mapping[str, str]:
    """Write which methods tests tell apart: the compact letter display of Piepho (2004, JCGS 13, insert and absorb).

    Each letter stands for a largest set of methods of which no pair is told apart. So two methods share a letter if and
    only if nothing tells them apart. Sharing one is no proof of being equal.

    Args:
        ordered: Labels, the best mean first, which decides the order of the letters.
        p_values: Of each pair, in either order, corrected; None where a pair cannot be tested, which tells
            nothing apart.
        level: Significance level.

    Returns:
        The letters of each label: `a` for the group of the best mean. After `z` follow `a2` and so on.
    """
    groups = [frozenset(ordered)]
    for pair, p_value in p_values.items():
        if p_value is not None and p_value <= level:
            split = [part for group in groups for part in _without(group, pair)]
            groups = [group for group in dict.fromkeys(split) if not any(group < other for other in split)]
    place = {label: index for index, label in enumerate(ordered)}
    groups.sort(key=lambda group: sorted(place[label] for label in group))
    names = [_name(index) for index in range(len(groups))]
    return {
        label: "".join(name for name, group in zip(names, groups, strict=True) if label in group) for label in ordered
    }


def _without(group: frozenset[str], pair: Pair) -> list[frozenset[str]]:
    """Split a group that holds both of a pair into two with one of them each."""
    return [group - {one} for one in pair] if group.issuperset(pair) else [group]


def _name(index: int) -> str:
    turn, letter = divmod(index, len(ascii_lowercase))
    return ascii_lowercase[letter] + (str(turn + 1) if turn else "")
