"""The data set mnist: small files of the same format, a server of our own, and the real files where they are."""

import gzip
import hashlib
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.client import IncompleteRead
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
import torchvision.datasets.mnist as torchvision_mnist
from numpy.typing import NDArray

from augbench.bench.dataset import DatasetOptions, ImageData
from augbench.bench.errors import UserError
from augbench.datasets import mnist
from augbench.datasets.mnist import FOLDER, UNPACKED_MD5, Mnist
from augbench.datasets.mnist5k import DigitOptions

Arrays = dict[str, NDArray[np.uint8]]
Files = dict[str, bytes]

TRAIN_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
HTML = b"<!DOCTYPE html>\n<html><body>Please log in to the guest network</body></html>"
IMAGES = "train-images-idx3-ubyte"


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def idx(array: NDArray[np.uint8]) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">i4").tobytes()
    return header + array.tobytes()


@pytest.fixture
def arrays() -> Arrays:
    random = np.random.default_rng(0)
    sizes = {"train": 300, "t10k": 7}  # 300 needs two bytes of the header
    images = {f"{part}-images-idx3-ubyte": random.integers(0, 256, (n, 28, 28), np.uint8) for part, n in sizes.items()}
    labels = {f"{part}-labels-idx1-ubyte": random.integers(0, 10, n, np.uint8) for part, n in sizes.items()}
    return images | labels


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(mnist.OFFLINE_VARIABLE, raising=False)


@pytest.fixture
def packed(arrays: Arrays, monkeypatch: pytest.MonkeyPatch) -> Files:
    """Small files by their packed name; the tables of md5s, ours and torchvision's, are theirs."""
    unpacked = {name: idx(arrays[name]) for name in UNPACKED_MD5}
    files = {f"{name}.gz": gzip.compress(content) for name, content in unpacked.items()}
    monkeypatch.setattr(mnist, "UNPACKED_MD5", {name: md5(content) for name, content in unpacked.items()})
    monkeypatch.setattr(torchvision_mnist.MNIST, "resources", [(name, md5(content)) for name, content in files.items()])
    return files


def place(files: Files, root: Path, *, unpack: bool = False) -> None:
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = root / FOLDER / name
        if unpack:
            path.with_suffix("").write_bytes(gzip.decompress(content))
        else:
            path.write_bytes(content)


def load(root: Path, size: int = 28) -> ImageData:
    return Mnist().load(DigitOptions.model_validate({"size": size}), root)


def check(root: Path) -> None:
    Mnist().check(DigitOptions.model_validate({}), root)


def error_of_load(root: Path) -> str:
    with pytest.raises(UserError) as caught:
        load(root)
    return one_paragraph(caught.value)


def error_of_check(root: Path) -> str:
    with pytest.raises(UserError) as caught:
        check(root)
    return one_paragraph(caught.value)


def one_paragraph(error: UserError) -> str:
    assert "\n" not in str(error)
    return str(error)


def test_checksum_covers_the_four_files() -> None:
    assert Mnist.checksum == "md5:" + md5("".join(UNPACKED_MD5.values()).encode())
    assert set(mnist.packed_md5()) == {f"{name}.gz" for name in UNPACKED_MD5}


@pytest.mark.parametrize("unpack", [False, True])
def test_packed_and_unpacked_files_are_read(unpack: bool, packed: Files, arrays: Arrays, tmp_path: Path) -> None:
    place(packed, tmp_path, unpack=unpack)
    data = load(tmp_path)
    for part, split in (("train", data.train), ("t10k", data.test)):
        assert split.images.dtype == torch.uint8
        assert split.labels.dtype == torch.int64
        assert np.array_equal(split.images.numpy(), arrays[f"{part}-images-idx3-ubyte"][:, None])
        assert np.array_equal(split.labels.numpy(), arrays[f"{part}-labels-idx1-ubyte"])
    assert data.classes == 10
    assert Mnist.checksum in data.provenance


