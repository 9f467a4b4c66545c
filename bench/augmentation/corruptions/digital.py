"""Elastic deformation, pixelation and JPEG. Images are floats in [0, 1]; (N, C, S, S)."""

from collections.abc import Callable
from io import BytesIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from augbench.bench.augmentation.corruptions.filters import gaussian_filter, mirror, sample_linearly, symmetric
from augbench.bench.augmentation.corruptions.streams import ImageStreams


def elastic(images: Tensor, streams: ImageStreams, strength: float, smoothness: float, moved: float) -> Tensor:
    """Map the image affinely, then displace its pixels by smooth noise. Lengths are shares of the side.

    Args:
        images: (N, C, S, S).
        streams: Random numbers.
        strength: Factor of the displacement: of uniform noise within ±1, blurred.
        smoothness: Standard deviation of the blur.
        moved: Most that each coordinate of three points moves; they determine the affine map.
    """
    side = images.shape[-1]
    warped = sample_linearly(images, *_affine_places(side, side * moved * _moves(streams)), mirror)
    noise = [streams.uniform(name, -1, 1, (side, side)) for name in ("columns", "rows")]
    right, down = (side * strength * gaussian_filter(one, side * smoothness, symmetric, truncate=3) for one in noise)
    along = torch.arange(side, device=images.device)
    return sample_linearly(warped, along[:, None] + down, along + right, symmetric)


def _moves(streams: ImageStreams) -> Tensor:
    """How far x and y of three points move, as parts of the most; (N, 3, 2)."""
    return streams.uniform("points", -1, 1, (3, 2))


def _affine_places(side: int, moves: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns from which pixels come under the affine map that moves three points; two of (N, S, S)."""
    middle, away = side // 2, side // 3
    corners = [[middle + away, middle + away], [middle + away, middle - away], [middle - away, middle - away]]
    before = torch.tensor(corners, dtype=torch.float64)
    after = torch.cat((before + moves.cpu().double(), torch.ones(len(moves), 3, 1, dtype=torch.float64)), 2)
    backwards = torch.linalg.solve(after, before.expand(len(moves), 3, 2)).float().to(moves.device)  # (N, 3, 2)
    along = torch.arange(side, device=moves.device, dtype=torch.float32)
    x, y = along.expand(side, side), along[:, None].expand(side, side)
    places = torch.stack((x, y, torch.ones_like(x)), -1) @ backwards[:, None]
    return places[..., 1], places[..., 0]


def pixelate(images: Tensor, _: ImageStreams, share: float) -> Tensor:
    """Shrink to a share of the side and enlarge again, each time with Pillow's box filter."""
    side = images.shape[-1]
    small = int(side * share)
    box = Image.Resampling.BOX
    return _with_pillow(images, lambda image: image.resize((small, small), box).resize((side, side), box))


def jpeg(images: Tensor, _: ImageStreams, quality: float) -> Tensor:
    """Compress with Pillow at a quality from 1 to 95."""

    def compressed(image: Image.Image) -> Image.Image:
        stored = BytesIO()
        image.save(stored, "JPEG", quality=int(quality))
        return Image.open(stored)

    return _with_pillow(images, compressed)


def _with_pillow(images: Tensor, change: Callable[[Image.Image], Image.Image]) -> Tensor:
    levels = (images * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
    grey = levels.shape[-1] == 1
    changed = [np.asarray(change(Image.fromarray(one[..., 0] if grey else one))) for one in levels]
    stacked = torch.from_numpy(np.stack(changed)).view(levels.shape)
    return stacked.permute(0, 3, 1, 2).to(images.device) / 255
