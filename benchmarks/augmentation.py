"""Augmented images per second of the shared space and of four libraries, beside bare `grid_sample`.

Everything begins with the same uint8 images and ends with float images in [0, 1] on the device.

`shared space` is what a step of SCALE does: draw all seven blocks for each image, compose them into one matrix, crop
and resample once; ranges ask for their gradient. `for the network` also normalises, in the memory order and type of the
network.

`scale` and `trivialaugment-wide` are what a training step calls, from the indices of its images on, with one copy of
each. `under a base` is the same with crop and flip before the method and cutout after it.

`grid_sample`, the floor, is given float images and a ready grid.

`kornia` is `RandomCrop`, one `RandomAffine` with rotation, both scales and shear, and `RandomHorizontalFlip`: the same
maxima, whole circle of rotations for the half-turn, all affine parts in one resampling. That does less than the shared
space does, whose blocks are each there or not; but its crop, in the default mode, slices image by image. `kornia's
warp` has our draws, our crop and our matrices, and only resamples with kornia: the most that kornia could reach, and a
test shows that it gives the same images.

`fuse-augmentations` and `torchtransform` draw a map for each image and resample the batch once, as the shared space
does; the parts of a map are always all there, as kornia's are. Tests show that their maps give the same images by our
resampling. `fuse-augmentations` has no crop of padded images: within the one resampling, it moves them as far, by any
fraction of a pixel. `torchtransform` crops within it, so what the crop cuts off returns where a later part moves it in.
It is told not to smooth what it shrinks, which nobody else does.

`torchvision` transforms image by image, as its data sets do, from a tensor or from a PIL image, in this process:
`RandomCrop`, `RandomAffine` with one scale for both axes, which is all it has, and `RandomHorizontalFlip`; then the
images are stacked and moved to the device. The batch does not matter to that: on a GPU only the smallest is measured.
"""

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torchvision.transforms import v2

from augbench.bench.augmentation.affine_space import Draw, Space, shared_space, to_unit_interval
from augbench.bench.augmentation.base import BaseAugmentation
from augbench.bench.augmentation.network_input import NetworkInput
from augbench.bench.contract.method import RunContext
from augbench.bench.experiment.catalogues import methods
from augbench.bench.training.base import augmented
from benchmarks.made_up import made_up_images
from benchmarks.rows import Entry, Goal, Row, Settings, compare

SECTION = "augmentation"
OURS, FLOOR = "shared space", "grid_sample"
SHAPES = ((28, 1), (32, 3))  # size and channels
BATCHES = (128, 256, 512, 1024)
PROBABILITY = 0.5
METHODS: dict[str, dict[str, int]] = {"scale": {"copies": 1}, "trivialaugment-wide": {}}
"""Methods that are measured under a base, with their hyperparameters."""
TIMES_BASE = Goal(1.1)
TIMES_FLOOR, TIMES_KORNIA, TIMES_TORCHVISION = Goal(1.25), Goal(2.5, at_least=True), Goal(10, at_least=True)
TIMES_FUSED = Goal(1, at_least=True)

Images = Callable[[], Tensor]


def measure(settings: Settings) -> list[Row]:
    """Compare for each shape and batch; the shared space with the floor, and everybody else with the shared space."""
    cases = [(*shape, batch) for shape in SHAPES for batch in BATCHES]
    if settings.quick:
        cases = [(28, 1, 16)]
    rows = []
    for done, (size, channels, batch) in enumerate(cases):
        case = f"{size}×{size}×{channels}, batch {batch}"
        settings.progress(done, len(cases), case)
        images = made_up_images(batch, channels, size)
        rows += compare(SECTION, case, contestants(images, settings.device), settings, images=batch)
    return rows


