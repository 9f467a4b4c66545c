"""All of MNIST, 60,000 training and 10,000 test digits, from a local folder or downloaded through torchvision."""

import gzip
import hashlib
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

import numpy as np
import torch

from augbench.bench.dataset import DatasetOptions, DatasetSource, ImageData, Split
from augbench.bench.errors import UserError
from augbench.bench.registry import register
from augbench.datasets.mnist5k import DigitOptions, shrink

FOLDER = Path("MNIST", "raw")  # below the folder of data sets; torchvision's layout
UNPACKED_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
OFFLINE_VARIABLE = "AUGBENCH_OFFLINE"
NETWORK_TIMEOUT = 30.0  # seconds without any answer


@register("mnist")
class Mnist(DatasetSource):
    """MNIST as published: 60,000 digits to train on, 10,000 to test on, 10 classes, 28×28 pixels, grey.

    Files are downloaded by `check` only, which runs once before any run starts; `load` only reads, so that
    runs side by side cannot get into each other's way.
    """

    title = "MNIST: 60,000 train, 10,000 test; local files or a download"
    checksum = "md5:f85aa589f05f099f408a1805d8a18637"  # of the md5s in UNPACKED_MD5, joined in their order
    options_type = DigitOptions

    def load(self, options: DatasetOptions, root: Path) -> ImageData:
        """Read the digits from `MNIST/raw` below `root`, the files packed or not; nothing is downloaded."""
        missing = _missing(root)
        if missing:
            raise _missing_error(missing, root)
        size = DigitOptions.model_validate(options.model_dump()).size
        return ImageData(
            train=_read_split("train", size, root),
            test=_read_split("t10k", size, root),
            classes=10,
            provenance=f"MNIST's four original files as torchvision downloads them, {self.checksum}",
        )

    def check(self, options: DatasetOptions, root: Path) -> None:
        """Download what is missing, unless AUGBENCH_OFFLINE is set, and make sure that all of it can be loaded.

        Raises:
            UserError: If a file is missing and cannot be downloaded, or is damaged.
        """
        missing = _missing(root)
        if missing and not _offline():
            _download(missing, root)
        self.load(options, root)


def packed_md5() -> dict[str, str]:
    """Return the md5 of each `.gz` file by its name, as torchvision knows them."""
    from torchvision.datasets import MNIST  # here, since it takes seconds and is seldom needed

    return dict(MNIST.resources)


def _offline() -> bool:
    return os.environ.get(OFFLINE_VARIABLE, "") not in ("", "0")


def _find(name: str, root: Path) -> Path | None:
    """Path of the unpacked file, else of the packed one, else nothing."""
    candidates = (root / FOLDER / name, root / FOLDER / f"{name}.gz")
    try:
        return next((path for path in candidates if path.exists()), None)
    except OSError as error:
        raise _unreadable_error(root / FOLDER, error) from None


def _missing(root: Path) -> list[str]:
    return [name for name in UNPACKED_MD5 if _find(name, root) is None]


def _read_split(part: str, size: int, root: Path) -> Split:
    images = _read_array(f"{part}-images-idx3-ubyte", root)
    labels = _read_array(f"{part}-labels-idx1-ubyte", root)
    return Split(shrink(images[:, None], size), labels.long())


def _read_array(name: str, root: Path) -> torch.Tensor:
    """Tensor in an idx file: two zeros, type (8: uint8), dimensions, then each size as big-endian int32, then data."""
    content = _read_verified(name, root)
    dimensions = content[3]
    shape = np.frombuffer(content, dtype=">i4", count=dimensions, offset=4)
    values = np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * dimensions)
    return torch.from_numpy(values.reshape(shape).copy())  # bytes are read-only, which torch would warn about


def _read_verified(name: str, root: Path) -> bytes:
    """Unpacked content of a file whose md5 was checked before anything else is done with it."""
    path = _find(name, root)
    if path is None:
        raise _missing_error([name], root)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable_error(path, error) from None
    packed = path.suffix == ".gz"
    expected = packed_md5()[path.name] if packed else UNPACKED_MD5[name]
    if _md5(content) != expected:
        raise _damaged_error(path, content, expected)
    return gzip.decompress(content) if packed else content


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _download(names: list[str], root: Path) -> None:
    """Download into a temporary folder beside the data, and move the named files into place once all are sound."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".mnist-", dir=root) as temporary:
            _fetch(Path(temporary))
            (root / FOLDER).mkdir(parents=True, exist_ok=True)
            for name in names:
                (Path(temporary) / FOLDER / name).replace(root / FOLDER / name)
    except (RuntimeError, OSError, HTTPException) as error:
        reason = " ".join(f"{error}".split()) or type(error).__name__  # torchvision's texts have several lines
        raise UserError(f"MNIST could not be downloaded into {root}: {reason}. {_way_on(names, root)}") from None


def _fetch(target: Path) -> None:
    """Let torchvision download and unpack the four files below `target`.

    Raises:
        RuntimeError: If a file does not arrive or arrives damaged, as torchvision does.
    """
    from torchvision.datasets import MNIST

    with _network_timeout():
        MNIST(str(target), download=True)
    for name, expected in UNPACKED_MD5.items():  # torchvision checks the packed files only
        if _md5((target / FOLDER / name).read_bytes()) != expected:
            raise RuntimeError(f"{name} was damaged when it was unpacked")


@contextmanager
def _network_timeout() -> Iterator[None]:
    """Give up on a silent network: torchvision sets no limit, so a firewall that drops packets would hang it."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(NETWORK_TIMEOUT)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _missing_error(names: list[str], root: Path) -> UserError:
    switch = f" Nothing is downloaded because {OFFLINE_VARIABLE} is set." if _offline() else ""
    return UserError(
        f"MNIST is incomplete in {root / FOLDER}, {', '.join(names)} missing.{switch} {_way_on(names, root)}"
    )


def _unreadable_error(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path} cannot be read: {error.strerror or error}. Change its permissions or put a readable copy in its "
        "place, then give the same command again."
    )


def _damaged_error(path: Path, content: bytes, expected: str) -> UserError:
    start = " ".join(content[:60].decode("ascii", "backslashreplace").split())
    page = f" It begins with {start!r}: a web page, not the data." if start.startswith("<") else ""
    return UserError(
        f"{path} is damaged or another file: its md5 is {_md5(content)} instead of {expected}.{page} Delete it and "
        "put the original in its place, or let it be downloaded again: without the file, the same command does so "
        f"unless {OFFLINE_VARIABLE} is set."
    )


def _way_on(names: list[str], root: Path) -> str:
    packed = packed_md5()
    files = ", ".join(f"{name}.gz (md5 {packed[f'{name}.gz']}; unpacked {UNPACKED_MD5[name]})" for name in names)
    command = f"python -c \"from torchvision.datasets import MNIST; MNIST('{root}', download=True)\""
    return (
        f"Put {files}, packed or unpacked, into {root / FOLDER}; where there is a network, `{command}` does so. "
        "Then give the same command again."
    )
