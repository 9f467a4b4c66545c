"""The examples of the page about statistics give what the page says."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "statistics.md"


def test_examples() -> None:
    text = PAGE.read_text("utf-8")
    blocks = re.findall(r"^```pycon\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 8
    examples = doctest.DocTestParser().get_doctest("".join(blocks), {}, PAGE.name, str(PAGE), 0)
    said: list[str] = []
    result = doctest.DocTestRunner().run(examples, out=said.append)
    assert result.attempted >= 15
    assert result.failed == 0, "".join(said)
