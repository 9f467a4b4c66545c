"""One image becomes a square of 8-bit pixels, as a plain Pillow pipeline makes it, or a reason why not."""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from own_images import encoded, noise
from PIL import Image, ImageOps

from augbench.bench.data.own.pixels import Pixels, Recipe, read_all

BOMB = 20_000  # pixels a side: more than twice Pillow's limit together


def read(content: Any, side: int = 16, fit: str = "crop", channels: int = 3) -> Pixels:
    (found,) = read_all([content], Recipe(side, fit, channels))
    assert isinstance(found, Pixels), found
    return found


def reason(content: Any) -> str:
    (found,) = read_all([content], Recipe(16, "crop", 3))
    assert isinstance(found, str)
    return found


def rows_first(image: Image.Image) -> NDArray[Any]:
    return np.asarray(image).transpose(2, 0, 1)


@pytest.mark.parametrize("size", [(40, 30), (30, 40), (16, 16), (9, 7), (1, 1), (200, 3)])
def test_cropping_takes_the_square_in_the_middle(size: tuple[int, int]) -> None:
    image = noise(1, *size)
    expected = ImageOps.fit(image, (16, 16), Image.Resampling.BICUBIC)  # another way to the same
    found = read(encoded(image))
    assert np.array_equal(found.values, rows_first(expected))
    assert (found.width, found.height, found.is_grey) == (*size, False)


def test_padding_keeps_all_and_adds_black() -> None:
    image = Image.new("RGB", (40, 20), (200, 100, 50))
    found = read(encoded(image), side=20, fit="pad").values
    expected = np.zeros((3, 20, 20), np.uint8)
    expected[:, 5:15] = np.array([200, 100, 50])[:, None, None]
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "TIFF"])
def test_formats(kind: str, tmp_path: Path) -> None:
    content = encoded(noise(2, 16, 16), kind, **({"lossless": True} if kind == "WEBP" else {}))
    (tmp_path / "x").write_bytes(content)
    for source in (content, tmp_path / "x"):
        with Image.open(tmp_path / "x") as image:
            assert np.array_equal(read(source).values, rows_first(image))


def test_grey_is_the_brightness() -> None:
    image = noise(3, 16, 16)
    expected = np.asarray(image.convert("L"))[None]
    assert np.array_equal(read(encoded(image), channels=1).values, expected)
    grey = read(encoded(image.convert("L")))
    assert np.array_equal(grey.values, expected.repeat(3, axis=0))
    assert grey.is_grey


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_and_not_cut_off(kind: str) -> None:
    values = np.array([[0, 257, 1000], [32768, 65000, 65535], [1, 128, 129]], np.uint16)
    expected = (values.astype(float) / 65535 * 255).round()
    assert np.array_equal(read(encoded(Image.fromarray(values), kind), side=3, channels=1).values[0], expected)


@pytest.mark.parametrize("values", [np.full((4, 4), 0.5, np.float32), np.full((4, 4), 70_000, np.int32)])
def test_values_of_unknown_range_are_refused(values: NDArray[Any]) -> None:
    assert "unknown range" in reason(encoded(Image.fromarray(values), "TIFF"))


def test_what_is_transparent_becomes_black() -> None:
    values = np.zeros((2, 2, 4), np.uint8)
    values[...] = (200, 100, 50, 255)
    values[0, 0, 3], values[1, 1, 3] = 0, 51  # a fifth
    found = read(encoded(Image.fromarray(values)), side=2).values
    assert found[:, 0, 0].tolist() == [0, 0, 0]
    assert found[:, 0, 1].tolist() == [200, 100, 50]
    assert found[:, 1, 1].tolist() == [40, 20, 10]
    grey = Image.fromarray(np.array([[[200, 0], [200, 255]]], np.uint8).repeat(2, axis=0))
    assert grey.mode == "LA"
    assert read(encoded(grey), side=2, channels=1).values[0].tolist() == [[0, 200], [0, 200]]


