"""What a user chooses about a data set of one's own: where it is, what images become, and how they are split."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, get_args

from augbench.bench.common.errors import UserError, check_known, shortened
from augbench.bench.common.user_input import user_path

Kind = Literal["images", "arrays", "table"]
OWN = "own"  # name of the registered data set, and of the folder below that of prepared ones
KINDS: tuple[Kind, ...] = get_args(Kind)
FITS = ("crop", "pad")
CHANNELS = ("first", "last")
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")

DEFAULT_SIDE = 32  # pixels
MOST_SIDE = 1024  # pixels
TEST_SHARE = 0.2
MOST_SEED = 2**32 - 1  # of NumPy
LONGEST_NAME = 40  # characters
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
IN_A_NAME = "lower-case letters, digits and single hyphens between them"

ONLY_FOR: Mapping[str, Kind] = {
    "groups": "images",
    "arrays": "arrays",
    "channels": "arrays",
    "image_column": "table",
    "label_column": "table",
    "split_column": "table",
    "group_column": "table",
}
"""Settings that only one kind has."""

OPTIONS: Mapping[str, str] = {"arrays": "--array"}
"""Options whose names differ from their settings'."""


@dataclass(frozen=True)
class OwnSettings:
    """How to prepare a data set of one's own; what is None or empty is left to the content.

    Attributes:
        name: What tables call it; made from the path by default.
        side: Height and width in pixels, from 1 to 1024. Default: 32; of arrays, their own.
        fit: `crop` cuts the largest square out of the middle; `pad` keeps all of an image and adds black borders.
        grey: Whether images become grey. Default: three channels; of arrays, their own.
        test_share: Share of images to test on if none are set apart already, in (0, 1). Default: 0.2.
        seed: Seed of that choice.
        leave_out: Names of classes to leave out.
        skip_damaged: Whether to go on without images that cannot be read.
        groups: Images: CSV file with the columns `image` and `group`; no group is on both sides of the split.
        arrays: Arrays: for our name, such as `train_images`, the name in the archive.
        channels: Arrays: whether channels come `first` or `last`, if shapes leave it open.
        image_column: Table: name of the column with the images.
        label_column: Table: name of the column with the labels.
        split_column: Table: name of the column that says train, validation or test.
        group_column: Table: name of a column whose values are never on both sides of the split.
    """

    name: str = ""
    side: int | None = None
    fit: str = "crop"
    grey: bool = False
    test_share: float | None = None
    seed: int = 0
    leave_out: tuple[str, ...] = ()
    skip_damaged: bool = False
    groups: Path | None = None
    arrays: tuple[tuple[str, str], ...] = ()
    channels: str | None = None
    image_column: str | None = None
    label_column: str | None = None
    split_column: str | None = None
    group_column: str | None = None

    def check(self, kind: str) -> None:
        """Make sure that every setting is valid, and one of this kind.

        Raises:
            UserError: If one is not; the text names its option.
        """
        check_known("kind of data set", [kind], KINDS)
        check_known("--fit", [self.fit], FITS)
        check_known("--channels", [self.channels] if self.channels else [], CHANNELS)
        for entry in fields(self):
            only = ONLY_FOR.get(entry.name, kind)
            if only != kind and getattr(self, entry.name) != entry.default:
                raise UserError(
                    f"{option(entry.name)} belongs to `augbench data prepare {only}`, not to `{kind}`. Leave it out."
                )
        _check_between("--side", self.side, 1, MOST_SIDE)
        _check_between("--seed", self.seed, 0, MOST_SEED)
        if self.test_share is not None and not 0 < self.test_share < 1:
            raise UserError(f"--test-share must be above 0 and below 1, such as 0.2, not {self.test_share}.")
        if self.name:
            check_name(self.name)


def option(setting: str) -> str:
    """Return the name of the option for a setting."""
    return OPTIONS.get(setting, "--" + setting.replace("_", "-"))


def _check_between(name: str, given: int | None, least: int, most: int) -> None:
    if given is not None and not least <= given <= most:
        raise UserError(f"{name} must be a whole number from {least} to {most}, not {given}.")


def check_name(name: str) -> None:
    """Make sure that a data set can have a name.

    Raises:
        UserError: If it has odd characters, or too many.
    """
    if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        raise UserError(
            f"--name {shortened(repr(name))} cannot be used: take {IN_A_NAME}, {LONGEST_NAME} characters at most."
        )


def name_from(path: Path) -> str:
    """Make a valid name from that of a file or folder.

    Raises:
        UserError: If it has no letter or digit that names can have.
    """
    called = re.sub(r"\.(npz|parquet)$", "", path.resolve().name.lower())
    words = re.findall(r"[a-z0-9]+", called)
    name = "-".join(words)[:LONGEST_NAME].strip("-")
    if not name:
        raise UserError(f"No name can be made from {path}. Give one with --name: {IN_A_NAME}.")
    return name


def kind_of(path: Path) -> Kind:
    """Guess the kind of a data set from its path.

    Raises:
        UserError: If there is nothing, or nothing of a known kind.
    """
    path = existing(path)
    if path.is_dir():
        return "table" if any(_tables(path)) and not any(_class_images(path)) else "images"
    kinds: dict[str, Kind] = {".npz": "arrays", ".parquet": "table"}
    if path.suffix.lower() in kinds:
        return kinds[path.suffix.lower()]
    raise UserError(f"{path} is no data set: give a folder of images, an .npz file, or .parquet files.")


def _tables(path: Path) -> Iterator[Path]:
    """Yield tables in a folder that are not hidden."""
    for file in path.rglob("[!.]*.parquet"):
        if not any(part.startswith(".") for part in file.relative_to(path).parts):
            yield file


def _class_images(path: Path) -> Iterator[Path]:
    """Yield images in folders of a folder."""
    return (file for pattern in ("*/*", "*/*/*") for file in path.glob(pattern) if file.suffix.lower() in SUFFIXES)


def existing(path: Path) -> Path:
    """Return the path that a user means.

    Raises:
        UserError: If there is nothing, or it cannot be read.
    """
    meant = user_path(path)
    try:
        meant.stat()
    except FileNotFoundError:
        raise UserError(f"There is no {meant}. Give the path of the folder or file that the images are in.") from None
    except OSError as error:
        raise UserError(f"{meant} cannot be read: {error.strerror or error}.") from None
    return meant