def test_what_is_read_equals_what_torchvision_reads(packed: Files, tmp_path: Path) -> None:
    place(packed, tmp_path, unpack=True)
    data = load(tmp_path)
    for train, split in ((True, data.train), (False, data.test)):
        theirs = torchvision_mnist.MNIST(tmp_path, train=train)
        assert torch.equal(split.images[:, 0], theirs.data)
        assert torch.equal(split.labels, theirs.targets)


def test_unpacked_files_need_no_torchvision(packed: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place(packed, tmp_path, unpack=True)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)
    check(tmp_path)


def test_size_14_averages_squares(packed: Files, arrays: Arrays, tmp_path: Path) -> None:
    place(packed, tmp_path)
    squares = arrays[IMAGES].reshape(-1, 14, 2, 14, 2).mean((2, 4))
    assert np.array_equal(load(tmp_path, size=14).train.images.numpy()[:, 0], squares.round())


def test_other_sizes_and_options_are_refused() -> None:
    for options in ({"size": 20}, {"download": True}):
        with pytest.raises(ValueError, match=next(iter(options))):
            Mnist.options_type.model_validate(options)
    assert issubclass(Mnist.options_type, DatasetOptions)


def test_missing_file_is_named_with_its_md5_and_place(packed: Files, tmp_path: Path) -> None:
    place(packed, tmp_path)
    name = f"{IMAGES}.gz"
    (tmp_path / FOLDER / name).unlink()
    text = error_of_load(tmp_path)
    for part in (name, md5(packed[name]), md5(gzip.decompress(packed[name])), str(tmp_path / FOLDER)):
        assert part in text
    assert "same command again" in text
    assert "download=True" in text
    assert "t10k" not in text
    assert mnist.OFFLINE_VARIABLE not in text


def test_load_never_downloads(packed: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mnist, "_fetch", lambda target: pytest.fail("load downloaded"))
    assert all(name in error_of_load(tmp_path) for name in packed)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unpack", [False, True])
def test_truncated_file_is_damaged(unpack: bool, packed: Files, tmp_path: Path) -> None:
    place(packed, tmp_path, unpack=unpack)
    path = tmp_path / FOLDER / (IMAGES if unpack else f"{IMAGES}.gz")
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    text = error_of_load(tmp_path)
    for part in (str(path), md5(whole), md5(whole[:-100]), "Delete it"):
        assert part in text
    assert "web page" not in text
    assert error_of_check(tmp_path) == text  # and nothing is downloaded over it
    assert path.read_bytes() == whole[:-100]


def test_web_page_saved_as_data_is_quoted(packed: Files, tmp_path: Path) -> None:
    place(packed | {f"{IMAGES}.gz": HTML}, tmp_path)
    text = error_of_load(tmp_path)
    assert "'<!DOCTYPE html> <html>" in text
    assert md5(HTML) in text
    assert "Delete it" in text


def test_file_that_cannot_be_read_is_named(packed: Files, tmp_path: Path) -> None:
    place(packed, tmp_path)
    path = tmp_path / FOLDER / IMAGES
    path.mkdir()  # permissions would not stop root
    assert f"{path} cannot be read: Is a directory" in error_of_load(tmp_path)


