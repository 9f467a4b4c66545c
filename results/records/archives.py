"""Archives of run folders, as `augbench archive` packs them: .tar.gz files with `runs/RUN/…` in them.

An archive may come from a stranger. Only regular files of runs are unpacked, into a new temporary folder and no more
than the disk has room for; `tarfile`'s data filter guards against paths that lead out of it.
"""

import gzip
import io
import json
import shutil
import tarfile
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import atomic_write, read_json
from augbench.bench.runs.output_folder import MARKER
from augbench.bench.runs.run_folder import DamagedError, RunState
from augbench.results.records.folders import stored_runs
from augbench.results.records.problems import Problem
from augbench.results.records.record import Record
from augbench.results.records.stored import ADVICE, TEXTS, Stored

FORMAT = 1
MANIFEST = "archive.json"
"""File beside `runs` that says the version of the format, and the states of runs that have no result."""
LOG = "log.txt"
FILES = (*TEXTS.values(), "predictions.npz", "examples.npz", LOG)
"""Files of a run that are packed: neither network nor checkpoint, and nothing that says who owns it."""
MOST_BYTES_OF_A_FILE = 4 * 2**30
MOST_BYTES_AT_THE_END = 2**20  # of zeros that fill the last block; tar makes blocks of 10 KiB
FRACTION_OF_FREE_SPACE = 0.9
UNREADABLE = (tarfile.TarError, OSError, EOFError, zlib.error, ValueError)


def write_archive(records: list[Record], path: Path, *, anonymous: bool = False) -> None:
    """Pack run folders, atomically; the same folders give the same bytes.

    Args:
        records: The runs; each must have a folder.
        path: The file; its folder must exist.
        anonymous: Leave out the logs, which may contain anything.

    Raises:
        DamagedError: If a file of a run cannot be read.
        UserError: If it cannot be written, or a run was read from a file that has no predictions.
    """
    with atomic_write(path) as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            _add(archive, MANIFEST, _manifest(records))
            for record in sorted(records, key=lambda record: record.name):
                for name, content in _contents(record):
                    if not (anonymous and name == LOG):
                        _add(archive, f"runs/{record.name}/{name}", content)


def _manifest(records: list[Record]) -> bytes:
    states = {record.name: record.state.value for record in records if record.state is not RunState.DONE}
    return json.dumps({"format": FORMAT, "states": states}, indent=1, sort_keys=True).encode()


