"""Numbers and names in sentences."""

import pytest

from augbench.bench.common.wording import counted, few_names, listed, two_digits


@pytest.mark.parametrize(("count", "words"), [(0, "0 runs"), (1, "1 run"), (1234, "1,234 runs")])
def test_counted(count: int, words: str) -> None:
    assert counted(count, "run") == words


@pytest.mark.parametrize(("names", "words"), [("a", "a"), ("ab", "a or b"), ("abc", "a, b or c")])
def test_listed(names: str, words: str) -> None:
    assert listed(list(names), "or") == words


@pytest.mark.parametrize(("names", "words"), [("ab", "a, b"), ("abc", "a, b, c"), ("abcde", "a, b, c and 2 more")])
def test_few_names(names: str, words: str) -> None:
    assert few_names(list(names), most=3) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [(0.4, "0.40"), (2, "2.0"), (1.96, "2.0"), (9.96, "10"), (12.3, "12"), (123.4, "123"), (0, "0.0")],
)
def test_two_digits(number: float, words: str) -> None:
    assert two_digits(number) == words
