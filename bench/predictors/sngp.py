"""Spectral-normalised neural Gaussian processes (Liu et al., NeurIPS 2020)."""

import math
from typing import cast

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.grad import conv2d_input

from augbench.bench.predictors.base import Predictor, PredictorSettings
from augbench.bench.predictors.layers import (
    OwnRate,
    Weighted,
    hidden_places,
    not_carried,
    replace_layer,
    weighted_layers,
)
from augbench.bench.registry.registry import register

FIRST_ITERATIONS = 15  # of power iteration, before training


class SNGPSettings(PredictorSettings):
    """Settings of spectral-normalised neural Gaussian processes."""

    features: int = Field(1024, ge=2, le=65_536, description="random features D")
    feature_deviation: float = Field(0.05, gt=0, le=10, description="standard deviation of their weights")
    spectral_norm: float = Field(6.0, gt=0, le=1000, description="largest spectral norm of a convolution")
    dropout: float = Field(0.1, ge=0, lt=1, description="rate of dropout of whole channels, in training alone")
    ridge: float = Field(1.0, gt=0, le=1e6, description="what is added to the diagonal of the precision")
    mean_field: float = Field(math.pi / 8, ge=0, le=1e6, description="factor λ of the variance in the mean field")


class SpectralConvolution(nn.Module):
    """A convolution whose weight is scaled down to a largest spectral norm, that of the map from input to output.

    The norm is found by power iteration through the convolution, zero padding and stride included, one step in each
    forward pass in training (Gouk et al. 2021, Algorithm 2). Its gradient is that for the vectors found.

    Attributes:
        layer: The convolution.
        bound: Largest spectral norm.
        left: Unit vector in the space of outputs of one image; (1, outputs, H', W').
        right: Unit vector in the space of inputs of one image; (1, inputs, H, W).
    """

    left: Tensor
    right: Tensor

    def __init__(self, layer: nn.Conv2d, bound: float, input_size: torch.Size) -> None:
        super().__init__()
        self.layer = layer
        self.bound = bound
        right = torch.randn(input_size).to(layer.weight.device)
        self.register_buffer("right", right)
        self.register_buffer("left", self._through(right).detach())
        for _ in range(FIRST_ITERATIONS):
            self.iterate()

    @torch.no_grad()
    def iterate(self) -> None:
        """Take a step of power iteration: the transposed convolution, then the convolution."""
        layer = self.layer
        back = conv2d_input(
            self.right.shape,
            layer.weight.float(),
            self.left,
            cast(tuple[int, int], layer.stride),
            cast(tuple[int, int], layer.padding),
            cast(tuple[int, int], layer.dilation),
            layer.groups,
        )
        self.right.copy_(back / back.norm().clamp_min(1e-12))
        forth = self._through(self.right)
        self.left.copy_(forth / forth.norm().clamp_min(1e-12))

    def sigma(self) -> Tensor:
        """Spectral norm of the convolution as it is without scaling, from the present vectors; a scalar."""
        return (self.left * self._through(self.right)).sum()

    def forward(self, features: Tensor) -> Tensor:
        """Map features (N, inputs, H, W) to (N, outputs, H', W')."""
        with torch.autocast(features.device.type, enabled=False):
            if self.training:
                self.iterate()
            scale = (self.bound / self.sigma()).clamp(max=1.0)
        layer = self.layer
        weight = layer.weight * scale
        return F.conv2d(features, weight, layer.bias, layer.stride, layer.padding, layer.dilation, layer.groups)

    def _through(self, images: Tensor) -> Tensor:
        layer = self.layer
        weight = layer.weight.float()
        return F.conv2d(images, weight, None, layer.stride, layer.padding, layer.dilation, layer.groups)


