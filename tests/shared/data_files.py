"""Published files as data sets come in, made small, and the one paragraph that explains what is wrong with one."""

import gzip
import hashlib
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from augbench.bench.common.errors import UserError

PAGE = b"<!DOCTYPE html>\n<html><body>Please log in to the guest network</body></html>"


def md5(content: bytes) -> str:
    """Return the md5, hexadecimal."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def tar(members: dict[str, bytes], *more: tarfile.TarInfo) -> bytes:
    """Pack files, and other entries before them, as `.tar.gz`; the bytes, which name tests, are always the same."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry in more:
            archive.addfile(entry)
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)


def zipped(members: dict[str, bytes], link: str = "") -> bytes:
    """Pack files as `.zip`, the one named `link` as a symbolic link."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o120777 if name == link else 0o100644) << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def error_of(call: Callable[..., Any], *arguments: Any, kind: type[Exception] = UserError, **named: Any) -> str:
    """Call what must fail; return the paragraph."""
    with pytest.raises(kind) as caught:
        call(*arguments, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def failing(number: int) -> Callable[..., Any]:
    """Make a function that fails as the operating system does; permissions, for one, would not stop root."""

    def fail(*arguments: Any, **_: Any) -> None:
        raise OSError(number, os.strerror(number), *map(str, arguments[:1]))

    return fail


def has(text: str, *words: object) -> bool:
    """Make sure that all words are in a text."""
    missing = [word for word in map(str, words) if word not in text]
    assert not missing, text
    return True
