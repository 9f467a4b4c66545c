"""What docs/performance.md tells people to do works, and what it says of options and sections is what there is."""

import json
import re
from pathlib import Path

import pytest

from augbench.bench.experiment.acceleration import Acceleration
from benchmarks.sections import SECTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "performance.md").read_text("utf-8")


def first_column(heading: str) -> list[str]:
    (part,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\| `(\w+)`", part, re.MULTILINE)


def test_a_step_is_profiled(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(code, "performance.md", "exec"), {})  # noqa: S102 - our own page
    shown = capsys.readouterr().out
    assert "Self CPU" in shown
    assert "conv" in shown


def test_all_options_and_sections_are_on_the_page() -> None:
    fields = Acceleration.model_fields
    assert first_column("Options of a budget") == list(fields)
    assert first_column("How to measure") == list(SECTIONS)
    for name, field in fields.items():
        default = f"`{json.dumps(field.default)}`"
        assert f"| `{name}` | {default} |" in PAGE
