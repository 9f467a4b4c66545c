"""The affine space that methods share: seven blocks, their distributions, and their action on images.

A draw is g = g1∘g2∘…∘g7 in the order of `Space.blocks` (SCALE, section 3.1): the last block, the crop, acts on the
image first and the first block, the rotation, last. An image is a function on the plane and (g I)(x) = I(g⁻¹x).
Coordinates are those of `torch.nn.functional.affine_grid`: x to the right, y downwards, the image is [−1, 1]².
"""

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation import fused_resampling
from augbench.bench.augmentation.network_input import NetworkInput
from augbench.bench.augmentation.resampling import crop, normalised, resample_in_pieces, sampled, sampling_grid

PADDING_DIVISOR = 7
IMAGES_AT_A_TIME = 5000  # that are transformed as a whole, which bounds the memory


@dataclass(frozen=True)
class Block:
    """One stochastic block of the space: a kind of transform, and how far it may go.

    A continuous block draws its magnitude uniformly from [−α, α] with α ≤ `maximum`; a discrete block draws uniformly
    from `support` elements, one of which is the identity. A block's probability is torchvision's `p`. Its magnitude is
    that of `RandomAffine` in another unit: `rotation` is `degrees` in radians, `x-scale` and `y-scale` are logarithms
    of `scale` along one axis, and `x-shear` is the tangent of the angle `shear`. `flip` is `RandomHorizontalFlip`, and
    `crop` is `RandomCrop(size, padding)`.

    Attributes:
        name: What it is called.
        unit: Unit of the magnitude, or "elements".
        maximum: Largest magnitude A of a continuous block; None for a discrete one.
        support: Number of elements of a discrete block; None for a continuous one.
    """

    name: str
    unit: str
    maximum: float | None = None
    support: int | None = None


@dataclass(frozen=True)
class Draw:
    """N independent draws from the space, one a row.

    A row `active = [1 0 0 1 0 0 1]` composes rotation∘x-shear∘crop: the last block acts first. What is drawn for the
    other blocks does nothing.

    Attributes:
        active: Whether each block is in the composition, t in the paper; (N, 7) bool.
        magnitudes: Magnitude of the four continuous blocks, as drawn, active or not; (N, 4). Carries the gradient
            of the ranges α, since each magnitude is α·ε with ε uniform on [−1, 1].
        half_turn: The element drawn by the half-turn block; (N,) bool.
        flip: The element drawn by the flip block; (N,) bool.
        offsets: Row and column where the crop begins in the padded image; (N, 2) long.
    """

    active: Tensor
    magnitudes: Tensor
    half_turn: Tensor
    flip: Tensor
    offsets: Tensor

    def __len__(self) -> int:
        return self.active.shape[0]


