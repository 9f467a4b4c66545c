"""No augmentation: the baseline that every cost is measured against."""

from augbench.bench.method import Hyperparameters, Method
from augbench.bench.registry import register


@register("none")
class NoAugmentation(Method[Hyperparameters]):
    """Trains on the images as they are."""

    title = "no augmentation"
    paper = "SCALE (TMLR 2023), row 'No Augm.'"
