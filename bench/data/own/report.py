"""What was found while a data set of one's own was prepared: counts, sizes, copies, and what could not be read."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from augbench.bench.common.wording import counted, few_names
from augbench.bench.data.own.examples import HELD_OUT, TEST, TRAIN, Examples, Unreadable
from augbench.bench.data.own.pixels import DIGEST_BYTES, Pixels, Recipe

REPORT = "report.json"
FEW_IMAGES = 10  # training images, below which a class is nearly empty
SHOWN = 5  # of a long list in a sentence


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ClassCount(_Record):
    """Numbers of images of a class; held-out images are among the training images."""

    name: str
    train: int
    held_out: int
    test: int


class Sizes(_Record):
    """Smallest, median and largest number of pixels, before images were brought into shape."""

    least: int
    median: int
    most: int


class Copies(_Record):
    """Images that are the same once they are prepared, by name."""

    first: str
    second: str


class Report(_Record):
    """What was found while a data set of one's own was prepared.

    Attributes:
        kind: images, arrays or table.
        source: The path of the images.
        settings: Settings that differ from their defaults.
        side: Height and width of prepared images in pixels.
        channels: Their channels.
        classes: Every class, in the order of labels.
        widths: Widths of the images before.
        heights: Heights of the images before.
        smaller: Images that were enlarged.
        all_grey: Whether no image had colours, though images have three channels now.
        in_both: Test images that are among the training images, too, each with one of these.
        contradicting: Images that are there twice with different labels.
        repeated: Training images of which an earlier one with the same label is a copy.
        unreadable: Images that were left out since they cannot be read.
        remarks: Sentences on what was passed over.
    """

    kind: str
    source: str
    settings: dict[str, str]
    side: int
    channels: int
    classes: tuple[ClassCount, ...]
    widths: Sizes
    heights: Sizes
    smaller: int
    all_grey: bool
    in_both: tuple[Copies, ...]
    contradicting: tuple[Copies, ...]
    repeated: int
    unreadable: tuple[Copies, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def nearly_empty(self) -> list[str]:
        """Classes with few training images, with their numbers."""
        return [f"{one.name} ({one.train})" for one in self.classes if one.train < FEW_IMAGES]

    def sentences(self) -> Iterator[str]:
        """Say what there is, the most important first; every warning begins with `Note:`."""
        total = ClassCount.model_construct(
            name="", **{part: sum(getattr(one, part) for one in self.classes) for part in ("train", "held_out", "test")}
        )
        held_out = f" ({total.held_out:,} of them held out for tuning)" if total.held_out else ""
        yield (
            f"{counted(total.train, 'training image')}{held_out} and {counted(total.test, 'test image')} of "
            f"{len(self.classes):,} classes, {self.channels}×{self.side}×{self.side}."
        )
        yield f"Sizes before: {_range(self.widths)} pixels wide, {_range(self.heights)} high (least, median, most)."
        yield from self._warnings()
        yield from self.remarks

    def _warnings(self) -> Iterator[str]:
        if self.unreadable:
            left_out = counted(len(self.unreadable), "image")
            yield f"Note: {left_out} left out that cannot be used: {_pairs(self.unreadable, ' ')}."
        if self.in_both:
            yield (
                f"Note: {counted(len(self.in_both), 'test image')} also among the training images: "
                f"{_pairs(self.in_both, ' = ')}. Accuracy on them says little; a split by groups keeps copies together."
            )
        if self.contradicting:
            yield (
                f"Note: {counted(len(self.contradicting), 'image')} there twice with different labels: "
                f"{_pairs(self.contradicting, ' = ')}."
            )
        if self.repeated:
            yield f"Note: {counted(self.repeated, 'training image')} there twice with the same label."
        if self.nearly_empty:
            yield f"Note: fewer than {FEW_IMAGES} training images in {few_names(self.nearly_empty, SHOWN)}."
        if untested := [one.name for one in self.classes if not one.test]:
            yield f"Note: no test images in {few_names(untested, SHOWN)}."
        if self.smaller:
            yield f"Note: {counted(self.smaller, 'image')} enlarged, since smaller than {self.side} pixels."
        if self.all_grey:
            yield "Note: no image has colours; --grey makes one channel of three, and training faster."


def _range(sizes: Sizes) -> str:
    return f"{sizes.least}, {sizes.median}, {sizes.most}"


def _pairs(copies: Sequence[Copies], between: str) -> str:
    return few_names([f"{one.first}{between}{one.second}" for one in copies], SHOWN)


@dataclass
class Seen:
    """What is noted of each image while images are read; arrays have a row for each image.

    Attributes:
        ready: Whether it was read; (N,).
        digests: Hash of its prepared pixels; (N, 16).
        sizes: Width and height before; (N, 2).
        grey: Whether it had no colours; (N,).
    """

    ready: NDArray[np.bool_]
    digests: NDArray[np.uint8]
    sizes: NDArray[np.int32]
    grey: NDArray[np.bool_]

    @classmethod
    def of(cls, count: int) -> "Seen":
        """Make room for `count` images."""
        return cls(
            np.zeros(count, dtype=bool),
            np.zeros((count, DIGEST_BYTES), dtype=np.uint8),
            np.zeros((count, 2), dtype=np.int32),
            np.zeros(count, dtype=bool),
        )

    def note(self, index: int, pixels: Pixels) -> None:
        """Note what is to know of an image."""
        self.ready[index], self.grey[index] = True, pixels.is_grey
        self.sizes[index] = pixels.width, pixels.height
        self.digests[index] = np.frombuffer(pixels.digest, dtype=np.uint8)


def make_report(
    kind: str,
    source: str,
    settings: dict[str, str],
    examples: Examples,
    seen: Seen,
    recipe: Recipe,
    *,
    bad: Sequence[Unreadable],
) -> Report:
    """Sum up what was seen.

    Args:
        kind: images, arrays or table.
        source: The path of the images.
        settings: Settings that differ from their defaults.
        examples: What was read, with the final parts.
        seen: What was noted.
        recipe: What images became.
        bad: Images that cannot be read.
    """
    kept = np.flatnonzero(seen.ready)
    width, height = seen.sizes[kept].T
    decisive = np.minimum(width, height) if recipe.fit == "crop" else np.maximum(width, height)  # becomes the side
    in_both, contradicting, repeated = _copies(examples, seen, kept)
    return Report(
        kind=kind,
        source=source,
        settings=settings,
        side=recipe.side,
        channels=recipe.channels,
        classes=tuple(_class_counts(examples, kept)),
        widths=_sizes(width),
        heights=_sizes(height),
        smaller=int((decisive < recipe.side).sum()),
        all_grey=recipe.channels > 1 and bool(seen.grey[kept].all()),
        in_both=in_both,
        contradicting=contradicting,
        repeated=repeated,
        unreadable=tuple(Copies(first=one.name, second=one.reason) for one in bad),
        remarks=tuple(examples.remarks),
    )


def _class_counts(examples: Examples, kept: NDArray[np.intp]) -> Iterator[ClassCount]:
    counts = np.zeros((3, len(examples.class_names)), dtype=np.int64)
    np.add.at(counts, (examples.parts[kept], examples.labels[kept]), 1)
    for name, train, held_out, test in zip(
        examples.class_names, *counts[[TRAIN, HELD_OUT, TEST]].tolist(), strict=True
    ):
        yield ClassCount(name=name, train=train + held_out, held_out=held_out, test=test)


def _sizes(pixels: NDArray[np.int32]) -> Sizes:
    least, median, most = (int(value) for value in np.quantile(pixels, (0, 0.5, 1), method="lower"))
    return Sizes(least=least, median=median, most=most)


def _copies(
    examples: Examples, seen: Seen, kept: NDArray[np.intp]
) -> tuple[tuple[Copies, ...], tuple[Copies, ...], int]:
    """Compare all images by their digests: in both parts, with different labels, and how often in training alone."""
    in_both, contradicting, repeated = [], [], 0
    for members in _alike(seen.digests[kept]):
        same = kept[members]
        tested = examples.parts[same] == TEST
        training = same[~tested]
        if len(training):
            in_both += [_copy(examples.name_of, one, training[0]) for one in same[tested]]
        labels = examples.labels[same]
        contradicting += [_copy(examples.name_of, same[0], one) for one in same[labels != labels[0]]]
        repeated += len(training) - len(np.unique(examples.labels[training]))
    return tuple(in_both), tuple(contradicting), repeated


def _alike(digests: NDArray[np.uint8]) -> Iterator[NDArray[np.intp]]:
    """Yield the positions of each digest that is there more than once, in rising order."""
    values = np.ascontiguousarray(digests).view(np.dtype((np.void, DIGEST_BYTES)))[:, 0]
    order = np.argsort(values, kind="stable")
    begins = np.flatnonzero(np.concatenate(([True], values[order][1:] != values[order][:-1])))
    sizes = np.diff(np.append(begins, len(order)))
    for begin, size in zip(begins[sizes > 1], sizes[sizes > 1], strict=True):
        yield np.sort(order[begin : begin + size])


def _copy(name_of: Callable[[int], str], first: np.intp, second: np.intp) -> Copies:
    return Copies(first=name_of(int(first)), second=name_of(int(second)))
