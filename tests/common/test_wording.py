"""Numbers and names in sentences."""

import pytest

from augbench.bench.common.wording import counted, few_names, listed


@pytest.mark.parametrize(("count", "words"), [(0, "0 runs"), (1, "1 run"), (1234, "1,234 runs")])
def test_counted(count: int, words: str) -> None:
    assert counted(count, "run") == words


@pytest.mark.parametrize(("names", "words"), [("a", "a"), ("ab", "a or b"), ("abc", "a, b or c")])
def test_listed(names: str, words: str) -> None:
    assert listed(list(names), "or") == words


@pytest.mark.parametrize(("names", "words"), [("ab", "a, b"), ("abc", "a, b, c"), ("abcde", "a, b, c and 2 more")])
def test_few_names(names: str, words: str) -> None:
    assert few_names(list(names), most=3) == words