@dataclass(frozen=True)
class Space:
    """The blocks of the affine space for square images of one size, their maxima, sampler and action.

    Attributes:
        image_size: Height and width of the images, in pixels.
        padding: Zero padding of the crop, in pixels.
        maximum_rotation: Largest rotation, in radians.
        maximum_log_scale: Largest logarithm of a factor by which an axis is scaled.
        maximum_shear: Largest shear, as the off-diagonal entry of the matrix.

    Examples:
        Rotate by at most 0.3 rad, half of the images, and mirror every other one:

        >>> import torch
        >>> from augbench import Space
        >>> space = Space(image_size=28, padding=4)
        >>> [block.name for block in space.blocks]
        ['rotation', 'x-scale', 'y-scale', 'x-shear', 'half-turn', 'flip', 'crop']
        >>> probabilities = torch.tensor([0.5, 0, 0, 0, 0, 1, 0])
        >>> ranges = torch.tensor([0.3, 0.1, 0.1, 0.1])
        >>> draw = space.sample(64, probabilities, ranges, torch.Generator().manual_seed(0))
        >>> space.apply(torch.zeros(64, 3, 28, 28), draw).shape
        torch.Size([64, 3, 28, 28])
    """

    image_size: int
    padding: int
    maximum_rotation: float = math.pi
    maximum_log_scale: float = math.log(2)
    maximum_shear: float = 1.0

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The seven blocks in the order of composition, outermost first."""
        return (
            Block("rotation", "rad", maximum=self.maximum_rotation),
            Block("x-scale", "log factor", maximum=self.maximum_log_scale),
            Block("y-scale", "log factor", maximum=self.maximum_log_scale),
            Block("x-shear", "shear", maximum=self.maximum_shear),
            Block("half-turn", "elements", support=2),
            Block("flip", "elements", support=2),
            Block("crop", "elements", support=self.crop_positions**2),
        )

    @property
    def crop_positions(self) -> int:
        """Positions of the crop along one axis."""
        return 2 * self.padding + 1

    def maxima(self, device: torch.device | str = "cpu") -> Tensor:
        """Maxima A of the continuous blocks; (4,)."""
        return _numbers(tuple(block.maximum for block in self.blocks if block.maximum is not None), device).clone()

    def supports(self, device: torch.device | str = "cpu") -> Tensor:
        """Support sizes N of the discrete blocks; (3,)."""
        sizes = tuple(float(block.support) for block in self.blocks if block.support is not None)
        return _numbers(sizes, device).clone()

    def sample(self, count: int, probabilities: Tensor, ranges: Tensor, generator: torch.Generator) -> Draw:
        """Draw `count` transforms from Q_θ, θ = (π, α) (SCALE, section 3.1).

        Args:
            count: Number of draws.
            probabilities: Probability π of each block, in [0, 1]; (7,).
            ranges: Range α of each continuous block, in (0, A]; (4,).
            generator: Source of randomness on the device of `probabilities`.

        Returns:
            The draws; differentiable in `ranges`.
        """
        device = probabilities.device
        uniform = torch.rand(count, 7 + 4, device=device, generator=generator)
        active = uniform[:, :7] < probabilities.detach()
        magnitudes = ranges * (2 * uniform[:, 7:] - 1)
        return Draw(active, magnitudes, *self.sample_elements(count, generator))

    def sample_elements(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draw the elements of the discrete blocks uniformly: half-turn (N,), flip (N,) and offsets (N, 2)."""
        device = generator.device
        coins = torch.randint(2, (count, 2), device=device, generator=generator, dtype=torch.bool)
        offsets = torch.randint(self.crop_positions, (count, 2), device=device, generator=generator)
        return coins[:, 0], coins[:, 1], offsets

    def crop_offsets(self, draw: Draw) -> Tensor:
        """Row and column where each crop begins in the padded image, the middle where it is inactive; (N, 2) long."""
        return torch.where(draw.active[:, 6:], draw.offsets, self.padding)

    def crop(self, images: Tensor, draw: Draw) -> Tensor:
        """Crop the zero-padded images at the drawn offsets; inactive draws stay as they are.

        Equals torchvision's `RandomCrop(image_size, padding)`: what is cut off here is lost to the later blocks.

        Args:
            images: (B, C, H, W), of any type.
            draw: N = M·B draws, copy by copy: draw n acts on image n mod B.

        Returns:
            (N, C, H, W).
        """
        return crop(images, self.crop_offsets(draw), self.padding)

    def inverse_matrices(self, draw: Draw) -> Tensor:
        """Matrices of g⁻¹ = g6⁻¹…g1⁻¹, which take output to input coordinates; (N, 2, 2).

        With R(a) the rotation by a, S the scales, H the shear, T the half-turn and F the flip,
        g = R(a)·Sx·Sy·H·T·F and therefore g⁻¹ = F·T·H⁻¹·Sy⁻¹·Sx⁻¹·R(−a).
        """
        used = draw.magnitudes * draw.active[:, :4]
        rotation, x_scale, y_scale, x_shear = used.unbind(1)
        cosine, sine = rotation.cos(), rotation.sin()
        x_factor, y_factor = (-x_scale).exp(), (-y_scale).exp()
        # rows of Sy⁻¹·Sx⁻¹·R(−a), then H⁻¹ = [[1, −shear], [0, 1]] takes the shear times the second row off the first
        bottom = torch.stack((-y_factor * sine, y_factor * cosine), dim=1)
        top = torch.stack((x_factor * cosine, x_factor * sine), dim=1) - x_shear[:, None] * bottom
        turn = 1 - 2 * (draw.half_turn & draw.active[:, 4]).to(used.dtype)
        mirror = 1 - 2 * (draw.flip & draw.active[:, 5]).to(used.dtype)
        return torch.stack(((turn * mirror)[:, None] * top, turn[:, None] * bottom), dim=1)

    def matrices(self, draw: Draw) -> Tensor:
        """Affine maps g of the plane, crop included: g(x) = A·(x + t) with t the shift of the crop; (N, 2, 3)."""
        linear = torch.linalg.inv(self.inverse_matrices(draw))
        offsets = self.crop_offsets(draw).flip(1)  # x from columns, y from rows
        shift = (self.padding - offsets).to(linear.dtype) * 2 / self.image_size
        return torch.cat((linear, linear @ shift[:, :, None]), dim=2)

    def apply(
        self,
        images: Tensor,
        draw: Draw,
        *,
        indices: Tensor | None = None,
        network_input: NetworkInput | None = None,
    ) -> Tensor:
        """Apply each draw to an image: the crop while gathering, then all affine blocks in one resampling.

        Args:
            images: (B, C, H, W), uint8 in 0…255 or float in [0, 1]; any number of them where `indices` is given.
            draw: N = M·B draws, copy by copy: draw n acts on image n mod B.
            indices: Indices of the B images; all by default.
            network_input: What the images are made for, if for a network behind its normalisation.

        Returns:
            N images, zero-filled, in [0, 1] or as `network_input` says; (N, C, H, W), differentiable in the magnitudes
            of `draw`.
        """
        offsets, matrices = self.crop_offsets(draw), self.inverse_matrices(draw)
        in_bytes = images.dtype == torch.uint8 and matrices.dtype == torch.float32
        if in_bytes and fused_resampling.usable(images.device):
            crops = fused_resampling.Crops(images, indices, offsets, self.padding, network_input)
            return fused_resampling.resample(crops, matrices)
        chosen = images if indices is None else images.index_select(0, indices)
        if in_bytes and images.device.type == "cpu":
            output = resample_in_pieces(chosen, offsets, self.padding, matrices)
        else:
            output = resample(to_unit_interval(crop(chosen, offsets, self.padding)), matrices)
        return output if network_input is None else normalised(output, network_input)


