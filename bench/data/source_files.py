"""The files that data sets are prepared from: found where they lie, unpacked for a moment, or downloaded."""

import gzip
import hashlib
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
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


@dataclass(frozen=True)
class SourceFile:
    """What a data set is read from, once unpacked.

    Attributes:
        path: Where it lies below the folder of data sets once it is unpacked, in torchvision's layout; the name of a
            member of an archive is this path, too.
        md5: md5 of its content; None where nobody has published it, so that it is only taken from the packed file.
        published: The file that it comes in, which may be the same.
    """

    path: str
    md5: str | None
    published: RemoteFile

    @property
    def is_packed(self) -> bool:
        """Whether it has to be unpacked."""
        return self.path != self.published.path


def combined_md5(sources: Sequence[SourceFile]) -> str:
    """Make one checksum of those of all source files, joined in their order."""
    joined = "".join(source.md5 or source.published.md5 for source in sources)
    return "md5:" + hashlib.md5(joined.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class FileResolver:
    """Where source files may come from.

    Attributes:
        root: Folder of data sets, where downloads go.
        given: Another folder to look into, packed or unpacked files, in torchvision's layout or all in one folder.
        offline: Whether to download nothing.
        progress: Is told how far things are.
    """

    root: Path
    given: Path | None = None
    offline: bool = False
    progress: ProgressCallback = field(default_factory=ProgressCallback)

    def provide(self, sources: Sequence[SourceFile], unpacked: Path) -> dict[str, Path]:
        """Find, unpack or download files, each with the right md5.

        What lies unpacked is taken before what lies packed, the folder of data sets before the given one, a file of the
        right name before one of another, and only what is missing is downloaded.

        Args:
            sources: What is needed.
            unpacked: Folder to unpack into.

        Returns:
            The path of each source file, by the `path` of the source.

        Raises:
            MissingFilesError: If files are missing and nothing is to be downloaded.
            UserError: If a file cannot be downloaded, is damaged, or cannot be read.
        """
        found: dict[str, Path] = {}
        with disk_errors(self.root):
            missing = self.missing(sources) if self.downloads_nothing else []
            if missing:
                raise MissingFilesError(missing, self)
            for source in sources:
                path = self._lying(source)
                if path is not None:
                    found[source.path] = path
            for published in dict.fromkeys(s.published for s in sources if s.path not in found):
                wanted = [s for s in sources if s.published == published and s.path not in found]
                found |= self._from_published(published, wanted, unpacked)
        return {source.path: found[source.path] for source in sources}

    def missing(self, sources: Sequence[SourceFile]) -> list[RemoteFile]:
        """Published files of which something is nowhere to be seen, right or wrong."""
        absent = [s for s in sources if not self._is_seen(s)]
        return list(dict.fromkeys(source.published for source in absent))

    @property
    def downloads_nothing(self) -> bool:
        """Whether downloads are forbidden, here or by AUGBENCH_OFFLINE."""
        return self.offline or offline()

    def _is_seen(self, source: SourceFile) -> bool:
        published, md5 = source.published, source.md5
        if md5 and (self._candidates(source.path) or self._renamed(source.path, md5, None)):
            return True  # without an md5 it would not be taken
        return bool(self._candidates(published.path) or self._renamed(published.path, published.md5, published.size))

    def _places(self, path: str) -> list[Path]:
        places = [self.root / path]
        if self.given is not None:
            places += [self.given / path, self.given / Path(path).name]
        return list(dict.fromkeys(places))

    def _candidates(self, path: str) -> list[Path]:
        return [place for place in self._places(path) if place.is_file()]

    def alike(self, path: str, size: int | None) -> list[Path]:
        """Files beside the places of another one that have all parts of its name, such as `x (1).npz`, or its size."""
        places, parts = self._places(path), _parts_of_name(path)
        folders = dict.fromkeys(place.parent for place in places)
        beside = [file for folder in folders if os.access(folder, os.R_OK) for file in sorted(folder.glob("*"))]
        return [
            file
            for file in beside
            if file not in places and file.is_file() and os.access(file, os.R_OK)
            if parts <= _parts_of_name(file.name) or file.stat().st_size == size
        ]

    def _renamed(self, path: str, md5: str, size: int | None) -> Path | None:
        """Path of a file that is right and has another name."""
        return next((file for file in self.alike(path, size) if md5_of(file) == md5), None)

    def _lying(self, source: SourceFile) -> Path | None:
        """Path of a source file that lies unpacked and is right, perhaps under the name of the packed one."""
        md5 = source.md5
        if md5 is None or not source.is_packed:
            return None
        names = [source.path, *([source.published.path] if source.published.path == f"{source.path}.gz" else [])]
        right = (path for name in names for path in self._candidates(name) if md5_of(path) == md5)
        return next(right, None) or self._renamed(source.path, md5, None)

    def _from_published(self, published: RemoteFile, wanted: list[SourceFile], unpacked: Path) -> dict[str, Path]:
        archive = self._published(published, wanted)
        if not wanted[0].is_packed:
            return {wanted[0].path: archive}
        return unpack(archive, wanted, unpacked, self.progress)

    def _published(self, published: RemoteFile, wanted: list[SourceFile]) -> Path:
        wrong = []
        for path in self._candidates(published.path):
            what = difference(path, published.md5, published.size)
            if not what:
                return path
            wrong.append(f"{path}: {what}")
        renamed = self._renamed(published.path, published.md5, published.size)
        if renamed is not None:
            return renamed
        wrong += [
            f"{path}: {difference(path, source.md5, None)}"
            for source in wanted
            if source.is_packed and source.md5
            for path in self._candidates(source.path)
        ]
        if wrong:
            raise _damaged_error(wrong)
        if self.downloads_nothing:  # it has gone since it was seen
            raise MissingFilesError([published], self)
        return download(published, self.root, self.progress)


def _parts_of_name(path: str) -> set[str]:
    return set(re.findall("[a-z0-9]+", Path(path).name.lower()))


class MissingFilesError(UserError):
    """Published files are missing where nothing is to be downloaded; one paragraph names them all.

    Attributes:
        files: The files.
    """

    def __init__(self, files: Sequence[RemoteFile], resolver: FileResolver) -> None:
        self.files = tuple(dict.fromkeys(files))
        elsewhere = f", nor in {resolver.given}" if resolver.given else ""
        switch = "--offline is given" if resolver.offline else f"{OFFLINE_VARIABLE} is set"
        several = len(self.files) > 1
        named = [f"{resolver.root / file.path} (md5 {file.md5}, {' or '.join(file.urls)})" for file in self.files]
        alike = dict.fromkeys(str(path) for file in self.files for path in resolver.alike(file.path, None))
        others = f" Of similar names, but with another md5: {', '.join(alike)}." if alike else ""
        super().__init__(
            f"{len(self.files)} published file{'s are' if several else ' is'} not in place{elsewhere}: "
            f"{'; '.join(named)}.{others} Nothing is downloaded because {switch}. Get {'them' if several else 'it'} "
            f"where there is a network, put {'them' if several else 'it'} into a folder and give the same command "
            "again with --from FOLDER."
        )


def _damaged_error(wrong: list[str]) -> UserError:
    return UserError(
        f"A file is damaged or another one than it should be. {'; '.join(wrong)}. Delete it or put the original in its "
        "place, then give the same command again; where the file is missing, it is downloaded."
    )


def unpack(archive: Path, wanted: Sequence[SourceFile], folder: Path, progress: ProgressCallback) -> dict[str, Path]:
    """Unpack some members of an archive, `.tar.gz`, `.zip` or `.gz`, whatever else is in it.

    Only the contents of plain files are read, and names in the archive are only compared, never written to.

    Args:
        archive: The archive; its md5 has been checked.
        wanted: Its members.
        folder: Folder to unpack into.
        progress: Is told which one is being unpacked.

    Returns:
        The path of each unpacked file, by the `path` of the source.

    Raises:
        UserError: If a member is missing, no plain file or damaged.
        OSError: If something cannot be read or written.
    """
    progress.message(f"Unpacking {archive.name} …")
    targets = {source.path: folder / f"{number}-{Path(source.path).name}" for number, source in enumerate(wanted)}
    left = set(targets)
    try:
        for name, content in _members(archive, wanted[0].published.name, left.copy()):
            with content, targets[name].open("wb") as target:
                copyfileobj(content, target)
            left.discard(name)
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error, RuntimeError) as error:
        # the last one is zipfile's word for a password or a kind of compression that it does not know
        raise _unusable_error(archive, f"it cannot be unpacked ({error})") from None
    if left:
        raise _unusable_error(archive, f"it has no plain file {', '.join(sorted(left))}")
    for source in wanted:
        wrong = difference(targets[source.path], source.md5, None) if source.md5 else ""
        if wrong:
            raise _unusable_error(archive, f"{source.path} in it is another file: {wrong}")
    return targets


def _members(archive: Path, published_name: str, names: set[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Contents of the plain files of some names in an archive, whose own name may be another than the published one."""
    if published_name.endswith(".tar.gz"):
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                inside = tar.extractfile(member) if member.isreg() and member.name in names else None
                if inside is not None:
                    yield member.name, inside
    elif published_name.endswith(".zip"):
        with zipfile.ZipFile(archive) as folder:
            for entry in folder.infolist():
                if entry.filename in names and not S_ISLNK(entry.external_attr >> 16):
                    yield entry.filename, folder.open(entry)
    else:
        yield names.pop(), cast(IO[bytes], gzip.open(archive))


def _unusable_error(archive: Path, what: str) -> UserError:
    return UserError(
        f"{archive} cannot be used: {what}. Delete it or put the original in its place, then give the same command "
        "again; where the file is missing, it is downloaded."
    )
