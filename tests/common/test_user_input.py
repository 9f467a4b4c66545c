"""What users write for paths and switches, and what their editors put into files."""

import os
from pathlib import Path

import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.common.user_input import is_switched_on, read_user_text, user_path


def test_a_tilde_is_the_home_directory_and_other_paths_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert user_path("~/a b") == Path("/home/me/a b")
    for path in ("a~b", "/~", "$HOME/`x`", "é", os.fsdecode(b"\xff"), "no-break\xa0space"):
        assert user_path(path) == Path(path)


@pytest.mark.parametrize("character", "\n\r\t\x00\x1b\x7f\x9b\u2028")
def test_what_no_line_can_show_is_no_path(character: str) -> None:
    with pytest.raises(UserError, match=r"^--out 'a.*b' holds a line break or another control character") as refused:
        user_path(f"a{character}b", "--out")
    assert character not in str(refused.value)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_texts_are_read_with_and_without_a_byte_order_mark(mark: bytes, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(mark + "Zürich\r\n".encode())
    assert read_user_text(tmp_path / "text") == "Zürich\r\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-32-be"])
def test_texts_of_other_encodings_are_named_so(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes("\ufeffa".encode(encoding))
    with pytest.raises(ValueError, match="is written in UTF-16"):
        read_user_text(tmp_path / "text")


@pytest.mark.parametrize("said", ["1", "true", "True", "YES", "on", "y", " 1 "])
def test_a_switch_that_says_yes(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGBENCH_SWITCH", said)
    assert is_switched_on("AUGBENCH_SWITCH")


@pytest.mark.parametrize("said", [None, "", " ", "0", "false", "No", "OFF", "n"])
def test_a_switch_that_says_no(said: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if said is not None:
        monkeypatch.setenv("AUGBENCH_SWITCH", said)
    assert not is_switched_on("AUGBENCH_SWITCH")


@pytest.mark.parametrize("said", ["2", "maybe", "-", "wahr"])
def test_a_switch_that_says_neither_is_refused(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGBENCH_SWITCH", said)
    with pytest.raises(UserError, match=f"AUGBENCH_SWITCH is '{said}', which says neither yes nor no"):
        is_switched_on("AUGBENCH_SWITCH")
