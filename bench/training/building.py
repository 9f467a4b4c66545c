"""Building what a run trains: the network, and what its predictor makes of it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.catalogues import networks, predictors
from augbench.bench.experiment.spec import SINGLE, RunSpec
from augbench.bench.networks.base import NetworkSource, Normalised, build_checked
from augbench.bench.predictors.base import Predictor, PredictorContext

SEEN_BEFORE = 5000  # training images that a network may begin from, as in airbench


def new_predictor(spec: RunSpec, side: int, data: ImageData, copies: int = 1) -> Predictor[Any]:
    """Make the predictor of a run.

    Args:
        spec: What the run is.
        side: Height and width of the images that its network takes, in pixels.
        data: Its data set.
        copies: Augmented copies of each image in a batch.
    """
    name, given = (spec.predictor.name, spec.predictor.all_settings) if spec.predictor else (SINGLE, {})
    kind, network = predictors().get(name), networks().get(spec.network.name)
    context = PredictorContext(
        network=spec.network.name,
        channels=data.channels,
        side=side,
        classes=data.classes,
        train_size=len(data.train),
        copies=copies,
        seed=spec.seed,
        build=lambda: _prepared(network(), network().build(data.channels, data.classes), data),
    )
    return kind(kind.settings_type.model_validate(given), context)


def mean_over_members(losses: Sequence[Tensor]) -> Tensor:
    """Average the losses of members, each (M, B); those of a single one are returned as they are."""
    return losses[0] if len(losses) == 1 else torch.stack(list(losses)).mean(0)


def build_network(
    name: str,
    data: ImageData,
    device: torch.device,
    outputs: int | None = None,
    channels_last: bool = True,
    convert: Callable[[nn.Module], nn.Module] = lambda network: network,
) -> nn.Module:
    """Build a network, freshly initialised, with the normalisation of a data set inside.

    Args:
        name: Registered name.
        data: The data set.
        device: Where it is to live.
        outputs: Outputs for each image, as many as classes by default.
        channels_last: Whether its weights are in channels-last memory order, and images as well.
        convert: What a predictor makes of it, behind the normalisation.
    """
    source = networks().get(name)()
    network = build_checked(source, data.channels, data.image_size, outputs or data.classes, device)
    network = _prepared(source, network, data)
    return Normalised(convert(network), *data.mean_and_deviation, channels_last).to(device)


def _prepared(source: NetworkSource, network: nn.Module, data: ImageData) -> nn.Module:
    """Have a network see some training images, if it wants to."""
    if type(source).prepare is not NetworkSource.prepare:
        mean, deviation = (one[:, None, None] for one in data.mean_and_deviation)
        source.prepare(network, (to_unit_interval(data.train.images[:SEEN_BEFORE]) - mean) / deviation)
    return network
