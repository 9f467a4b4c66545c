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


def test_texts_are_read_with_and_without_a_byte_order_mark_and_other_encodings_named(tmp_path: Path) -> None:
    text = tmp_path / "text"
    for mark in (b"", b"\xef\xbb\xbf"):
        text.write_bytes(mark + "Zürich\r\n".encode())
        assert read_user_text(text) == "Zürich\r\n"
    for encoding in ("utf-16", "utf-16-be", "utf-32", "utf-32-be"):
        text.write_bytes("\ufeffa".encode(encoding))
        with pytest.raises(ValueError, match="is written in UTF-16"):
            read_user_text(text)


def test_a_switch_is_on_or_off_or_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_switched_on("AUGBENCH_SWITCH")
    on, off = ("1", "true", "True", "YES", "on", "y", " 1 "), ("", " ", "0", "false", "No", "OFF", "n")
    for said in (*on, *off):
        monkeypatch.setenv("AUGBENCH_SWITCH", said)
        assert is_switched_on("AUGBENCH_SWITCH") is (said in on)
    for said in ("2", "maybe", "-", "wahr"):
        monkeypatch.setenv("AUGBENCH_SWITCH", said)
        with pytest.raises(UserError, match=f"AUGBENCH_SWITCH is '{said}', which means neither on nor off"):
            is_switched_on("AUGBENCH_SWITCH")