class Undecayed(OwnRate):
    """A linear layer without a bias and without weight decay."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.Linear(inputs, outputs, bias=False).weight.detach())

    def forward(self, features: Tensor) -> Tensor:
        """Map features (N, inputs) to (N, outputs)."""
        return F.linear(features, self.weight)


class GaussianProcess(nn.Module):
    """A Gaussian process by random features φ(h) = cos(W h + b), with logits φ β and one covariance for all classes.

    In training it adds up the precision P = Σ φᵀφ. In evaluation the logits are those of the mean field,
    φ β / √(1 + λ v) with v = ridge · φ (ridge I + P)⁻¹ φᵀ (Lu et al. 2020; Liu et al. 2020, equation 9 and appendix A).

    Attributes:
        weight: W, with orthogonal rows whose lengths have the law of those of normal vectors; (D, inputs).
        phase: b, uniform on the circle; (D,).
        precision: P of the images of the last epoch; (D, D).
    """

    weight: Tensor
    phase: Tensor
    precision: Tensor

    def __init__(self, inputs: int, classes: int, settings: SNGPSettings, copies: int) -> None:
        super().__init__()
        self.settings = settings
        self.copies = copies
        self.output = Undecayed(settings.features, classes)
        self.register_buffer("weight", settings.feature_deviation * orthogonal_features(settings.features, inputs))
        self.register_buffer("phase", 2 * math.pi * torch.rand(settings.features))
        self.register_buffer("precision", torch.zeros(settings.features, settings.features))

    def features(self, hidden: Tensor) -> Tensor:
        """Random features of hidden values (N, inputs), float32; (N, D)."""
        angles: Tensor = F.linear(hidden.float(), self.weight, self.phase)
        return angles.cos()

    def forward(self, hidden: Tensor) -> Tensor:
        """Map hidden values (N, inputs) to logits (N, classes)."""
        with torch.autocast(hidden.device.type, enabled=False):
            features = self.features(hidden)
            logits: Tensor = self.output(features)
            if self.training:
                with torch.no_grad():
                    self.precision.add_(features.detach().T @ features.detach() / self.copies)
                return logits
            return logits / (1 + self.settings.mean_field * self.variance(features)).sqrt().unsqueeze(-1)

    def variance(self, features: Tensor) -> Tensor:
        """Variance of the logits of features (N, D); (N,)."""
        ridge = self.settings.ridge
        identity = torch.eye(len(self.precision), device=features.device)
        root, _ = torch.linalg.cholesky_ex(ridge * identity + self.precision)
        solved: Tensor = torch.linalg.solve_triangular(root, features.T, upper=False)
        return ridge * solved.square().sum(0)


def orthogonal_features(count: int, inputs: int) -> Tensor:
    """Draw blocks of orthogonal rows, with lengths from a χ distribution (Yu et al., NeurIPS 2016); (count, inputs)."""
    blocks = [torch.linalg.qr(torch.randn(inputs, inputs))[0] for _ in range(-(-count // inputs))]
    lengths = torch.randn(count, inputs).norm(dim=1, keepdim=True)
    rows: Tensor = torch.cat(blocks)[:count] * lengths
    return rows


@register("sngp")
class SNGP(Predictor[SNGPSettings]):
    """Convolutions of bounded spectral norm, which keep distances, before a Gaussian process as the last layer."""

    title = "convolutions of bounded spectral norm and a Gaussian process in place of the last layer"
    paper = "Liu et al., Simple and Principled Uncertainty Estimation, NeurIPS 2020; constants of Nado et al. 2021"
    deviations = (
        "mean_field is π/8, its value in theory; the published 20 and 7.5 were chosen where P has about an eighth of "
        "the images, so that they mean nothing here",
        "P counts each training image once, whatever the number of copies",
        "epochs, steps and weight decay are those of the budget; the published ones are its recipe `sngp`; the last "
        "layer does not decay, as published",
        "dropout is on the input of convolutions of more than one pixel and of the last layer, but for the first",
    )
    settings_type = SNGPSettings

    def convert(self, network: nn.Module) -> nn.Module:
        """Bound the convolutions, drop channels before them, and put the process in the place of the last layer."""
        layers = weighted_layers(network)
        name, last = layers[-1] if layers else ("", network)
        if not isinstance(last, nn.Linear) or last.out_features != self.context.classes:
            what = f"its last layer with weights, {name!r}, is a {type(last).__name__}" if name else "it has no layers"
            raise not_carried(self.name, self.context, f"{what}, but a linear layer that returns the logits is needed")
        sizes = self._input_sizes(network, layers)
        places = {place for place, _ in hidden_places(network)}
        self._process = GaussianProcess(last.in_features, self.context.classes, self.settings, self.context.copies)
        for place, layer in layers:
            changed = self._process if layer is last else self._bounded(place, layer, sizes)
            dropped = nn.Dropout2d if isinstance(layer, nn.Conv2d) else nn.Dropout
            replace_layer(
                network,
                place,
                nn.Sequential(dropped(self.settings.dropout), changed) if place in places else changed,
            )
        return network

    def start_epoch(self) -> None:
        """Forget the precision of the epoch before: that of the last one is kept."""
        self._process.precision.zero_()

    def _bounded(self, name: str, layer: nn.Module, sizes: dict[str, torch.Size]) -> nn.Module:
        if not isinstance(layer, nn.Conv2d):
            return layer
        if isinstance(layer.padding, str) or layer.padding_mode != "zeros" or name not in sizes:
            why = f"its convolution {name!r} has padding other than zeros, or is not used"
            raise not_carried(self.name, self.context, why)
        return SpectralConvolution(layer, self.settings.spectral_norm, sizes[name])

    def _input_sizes(self, network: nn.Module, layers: list[tuple[str, Weighted]]) -> dict[str, torch.Size]:
        """Size of what goes into each convolution for one image, by passing a black one through the network."""
        sizes: dict[str, torch.Size] = {}
        hooks = [
            layer.register_forward_pre_hook(lambda _, given, name=name: sizes.update({name: given[0].shape}))
            for name, layer in layers
        ]
        training, context = network.training, self.context
        device = next(network.parameters()).device
        with torch.no_grad():
            network.eval()(torch.zeros(1, context.channels, context.side, context.side, device=device))
        network.train(training)
        for hook in hooks:
            hook.remove()
        return sizes