def _contents(record: Record) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a run by name: texts as they were read, others if they still exist."""
    stored = record.stored
    if stored.folder is None:
        raise UserError(
            f"{stored.place} cannot be packed as .tar.gz, since a .parquet file has no predictions. "
            "Give a file that ends in .parquet with --out, or the run folders with --from."
        )
    yield from texts_of(stored)
    for name in FILES[len(TEXTS) :]:
        try:
            yield name, (stored.folder.path / name).read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:  # else it would look as if the archive could not be written
            raise DamagedError(f"{name} in {stored.place} cannot be read: {error.strerror}. {ADVICE}") from None


def texts_of(stored: Stored) -> Iterator[tuple[str, bytes]]:
    """Yield the text files of a run by name, as they were read."""
    yield from ((file, text) for name, file in TEXTS.items() if (text := getattr(stored, name)))


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)  # of nobody, in 1970
    member.size, member.mode = len(content), 0o644
    archive.addfile(member, io.BytesIO(content))


@dataclass
class Archive:
    """An archive that is unpacked into a temporary folder, which goes with the object.

    Attributes:
        path: The file.
        folder: Where it is unpacked.
        passed_over: Files in it that belong to no run.

    Raises:
        UserError: If it is no archive, truncated or too large, or holds no runs, links, or paths that lead out of it.
    """

    path: Path
    folder: Path = field(init=False)
    passed_over: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="augbench-archive-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        try:
            with gzip.open(self.path) as packed, tarfile.open(fileobj=packed, mode="r:") as archive:
                self._unpack(archive)
                self._read_to_the_end(packed)
        except UNREADABLE as error:
            raise UserError(
                f"{self.path} is no complete archive (.tar.gz): {str(error) or type(error).__name__}. Copy it again, "
                "or make it again with `augbench archive`."
            ) from None
        if not (self.folder / "runs").is_dir():
            raise UserError(
                f"{self.path} holds no runs: there is no folder `runs` with a folder for each run in it. Make it with "
                "`augbench archive --from OUT --out NAME.tar.gz`."
            )

    def _unpack(self, archive: tarfile.TarFile) -> None:
        left = int(shutil.disk_usage(self.folder).free * FRACTION_OF_FREE_SPACE)
        top: PurePosixPath | None = None
        for member in archive:
            self._check(member)
            left -= member.size
            if left < 0:
                raise self._refused(f"it does not fit on the disk of {self.folder}")
            path = PurePosixPath(member.name)
            if not member.isfile():
                continue
            if path.name == MANIFEST and top in (None, path.parent):
                top = path.parent
                self._extract(archive, member, PurePosixPath(MANIFEST))
            elif "runs" in path.parts:
                above = PurePosixPath(*path.parts[: path.parts.index("runs")])
                top = above if top is None else top
                if above != top:
                    raise self._refused(f"it holds several folders `runs`, in {top} and {above}; pack each on its own")
                self._extract_of_run(archive, member, path.relative_to(above))

    def _read_to_the_end(self, packed: gzip.GzipFile) -> None:
        """Read what follows the last file: the checksum of everything stands at the very end."""
        left = MOST_BYTES_AT_THE_END
        while read := len(packed.read(2**16)):
            left -= read
            if left < 0:
                raise self._refused("there is more behind its last file")

    def _extract_of_run(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: PurePosixPath) -> None:
        """Unpack one file below `runs` if runs are read from it."""
        if len(path.parts) > 2 and not path.parts[1].startswith("."):
            (self.folder / "runs" / path.parts[1]).mkdir(parents=True, exist_ok=True)  # foreign ones are to be seen
            if len(path.parts) == 3 and path.name in FILES:
                self._extract(archive, member, path)
        elif len(path.parts) == 2 and path.name != MARKER and not path.name.startswith("."):
            self.passed_over.append(path.name)
        elif path == PurePosixPath("runs") / MARKER:
            self._extract(archive, member, path)

    def _check(self, member: tarfile.TarInfo) -> None:
        try:
            # The filter refuses what leads out of the folder, and turns an absolute path into a relative one.
            is_safe = tarfile.data_filter(member, str(self.folder)).name == member.name
        except tarfile.FilterError:
            is_safe = False
        # A sparse file can be far larger than its size in the archive.
        if not is_safe or not (member.isfile() or member.isdir()) or member.issparse():
            raise self._refused(f"it holds a link, a special file or a path that leads out of it: {member.name!r}")
        if member.size > MOST_BYTES_OF_A_FILE:
            raise self._refused(f"{member.name!r} has {member.size / 2**30:.0f} GB, more than any file of a run")

    def _extract(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: PurePosixPath) -> None:
        undated = member.replace(name=str(path), mtime=None, deep=False)  # type: ignore[arg-type]  # None: leave it
        archive.extract(undated, self.folder, filter="data")

    def _refused(self, reason: str) -> UserError:
        return UserError(
            f"{self.path} was not unpacked: {reason}. `augbench archive` writes no such archive; ask whoever made it."
        )

    def stored_runs(self, source: str, *, skip_damaged: bool = False) -> Iterator[Stored | Problem]:
        """Read the files of every run.

        Args:
            source: What was given with --from.
            skip_damaged: Yield a problem in place of a damaged folder.

        Raises:
            DamagedError: If a run folder is damaged, unless `skip_damaged`.
            UserError: If it was written by a newer augbench or under a newer protocol version.
        """
        states = self._states()
        for name in self.passed_over:
            yield Problem("foreign", f"{name} in {self.path} belongs to no run and is ignored.", name)
        for one in self._found(source, skip_damaged=skip_damaged):
            if isinstance(one, Problem):
                yield one
                continue
            known = states.get(one.name) if one.state is not RunState.DONE else None
            yield replace(one, state=RunState(known) if known in list(RunState) else one.state, needs=self)

    def _found(self, source: str, *, skip_damaged: bool) -> Iterator[Stored | Problem]:
        try:
            yield from stored_runs(
                self.folder, source, lambda path: f"{path.name} in {self.path}", skip_damaged=skip_damaged
            )
        except DamagedError:
            raise
        except UserError as error:  # nobody knows the temporary folder
            raise UserError(str(error).replace(str(self.folder), str(self.path))) from None

    def _states(self) -> dict[str, str]:
        """Read the states of runs without a result when they were packed: their owners can no longer be asked."""
        if not (self.folder / MANIFEST).exists():  # packed by hand
            return {}
        try:
            content = read_json(self.folder / MANIFEST)
            newer, states = int(content["format"]) > FORMAT, dict(content["states"])
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise UserError(f"{MANIFEST} in {self.path} is damaged: {error}. Make the archive again.") from None
        if newer:
            raise UserError(
                f"{self.path} was written by a newer augbench, in a format that this one cannot read. Install a newer "
                "augbench (`pip install --upgrade augbench`)."
            )
        return states
