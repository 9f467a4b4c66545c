"""The files that data sets are prepared from: found where they lie, unpacked for a moment, or downloaded."""

import gzip
import hashlib
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfileobj
from stat import S_ISLNK
from typing import IO, cast

from augbench.bench.common.errors import UserError
from augbench.bench.data.downloads import (
    OFFLINE_VARIABLE,
    ProgressCallback,
    RemoteFile,
    difference,
    disk_errors,
    download,
    md5_of,
    offline,
)

REPLACE_IT = (
    "Delete it or put the original in its place, then give the same command again; a missing file is downloaded."
)


@dataclass(frozen=True)
class SourceFile:
    """A file that a data set is read from, once it is unpacked.

    Attributes:
        path: Its place below the folder of data sets once it is unpacked, in torchvision's layout; also its name in an
            archive.
        md5: md5 of its content. None if nobody has published it: then the file is only taken from the published one.
        published: The published file that holds it; the same file if nothing has to be unpacked.
    """

    path: str
    md5: str | None
    published: RemoteFile

    @property
    def is_packed(self) -> bool:
        """Whether it has to be unpacked."""
        return self.path != self.published.path


def combined_md5(sources: Sequence[SourceFile]) -> str:
    """Return one checksum, `md5:…`, of the md5s of all source files in their order."""
    joined = "".join(source.md5 or source.published.md5 for source in sources)
    return "md5:" + hashlib.md5(joined.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class FileResolver:
    """Finds source files, and downloads those that are missing.

    Attributes:
        root: Folder of data sets, where downloads go.
        given: Another folder to search: packed or unpacked files, in torchvision's layout or all in one folder.
        offline: Whether to download nothing.
        progress: Follows downloads and unpacking.
    """

    root: Path
    given: Path | None = None
    offline: bool = False
    progress: ProgressCallback = field(default_factory=ProgressCallback)

    def provide(self, sources: Sequence[SourceFile], unpacked: Path) -> dict[str, Path]:
        """Find, unpack or download files, each with the right md5.

        Unpacked files come before packed ones, the folder of data sets before the given one, and a file of the right
        name before one of another name. Only missing files are downloaded. `unpacked` is the folder to unpack into.

        Returns:
            The path of each source file, by the `path` of the source.

        Raises:
            MissingFilesError: If files are missing and downloads are forbidden.
            UserError: If a file cannot be downloaded, is damaged, or cannot be read.
        """
        with disk_errors(self.root):
            missing = self.missing(sources) if self.downloads_nothing else []
            if missing:
                raise MissingFilesError(missing, self)
            found = {source.path: path for source in sources if (path := self._unpacked(source))}
            for published in dict.fromkeys(s.published for s in sources if s.path not in found):
                wanted = [s for s in sources if s.published == published and s.path not in found]
                packed = self._published(published, wanted)
                if wanted[0].is_packed:
                    found |= unpack(packed, wanted, unpacked, self.progress)
                else:
                    found[wanted[0].path] = packed
        return {source.path: found[source.path] for source in sources}

    def missing(self, sources: Sequence[SourceFile]) -> list[RemoteFile]:
        """Return the published files of which no part is found, right or wrong."""
        return list(dict.fromkeys(source.published for source in sources if not self._is_seen(source)))

    @property
    def downloads_nothing(self) -> bool:
        """Whether downloads are forbidden, here or by AUGBENCH_OFFLINE."""
        return self.offline or offline()

    def alike(self, path: str, size: int | None) -> list[Path]:
        """Files beside the places of `path` that have all parts of its name, such as `x (1).npz`, or its size."""
        places, parts = self._places(path), _parts_of_name(path)
        folders = dict.fromkeys(place.parent for place in places)
        beside = [file for folder in folders if os.access(folder, os.R_OK) for file in sorted(folder.glob("*"))]
        return [
            file
            for file in beside
            if file not in places and file.is_file() and os.access(file, os.R_OK)
            if parts <= _parts_of_name(file.name) or file.stat().st_size == size
        ]

    def _places(self, path: str) -> list[Path]:
        places = [self.root / path]
        if self.given is not None:
            places += [self.given / path, self.given / Path(path).name]
        return list(dict.fromkeys(places))

    def _candidates(self, path: str) -> list[Path]:
        return [place for place in self._places(path) if place.is_file()]

    def _renamed(self, path: str, md5: str, size: int | None) -> Path | None:
        return next((file for file in self.alike(path, size) if md5_of(file) == md5), None)

    def _find(self, path: str, md5: str, size: int | None = None) -> Path | None:
        """Find a file with the right md5, in one of its places or under another name."""
        right = (file for file in self._candidates(path) if md5_of(file) == md5)
        return next(right, None) or self._renamed(path, md5, size)

    def _is_seen(self, source: SourceFile) -> bool:
        published, md5 = source.published, source.md5
        if md5 and (self._candidates(source.path) or self._renamed(source.path, md5, None)):
            return True  # without an md5 it would not be taken
        return bool(self._candidates(published.path) or self._renamed(published.path, published.md5, published.size))

    def _unpacked(self, source: SourceFile) -> Path | None:
        """Find a source file that is unpacked already, perhaps under the name of its `.gz` file."""
        if source.md5 is None or not source.is_packed:
            return None
        packed = source.published.path
        found = self._find(source.path, source.md5)
        return self._find(packed, source.md5) if found is None and packed == f"{source.path}.gz" else found

    def _published(self, published: RemoteFile, wanted: Sequence[SourceFile]) -> Path:
        """Find or download a published file, of which some source files are wanted."""
        found = self._find(published.path, published.md5, published.size)
        if found is not None:
            return found
        unpacked = [(source.path, source.md5, None) for source in wanted if source.is_packed and source.md5]
        wrong = [
            f"{path}: {difference(path, md5, size)}"
            for name, md5, size in [(published.path, published.md5, published.size), *unpacked]
            for path in self._candidates(name)
        ]
        if wrong:
            raise UserError(f"A file is damaged or not the expected one. {'; '.join(wrong)}. {REPLACE_IT}")
        if self.downloads_nothing:  # it has gone since it was seen
            raise MissingFilesError([published], self)
        return download(published, self.root, self.progress)


def _parts_of_name(path: str) -> set[str]:
    return set(re.findall("[a-z0-9]+", Path(path).name.lower()))


class MissingFilesError(UserError):
    """Published files, `files`, are missing and downloads are forbidden; one paragraph names them all."""

    def __init__(self, files: Iterable[RemoteFile], resolver: FileResolver) -> None:
        self.files = tuple(dict.fromkeys(files))
        are, them = ("s are", "them") if len(self.files) > 1 else (" is", "it")
        elsewhere = f", nor in {resolver.given}" if resolver.given else ""
        switch = "--offline is given" if resolver.offline else f"{OFFLINE_VARIABLE} is set"
        named = [f"{resolver.root / file.path} (md5 {file.md5}, {' or '.join(file.urls)})" for file in self.files]
        alike = dict.fromkeys(str(path) for file in self.files for path in resolver.alike(file.path, None))
        others = f" Of similar names, but with another md5: {', '.join(alike)}." if alike else ""
        super().__init__(
            f"{len(self.files)} published file{are} not in place{elsewhere}: {'; '.join(named)}.{others} Nothing is "
            f"downloaded because {switch}. Download {them} where there is a network, put {them} into a folder and give "
            "the same command again with --from FOLDER."
        )


def unpack(archive: Path, wanted: Sequence[SourceFile], folder: Path, progress: ProgressCallback) -> dict[str, Path]:
    """Unpack some members of an archive, `.tar.gz`, `.zip` or `.gz`, whose md5 has been checked.

    Only the contents of regular files are read. Names in the archive are compared and never used as paths.

    Returns:
        The path of each unpacked file, by the `path` of the source.

    Raises:
        UserError: If a member is missing, not a regular file or damaged.
        OSError: If something cannot be read or written.
    """
    progress.message(f"Unpacking {archive.name} …")
    first = len(list(folder.iterdir()))  # files of other archives, which may have the same names
    targets = {one.path: folder / f"{number}-{Path(one.path).name}" for number, one in enumerate(wanted, first)}
    try:
        for name, content in _members(archive, wanted[0].published.name, list(targets)):
            with content, targets[name].open("wb") as target:
                copyfileobj(content, target)
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error, RuntimeError) as error:
        # the last one is zipfile's for a password or a kind of compression that it does not know
        raise _unusable_error(archive, f"it cannot be unpacked ({error})") from None
    lacking = [name for name, target in targets.items() if not target.exists()]
    if lacking:
        raise _unusable_error(archive, f"it has no regular file {', '.join(sorted(lacking))}")
    for source in wanted:
        wrong = difference(targets[source.path], source.md5, None) if source.md5 else ""
        if wrong:
            raise _unusable_error(archive, f"{source.path} in it is another file: {wrong}")
    return targets


def _members(archive: Path, published_name: str, names: Sequence[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the contents of regular files in an archive, whose own name may differ from the published one."""
    if published_name.endswith(".tar.gz"):
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                if member.isreg() and member.name in names:
                    yield member.name, cast(IO[bytes], tar.extractfile(member))
    elif published_name.endswith(".zip"):
        with zipfile.ZipFile(archive) as folder:
            for entry in folder.infolist():
                if entry.filename in names and not S_ISLNK(entry.external_attr >> 16):
                    yield entry.filename, folder.open(entry)
    else:
        yield names[0], cast(IO[bytes], gzip.open(archive))


def _unusable_error(archive: Path, what: str) -> UserError:
    return UserError(f"{archive} cannot be used: {what}. {REPLACE_IT}")