def test_palettes_with_and_without_a_transparent_colour() -> None:
    image = Image.new("P", (2, 2), 1)
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((0, 0), 0)
    plain, transparent = encoded(image), encoded(image, transparency=0)
    assert read(plain, side=2).values[:, 0, 0].tolist() == [10, 20, 30]
    assert read(transparent, side=2).values[:, 0].T.tolist() == [[0, 0, 0], [200, 100, 50]]


def test_black_and_white_and_cmyk() -> None:
    assert read(encoded(Image.new("1", (4, 4), 1)), side=4).values.min() == 255
    ink = Image.new("CMYK", (4, 4), (255, 0, 0, 0))
    assert read(encoded(ink, "JPEG"), side=4).values[:, 0, 0].tolist() == pytest.approx([0, 255, 255], abs=3)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_stand_upright(orientation: int) -> None:
    image = noise(4, 16, 16)
    exif = Image.Exif()
    exif[0x0112] = orientation
    turned = {
        1: lambda x: x,
        2: np.fliplr,
        3: lambda x: np.rot90(x, 2),
        4: np.flipud,
        5: lambda x: x.swapaxes(0, 1),
        6: lambda x: np.rot90(x, -1),
        7: lambda x: np.rot90(x, 2).swapaxes(0, 1),
        8: np.rot90,
    }[orientation]
    expected = turned(np.asarray(image)).transpose(2, 0, 1)  # type: ignore[no-untyped-call]
    assert np.array_equal(read(encoded(image, exif=exif)).values, expected)


def test_pixels_in_memory() -> None:
    for shape in ((20, 20), (20, 20, 3)):
        values = np.random.RandomState(0).randint(0, 256, shape).astype(np.uint8)
        expected = values[None] if len(shape) == 2 else values.transpose(2, 0, 1)
        assert np.array_equal(read(values, side=20, channels=expected.shape[0]).values, expected)


def test_the_same_pixels_have_the_same_digest() -> None:
    first, same, other = (
        read(encoded(noise(seed), kind)).digest for seed, kind in ((1, "PNG"), (1, "BMP"), (2, "PNG"))
    )
    assert first == same != other


def test_files_that_are_no_images() -> None:
    whole = encoded(noise(5, 300, 300), "JPEG")
    assert reason(b"hello") == reason(b"") == "is no image in JPEG, PNG, WebP, BMP or TIFF"
    assert reason(encoded(noise(5), "GIF")) == reason(b"hello")
    assert "truncated" in reason(whole[: len(whole) // 2])
    assert "No such file" in reason(Path("/nowhere/x.png"))
    assert reason("holds nothing") == "holds nothing"


@pytest.mark.parametrize("side", [BOMB, 10_000])  # an error and a warning of Pillow's
def test_a_small_file_of_very_many_pixels_is_refused(side: int) -> None:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    assert "Pillow's limit" in reason(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", b"") + chunk(b"IEND", b""))


def test_order_is_kept_and_the_rest_goes_on() -> None:
    contents = [encoded(noise(seed)) if seed % 7 else b"no image" for seed in range(100)]
    found = list(read_all(contents, Recipe(8, "crop", 3)))
    assert [isinstance(one, str) for one in found] == [seed % 7 == 0 for seed in range(100)]
    assert [one.digest for one in found if isinstance(one, Pixels)] == [
        read(content, side=8).digest for seed, content in enumerate(contents) if seed % 7
    ]


@given(
    st.sampled_from(["JPEG", "PNG", "WEBP", "BMP", "TIFF"]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8),
    st.floats(0, 1),
)
def test_damaged_files_are_read_or_explained(kind: str, changes: list[tuple[float, int]], kept: float) -> None:
    content = bytearray(encoded(noise(6, 24, 24), kind))
    for place, value in changes:
        content[int(place * len(content))] = value
    (found,) = read_all([bytes(content[: max(1, int(kept * len(content)))])], Recipe(8, "crop", 3))
    assert found.values.shape == (3, 8, 8) if isinstance(found, Pixels) else found
