"""DADA's sub-policies in the affine space: every pair of blocks, each block with a probability and a magnitude."""

from dataclasses import dataclass

import torch
from torch import Tensor

from augbench.bench.augmentation.affine_space import Draw, Space


@dataclass(frozen=True)
class BlockPairs:
    """All unordered pairs of the blocks of a space, K of them; within a pair the order is that of the space.

    Attributes:
        space: Where blocks, maxima and elements come from.
        blocks: Indices of the two blocks of each pair; (K, 2) long.
        maxima: Maxima A of the continuous blocks, which come first in the space; (C,).
        logits: Weights of the sub-policies before the softmax; (K,).
        probabilities: Probability that a block is applied when its sub-policy is chosen, in [0, 1]; (K, 2).
        magnitudes: Magnitude of a block as a share of its maximum, in [0, 1]; means nothing for blocks without a
            magnitude; (K, 2).
    """

    space: Space
    blocks: Tensor
    maxima: Tensor
    logits: Tensor
    probabilities: Tensor
    magnitudes: Tensor

    def start(self) -> None:
        """Put the learned tensors at their starts: equal weights, probabilities and magnitudes ½."""
        self.logits.zero_()
        self.probabilities.fill_(0.5)
        self.magnitudes.fill_(0.5)

    def draw(self, choice: Tensor, applied: Tensor, generator: torch.Generator, magnitudes: Tensor) -> Draw:
        """Draw signs and elements for N images whose sub-policies are chosen.

        Args:
            choice: Index of each image's sub-policy; (N,) long.
            applied: Whether each of its two blocks is applied; (N, 2) bool.
            generator: Source of randomness on the device of the tensors.
            magnitudes: The table of magnitudes, which the draw is differentiable in; (K, 2).

        Returns:
            The draws: a continuous block has magnitude +m·A or −m·A with equal probability.
        """
        count, blocks = len(choice), self.blocks[choice]
        nothing = torch.zeros(count, len(self.space.blocks), device=choice.device, dtype=magnitudes.dtype)
        active = nothing.bool().scatter(1, blocks, applied)
        levels = nothing.scatter(1, blocks, magnitudes[choice])[:, : len(self.maxima)]
        signs = 2 * torch.randint(2, levels.shape, device=choice.device, generator=generator) - 1
        return Draw(active, signs * self.maxima * levels, *self.space.sample_elements(count, generator))


def all_pairs(space: Space, device: torch.device) -> BlockPairs:
    """Make the sub-policies of a space, at their starts."""
    blocks = torch.combinations(torch.arange(len(space.blocks), device=device))
    logits, table = torch.zeros(len(blocks), device=device), torch.zeros(len(blocks), 2, device=device)
    policies = BlockPairs(space, blocks, space.maxima(device), logits, table, table.clone())
    policies.start()
    return policies
