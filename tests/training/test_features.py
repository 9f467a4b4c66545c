"""Features of images are what the layer gets that is called last, whichever was registered last."""

import pytest
import torch
from torch import Tensor, nn

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.catalogues import networks
from augbench.bench.training.features import features


class Backwards(nn.Module):
    """Registers its head first."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 2, 1)
        self.body = nn.Conv2d(1, 3, 3)

    def forward(self, images: Tensor) -> Tensor:
        """Map images (N, 1, H, W) to (N, 2)."""
        found: Tensor = self.head(self.body(images)).mean((2, 3))
        return found


def test_they_are_the_input_of_the_last_layer() -> None:
    images = torch.rand(1003, 1, 4, 4, generator=torch.Generator().manual_seed(0))  # more than a chunk
    network = Backwards()
    with torch.no_grad():
        expected = network.body(images).flatten(1).double()
    torch.testing.assert_close(features(network, images), expected)
    assert not network.head._forward_pre_hooks
    with pytest.raises(UserError, match="has no features"):
        features(nn.Flatten(), images)


@pytest.mark.parametrize(("name", "width"), [("tiny", 64), ("fast-cnn-s", 48), ("smallnet", 256)])
def test_of_networks_they_are_what_the_linear_layer_gets(name: str, width: int) -> None:
    network = networks().get(name)().build(1, 10).eval()
    images = torch.rand(3, 1, 14, 14)
    found = features(network, images)
    assert found.shape == (3, width)
    (head,) = [module for module in network.modules() if isinstance(module, nn.Linear)]
    scale = 1 / 9 if name == "fast-cnn-s" else 1
    torch.testing.assert_close(scale * head(found.float()), network(images))
