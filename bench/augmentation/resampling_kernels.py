"""The two Triton kernels of `bench/augmentation/fused_resampling.py`; to be imported only where Triton is installed.

One program makes one image, block by block of pixels. Coordinates are in pixels of the crop: with c the middle
(S − 1)/2, output pixel (w, h) takes x = m00·(w − c) + m01·(h − c) + c and y in the same way from the second row of the
matrix m. That is what `grid_sample` computes with `align_corners=False`.
"""

# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-def, untyped-decorator"

import triton.language as tl
from triton import jit

UNALIGNED = ["indices", "offsets", "mean", "deviation"]  # parts of tensors: one kernel, wherever they begin


@jit
def _coordinates(matrix, pixels, size: tl.constexpr):
    """Distances of output pixels from the middle, and the places in the crop that they take."""
    middle: tl.constexpr = (size - 1) / 2
    across = (pixels % size).to(tl.float32) - middle
    down = (pixels // size).to(tl.float32) - middle
    x = tl.load(matrix) * across + tl.load(matrix + 1) * down + middle
    y = tl.load(matrix + 2) * across + tl.load(matrix + 3) * down + middle
    return across, down, x, y


@jit
def _tap(image, row, column, row_shift, column_shift, inside, size: tl.constexpr):
    """Values of the crop at whole pixels: 0 outside of it, and where it reaches beyond the image."""
    source_row, source_column = row + row_shift, column + column_shift
    inside = inside & (row >= 0) & (row < size) & (column >= 0) & (column < size)
    inside = inside & (source_row >= 0) & (source_row < size) & (source_column >= 0) & (source_column < size)
    return tl.load(image + source_row * size + source_column, mask=inside, other=0).to(tl.float32)


@jit
def _four_taps(image, row, column, row_shift, column_shift, inside, size: tl.constexpr):
    """Values at the four corners of the cells that begin at (row, column)."""
    upper_left = _tap(image, row, column, row_shift, column_shift, inside, size)
    upper_right = _tap(image, row, column + 1, row_shift, column_shift, inside, size)
    lower_left = _tap(image, row + 1, column, row_shift, column_shift, inside, size)
    lower_right = _tap(image, row + 1, column + 1, row_shift, column_shift, inside, size)
    return upper_left, upper_right, lower_left, lower_right


@jit
def _scale(deviation, channel: tl.constexpr):
    """By what a byte is multiplied on its way to the output."""
    return 1 / 255 if deviation is None else 1 / (255 * tl.load(deviation + channel))


@jit(do_not_specialize=["batch"], do_not_specialize_on_alignment=UNALIGNED)
def resample_kernel(
    output,
    images,
    indices,
    offsets,
    matrices,
    mean,
    deviation,
    batch,
    padding: tl.constexpr,
    size: tl.constexpr,
    channels: tl.constexpr,
    pixel_stride: tl.constexpr,
    channel_stride: tl.constexpr,
    block: tl.constexpr,
):
    """Make output image n, of the program's number, from image n mod B."""
    number = tl.program_id(0).to(tl.int64)
    index = number % batch if indices is None else tl.load(indices + number % batch)
    image = images + index * (channels * size * size)
    row_shift = tl.load(offsets + 2 * number).to(tl.int32) - padding
    column_shift = tl.load(offsets + 2 * number + 1).to(tl.int32) - padding
    target = output + number * (channels * size * size)
    for start in range(0, size * size, block):
        pixels = start + tl.arange(0, block)
        inside = pixels < size * size
        _, _, x, y = _coordinates(matrices + 4 * number, pixels, size)
        left, top = tl.floor(x), tl.floor(y)
        right_share, lower_share = x - left, y - top
        row, column = top.to(tl.int32), left.to(tl.int32)
        for channel in tl.static_range(channels):
            plane = image + channel * size * size
            first, second, third, fourth = _four_taps(plane, row, column, row_shift, column_shift, inside, size)
            upper = first * (1 - right_share) + second * right_share
            lower = third * (1 - right_share) + fourth * right_share
            value = (upper * (1 - lower_share) + lower * lower_share) * _scale(deviation, channel)
            if mean is not None:
                value -= tl.load(mean + channel) / tl.load(deviation + channel)
            place = pixels * pixel_stride + channel * channel_stride
            tl.store(target + place, value.to(output.dtype.element_ty), mask=inside)


@jit(do_not_specialize=["batch"], do_not_specialize_on_alignment=UNALIGNED)
def matrix_gradient_kernel(
    matrix_gradient,
    gradient,
    images,
    indices,
    offsets,
    matrices,
    deviation,
    batch,
    padding: tl.constexpr,
    size: tl.constexpr,
    channels: tl.constexpr,
    pixel_stride: tl.constexpr,
    channel_stride: tl.constexpr,
    block: tl.constexpr,
):
    """Take the gradient of matrix n, of the program's number, from that of output image n."""
    number = tl.program_id(0).to(tl.int64)
    index = number % batch if indices is None else tl.load(indices + number % batch)
    image = images + index * (channels * size * size)
    row_shift = tl.load(offsets + 2 * number).to(tl.int32) - padding
    column_shift = tl.load(offsets + 2 * number + 1).to(tl.int32) - padding
    source = gradient + number * (channels * size * size)
    x_across = tl.zeros((block,), tl.float32)
    x_down = tl.zeros((block,), tl.float32)
    y_across = tl.zeros((block,), tl.float32)
    y_down = tl.zeros((block,), tl.float32)
    for start in range(0, size * size, block):
        pixels = start + tl.arange(0, block)
        inside = pixels < size * size
        across, down, x, y = _coordinates(matrices + 4 * number, pixels, size)
        left, top = tl.floor(x), tl.floor(y)
        right_share, lower_share = x - left, y - top
        row, column = top.to(tl.int32), left.to(tl.int32)
        of_x = tl.zeros((block,), tl.float32)
        of_y = tl.zeros((block,), tl.float32)
        for channel in tl.static_range(channels):
            plane = image + channel * size * size
            first, second, third, fourth = _four_taps(plane, row, column, row_shift, column_shift, inside, size)
            place = pixels * pixel_stride + channel * channel_stride
            above = tl.load(source + place, mask=inside, other=0).to(tl.float32) * _scale(deviation, channel)
            of_x += above * ((second - first) * (1 - lower_share) + (fourth - third) * lower_share)
            of_y += above * ((third - first) * (1 - right_share) + (fourth - second) * right_share)
        x_across += of_x * across
        x_down += of_x * down
        y_across += of_y * across
        y_down += of_y * down
    tl.store(matrix_gradient + 4 * number, tl.sum(x_across, 0))
    tl.store(matrix_gradient + 4 * number + 1, tl.sum(x_down, 0))
    tl.store(matrix_gradient + 4 * number + 2, tl.sum(y_across, 0))
    tl.store(matrix_gradient + 4 * number + 3, tl.sum(y_down, 0))
