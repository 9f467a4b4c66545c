"""From one image, in a file or in memory, to the square of 8-bit pixels that runs train on."""

import hashlib
import io
import os
import struct
import warnings
import zlib
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from augbench.bench.data.own.examples import Content

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF")
SIXTEEN_BITS = 65_535
DIGEST_BYTES = 16
WAITING = 4  # images for each thread that are read or wait to be written
MOST_THREADS = 16  # each may hold a large photograph

UNREADABLE = (
    *(OSError, ValueError, SyntaxError, EOFError, LookupError, TypeError, OverflowError, MemoryError),
    *(struct.error, zlib.error),
)
"""Errors that Pillow raises for damaged files, besides its own."""


@dataclass(frozen=True)
class Recipe:
    """What images become.

    Attributes:
        side: Height and width in pixels.
        fit: `crop` or `pad`: how an image that is no square becomes one.
        channels: 1 for grey, 3 for colour.
    """

    side: int
    fit: str
    channels: int


@dataclass(frozen=True)
class Pixels:
    """An image that is ready to be written.

    Attributes:
        values: uint8; (C, S, S).
        width: Width in pixels before.
        height: Height in pixels before.
        is_grey: Whether it had no colour.
        digest: Hash of the values, 16 bytes.
    """

    values: NDArray[np.uint8]
    width: int
    height: int
    is_grey: bool
    digest: bytes


def read_all(contents: Iterable[Content], recipe: Recipe) -> Generator[Pixels | str, None, None]:
    """Read images with all cores and yield them in order; for one that cannot be read, the reason as a predicate."""
    threads = min(_cores(), MOST_THREADS)
    waiting: deque[Future[Pixels | str]] = deque()
    with _pillow_raises(), ThreadPoolExecutor(threads) as pool:
        try:
            for content in contents:
                waiting.append(pool.submit(read_pixels, content, recipe))
                if len(waiting) >= WAITING * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _pillow_raises() -> Iterator[None]:
    """Let what Pillow warns of, images of too many pixels, be errors, and odd metadata be silent, in all threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def read_pixels(content: Content, recipe: Recipe) -> Pixels | str:
    """Read an image and bring it into shape; if it cannot be read, return the reason as a predicate."""
    if isinstance(content, str):
        return content
    try:
        if isinstance(content, np.ndarray):
            return _shaped(Image.fromarray(content), recipe)
        with Image.open(_opened(content), formats=FORMATS) as image:
            return _shaped(ImageOps.exif_transpose(image), recipe)
    except UnidentifiedImageError:
        return "is no image in JPEG, PNG, WebP, BMP or TIFF"
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return f"has more than {Image.MAX_IMAGE_PIXELS:,} pixels, Pillow's limit"
    except UNREADABLE as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return f"cannot be read ({' '.join(reason.split())})"


def _opened(content: Path | bytes) -> Path | io.BytesIO:
    return io.BytesIO(content) if isinstance(content, bytes) else content


def _shaped(image: Image.Image, recipe: Recipe) -> Pixels:
    width, height = image.size
    plain = _eight_bits(image)
    wanted = "L" if recipe.channels == 1 else "RGB"
    square = _square(plain if plain.mode == wanted else plain.convert(wanted), recipe)
    values = np.asarray(square).reshape(recipe.side, recipe.side, recipe.channels).transpose(2, 0, 1)
    values = np.ascontiguousarray(values)
    digest = hashlib.blake2b(values.tobytes(), digest_size=DIGEST_BYTES).digest()
    return Pixels(values, width, height, plain.mode == "L", digest)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Convert to 8-bit grey or colour; what is transparent becomes black.

    Raises:
        ValueError: If it has values of an unknown range.
    """
    if image.mode in ("L", "RGB") and "transparency" not in image.info:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        return _from_more_bits(image)
    if image.mode == "1":
        return image.convert("L")
    if image.has_transparency_data:
        opaque = image.convert("RGBA")
        black = Image.new("RGBA", opaque.size, (0, 0, 0, 255))
        flat = Image.alpha_composite(black, opaque).convert("RGB")
        return flat.convert("L") if image.mode in ("L", "LA", "La") else flat
    return image.convert("RGB")


def _from_more_bits(image: Image.Image) -> Image.Image:
    values = np.asarray(image)
    if image.mode == "F" or values.min() < 0 or values.max() > SIXTEEN_BITS:
        raise ValueError("it has values of unknown range: save it with 8 or 16 bits")
    return Image.fromarray(np.round(values * (255 / SIXTEEN_BITS)).astype(np.uint8))


def _square(image: Image.Image, recipe: Recipe) -> Image.Image:
    side, (width, height) = recipe.side, image.size
    if (width, height) == (side, side):
        return image
    if recipe.fit == "pad":
        return ImageOps.pad(image, (side, side), Image.Resampling.BICUBIC)
    least = min(width, height)
    left, top = (width - least) / 2, (height - least) / 2
    return image.resize((side, side), Image.Resampling.BICUBIC, (left, top, left + least, top + least))
