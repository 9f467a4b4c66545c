"""Which code runs: a queued job has to notice when it is another."""

from pathlib import Path

import pytest

from augbench.bench.registry.plugins import plugins_added
from augbench.bench.training import code_state
from augbench.bench.training.code_state import differences, fingerprint

OLD = {
    "commit": "a" * 40,
    "dirty": False,
    "files": {"bench/a.py": "1", "bench/b.py": "2"},
    "packages": {"torch": "2.9"},
}


def test_the_same_code_has_no_differences_and_every_source_is_in_it() -> None:
    first = fingerprint()
    assert differences(first, fingerprint()) == []
    root = Path(code_state.__file__).resolve().parents[2]
    on_disk = {str(path.relative_to(root)) for name in ("bench", "methods") for path in (root / name).rglob("*.py")}
    assert on_disk <= set(first["files"])
    assert "bench/experiment/suites/paper.toml" in first["files"]


def test_what_differs_is_named() -> None:
    new = OLD | {"commit": "b" * 40, "files": {"bench/a.py": "9", "bench/c.py": "3"}, "packages": {"torch": "2.10"}}
    assert differences(OLD, new) == [
        "commit aaaaaaaaaaaa then, bbbbbbbbbbbb now",
        "bench/a.py has changed",
        "bench/c.py is new",
        "bench/b.py is gone",
        "torch 2.9 then, 2.10 now",
    ]


def test_another_commit_with_the_same_files_is_no_difference() -> None:
    assert differences(OLD, OLD | {"commit": "b" * 40, "dirty": True}) == []


def test_many_differences_are_counted() -> None:
    many = OLD | {"files": {f"bench/{index}.py": "1" for index in range(30)}}
    found = differences(OLD, many)
    assert len(found) == code_state.MOST_NAMED + 1
    assert found[-1] == f"and {32 - code_state.MOST_NAMED} more"


def test_a_plug_in_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.py"
    file.write_text("A = 1\n")
    with plugins_added([file]):
        before = fingerprint()
        file.write_text("A = 2\n")
        assert differences(before, fingerprint()) == [f"{file} has changed"]
