"""The files for a machine without a network: wheels that it lacks, and real images; see `benchmarks/gpu.py`."""

import argparse
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import ImageData, Split, class_balanced_subset
from augbench.bench.experiment.catalogues import dataset_and_options

PACKAGES = (
    *("pydantic", "pydantic-core", "typing-inspection", "typing-extensions", "annotated-types"),
    *("mlxtend", "kornia", "kornia-rs"),
)
PYTHON = "3.12"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
LARGEST = 60 * 2**20  # bytes, all together
SUBSET_SEED = 0
CIFAR_IMAGES = (12_000, 2_500)
MNIST_TEST_IMAGES = 10_000  # of those to train on, since what is evaluated there is timed and not looked at


def pack(folder: Path, root: Path) -> int:
    """Fill the folder and return its size in bytes.

    Args:
        folder: It may exist; wheels of an earlier time are taken out.
        root: Folder of data sets, with rotmnist and cifar10 prepared.

    Raises:
        UserError: If a data set is missing, a wheel cannot be had, or all of it is too large.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    _download_wheels(folder)
    digits, photographs = (_load(name, root) for name in ("rotmnist", "cifar10"))
    write_arrays(folder / "rotmnist.npz", train=digits.train)
    train, test = (
        split.subset(class_balanced_subset(split.labels, count, SUBSET_SEED))
        for split, count in zip((photographs.train, photographs.test), CIFAR_IMAGES, strict=True)
    )
    write_arrays(folder / "cifar10.npz", train=train, test=test)
    size = sum(file.stat().st_size for file in folder.iterdir())
    if size > LARGEST:
        raise UserError(f"{folder} has {size} bytes, more than the {LARGEST} that can be carried. Empty it.")
    return size


def _download_wheels(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp", "--dest", str(folder)]
    for platform in PLATFORMS:
        command += ["--platform", platform]
    wanted = [f"{name}=={version(name)}" for name in PACKAGES]
    if subprocess.run([*command, *wanted], check=False).returncode:  # noqa: S603 - our own interpreter
        raise UserError(f"pip could not download {', '.join(wanted)} for Python {PYTHON}; see above.")


def _load(name: str, root: Path) -> ImageData:
    source, options = dataset_and_options(name, {})
    return source.load(options, root)


def write_arrays(path: Path, **splits: Split) -> None:
    """Write images and labels as an archive that `numpy.load` reads.

    LZMA, since the deflate of `numpy.savez_compressed` leaves an eighth more; it takes long to read, but is read once.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, split in splits.items():
            for kind, tensor in (("images", split.images), ("labels", split.labels)):
                with archive.open(f"{name}_{kind}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, tensor.numpy(), allow_pickle=False)


def read_digits(folder: Path, images: int | None = None) -> ImageData:
    """Read the carried images of rotmnist; some of them stand for the test images.

    Args:
        folder: Where they have been unpacked.
        images: How many are left; all by default.
    """
    train = _split(folder / "rotmnist", "train", images)
    test = Split(train.images[:MNIST_TEST_IMAGES], train.labels[:MNIST_TEST_IMAGES])
    return ImageData(train, test, 10, "images to train on of rotmnist, evaluated on some of them")


def read_photographs(folder: Path, images: int | None = None) -> ImageData:
    """Read the carried part of CIFAR-10.

    Args:
        folder: Where it has been unpacked.
        images: How many are left of those to train on and of those to test on; all by default.
    """
    train, test = (_split(folder / "cifar10", name, images) for name in ("train", "test"))
    return ImageData(train, test, 10, f"CIFAR-10, {len(train)} images to train on and {len(test)} to test on")


def _split(folder: Path, name: str, count: int | None) -> Split:
    arrays = (np.load(folder / f"{name}_{kind}.npy", allow_pickle=False)[:count] for kind in ("images", "labels"))
    return Split(*map(torch.from_numpy, arrays))


def main() -> int:
    """Pack, and print the size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    try:
        size = pack(options.folder, options.data)
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{options.folder}: {size / 2**20:.1f} MiB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