def contestants(images: Tensor, device: torch.device) -> dict[str, Entry]:
    """Prepare all contestants; any library but torchvision may be missing.

    Args:
        images: (B, C, S, S), uint8, on the CPU.
        device: Where the augmented images are to be.
    """
    there, space = images.to(device), shared_space(images.shape[-1])
    found = {
        FLOOR: Entry(bare_grid_sample(there, space)),
        OURS: Entry(by_shared_space(there, space), FLOOR, TIMES_FLOOR),
        "for the network": Entry(by_shared_space(there, space, network_input(there)), FLOOR),
    }
    for name in METHODS:
        found[name] = Entry(by_method(there, space, name))
        found[f"{name} under a base"] = Entry(by_method(there, space, name, based=True), name, TIMES_BASE)
    if find_spec("kornia") is not None:
        found["kornia"] = Entry(by_kornia(there, space), OURS, TIMES_KORNIA)
        found["kornia's warp"] = Entry(by_kornias_warp(there, space), OURS)
    if find_spec("fuse_augmentations") is not None:
        found["fuse-augmentations"] = Entry(by_fuse_augmentations(there, space), OURS, TIMES_FUSED)
    if find_spec("torchtransform") is not None:
        found["torchtransform"] = Entry(by_torchtransform(there, space), OURS, TIMES_FUSED)
    if device.type == "cpu" or len(images) <= BATCHES[0]:
        found["torchvision, tensors"] = Entry(by_torchvision(images, space, device), OURS, TIMES_TORCHVISION)
        found["torchvision, PIL"] = Entry(by_torchvision(images, space, device, pil=True), OURS, TIMES_TORCHVISION)
    return found


def network_input(images: Tensor) -> NetworkInput:
    """Describe the input of a network: normalised, channels-last, in bfloat16 on a GPU and in float32 on a CPU."""
    half = torch.full((images.shape[1],), 0.5, device=images.device)
    return NetworkInput(half, half, torch.bfloat16 if images.device.type == "cuda" else torch.float32)


