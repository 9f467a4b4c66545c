"""The images that a search uses: of training and validation, classes balanced, the same for every seed."""

import pytest
import torch
from torch import nn

from augbench.bench.dataset import Split
from augbench.bench.errors import UserError
from augbench.bench.search import SearchProblem
from augbench.methods.search_images import search_images


def no_network(name: str | None = None, outputs: int | None = None) -> nn.Module:
    """Build nothing."""
    raise NotImplementedError


def problem(seed: int = 0) -> SearchProblem:
    """Forty numbered images of four classes, ten of them for validation."""
    numbers = torch.arange(40)
    every = Split(numbers.to(torch.uint8)[:, None, None, None], numbers % 4)
    generator = torch.Generator().manual_seed(seed)
    return SearchProblem(every.subset(numbers[:30]), every.subset(numbers[30:]), no_network, generator, lambda _: None)


def numbers(split: Split) -> list[int]:
    return split.images.flatten().tolist()


def test_images_come_from_both_parts_with_class_shares_kept() -> None:
    chosen = search_images(problem(), 20)
    assert chosen.labels.bincount().tolist() == [5, 5, 5, 5]
    assert len(set(numbers(chosen))) == 20
    assert any(number >= 30 for number in numbers(chosen))
    assert [number % 4 for number in numbers(chosen)] == chosen.labels.tolist()


@pytest.mark.parametrize("count", [40, 1000])
def test_all_images_are_used_where_there_are_no_more(count: int) -> None:
    assert sorted(numbers(search_images(problem(), count))) == list(range(40))


def test_the_seed_of_a_run_does_not_matter() -> None:
    assert numbers(search_images(problem(0), 20)) == numbers(search_images(problem(1), 20))


def test_too_few_images_are_explained() -> None:
    with pytest.raises(UserError, match=r"2 of 40 images has too few of each class. Raise `search_images`"):
        search_images(problem(), 2)
