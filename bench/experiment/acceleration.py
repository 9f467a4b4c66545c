"""How a training step is made faster: options of a budget, all part of a run's identity."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Acceleration(BaseModel):
    """Options that make a training step faster and change only its rounding.

    Evaluation, the loss and the learned distribution stay the same. In a compiled network, torch's compiler draws the
    dropout masks: other random numbers from the same distribution.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="of the network's forward and backward pass in training: float32 as torch computes it by itself, "
        "with convolutions in TF32 on GPUs that have it, or autocast to bfloat16",
    )
    channels_last: bool = Field(True, description="whether images and weights are in channels-last memory order")
    fused_optimizer: bool = Field(False, description="whether the network's optimiser is torch's fused one")
    compiled: bool = Field(False, description="whether torch.compile compiles the network's passes in training")
    cuda_graphs: bool = Field(
        False, description="whether whole batches go through the network as CUDA graphs, which needs a GPU"
    )

    @property
    def is_prepared(self) -> bool:
        """Whether something must be prepared before the first step."""
        return self.compiled or self.cuda_graphs
