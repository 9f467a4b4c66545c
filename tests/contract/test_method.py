"""How the training loop asks for copies: of the images with some indices, normalised where it takes them so."""

from dataclasses import replace

import pytest
import torch
from method_factories import required
from torch import Tensor

from augbench.bench.augmentation.affine_space import Draw, shared_space
from augbench.bench.augmentation.network_input import NetworkInput
from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, Method, RunContext, SharedSpaceMethod
from augbench.bench.experiment.catalogues import methods

FORM = NetworkInput(torch.tensor([0.4]), torch.tensor([0.3]), torch.float32)
SETTING = RunContext(shared_space(14), 1, 10, 100, 2, 3, torch.device("cpu"))
INDICES = torch.tensor([5, 2, 2, 9])


class Turned(SharedSpaceMethod[Hyperparameters]):
    """Draws from the whole space."""

    def draw(self, count: int, generator: torch.Generator) -> Draw:
        """Draw with every block in every other composition."""
        return self.context.space.sample(count, torch.full((7,), 0.5), self.context.space.maxima(), generator)


class Darkened(Turned):
    """Does something to the images afterwards, as whoever writes a method may."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Halve the copies."""
        copies = super().augment(images, generator)
        return replace(copies, images=copies.images / 2)


def _images() -> Tensor:
    return torch.randint(256, (10, 1, 14, 14), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def _both(method: Method[Hyperparameters]) -> tuple[AugmentedBatch, AugmentedBatch]:
    """Copies of chosen images, and of images by their indices, from the same randomness."""
    sources = [torch.Generator().manual_seed(1) for _ in range(2)]
    chosen = method.augment(_images()[INDICES], sources[0])
    by_index = method.augment_indexed(_images(), INDICES, sources[1])
    assert torch.equal(sources[0].get_state(), sources[1].get_state())
    return chosen, by_index


@pytest.mark.parametrize("name", [entry.name for entry in methods()])
def test_copies_by_index_are_those_of_the_images_bit_for_bit(name: str) -> None:
    kind = methods().get(name)
    chosen, by_index = _both(kind(kind.hyperparameters_type.model_validate(required(kind)), SETTING))
    assert torch.equal(chosen.images, by_index.images)
    assert not by_index.normalised
    assert (chosen.draw is None) == (by_index.draw is None)


def test_copies_are_normalised_where_the_training_loop_takes_them_so() -> None:
    chosen, by_index = _both(Turned(Hyperparameters(), replace(SETTING, network_input=FORM)))
    assert (chosen.normalised, by_index.normalised) == (False, True)
    torch.testing.assert_close(by_index.images, (chosen.images - 0.4) / 0.3, atol=1e-6, rtol=0)


@pytest.mark.parametrize("form", [None, FORM])
def test_a_method_with_an_augment_of_its_own_keeps_it(form: NetworkInput | None) -> None:
    chosen, by_index = _both(Darkened(Hyperparameters(), replace(SETTING, network_input=form)))
    assert torch.equal(chosen.images, by_index.images)
    assert not by_index.normalised
    assert by_index.images.max() <= 0.5
