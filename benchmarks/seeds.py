"""Several seeds of one configuration: one after the other, or all at once as one stacked network.

`together` holds the weights of all seeds in one tensor for each layer, maps one network over them (`torch.func.vmap`)
and has one Adam for all, which works weight by weight and so does for each seed what its own would do. Each seed has
images of its own. What is timed is a training step of every seed: forward, loss, backward, optimiser, on float images
that lie ready.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.experiment.catalogues import networks
from benchmarks.made_up import CLASSES, made_up_images
from benchmarks.rows import Entry, Row, Settings, compare

SECTION = "seeds"
IN_TURN, TOGETHER = "in turn", "together"
NETWORK, LEARNING_RATE = "tiny", 0.01
SIZES, BATCHES, SEEDS = (14, 28), (128,), (2, 4, 8)


def measure(settings: Settings) -> list[Row]:
    """Compare steps of `tiny`; the ratio is that of the time together to the time in turn."""
    cases = [(size, batch, count) for size in SIZES for batch in BATCHES for count in SEEDS]
    if settings.quick:
        cases = [(14, 8, 2)]
    rows = []
    for done, (size, batch, count) in enumerate(cases):
        case = f"{NETWORK}, {size}×{size}, batch {batch}, {count} seeds"
        settings.progress(done, len(cases), case)
        images = to_unit_interval(made_up_images(count * batch, 1, size)).view(count, batch, 1, size, size)
        labels = (torch.arange(count * batch) % CLASSES).view(count, batch)
        there = images.to(settings.device), labels.to(settings.device)
        one_by_one, stacked = InTurn(build(count, settings.device)), Together(build(count, settings.device))
        entries = {
            IN_TURN: Entry(partial(one_by_one.step, *there)),
            TOGETHER: Entry(partial(stacked.step, *there), IN_TURN),
        }
        rows += compare(SECTION, case, entries, settings, images=count * batch)
    return rows


def build(count: int, device: torch.device) -> list[nn.Module]:
    """Build networks with seeds 0, 1, …, in training mode."""
    made = []
    for seed in range(count):
        torch.manual_seed(seed)
        made.append(networks().get(NETWORK)().build(1, CLASSES).to(device).train())
    return made


class InTurn:
    """Networks that are trained one after the other, in the memory order that training uses.

    Args:
        modules: The networks.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.modules = [module.to(memory_format=torch.channels_last) for module in modules]
        self.optimizers = [torch.optim.Adam(module.parameters(), LEARNING_RATE) for module in modules]

    def step(self, images: Tensor, labels: Tensor) -> None:
        """Take one step of each; images (K, B, C, H, W) and labels (K, B)."""
        for module, optimizer, *own in zip(self.modules, self.optimizers, images, labels, strict=True):
            optimizer.zero_grad(set_to_none=True)
            given = own[0].contiguous(memory_format=torch.channels_last)
            F.cross_entropy(module(given), own[1]).backward()
            optimizer.step()


class Together:
    """The same networks as one, in the usual memory order: for the other one, vmap lacks what pooling needs.

    Args:
        modules: The networks, of one architecture.

    Attributes:
        parameters: By name, the weights of all networks; (K, …).
        buffers: By name, what else they keep; (K, …).
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.parameters, self.buffers = stack_module_state(list(modules))
        self.skeleton = modules[0]
        self.optimizer = torch.optim.Adam(self.parameters.values(), LEARNING_RATE)

    def step(self, images: Tensor, labels: Tensor) -> None:
        """Take one step of all; images (K, B, C, H, W) and labels (K, B)."""
        self.optimizer.zero_grad(set_to_none=True)
        losses = vmap(self._loss, randomness="different")(self.parameters, self.buffers, images, labels)
        losses.sum().backward()
        self.optimizer.step()

    def _loss(
        self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], images: Tensor, labels: Tensor
    ) -> Tensor:
        return F.cross_entropy(functional_call(self.skeleton, (parameters, buffers), (images,)), labels)
