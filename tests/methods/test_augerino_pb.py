"""Augerino with the PAC-Bayes regulariser: theorem 3.1 for π = 1, its gradient, maxima and projection."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from method_factories import make_method, some_images
from torch import Tensor

from augbench.bench.augmentation.affine_space import Space, shared_space
from augbench.bench.contract.method import AugmentedBatch
from augbench.methods.augerino import Augerino
from augbench.methods.augerino_pb import AugerinoPacBayes
from augbench.methods.scale_regulariser import parametric_divergence

WIDTHS = [2.0, 1.5, 2.5, 0.5, 0.6, 0.7]


def _learner(space: Space | None = None, widths: list[float] | None = None, **settings: Any) -> AugerinoPacBayes:
    method = make_method(AugerinoPacBayes, space=space, side=28, settings=settings)
    if widths is not None:
        _set_widths(method, widths)
    return method


def _set_widths(method: AugerinoPacBayes | Augerino, widths: list[float]) -> None:
    with torch.no_grad():
        method.raw_width.copy_(torch.tensor(widths, dtype=torch.float64).expm1().log())


def _step(method: AugerinoPacBayes, objective: Tensor) -> None:
    objective.backward()
    method.after_backward(torch.zeros(1, 1), AugmentedBatch(torch.zeros(1, 1, 28, 28)))


# Maxima


def test_maxima_are_those_of_the_shared_space() -> None:
    maxima = _learner(translation_scale=0.1).maxima.tolist()
    assert maxima == pytest.approx([20 / 7, 20 / 7, math.pi, math.log(2), math.log(2), 1.0])
    space = Space(image_size=32, padding=4, maximum_rotation=0.5, maximum_log_scale=0.3, maximum_shear=0.2)
    assert _learner(space, translation_scale=0.5).maxima.tolist() == pytest.approx([0.5, 0.5, 0.5, 0.3, 0.3, 0.2])


@pytest.mark.parametrize("size", [14, 28])
def test_largest_translation_is_the_largest_shift_of_the_crop(size: int) -> None:
    space = shared_space(size)
    always, maxima = torch.tensor([0, 0, 0, 0, 0, 0, 1.0]), space.maxima()
    draw = space.sample(2000, always, maxima, torch.Generator().manual_seed(0))
    shifts = space.matrices(draw)[:, :, 2].abs().amax(0)
    scale = 0.2
    assert (_learner(space, translation_scale=scale).maxima[:2] * scale).tolist() == pytest.approx(shifts.tolist())


# Regulariser


@pytest.mark.parametrize("weight", [0.006, 0.5])
def test_regulariser_and_its_gradient_are_those_worked_out_by_hand(weight: float) -> None:
    method = _learner(widths=WIDTHS, regularisation=weight)
    maxima = [20 / 7, 20 / 7, math.pi, math.log(2), math.log(2), 1.0]
    regulariser = method.regulariser()
    expected = sum(math.log(2 * maximum / width) for maximum, width in zip(maxima, WIDTHS, strict=True))
    assert regulariser.item() == pytest.approx(weight * expected, rel=1e-5)
    regulariser.backward()
    assert method.raw_width.grad is not None
    slopes = [-weight * (1 - math.exp(-width)) / width for width in WIDTHS]  # −1/α · dα/draw, whatever the maximum is
    assert method.raw_width.grad.tolist() == pytest.approx(slopes, rel=1e-4)


@pytest.mark.parametrize("prior", [0.01, 0.3])
def test_regulariser_is_that_of_the_theorem_less_a_constant(prior: float) -> None:
    method = _learner(widths=WIDTHS, regularisation=1.0)
    of_theorem = parametric_divergence(torch.ones(6), method.width / 2, method.maxima, prior).sum()
    constant = -6 * math.log(1 - prior)
    assert method.regulariser().item() + constant == pytest.approx(of_theorem.item(), rel=1e-5)


# Projection


@given(st.lists(st.floats(0.01, 9.9), min_size=2, max_size=2))
def test_widths_stay_within_the_maxima_from_the_start_so_that_the_regulariser_is_not_negative(
    widths: list[float],
) -> None:
    method = _learner(initial_width=widths[0], initial_rotation_width=widths[1])
    half = (method.width / 2).detach()
    start = torch.tensor([widths[0], widths[0], widths[1], widths[0], widths[0], widths[0]]) / 2
    torch.testing.assert_close(half, torch.minimum(start, method.maxima), rtol=1e-4, atol=1e-6)
    assert method.regulariser().item() > -1e-6


def test_a_step_is_that_of_augerino_and_is_then_projected() -> None:
    free = make_method(Augerino, side=28, settings={"learning_rate": 0.5})
    method = _learner(learning_rate=0.5)
    near = [1.0, 1.0, 2 * math.pi - 0.01, 0.5, 2 * math.log(2) - 0.01, 1.99]
    for each in (free, method):
        _set_widths(each, near)
    pushes = torch.tensor([1.0, -1.0, -1.0, 1.0, -1.0, 1.0])  # at the last bound but away from it
    _step(method, (pushes * method.raw_width).sum())
    (pushes * free.raw_width).sum().backward()
    free.after_backward(torch.zeros(1, 1), AugmentedBatch(torch.zeros(1, 1, 28, 28)))
    expected = torch.minimum(free.width, 2 * method.maxima)
    torch.testing.assert_close(method.width, expected)
    assert (method.width < free.width - 1e-3).tolist() == [False, False, True, False, True, False]


# Parametrisation


def test_images_and_transforms_are_those_of_augerino_at_the_same_widths() -> None:
    augerino, method = make_method(Augerino, side=28), _learner()
    assert torch.equal(augerino.width, method.width)
    widths = [1.0, 1.2, 3.0, 0.5, 0.4, 0.3]
    for each in (augerino, method):
        _set_widths(each, widths)
    images = some_images(6, side=28)
    first, second = (each.augment(images, torch.Generator().manual_seed(2)).images for each in (augerino, method))
    assert torch.equal(first, second)
    one, two = (each.sample_transforms(5, torch.Generator().manual_seed(3)) for each in (augerino, method))
    assert torch.equal(one, two)
    assert method.learned() == augerino.learned()
