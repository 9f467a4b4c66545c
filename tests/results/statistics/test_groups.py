"""Letters of groups that nothing tells apart."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from augbench.results.statistics.groups import letters

LABELS = "ABCDEF"
PAIRS = list(combinations(LABELS, 2))


def test_three_methods_by_hand() -> None:
    """B lies between two that differ."""
    p_values = {("A", "B"): 0.2, ("A", "C"): 0.01, ("B", "C"): 0.051}
    assert letters("ABC", p_values) == {"A": "a", "B": "ab", "C": "b"}
    assert letters("CBA", p_values) == {"C": "a", "B": "ab", "A": "b"}, "the first one has the first letter"
    assert letters("ABC", dict.fromkeys(p_values)) == dict.fromkeys("ABC", "a"), "what is not tested is not told apart"


@given(st.sets(st.sampled_from(PAIRS)))
def test_letters_are_the_largest_sets_that_nothing_tells_apart(apart: set[tuple[str, str]]) -> None:
    found = letters(LABELS, {pair: 0.05 if pair in apart else 0.5 for pair in PAIRS})
    groups = {frozenset(label for label in LABELS if letter in found[label]) for letter in "".join(found.values())}
    subsets = [frozenset(some) for size in range(1, 7) for some in combinations(LABELS, size)]
    alike = {some for some in subsets if not any(some.issuperset(pair) for pair in apart)}
    assert groups == {some for some in alike if not any(some < other for other in alike)}


def test_after_z_letters_have_numbers() -> None:
    many = [f"m{index}" for index in range(27)]
    assert letters(many, dict.fromkeys(combinations(many, 2), 0.0))["m26"] == "a2"
