"""SVHN with its extra digits, under a name of its own, so that the two never stand in one column."""

from augbench.bench.registry.registry import register
from augbench.datasets.svhn import Svhn


@register("svhn-extra")
class SvhnExtra(Svhn):
    """SVHN with its 531,131 extra digits, which are easier: 604,388 to train on, the same 26,032 to test on."""

    title = "SVHN with its extra digits: 604,388 train, 26,032 test"
    checksum = "md5:26bdea76a2439560166f68acba69b298"
    parts = ("train", "extra", "test")
