"""The network as a training step runs it: in the precision that a budget asks for, compiled or as a CUDA graph."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from augbench.bench.common.errors import RetryableError, UserError
from augbench.bench.contract.method import AugmentedBatch
from augbench.bench.experiment.acceleration import Acceleration
from augbench.bench.networks.base import Normalised

Pass = Callable[[Tensor], Tensor]

WARM_UP_PASSES = 3  # with CUDA graphs, torch.compile warms up in the first, records in the second, then replays


class _Plain(nn.Module):
    """A network on images in [0, 1] or on normalised ones, in the precision of the budget, with float32 logits."""

    def __init__(self, network: nn.Module, acceleration: Acceleration, device: torch.device, normalised: bool) -> None:
        super().__init__()
        self.network = network
        self.normalised = normalised
        self.device_type = device.type
        self.in_bfloat16 = acceleration.precision == "bfloat16"
        self.keeps_casts = not acceleration.cuda_graphs  # which a CUDA graph cannot

    def forward(self, images: Tensor) -> Tensor:
        """Map images (N, C, H, W) to logits (N, classes)."""
        network = cast(Normalised, self.network).on_normalised if self.normalised else self.network
        with torch.autocast(self.device_type, torch.bfloat16, self.in_bfloat16, self.keeps_casts):
            logits: Tensor = network(images)
        return logits.float()


class ForwardPass:
    """A network as a training step runs it; the network itself stays as it is, for evaluation and to be saved.

    Batches of a prepared shape go the fast way; all others, such as the last one of an epoch, go the plain way. So do
    batches with a gradient that was not prepared for: a CUDA graph would lose it.
    """

    def __init__(self, network: nn.Module, acceleration: Acceleration, device: torch.device) -> None:
        self.acceleration = acceleration
        self.device = device
        self._plain = [_Plain(network, acceleration, device, normalised) for normalised in (False, True)]
        self._prepared: dict[tuple[torch.Size, bool], tuple[Pass, bool]] = {}

    def __call__(self, copies: AugmentedBatch) -> Tensor:
        """Map a batch of copies to logits (N, classes), float32.

        Raises:
            UserError: If the batch is a single image, over which the network cannot normalise.
        """
        try:
            return self._logits(copies)
        except ValueError as error:  # which torch raises for a channel with one value in the whole batch
            if len(copies.images) > 1:
                raise
            raise UserError(
                f"The network cannot train on a batch of a single image: {error}. Choose a batch_size in the suite's "
                "budget that leaves more than one image for the last batch of an epoch, or more baseline_copies."
            ) from error

    def _logits(self, copies: AugmentedBatch) -> Tensor:
        if self.acceleration.compiled and self.acceleration.cuda_graphs:
            torch.compiler.cudagraph_mark_step_begin()
        images = copies.images
        plain: Pass = self._plain[copies.normalised]
        fast, has_gradient = self._prepared.get((images.shape, copies.normalised), (plain, images.requires_grad))
        if images.requires_grad and not has_gradient:
            return plain(images)
        # Images whose transforms are not learned any more keep a gradient, or torch would compile again, in training.
        return fast(images if images.requires_grad == has_gradient else images.detach().requires_grad_())

    def prepare(self, copies: AugmentedBatch) -> None:
        """Compile for batches like this one, or record a CUDA graph of it, where the budget says so.

        It goes forwards and backwards through the network, which changes buffers, gradients and torch's random state.
        What torch compiled before in this process is forgotten, so that torch's limit on compilations is not reached.

        Raises:
            RetryableError: If the budget asks for CUDA graphs and there is no GPU, or the compiler cannot work where
                temporary files are.
        """
        if self.acceleration.compiled and any(map(str.isspace, tempfile.gettempdir())):
            raise RetryableError(
                f"The budget asks for compiled steps, but torch's compiler fails in {tempfile.gettempdir()!r}, since "
                "that path has a blank. Set the variable TMPDIR to another folder, then repeat the command."
            )
        if self.acceleration.cuda_graphs and self.device.type != "cuda":
            raise RetryableError(
                f"The budget asks for CUDA graphs, which need a GPU, but the run was placed on {self.device.type}. "
                "Repeat the command with --device cuda, or take `cuda_graphs` out of the suite's `acceleration`, "
                "which changes the identity of the runs."
            )
        has_gradient = copies.images.requires_grad
        self._prepared[copies.images.shape, copies.normalised] = self._fast(copies), has_gradient
        for _ in range(WARM_UP_PASSES):
            # as before each step: a gradient of torch.compile's CUDA graph is invalid in the next pass
            self._plain[0].zero_grad(set_to_none=True)
            self(replace(copies, images=_alone(copies.images))).mean().backward()

    def _fast(self, copies: AugmentedBatch) -> Pass:
        if self.acceleration.compiled:
            torch.compiler.reset()
            mode = "reduce-overhead" if self.acceleration.cuda_graphs else None
            return cast(Pass, torch.compile(self._plain[copies.normalised], dynamic=False, mode=mode))
        # The module that is handed over is changed in place, and smaller batches need the plain one as it is.
        module = _Plain(self._plain[0].network, self.acceleration, self.device, copies.normalised)
        samples = (_alone(copies.images),)
        return cast(Pass, torch.cuda.make_graphed_callables(module, samples, allow_unused_input=True))


def _alone(images: Tensor) -> Tensor:
    """Return the same images, with a gradient where they have one, which does not go on to what they were made from."""
    return images.detach().requires_grad_(images.requires_grad)