def test_folder_that_cannot_be_looked_into_is_named(
    packed: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", refuse)
    assert f"{tmp_path / FOLDER} cannot be read: Permission denied" in error_of_load(tmp_path)


@pytest.fixture
def server(packed: Files, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder of a server on this machine that torchvision takes for its only mirror."""
    folder = tmp_path_factory.mktemp("mirror")
    for name, content in packed.items():
        (folder / name).write_bytes(content)
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder)) as running:
        monkeypatch.setattr(torchvision_mnist.MNIST, "mirrors", [f"http://127.0.0.1:{running.server_port}/"])
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder
        running.shutdown()
        thread.join()


def test_check_downloads_what_is_missing(server: Path, arrays: Arrays, tmp_path: Path) -> None:
    root = tmp_path / "not" / "there yet"
    check(root)
    assert {path.name for path in (root / FOLDER).iterdir()} == set(UNPACKED_MD5)
    assert list(root.iterdir()) == [root / "MNIST"]
    assert np.array_equal(load(root).train.images.numpy()[:, 0], arrays[IMAGES])


def test_download_leaves_files_that_are_there(server: Path, packed: Files, tmp_path: Path) -> None:
    kept = f"{IMAGES}.gz"
    place({kept: packed[kept]}, tmp_path)
    check(tmp_path)
    assert {path.name for path in (tmp_path / FOLDER).iterdir()} == set(UNPACKED_MD5) - {IMAGES} | {kept}


@pytest.mark.parametrize("damage", ["web page", "truncated"])
def test_bad_download_leaves_nothing_behind(damage: str, server: Path, packed: Files, tmp_path: Path) -> None:
    name = "t10k-images-idx3-ubyte.gz"
    (server / name).write_bytes(HTML if damage == "web page" else packed[name][:-50])
    text = error_of_check(tmp_path)
    assert "could not be downloaded" in text
    # how torchvision says it: its newer versions, then its older ones
    assert f"Error downloading {name}" in text or "File not found or corrupted" in text
    assert md5(packed[name]) in text
    assert "same command again" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error", [URLError("no network"), TimeoutError("timed out"), IncompleteRead(b""), KeyboardInterrupt("stopped")]
)
def test_download_that_stops_halfway_leaves_nothing_behind(
    error: BaseException, packed: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(url: str, download_root: str, filename: str, md5: str) -> None:
        assert Path(download_root).is_relative_to(tmp_path)
        assert socket.getdefaulttimeout() == mnist.NETWORK_TIMEOUT
        if filename.startswith("t10k"):
            (Path(download_root) / filename).write_bytes(packed[filename][:-50])
            raise error
        place({filename: packed[filename]}, Path(download_root).parents[1])

    monkeypatch.setattr(torchvision_mnist, "download_and_extract_archive", fetch)
    with pytest.raises(UserError if isinstance(error, Exception) else KeyboardInterrupt, match=re.escape(str(error))):
        check(tmp_path)
    assert socket.getdefaulttimeout() is None
    assert list(tmp_path.iterdir()) == []


def test_files_damaged_while_unpacked_are_not_moved_into_place(
    server: Path, packed: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(mnist.UNPACKED_MD5, "t10k-labels-idx1-ubyte", "0" * 32)
    assert "t10k-labels-idx1-ubyte was damaged when it was unpacked" in error_of_check(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_root_that_cannot_be_made_is_a_users_error(packed: Files, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "could not be downloaded" in error_of_check(tmp_path / "file")


@pytest.mark.parametrize(("value", "offline"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_offline_switch(
    value: str, offline: bool, packed: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[Path] = []

    def fetch(target: Path) -> None:
        fetched.append(target)
        place(packed, target, unpack=True)

    monkeypatch.setattr(mnist, "_fetch", fetch)
    monkeypatch.setenv(mnist.OFFLINE_VARIABLE, value)
    if offline:
        assert "Nothing is downloaded because AUGBENCH_OFFLINE is set." in error_of_check(tmp_path)
    else:
        check(tmp_path)
    assert len(fetched) == (not offline)


@pytest.fixture
def real_root() -> Path:
    given = os.environ.get("AUGBENCH_DATA")
    if given and (Path(given) / FOLDER).is_dir():
        return Path(given)
    reason = f"AUGBENCH_DATA ({given or 'not set'}) is no folder that holds {FOLDER}"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}; in CI the real files have to be tested")
    pytest.skip(reason)


def test_real_files(real_root: Path) -> None:
    data = load(real_root)
    assert data.train.images.shape == (60_000, 1, 28, 28)
    assert data.test.images.shape == (10_000, 1, 28, 28)
    assert data.train.labels.bincount().tolist() == TRAIN_COUNTS
    assert data.test.labels.bincount().tolist() == TEST_COUNTS
    mean, deviation = data.mean_and_deviation
    assert round(mean.item(), 4) == 0.1307
    assert round(deviation.item(), 4) == 0.3081
