"""Six generators of the affine maps of the plane: every map near the identity is the exponential of a sum of them."""

from typing import Literal, get_args

import torch
from torch import Tensor

SERIES_TERMS = 6
SQUARINGS = 5
GeneratorName = Literal["x-translation", "y-translation", "rotation", "uniform-scale", "stretch", "symmetric-shear"]
GENERATORS: tuple[GeneratorName, ...] = get_args(GeneratorName)


def generator_matrices(translation_scale: float, device: torch.device) -> Tensor:
    """Six generators of affine maps of the plane as 3×3 matrices, in the order of GENERATORS; (6, 3, 3).

    Args:
        translation_scale: Half images by which a coefficient of 1 translates.
        device: Where they are to be.
    """
    generators = torch.zeros(len(GENERATORS), 3, 3, device=device)
    generators[0, 0, 2] = generators[1, 1, 2] = translation_scale
    generators[2, 0, 1], generators[2, 1, 0] = -1, 1
    generators[3, 0, 0] = generators[3, 1, 1] = 1
    generators[4, 0, 0], generators[4, 1, 1] = 1, -1
    generators[5, 0, 1] = generators[5, 1, 0] = 1
    return generators


def exponential(matrices: Tensor) -> Tensor:
    """Matrix exponential, to within 1e-6 of the largest entry for norms up to 8 and 1e-5 up to 12.

    torch's own reads the norms on the host, for which a GPU is waited for, and takes longer. This is the series of the
    32nd part, squared five times; what is squared is exp − 1, so that small matrices lose nothing to rounding.

    Args:
        matrices: (N, k, k).

    Returns:
        (N, k, k), differentiable.
    """
    part = matrices / 2**SQUARINGS
    beyond_identity: Tensor = part
    for term in range(SERIES_TERMS, 1, -1):
        beyond_identity = torch.baddbmm(part, part, beyond_identity / term)
    for _ in range(SQUARINGS):
        beyond_identity = torch.baddbmm(beyond_identity, beyond_identity, beyond_identity, beta=2)
    return beyond_identity + torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
