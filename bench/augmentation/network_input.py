"""What a network takes, so that images can be resampled and normalised in one go."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class NetworkInput:
    """What a network takes behind its normalisation: images (x − mean)/deviation in channels-last memory order.

    Attributes:
        mean: Mean of each channel, of images in [0, 1]; (C,).
        deviation: Standard deviation of each channel; (C,).
        dtype: Type of the normalised images.
    """

    mean: Tensor
    deviation: Tensor
    dtype: torch.dtype
