"""The base under every policy: random crop and mirror image before the learned transforms, cutout after them."""

from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

from augbench.bench.augmentation.resampling import windows


@dataclass(frozen=True)
class BaseAugmentation:
    """The usual augmentation of training images, the same whichever method is compared on top of it.

    The crop is torchvision's `RandomCrop(size, padding)` with zero (black) fill, the flip `RandomHorizontalFlip()`.
    The cutout (DeVries and Taylor, arXiv 1708.04552) fills one square with the mean colour of the training images:
    zeros behind the normalisation, where the published code of the policies has it, too. Its centre is uniform over the
    pixels; what reaches beyond the border is cut off.

    Attributes:
        padding: Zero padding of the crop, in pixels on each side; 0 without a crop.
        flips: Whether images are mirrored left to right with probability ½.
        square: Side of the cutout's square, in pixels; 0 without a cutout.
        mean: Mean of each channel of the training images, in [0, 1]; (C,).
        source: Source of its randomness, on the device of the images; nothing else draws from it.
    """

    padding: int = 0
    flips: bool = False
    square: int = 0
    mean: Tensor = field(default_factory=lambda: torch.zeros(1))
    source: torch.Generator = field(default_factory=torch.Generator)

    @property
    def moves(self) -> bool:
        """Whether it does anything before the learned transforms."""
        return self.padding > 0 or self.flips

    def before(self, images: Tensor, copies: int = 1) -> Tensor:
        """Crop, then mirror, each copy by a draw of its own.

        Args:
            images: (B, C, S, S), uint8.
            copies: Copies M of each image.

        Returns:
            The copies, copy by copy as `repeat` makes them; (M·B, C, S, S). The images themselves, not repeated, where
            there is neither crop nor flip.
        """
        if not self.moves:
            return images
        batch, size = len(images), images.shape[-1]
        padded = self._padded(images)
        places = _places(self.padding, self.flips, size, padded[0].numel(), images.device)
        drawn = torch.randint(len(places), (copies * batch,), device=images.device, generator=self.source)
        first = torch.arange(0, padded[0].numel(), padded[0, 0].numel(), device=images.device)
        starts = places.index_select(0, drawn).view(copies, batch) + first
        return windows(padded, size).index_select(0, starts.flatten())

    def _padded(self, images: Tensor) -> Tensor:
        """Pad images with zeros, and mirrored ones where there is a flip; (1 or 2, B, C, S + 2·padding, …)."""
        *shape, size, _ = images.shape
        padded = images.new_zeros(1 + self.flips, *shape, *(size + 2 * self.padding,) * 2)
        inside = padded[..., self.padding : self.padding + size, self.padding : self.padding + size]
        inside[0] = images
        if self.flips:
            inside[1] = images.flip(-1)
        return padded

    def after(self, images: Tensor, normalised: bool = False) -> Tensor:
        """Cut out a square of each image.

        Args:
            images: (N, C, S, S), float in [0, 1], or behind the network's normalisation.
            normalised: Which of the two.

        Returns:
            (N, C, S, S), of the same type and memory order; differentiable in the images outside the squares.
        """
        if not self.square:
            return images
        side = images.shape[-1]
        centres = torch.randint(side, (len(images), 2), device=images.device, generator=self.source)
        lines = _lines(side, self.square, images.dtype, images.device).index_select(0, centres.flatten())
        rows, columns = lines.view(-1, 2, side).unbind(1)
        squares = (rows[:, :, None] * columns[:, None, :])[:, None]
        colour = torch.zeros_like(self.mean) if normalised else self.mean
        # exact at the weights 0 and 1, and half the time of `where`
        return torch.lerp(images, colour.to(images.dtype)[:, None, None], squares)


@cache
def _places(padding: int, flips: bool, size: int, mirrored: int, device: torch.device) -> Tensor:
    """Where the crops of a padded image begin, all of them and, where there is a flip, those of its mirror image.

    The window at row r and column c of the mirror image, counted from the right, is the mirrored crop at (r, c).
    Mirror images begin `mirrored` pixels later; the result is ((2·padding + 1)², or twice as many).
    """
    positions = torch.arange(2 * padding + 1, device=device)
    places = (positions[:, None] * (size + 2 * padding) + positions).flatten()
    of_mirrors = mirrored + (positions[:, None] * (size + 2 * padding) + positions.flip(0)).flatten()
    return torch.cat((places, of_mirrors)) if flips else places


@cache
def _lines(side: int, square: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Row c has ones where a line of a square centred on pixel c is, of an even one from c − square/2; (side, side)."""
    pixels = torch.arange(side, device=device)
    steps = pixels - (pixels[:, None] - square // 2)
    return ((steps >= 0) & (steps < square)).to(dtype)
