"""The network as it is: what every run without another predictor has."""

from augbench.bench.predictors.base import Predictor, PredictorSettings
from augbench.bench.registry.registry import register


@register("single")
class Single(Predictor[PredictorSettings]):
    """The network as it is."""

    title = "one network with one pass of each image, and the softmax of its logits"
