"""Ensembles: of equal members, of one, and that each member learns as if it were alone."""

import pytest
import torch
from predictor_factories import CLASSES, built, make_predictor, some_inputs
from torch.nn import functional as F

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.spec import predictor_component
from augbench.bench.predictors.ensemble import Together


@pytest.mark.parametrize("name", ["ensemble", "sngp-ensemble"])
def test_equal_members_predict_as_one_of_them(name: str) -> None:
    network = make_predictor(name, members=3).convert(built())
    assert isinstance(network, Together)
    with torch.no_grad():
        network.train()(some_inputs())
        first, *others = network.networks
        assert not torch.equal(others[0].eval()(some_inputs()), first.eval()(some_inputs()))
        for other in others:
            other.load_state_dict(first.state_dict())
        torch.testing.assert_close(network.eval()(some_inputs()), first(some_inputs()).log_softmax(-1))


def test_the_prediction_is_the_mean_probability() -> None:
    network = make_predictor("ensemble").convert(built()).eval()
    assert isinstance(network, Together)
    expected = torch.stack([one(some_inputs()).softmax(-1) for one in network.networks]).mean(0)
    torch.testing.assert_close(network(some_inputs()).softmax(-1), expected)
    assert len(network.networks) == 4


def test_each_member_has_its_own_gradient_and_images_the_mean() -> None:
    network = make_predictor("ensemble", members=3).convert(built()).train()
    assert isinstance(network, Together)
    images, labels = some_inputs().requires_grad_(), torch.arange(6) % CLASSES
    (of_images,) = torch.autograd.grad(F.cross_entropy(network(images), labels.repeat(3)), images, retain_graph=True)
    F.cross_entropy(network(images), labels.repeat(3)).backward()
    alone = torch.zeros_like(images)
    for member in network.networks:
        loss = F.cross_entropy(member(images), labels)
        weights = list(member.parameters())
        *gradients, mine = torch.autograd.grad(loss, [*weights, images])
        alone += mine / 3
        for weight, gradient in zip(weights, gradients, strict=True):
            torch.testing.assert_close(weight.grad, gradient, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(of_images, alone, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", ["ensemble-1", "batch-ensemble-1", "rank-1-1", "sngp-ensemble-0"])
def test_an_ensemble_of_one_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"members: .* greater than or equal to 2"):
        predictor_component(name, {}, "a test")


def test_a_number_after_the_name_is_that_of_the_members() -> None:
    def found(name: str) -> object:
        return predictor_component(name, {}, "a test")

    assert found("ensemble-4") == found("ensemble") != found("ensemble-8")
    assert found("rank-1-8") == predictor_component("rank-1", {"members": 8}, "a test")
    with pytest.raises(UserError, match="'rank-2'"):
        found("rank-2")
