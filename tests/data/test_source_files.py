"""Finding and unpacking source files: packed or not, in place or elsewhere, damaged, hostile, missing."""

import errno
import gzip
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from data_files import PAGE, error_of, failing, has, md5, tar, zipped

from augbench.bench.data import source_files
from augbench.bench.data.downloads import ProgressCallback, RemoteFile
from augbench.bench.data.source_files import FileResolver, MissingFilesError, SourceFile, combined_md5

FIRST, SECOND = b"the first file " * 50, b"the second file " * 50
ARCHIVE = "deeper/letters.tar.gz"
MEMBERS = {"letters/a": FIRST, "letters/b": SECOND}
FLAT = {Path(path).name: content for path, content in MEMBERS.items()}
PACKED = tar(MEMBERS)


def sources(
    packed: bytes = PACKED, name: str = ARCHIVE, *urls: str, known: bool = True, size: int | None = len(PACKED)
) -> tuple[SourceFile, ...]:
    published = RemoteFile(name, md5(packed), size, urls or ("http://127.0.0.1:1/none",))
    return tuple(SourceFile(path, md5(content) if known else None, published) for path, content in MEMBERS.items())


def packed_alone(content: bytes) -> tuple[SourceFile, ...]:
    packed = gzip.compress(content, mtime=0)
    return (SourceFile("one-idx3-ubyte", md5(content), RemoteFile("one-idx3-ubyte.gz", md5(packed), len(packed), ())),)


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGBENCH_OFFLINE", "1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a folder of data sets."""
    for name in ("root", "stick", "unpacked"):
        (tmp_path / name).mkdir()
    return tmp_path / "root"


def provide(root: Path, wanted: tuple[SourceFile, ...], given: Path | None = None, **more: Any) -> list[bytes]:
    found = FileResolver(root, given, **more).provide(wanted, root.parent / "unpacked")
    assert list(found) == [source.path for source in wanted]
    return [path.read_bytes() for path in found.values()]


def unpacked_names(root: Path) -> list[str]:
    return sorted(path.name for path in (root.parent / "unpacked").iterdir())


@pytest.mark.parametrize(
    ("in_place", "elsewhere", "unpacked"),
    [
        (MEMBERS, {}, []),
        ({"letters/b": SECOND, ARCHIVE: PACKED}, {}, ["0-a"]),
        ({ARCHIVE: PACKED[:-1]}, {ARCHIVE: PACKED}, ["0-a", "1-b"]),
        ({}, {"letters.tar.gz": PACKED}, ["0-a", "1-b"]),
        ({}, {"letters.tar.gz": FIRST, "letters (1).tar.gz": PACKED}, ["0-a", "1-b"]),  # FIRST: of another data set
        ({}, MEMBERS, []),
        ({}, FLAT, []),
    ],
)
def test_files_are_found_packed_or_not_in_place_or_elsewhere(
    in_place: dict[str, bytes], elsewhere: dict[str, bytes], unpacked: list[str], root: Path
) -> None:
    stick = write(root.parent / "stick", elsewhere)
    write(root, in_place)
    assert provide(root, sources(), stick) == [FIRST, SECOND]
    assert unpacked_names(root) == unpacked
    assert {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} == set(in_place), "it was copied"


@pytest.mark.parametrize(
    ("name", "pack"), [(ARCHIVE, tar), ("letters.zip", zipped), ("letters.gz", lambda _: gzip.compress(FIRST))]
)
def test_every_kind_of_archive_is_unpacked(name: str, pack: Callable[..., bytes], root: Path) -> None:
    packed = pack(MEMBERS)
    write(root, {name: packed, "letters/a": b"not trusted, since nobody has published its md5"})
    wanted = sources(packed, name, known=False)[: 1 if name == "letters.gz" else 2]
    heard: list[str] = []
    progress = ProgressCallback()
    progress.message = heard.append  # type: ignore[method-assign]
    assert provide(root, wanted, progress=progress) == [FIRST, SECOND][: len(wanted)]
    assert heard == [f"Unpacking {Path(name).name} …"]


@pytest.mark.parametrize("size", [len(PACKED), None])
@pytest.mark.parametrize("name", ["letters.tar (1).gz", "Copy of letters.tar.gz", "letters_tar.gz.1", "download"])
def test_the_right_bytes_are_found_under_another_name(name: str, size: int | None, root: Path) -> None:
    alike = "letters (2).tar.gz"  # a name alone is not enough
    stick = write(root.parent / "stick", {name: PACKED, alike: FIRST})
    if name == "download" and size is None:  # neither name nor size says that it may be the one
        text = error_of(provide, root, sources(size=size), stick)
        assert has(text, f"Of similar names, but with another md5: {stick / alike}")
    else:
        assert provide(root, sources(size=size), stick) == [FIRST, SECOND]


@pytest.mark.parametrize("name", ["one.idx3-ubyte", "one-idx3-ubyte.gz", "one-idx3-ubyte (1).gz"])
def test_a_file_that_a_browser_has_unpacked_or_renamed_is_taken(name: str, root: Path) -> None:
    assert provide(root, packed_alone(FIRST), write(root.parent / "stick", {name: FIRST})) == [FIRST]


def test_a_published_file_that_needs_no_unpacking(root: Path) -> None:
    write(root, MEMBERS)
    assert provide(root, (SourceFile("letters/a", md5(FIRST), RemoteFile("letters/a", md5(FIRST), 1, ())),)) == [FIRST]


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(
    ("name", "content", "wanted", "words"),
    [
        (ARCHIVE, PAGE, sources(), [md5(PAGE), md5(PACKED), "web page", "<!DOCTYPE html> <html>"]),
        (ARCHIVE, PACKED[:-9], sources(), [md5(PACKED[:-9]), f"instead of {len(PACKED)}"]),
        (ARCHIVE, FIRST, sources(), ["it is not compressed, although its name says so"]),
        ("one-idx3-ubyte.gz", FIRST, packed_alone(SECOND), ["it is not compressed, although its name says so"]),
        ("letters/a", FIRST[:-1], sources()[:1], [md5(FIRST)]),  # unpacked, where there is no archive
    ],
)
def test_a_damaged_file_is_explained_and_left_alone(
    name: str, content: bytes, wanted: tuple[SourceFile, ...], words: list[str], elsewhere: bool, root: Path
) -> None:
    stick = root.parent / "stick"
    path = write(stick if elsewhere else root, {name: content}) / name
    assert has(error_of(provide, root, wanted, stick), path, "Delete it or put the original", *words)
    assert path.read_bytes() == content


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def test_nothing_but_what_is_wanted_leaves_an_archive(root: Path) -> None:
    outside = {"../x": b"x", "/tmp/augbench-outside": b"x", "letters/../../y": b"y"}  # noqa: S108
    packed = tar(MEMBERS | outside, link("letters/c", "/etc/passwd"))
    write(root, {ARCHIVE: packed})
    before = set(root.parent.rglob("*"))
    assert provide(root, sources(packed)) == [FIRST, SECOND]
    assert {path.name for path in set(root.parent.rglob("*")) - before} == {"0-a", "1-b"}
    assert not Path("/tmp/augbench-outside").exists()  # noqa: S108


def test_archives_of_one_data_set_may_have_files_of_the_same_name(root: Path) -> None:
    packed = [tar({f"{part}/images.npy": part.encode()}) for part in ("train", "test")]
    write(root, {f"{number}.tar.gz": content for number, content in enumerate(packed)})
    remote = [RemoteFile(f"{number}.tar.gz", md5(content), None, ()) for number, content in enumerate(packed)]
    wanted = [
        SourceFile(f"{part}/images.npy", None, file) for part, file in zip(("train", "test"), remote, strict=True)
    ]
    assert provide(root, tuple(wanted)) == [b"train", b"test"]
    lacking = SourceFile("other/images.npy", None, remote[1])
    assert has(error_of(provide, root, (wanted[0], lacking)), "has no regular file other/images.npy")


def with_password() -> bytes:
    packed = bytearray(zipped(MEMBERS))
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        packed[packed.find(header) + flags] |= 1
    return bytes(packed)


@pytest.mark.parametrize(
    ("name", "packed", "words"),
    [
        *(
            (ARCHIVE, tar({"letters/b": SECOND}, link("letters/a", "/etc/passwd", kind)), "no regular file letters/a")
            for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE)
        ),
        ("x.zip", zipped(MEMBERS | {"letters/a": b"/etc/passwd"}, link="letters/a"), "no regular file letters/a"),
        ("x.zip", with_password(), "password"),
        (
            ARCHIVE,
            tar(MEMBERS | {"letters/b": b"other"}),
            f"letters/b in it is another file: its md5 is {md5(b'other')}",
        ),
        *(
            (name, content, "cannot be unpacked")
            for name in (ARCHIVE, "letters.zip", "letters.gz")
            for content in (b"no archive at all", PACKED[:50])
        ),
        (ARCHIVE, b"", "cannot be unpacked"),
        ("letters.gz", b"", "another file"),
    ],
)
def test_what_cannot_be_unpacked_is_explained(name: str, packed: bytes, words: str, root: Path) -> None:
    write(root, {name: packed})  # and its md5 is the expected one
    wanted = sources(packed, name)[: 1 if name == "letters.gz" else 2]
    assert has(error_of(provide, root, wanted), root / name, "cannot be used", words, "Delete it")


def test_a_disk_that_is_full_while_unpacking(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "copyfileobj", failing(errno.ENOSPC))
    write(root, {ARCHIVE: PACKED})
    assert has(error_of(provide, root, sources()), "is full", "Free some space", "same command again")


def test_a_file_that_cannot_be_read_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_file", failing(errno.EACCES))
    text = error_of(provide, root, sources())
    assert has(text, root / "letters/a", "Permission denied", "Change its permissions")


@pytest.mark.parametrize("switch", [True, False])
def test_nothing_is_downloaded_offline(switch: bool, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if switch:
        monkeypatch.setenv("AUGBENCH_OFFLINE", "0")
    text = error_of(provide, root, sources(PACKED, ARCHIVE, "http://a/b", "http://c/d"), root.parent, offline=switch)
    reason = "--offline is given" if switch else "AUGBENCH_OFFLINE is set"
    assert has(text, reason, root / ARCHIVE, md5(PACKED), "http://a/b or http://c/d", "--from FOLDER", root.parent)


@pytest.mark.parametrize("value", ["", "0", "false"])
def test_what_is_nowhere_is_downloaded_to_its_place(
    value: str, root: Path, file_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUGBENCH_OFFLINE", value)
    (file_server.folder / "x").write_bytes(PACKED)
    assert provide(root, sources(PACKED, ARCHIVE, file_server.url("x"))) == [FIRST, SECOND]
    assert (root / ARCHIVE).read_bytes() == PACKED
    assert len(file_server.asked) == 1


def test_one_paragraph_names_all_files_that_are_missing(root: Path) -> None:
    one, other = (SourceFile(f"letters/{n}", md5(FIRST), RemoteFile(f"letters/{n}", md5(FIRST), 1, (n,))) for n in "ab")
    text = error_of(provide, root, (one, other))
    assert text.startswith("2 published files are not in place: ")
    assert all(text.count(str(root / file.path)) == 1 for file in (one, other))
    write(root, {one.path: FIRST})
    text = error_of(provide, root, (one, other))
    assert text.startswith(f"1 published file is not in place: {root / other.path} (md5 ")


def test_missing_files_are_those_of_which_no_part_is_seen_right_or_wrong(root: Path) -> None:
    both, unknown = sources(), sources(known=False)
    for files in ({}, {"letters/a": b""}):
        assert FileResolver(write(root, files)).missing(both) == [both[0].published]
    assert FileResolver(write(root, {"letters/b": b""})).missing(both) == []
    assert FileResolver(write(root, MEMBERS)).missing(unknown) == [unknown[0].published], "they would not be trusted"
    assert has(error_of(provide, root, unknown, kind=MissingFilesError), root / ARCHIVE)


def test_a_file_that_goes_after_it_was_seen_is_not_downloaded_offline(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileResolver, "missing", lambda self, sources: [])
    assert has(error_of(provide, root, sources(), kind=MissingFilesError), root / ARCHIVE)


def test_the_combined_md5_covers_every_file_in_its_order() -> None:
    first, second = sources()
    assert combined_md5((first, second)) == "md5:" + md5((md5(FIRST) + md5(SECOND)).encode())
    assert combined_md5((second, first)) != combined_md5((first, second))
    assert combined_md5(sources(known=False)) == "md5:" + md5(2 * md5(PACKED).encode())
