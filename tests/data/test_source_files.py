"""Finding and unpacking source files: packed or not, in place or elsewhere, damaged, hostile, missing."""

import errno
import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.data import source_files
from augbench.bench.data.downloads import ProgressCallback, RemoteFile
from augbench.bench.data.source_files import FileResolver, SourceFile, combined_md5

FIRST, SECOND = b"the first file " * 50, b"the second file " * 50
HTML = b"<!DOCTYPE html>\n<html><body>Please log in to the guest network</body></html>"
ARCHIVE = "letters.tar.gz"
MEMBERS = {"letters/a": FIRST, "letters/b": SECOND}


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def tar(members: dict[str, bytes], *more: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for entry in more:
            archive.addfile(entry)
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def zipped(members: dict[str, bytes], link: str = "") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o120777 if name == link else 0o100644) << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


PACKED = tar(MEMBERS)


def sources(packed: bytes = PACKED, name: str = ARCHIVE, *urls: str, known: bool = True) -> tuple[SourceFile, ...]:
    published = RemoteFile(name, md5(packed), len(packed), urls or ("http://127.0.0.1:1/none",))
    return tuple(SourceFile(path, md5(content) if known else None, published) for path, content in MEMBERS.items())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a folder of data sets."""
    (tmp_path / "root" / "letters").mkdir(parents=True)
    (tmp_path / "unpacked").mkdir()
    return tmp_path / "root"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGBENCH_OFFLINE", "1")


def provide(root: Path, wanted: tuple[SourceFile, ...], given: Path | None = None, **more: Any) -> list[bytes]:
    found = FileResolver(root, given, **more).provide(wanted, root.parent / "unpacked")
    assert list(found) == [source.path for source in wanted]
    return [path.read_bytes() for path in found.values()]


def error_of(root: Path, wanted: tuple[SourceFile, ...], given: Path | None = None, **more: Any) -> str:
    with pytest.raises(UserError) as caught:
        provide(root, wanted, given, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_lies_unpacked_is_taken_where_it_is(root: Path) -> None:
    for path, content in MEMBERS.items():
        (root / path).write_bytes(content)
    assert provide(root, sources()) == [FIRST, SECOND]
    assert not list((root.parent / "unpacked").iterdir())


def test_what_is_missing_unpacked_comes_from_the_archive(root: Path) -> None:
    (root / "letters/b").write_bytes(SECOND)
    (root / ARCHIVE).write_bytes(PACKED)
    assert provide(root, sources()) == [FIRST, SECOND]
    assert [path.name for path in (root.parent / "unpacked").iterdir()] == ["0-a"]


@pytest.mark.parametrize(
    ("name", "pack"), [(ARCHIVE, tar), ("letters.zip", zipped), ("letters.gz", lambda _: gzip.compress(FIRST))]
)
def test_every_kind_of_archive_is_unpacked(name: str, pack: Callable[..., bytes], root: Path) -> None:
    packed = pack(MEMBERS)
    (root / name).write_bytes(packed)
    wanted = sources(packed, name, known=False)[: 1 if name == "letters.gz" else 2]
    assert provide(root, wanted) == [FIRST, SECOND][: len(wanted)]


def test_unpacked_files_of_unknown_md5_are_not_trusted(root: Path) -> None:
    (root / "letters/a").write_bytes(b"something else")
    (root / ARCHIVE).write_bytes(PACKED)
    assert provide(root, sources(known=False)) == [FIRST, SECOND]


@pytest.mark.parametrize("place", [ARCHIVE, f"deeper/{ARCHIVE}"])
def test_another_folder_has_the_archive(place: str, root: Path, tmp_path: Path) -> None:
    path = tmp_path / "stick" / place
    path.parent.mkdir(parents=True)
    path.write_bytes(PACKED)
    wanted = tuple(
        SourceFile(one.path, one.md5, RemoteFile(f"deeper/{ARCHIVE}", one.published.md5, None, ())) for one in sources()
    )
    assert provide(root, wanted, tmp_path / "stick") == [FIRST, SECOND]
    assert not any(path.is_file() for path in root.rglob("*")), "it was copied"


@pytest.mark.parametrize("place", ["", "letters"])
def test_another_folder_has_unpacked_files(place: str, root: Path, tmp_path: Path) -> None:
    (tmp_path / "stick" / place).mkdir(parents=True)
    for path, content in MEMBERS.items():
        (tmp_path / "stick" / place / Path(path).name).write_bytes(content)
    assert provide(root, sources(), tmp_path / "stick") == [FIRST, SECOND]


@pytest.mark.parametrize("size", [len(PACKED), None])
@pytest.mark.parametrize("name", ["letters.tar (1).gz", "Copy of letters.tar.gz", "letters_tar.gz.1", "download"])
def test_the_right_bytes_are_found_under_another_name(name: str, size: int | None, root: Path, tmp_path: Path) -> None:
    stick = tmp_path / "stick"
    stick.mkdir()
    (stick / name).write_bytes(PACKED)
    (stick / "letters (2).tar.gz").write_bytes(FIRST)  # a name alone is not enough
    wanted = tuple(SourceFile(s.path, s.md5, RemoteFile(ARCHIVE, md5(PACKED), size, ())) for s in sources())
    if name == "download" and size is None:  # neither name nor size says that it may be the one
        assert "Of similar names, but with another md5: " + str(stick / "letters (2).tar.gz") in error_of(
            root, wanted, stick
        )
    else:
        assert provide(root, wanted, stick) == [FIRST, SECOND]


def test_the_right_bytes_are_taken_where_the_right_name_has_others(root: Path, tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).write_bytes(FIRST)  # that of another data set
    (tmp_path / "letters (1).tar.gz").write_bytes(PACKED)
    assert provide(root, sources(), tmp_path) == [FIRST, SECOND]


def packed_alone(content: bytes) -> tuple[SourceFile, ...]:
    packed = gzip.compress(content, mtime=0)
    return (SourceFile("one-idx3-ubyte", md5(content), RemoteFile("one-idx3-ubyte.gz", md5(packed), len(packed), ())),)


@pytest.mark.parametrize("name", ["one.idx3-ubyte", "one-idx3-ubyte.gz", "one-idx3-ubyte (1).gz"])
def test_a_file_that_a_browser_has_unpacked_or_renamed_is_taken(name: str, root: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FIRST)
    assert provide(root, packed_alone(FIRST), tmp_path) == [FIRST]


@pytest.mark.parametrize("wanted", [sources(), packed_alone(SECOND)])
def test_what_has_been_unpacked_and_is_another_file_is_said_to_be(wanted: tuple[SourceFile, ...], root: Path) -> None:
    (root / wanted[0].published.path).write_bytes(FIRST)
    assert "it is not packed, though its name says so" in error_of(root, wanted)


def test_a_sound_file_elsewhere_is_taken_where_the_one_in_place_is_damaged(root: Path, tmp_path: Path) -> None:
    (root / ARCHIVE).write_bytes(PACKED[:-1])
    (tmp_path / ARCHIVE).write_bytes(PACKED)
    assert provide(root, sources(), tmp_path) == [FIRST, SECOND]


def test_a_published_file_that_needs_no_unpacking(root: Path) -> None:
    published = RemoteFile("letters/a", md5(FIRST), len(FIRST), ())
    (root / "letters/a").write_bytes(FIRST)
    assert provide(root, (SourceFile("letters/a", md5(FIRST), published),)) == [FIRST]


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(
    ("content", "words"), [(HTML, ["web page", "<!DOCTYPE html> <html>"]), (PACKED[:-9], [f"instead of {len(PACKED)}"])]
)
def test_a_damaged_archive_is_explained(
    content: bytes, words: list[str], elsewhere: bool, root: Path, tmp_path: Path
) -> None:
    folder = tmp_path if elsewhere else root
    (folder / ARCHIVE).write_bytes(content)
    text = error_of(root, sources(), tmp_path if elsewhere else None)
    assert all(word in text for word in [str(folder / ARCHIVE), md5(content), md5(PACKED), "Delete it", *words])
    assert (folder / ARCHIVE).read_bytes() == content


def test_a_damaged_unpacked_file_is_explained_where_there_is_no_archive(root: Path) -> None:
    (root / "letters/a").write_bytes(FIRST[:-1])
    (root / "letters/b").write_bytes(SECOND)
    text = error_of(root, sources())
    assert all(word in text for word in [str(root / "letters/a"), md5(FIRST), "Delete it"])


@pytest.mark.parametrize("switch", [True, False])
def test_nothing_is_downloaded_offline(switch: bool, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if switch:
        monkeypatch.setenv("AUGBENCH_OFFLINE", "0")
    text = error_of(root, sources(PACKED, ARCHIVE, "http://a/b", "http://c/d"), root.parent, offline=switch)
    reason = "--offline is given" if switch else "AUGBENCH_OFFLINE is set"
    words = [reason, ARCHIVE, md5(PACKED), "http://a/b or http://c/d", "--from FOLDER", str(root), str(root.parent)]
    assert all(word in text for word in words)


@pytest.mark.parametrize("value", ["", "0", "false"])
def test_what_is_nowhere_is_downloaded_to_its_place(
    value: str, root: Path, file_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUGBENCH_OFFLINE", value)
    (file_server.folder / "x").write_bytes(PACKED)
    assert provide(root, sources(PACKED, ARCHIVE, file_server.url("x"))) == [FIRST, SECOND]
    assert (root / ARCHIVE).read_bytes() == PACKED
    assert len(file_server.asked) == 1


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def test_nothing_but_what_is_wanted_leaves_an_archive(root: Path) -> None:
    outside = {"../x": b"x", "/tmp/augbench-outside": b"x", "letters/../../y": b"y"}  # noqa: S108
    packed = tar(MEMBERS | outside, link("letters/c", "/etc/passwd"))
    (root / ARCHIVE).write_bytes(packed)
    before = set(root.parent.rglob("*"))
    assert provide(root, sources(packed)) == [FIRST, SECOND]
    assert {path.name for path in set(root.parent.rglob("*")) - before} == {"0-a", "1-b"}
    assert not Path("/tmp/augbench-outside").exists()  # noqa: S108


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_link_in_place_of_a_file_is_refused(kind: bytes, root: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(FIRST)
    packed = tar({"letters/b": SECOND}, link("letters/a", str(secret), kind))
    (root / ARCHIVE).write_bytes(packed)
    text = error_of(root, sources(packed))
    assert all(word in text for word in (ARCHIVE, "no plain file letters/a", "Delete it"))


def test_a_link_in_a_zip_file_is_refused(root: Path) -> None:
    packed = zipped(MEMBERS | {"letters/a": b"/etc/passwd"}, link="letters/a")
    (root / "letters.zip").write_bytes(packed)
    assert "no plain file letters/a" in error_of(root, sources(packed, "letters.zip", known=False))


@pytest.mark.parametrize("name", [ARCHIVE, "letters.zip", "letters.gz"])
@pytest.mark.parametrize("content", [b"no archive at all", PACKED[:50], b""], ids=["other", "cut", "empty"])
def test_what_cannot_be_unpacked_is_explained(content: bytes, name: str, root: Path) -> None:
    (root / name).write_bytes(content)  # and its md5 is the one that is expected
    text = error_of(root, sources(content, name)[:1])
    assert all(word in text for word in (str(root / name), "cannot be used", "Delete it"))


def test_an_archive_with_a_password_is_explained(root: Path) -> None:
    packed = bytearray(zipped(MEMBERS))
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        packed[packed.find(header) + flags] |= 1
    (root / "letters.zip").write_bytes(packed)
    text = error_of(root, sources(bytes(packed), "letters.zip"))
    assert all(word in text for word in ("cannot be used", "password", "Delete it"))


def test_a_member_with_another_content_is_explained(root: Path) -> None:
    packed = tar(MEMBERS | {"letters/b": b"other"})
    (root / ARCHIVE).write_bytes(packed)
    text = error_of(root, sources(packed))
    assert all(word in text for word in ("letters/b", md5(b"other"), md5(SECOND)))


def test_a_disk_that_is_full_while_unpacking(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(source_files, "copyfileobj", full)
    (root / ARCHIVE).write_bytes(PACKED)
    assert all(word in error_of(root, sources()) for word in ("is full", "Free some space", "same command again"))


def test_a_file_that_cannot_be_read_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)  # permissions would not stop root
    text = error_of(root, sources())
    assert all(word in text for word in (str(root / "letters/a"), "Permission denied", "Change its permissions"))


def test_one_paragraph_names_all_files_that_are_missing(root: Path) -> None:
    one, other = (SourceFile(f"letters/{n}", md5(FIRST), RemoteFile(f"letters/{n}", md5(FIRST), 1, (n,))) for n in "ab")
    text = error_of(root, (one, other))
    assert text.startswith("2 published files are not in place: ")
    assert all(text.count(str(root / file.path)) == 1 for file in (one, other))
    (root / one.path).write_bytes(FIRST)
    assert error_of(root, (one, other)).startswith(f"1 published file is not in place: {root / other.path} (md5 ")


def test_unpacked_files_of_unknown_md5_do_not_stand_for_their_archive(root: Path) -> None:
    for path, content in MEMBERS.items():
        (root / path).write_bytes(content)
    unknown = sources(known=False)
    assert FileResolver(root).missing(unknown) == [unknown[0].published]
    assert str(root / ARCHIVE) in error_of(root, unknown)


def test_missing_files_are_those_that_lie_neither_packed_nor_unpacked(root: Path) -> None:
    both = sources()
    assert FileResolver(root).missing(both) == [both[0].published]
    (root / "letters/a").write_bytes(b"")
    assert FileResolver(root).missing(both) == [both[0].published]
    (root / "letters/b").write_bytes(b"")
    assert FileResolver(root).missing(both) == []


def test_the_combined_md5_covers_every_file_in_its_order() -> None:
    first, second = sources()
    assert combined_md5((first, second)) == "md5:" + md5((md5(FIRST) + md5(SECOND)).encode())
    assert combined_md5((second, first)) != combined_md5((first, second))
    assert combined_md5(sources(known=False)) == "md5:" + md5(2 * md5(PACKED).encode())


def test_listeners_hear_of_the_archive(root: Path) -> None:
    heard: list[str] = []
    progress = ProgressCallback()
    progress.message = heard.append  # type: ignore[method-assign]
    (root / ARCHIVE).write_bytes(PACKED)
    provide(root, sources(), progress=progress)
    assert heard == [f"Unpacking {ARCHIVE} …"]
