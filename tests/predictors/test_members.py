"""BatchEnsemble and Rank-1 networks: against the plain network, each other, dense computations and torch's KL."""

import math
from typing import Any, cast

import pytest
import torch
from predictor_factories import CLASSES, built, converted, make_predictor, some_inputs
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.protocol import Budget
from augbench.bench.predictors.batch_ensemble import Factors
from augbench.bench.predictors.members import MemberLayer
from augbench.bench.predictors.rank1 import RandomFactors
from augbench.bench.training.optimizer import network_optimizer, set_learning_rate

NETWORKS = ["tiny", "tiny-stride2", "smallnet", pytest.param("wrn-16-4", marks=pytest.mark.slow)]


@pytest.mark.parametrize("network", NETWORKS)
def test_with_all_factors_one_it_is_the_plain_network(network: str) -> None:
    plain, images = built(network).eval(), some_inputs()
    members = converted("batch-ensemble", network, deviation=0.0).eval()
    torch.testing.assert_close(members(images), plain(images).log_softmax(-1), rtol=1e-5, atol=1e-6)


def test_with_all_factors_one_it_has_the_gradients_of_the_plain_network() -> None:
    plain, members = built().train(), converted("batch-ensemble", deviation=0.0).train()
    images, labels = some_inputs(40), torch.arange(40) % CLASSES
    nn.functional.cross_entropy(plain(images), labels).backward()
    nn.functional.cross_entropy(members(images), labels.repeat(4)).backward()
    shared = [layer.layer.weight for layer in members.modules() if isinstance(layer, MemberLayer)]
    theirs = [layer.weight for layer in plain.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    for one, other in zip(shared, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("kind", ["convolution", "grouped", "linear", "tokens"])
def test_a_layer_is_one_dense_layer_for_each_member(kind: str) -> None:
    """Weight of member k: W[o, i, …] γ_k[o] α_k[i], as in the paper's equation 1."""
    torch.manual_seed(0)
    layers = {
        "convolution": nn.Conv2d(4, 6, 3, padding=1),
        "grouped": nn.Conv2d(4, 6, 3, groups=2, bias=False),
        "linear": nn.Linear(4, 6),
        "tokens": nn.Linear(4, 6, bias=False),
    }
    sizes = {"convolution": (4, 5, 5), "grouped": (4, 5, 5), "linear": (4,), "tokens": (4, 4)}
    layer: Any = layers[kind]
    weight, bias, images = layer.weight.detach().clone(), layer.bias, torch.randn(2, *sizes[kind])
    members = MemberLayer(layer, 3, Factors(3, 4, 0.5, 1.0), Factors(3, 6, 0.5, 1.0))
    if bias is not None:
        cast(Tensor, members.bias).data += torch.randn(3, 6)
    found = members(images.repeat(3, *(1,) * (images.ndim - 1))).view(3, 2, -1)
    for member in range(3):
        inputs = members.alpha.mean[member].view(1, 4, *(1,) * (images.ndim - 2))
        scaled = images * (inputs if isinstance(layer, nn.Conv2d) else members.alpha.mean[member])
        outputs = members.gamma.mean[member].view(6, *(1,) * (weight.ndim - 1))
        own = None if members.bias is None else members.bias[member]
        if isinstance(layer, nn.Conv2d):
            expected = nn.functional.conv2d(scaled, weight * outputs, own, 1, layer.padding, 1, layer.groups)
        else:
            expected = nn.functional.linear(scaled, weight * outputs, own)
        torch.testing.assert_close(found[member], expected.flatten(1))


def test_factors_start_from_their_law_and_do_not_decay() -> None:
    network = converted("batch-ensemble")
    factors = torch.cat([part.mean.detach().flatten() for part in network.modules() if isinstance(part, Factors)])
    deviation = factors.std().item()
    assert factors.mean().item() == pytest.approx(1, abs=4 * deviation / math.sqrt(len(factors)))
    assert deviation == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(2 * len(factors)))
    optimizer = network_optimizer(network, Budget(epochs=1, optimizer="sgd", weight_decay=0.1))
    set_learning_rate(optimizer, 0.4)
    usual, own = optimizer.param_groups
    assert (usual["lr"], usual["weight_decay"], own["lr"], own["weight_decay"]) == (0.4, 0.1, 0.2, 0.0)
    assert sum(one.numel() for one in own["params"]) == len(factors)


@pytest.mark.parametrize("training", [True, False])
def test_as_the_deviation_goes_to_0_rank_1_is_batch_ensemble(training: bool) -> None:
    random, fixed = converted("rank-1", deviation=1e-12), converted("batch-ensemble")
    state = {name: value for name, value in random.state_dict().items() if not name.endswith("rho")}
    fixed.load_state_dict(state)
    images = some_inputs()
    found, expected = random.train(training)(images), fixed.train(training)(images)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_factors_of_rank_1_have_their_law() -> None:
    factors = converted("rank-1").get_submodule("network.0.alpha")
    assert isinstance(factors, RandomFactors)
    assert set(factors.mean.detach().abs().unique().tolist()) == {1.0}
    factors.mean.data.fill_(-1.0)
    torch.manual_seed(0)
    drawn = factors.train()(20_000).detach()
    assert drawn.mean().item() == pytest.approx(-1, abs=4 * 0.0316 / math.sqrt(80_000))
    assert drawn.std().item() == pytest.approx(0.0316, rel=0.02)


def test_the_divergence_is_that_of_torch() -> None:
    torch.manual_seed(0)
    predictor = make_predictor("rank-1", prior_deviation=0.3, annealed=0.5)
    network = predictor.convert(built())
    expected = torch.zeros(())
    for factors in network.modules():
        if isinstance(factors, RandomFactors):
            factors.rho.data.normal_()
            posterior = Normal(factors.mean, nn.functional.softplus(factors.rho))
            expected = expected + kl_divergence(posterior, Normal(1.0, 0.3)).sum()
    for progress, weight in ((0.1, 0.2), (0.5, 1.0), (1.0, 1.0)):
        torch.testing.assert_close(predictor.regulariser(progress), expected * weight / 100)


def test_a_layer_that_cannot_be_carried_is_named() -> None:
    network = nn.Sequential(nn.Flatten(2), nn.TransformerEncoderLayer(196, 2), nn.Flatten(), nn.Linear(196, CLASSES))
    with pytest.raises(UserError, match=r"'tiny'.*'batch-ensemble': its layer '1\.self_attn' is a MultiheadAttention"):
        make_predictor("batch-ensemble").convert(network)
