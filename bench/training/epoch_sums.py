"""Sums over the images of an epoch, from which its row of numbers is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass
class EpochSums:
    """Sums over an epoch's images of loss and accuracy, each averaged over an image's copies.

    They stay on the device, so that a step need not wait for them.
    """

    loss: Tensor
    correct: Tensor
    images: int = 0

    def add(self, losses: Tensor, logits: Tensor, labels: Tensor, objective: Tensor) -> None:
        """Add a batch: losses (M, B), logits (M, B, classes), labels (B,) and the objective that was stepped along."""
        # the second term is 0, or no number where the regulariser is none though the losses are
        self.loss += losses.detach().mean(0).sum() + 0 * objective.detach()
        self.correct += (logits.detach().argmax(-1) == labels).float().mean(0).sum()
        self.images += len(labels)

    def means(self) -> tuple[float, float]:
        """Mean loss and accuracy of an image."""
        return float(self.loss) / self.images, float(self.correct) / self.images

    def state_dict(self) -> dict[str, Any]:
        """Everything that `restored_sums` needs."""
        return {"loss": self.loss, "correct": self.correct, "images": self.images}


def new_sums(device: torch.device) -> EpochSums:
    """Start an epoch's sums."""
    return EpochSums(torch.zeros((), device=device), torch.zeros((), device=device))


def restored_sums(state: Mapping[str, Any], device: torch.device) -> EpochSums:
    """Restore what `state_dict` returned."""
    return EpochSums(state["loss"].to(device), state["correct"].to(device), state["images"])