def bare_grid_sample(images: Tensor, space: Space) -> Images:
    """Only resample float images along a ready grid."""
    floats = to_unit_interval(images)
    matrices = F.pad(space.inverse_matrices(_sample(space, len(images), _generator(images.device))), (0, 1))
    grid = F.affine_grid(matrices, list(floats.shape), align_corners=False)
    return lambda: F.grid_sample(floats, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def by_shared_space(images: Tensor, space: Space, ready: NetworkInput | None = None) -> Images:
    """Draw, compose, crop and resample as a step of SCALE does, with the gradient of the ranges.

    Args:
        images: (B, C, S, S), uint8.
        space: The shared space.
        ready: What the images are made for, if for a network; else they are in [0, 1].
    """
    source = _generator(images.device)
    ranges = space.maxima(images.device).requires_grad_()
    probabilities = _probabilities(images.device)

    def augment() -> Tensor:
        draw = space.sample(len(images), probabilities, ranges, source)
        return space.apply(images, draw, network_input=ready)

    return augment


def by_method(images: Tensor, space: Space, name: str, based: bool = False) -> Images:
    """Augment as a training step of a method does.

    Args:
        images: (B, C, S, S), uint8.
        space: The shared space.
        name: The method.
        based: Whether under a base in the usual proportions, with a square of half the side cut out.
    """
    device, channels = images.device, images.shape[1]
    made = methods().get(name)
    method = made(made.hyperparameters_type(**METHODS[name]), RunContext(space, channels, 10, 1000, 1, 1, device))
    mean, sources = torch.full((channels,), 0.5, device=device), [_generator(device) for _ in range(2)]
    base = BaseAugmentation(space.padding, True, space.image_size // 2, mean, sources[0])
    base = base if based else BaseAugmentation()
    indices = torch.arange(len(images), device=device)
    return lambda: augmented(method, base, images, indices, sources[1])[1].images


def by_kornia(images: Tensor, space: Space) -> Images:
    """Crop, one random affine map and flip, by kornia."""
    import kornia.augmentation as K

    augment = torch.nn.Sequential(
        K.RandomCrop((space.image_size,) * 2, padding=space.padding),
        K.RandomAffine(
            _turns(space),
            scale=_scales(space) * 2,
            shear=(*_shears(space), 0.0, 0.0),
            align_corners=False,
            p=1.0,
        ),
        K.RandomHorizontalFlip(p=PROBABILITY),
    )
    return lambda: augment(to_unit_interval(images))


def by_kornias_warp(images: Tensor, space: Space) -> Images:
    """Draw, compose and crop as the shared space does, and have kornia resample."""
    source = _generator(images.device)

    def augment() -> Tensor:
        draw = _sample(space, len(images), source)
        return kornias_warp(to_unit_interval(space.crop(images, draw)), space.inverse_matrices(draw))

    return augment


def kornias_warp(images: Tensor, inverse_matrices: Tensor) -> Tensor:
    """Resample with kornia, which asks for affine maps of pixels from input to output.

    Args:
        images: Float images; (N, C, S, S).
        inverse_matrices: From output to input, about the middle of the image; (N, 2, 2).
    """
    from kornia.geometry.transform import warp_affine

    size = images.shape[-1]
    linear = torch.linalg.inv(inverse_matrices)
    middle = torch.full((2,), (size - 1) / 2, device=images.device)
    maps = torch.cat((linear, (middle - linear @ middle)[:, :, None]), dim=2)
    warped: Tensor = warp_affine(images, maps, (size, size), align_corners=False)
    return warped


def by_fuse_augmentations(images: Tensor, space: Space) -> Images:
    """One random affine map, flip included, by fuse-augmentations."""
    augment = fused_transforms(space)
    return lambda: augment(to_unit_interval(images))


def fused_transforms(space: Space) -> Callable[..., Any]:
    """Compose rotation, scales, shear, shift and flip, in this order, by fuse-augmentations."""
    from fuse_augmentations import Compose

    shifts = (-space.padding, space.padding)
    composed: Callable[..., Any] = Compose.from_params(
        rotation=_turns(space),
        scale_x=_scales(space),
        scale_y=_scales(space),
        shear_x=_shears(space),
        translate_x=shifts,
        translate_y=shifts,
        hflip_p=PROBABILITY,
    )
    return composed


def by_torchtransform(images: Tensor, space: Space) -> Images:
    """Crop, flip and one random affine map, by torchtransform."""
    from torchtransform import Image

    augment = torchtransforms(space)
    return lambda: augment(Image(to_unit_interval(images), antialias=False))


def torchtransforms(space: Space) -> Callable[..., Any]:
    """Compose crop, flip, shear, scales and rotation, in this order, by torchtransform."""
    import torchtransform as tt

    composed: Callable[..., Any] = tt.Compose(
        tt.Pad(space.padding),
        tt.RandomCrop(space.image_size),
        tt.HorizontalFlip(PROBABILITY),
        tt.Shear(_shears(space)),
        tt.Scale(x=_scales(space), y=_scales(space)),
        tt.Rotate(_turns(space)),
    )
    return composed


def by_torchvision(images: Tensor, space: Space, device: torch.device, pil: bool = False) -> Images:
    """Transform image by image, from tensors or from PIL images, and move the stacked images to the device.

    Args:
        images: (B, C, S, S), uint8, on the CPU.
        space: The shared space.
        device: Where the augmented images are to be.
        pil: Whether each image is made a PIL image first, as torchvision's data sets do.
    """
    steps: list[torch.nn.Module] = [
        v2.RandomCrop(space.image_size, padding=space.padding),
        v2.RandomAffine(
            _turns(space),
            scale=_scales(space),
            shear=_shears(space),
            interpolation=v2.InterpolationMode.BILINEAR,
        ),
        v2.RandomHorizontalFlip(PROBABILITY),
    ]
    to_floats = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    augment = v2.Compose([v2.ToPILImage(), *steps, *to_floats] if pil else [*steps, to_floats[1]])
    return lambda: torch.stack([augment(image) for image in images]).to(device)


def _sample(space: Space, count: int, source: torch.Generator) -> Draw:
    return space.sample(count, _probabilities(source.device), space.maxima(source.device), source)


def _probabilities(device: torch.device) -> Tensor:
    return torch.full((7,), PROBABILITY, device=device)


def _generator(device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(0)


def _turns(space: Space) -> tuple[float, float]:
    """Range of the rotation, in degrees."""
    largest = math.degrees(space.maximum_rotation)
    return -largest, largest


def _scales(space: Space) -> tuple[float, float]:
    return math.exp(-space.maximum_log_scale), math.exp(space.maximum_log_scale)


def _shears(space: Space) -> tuple[float, float]:
    """Range of the shear as an angle, in degrees."""
    largest = math.degrees(math.atan(space.maximum_shear))
    return -largest, largest
