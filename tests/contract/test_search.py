"""What a search phase may use: images to fit on and held out, reduced sets, and a record of what was used."""

import hashlib

import numpy as np
import pytest
import torch
from torch import nn

from augbench.bench.common.errors import UserError
from augbench.bench.contract.search import SearchProblem
from augbench.bench.data.dataset import Split


def no_network(name: str | None = None, outputs: int | None = None) -> nn.Module:
    """Build nothing."""
    raise NotImplementedError


def problem(seed: int = 0) -> SearchProblem:
    """Forty numbered images of four classes, the last ten of them for validation."""
    numbers = torch.arange(40)
    every = Split(numbers.to(torch.uint8)[:, None, None, None], numbers % 4)
    return SearchProblem(every, numbers >= 30, no_network, torch.Generator().manual_seed(seed), lambda _: None)


def numbers(split: Split) -> list[int]:
    return split.images.flatten().tolist()


def test_training_and_validation_images_are_apart_and_together_all() -> None:
    assert numbers(problem().train) == list(range(30))
    assert numbers(problem().validation) == list(range(30, 40))


def test_images_are_copied_once_and_not_before_they_are_asked_for() -> None:
    search = problem()
    assert search.images.images.data_ptr() != search.train.images.data_ptr()
    assert search.train is search.train
    assert "validation" not in vars(search)


def test_a_reduced_set_comes_from_both_parts_with_class_shares_kept() -> None:
    chosen = problem().reduced(20)
    assert chosen.labels.bincount().tolist() == [5, 5, 5, 5]
    assert len(set(numbers(chosen))) == 20
    assert any(number >= 30 for number in numbers(chosen))
    assert [number % 4 for number in numbers(chosen)] == chosen.labels.tolist()


@pytest.mark.parametrize("count", [40, 1000])
def test_all_images_are_used_where_there_are_no_more(count: int) -> None:
    assert sorted(numbers(problem().reduced(count))) == list(range(40))


def test_the_seed_of_a_run_does_not_matter() -> None:
    assert numbers(problem(0).reduced(20)) == numbers(problem(1).reduced(20))
    assert numbers(problem(0).reduced_halves(16)[0]) == numbers(problem(1).reduced_halves(16)[0])


def test_too_few_images_are_explained() -> None:
    with pytest.raises(UserError, match=r"2 of 40 images has too few of each class. Raise `search_images`"):
        problem().reduced(2)
    with pytest.raises(UserError, match="search_images = 2 leaves no image"):
        problem().reduced_halves(2)


def test_halves_are_class_balanced_parts_of_their_splits_and_of_the_size_asked_for() -> None:
    labels = torch.arange(10).repeat_interleave(20).repeat(2)
    images = Split(torch.arange(400)[:, None, None, None], labels)
    search = SearchProblem(images, torch.arange(400) >= 200, no_network, torch.Generator(), lambda _: None)
    fitted, held_out = search.reduced_halves(100)
    assert fitted.labels.bincount().tolist() == held_out.labels.bincount().tolist() == [5] * 10
    assert max(numbers(fitted)) < 200 <= min(numbers(held_out))
    assert [len(part) for part in search.reduced_halves(4000)] == [200, 200]


def test_a_rare_class_is_in_every_reduced_set_that_has_room_for_all() -> None:
    labels = (torch.arange(1000) % 100 == 0).long()
    images = Split(torch.zeros(1000, 1, 1, 1, dtype=torch.uint8), labels)
    search = SearchProblem(images, torch.arange(1000) % 200 < 40, no_network, torch.Generator(), lambda _: None)
    assert search.reduced(20).labels.bincount().tolist() == [20, 1]
    assert [part.labels.bincount().tolist() for part in search.reduced_halves(40)] == [[20, 1], [20, 1]]


def test_what_was_asked_for_is_recorded_once_by_number_and_checksum() -> None:
    search = problem()
    assert search.asked_for()["images"] == 0
    chosen = numbers(search.reduced(20))
    assert numbers(search.reduced(20)) == chosen
    expected = np.array(sorted(chosen), dtype="<i8").tobytes()
    assert search.asked_for() == {"images": 20, "sha256": hashlib.sha256(expected).hexdigest()}
    _ = search.train, search.validation
    assert search.asked_for()["images"] == 40