def shared_space(image_size: int) -> Space:
    """Build the affine space for square images of `image_size` pixels.

    The crop's padding is 4 pixels at 28 and 32 pixels and in proportion at other sizes (2 at 14).
    """
    return Space(image_size=image_size, padding=crop_padding(image_size))


def crop_padding(image_size: int, divisor: int = PADDING_DIVISOR) -> int:
    """Padding of the crop in pixels: the side over the divisor, rounded down, at least 1."""
    return max(1, image_size // divisor)


def to_unit_interval(images: Tensor) -> Tensor:
    """Scale uint8 images to floats in [0, 1]; leave float images as they are."""
    return images.float() / 255 if images.dtype == torch.uint8 else images


def resample(images: Tensor, inverse_matrices: Tensor) -> Tensor:
    """Resample images once: bilinear, `align_corners=False`, zero (black) fill.

    Args:
        images: Float images in [0, 1]; (N, C, H, W).
        inverse_matrices: From output to input coordinates; (N, 2, 2) linear or (N, 2, 3) affine.

    Returns:
        (N, C, H, W); differentiable in both arguments.
    """
    return sampled(images, sampling_grid(inverse_matrices, *images.shape[2:]))


def transform_and_shrink(images: Tensor, inverse_matrices: Tensor, side: int) -> Tensor:
    """Transform images as a data set does that has been turned: at their full size, and averaged down after that.

    Data sets that turn, scale or shear their images and probes that do so with test images both go through here. In the
    other order the transform would blur the small image, which no image of such a data set is.

    Args:
        images: uint8; (N, C, S, S).
        inverse_matrices: From output to input coordinates; (N, 2, 2).
        side: Side of the images that are returned, in pixels; a divisor of S.

    Returns:
        Rounded to whole grey levels after each of the two steps; uint8; (N, C, side, side).
    """
    chunks = zip(images.split(IMAGES_AT_A_TIME), inverse_matrices.split(IMAGES_AT_A_TIME), strict=True)
    return torch.cat([shrink(_to_levels(resample(to_unit_interval(some), inverse)), side) for some, inverse in chunks])


def _to_levels(images: Tensor) -> Tensor:
    return (images * 255).round().to(torch.uint8)


def shrink(images: Tensor, side: int) -> Tensor:
    """Average uint8 images (N, C, S, S) down to `side` pixels, a divisor of S; uint8."""
    factor = images.shape[-1] // side
    if factor == 1:
        return images
    chunks = images.split(IMAGES_AT_A_TIME)
    return torch.cat([F.avg_pool2d(chunk.float(), factor).round().to(torch.uint8) for chunk in chunks])


@cache
def _numbers(values: tuple[float, ...], device: torch.device | str) -> Tensor:
    return torch.tensor(values, device=device)
