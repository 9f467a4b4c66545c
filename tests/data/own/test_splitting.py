"""Test images are split off by class, or by whole groups."""

from collections import Counter

import numpy as np
import pytest
from data_files import error_of
from hypothesis import given
from hypothesis import strategies as st

from augbench.bench.common.errors import UserError
from augbench.bench.data.own.splitting import grouped_test_mask, stratified_test_mask

SEEDS = st.integers(0, 2**32 - 1)
SHARES = st.floats(0.01, 0.99)


def test_each_class_gives_its_share() -> None:
    sizes = {0: 50, 1: 12, 2: 3, 3: 2, 4: 1}
    labels = np.random.RandomState(0).permutation(np.repeat(list(sizes), list(sizes.values())))
    chosen = stratified_test_mask(labels, 0.2, 0)
    # a fifth of 50, of 12 (2.4) and of 3 (0.6), rounded; of two images one; the only one stays to train on
    assert Counter(labels[chosen].tolist()) == {0: 10, 1: 2, 2: 1, 3: 1}
    assert Counter(labels[stratified_test_mask(labels, 0.9, 0)].tolist()) == {0: 45, 1: 11, 2: 2, 3: 1}


def test_the_seed_decides() -> None:
    labels = np.repeat([0, 1], 50)
    first, again, other = (stratified_test_mask(labels, 0.2, seed) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.sum() == other.sum() == 20


@given(st.lists(st.integers(0, 6), min_size=1, max_size=80), SHARES, SEEDS)
def test_every_class_keeps_a_training_image(labels: list[int], share: float, seed: int) -> None:
    values = np.array(labels)
    chosen = stratified_test_mask(values, share, seed)
    assert set(values[~chosen]) == set(labels)
    assert set(values[chosen]) == {label for label, count in Counter(labels).items() if count > 1}


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 15)), min_size=1, max_size=120), SHARES, SEEDS)
def test_no_group_is_on_both_sides(images: list[tuple[int, int]], share: float, seed: int) -> None:
    labels, groups = np.array(images).T
    try:
        chosen = grouped_test_mask(labels, groups, share, seed)
    except UserError as error:
        assert "No group can be set apart" in str(error)
        return
    assert not set(groups[chosen]) & set(groups[~chosen])
    assert set(labels[~chosen]) == set(labels)
    assert chosen.any()


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_many_small_groups_give_nearly_the_wanted_share_of_each_class(share: float) -> None:
    random = np.random.RandomState(1)
    groups = random.randint(0, 300, 3000)
    labels = (groups % 3 + (random.uniform(size=3000) < 0.1)) % 3  # patients with mostly one diagnosis
    chosen = grouped_test_mask(labels, groups, share, 0)
    found = np.bincount(labels[chosen]) / np.bincount(labels)
    assert found == pytest.approx(share, abs=0.02)


def test_groups_by_hand() -> None:
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    groups = np.array([0, 0, 0, 1, 2, 2, 2, 3])  # with half of each class wanted, three bring it nearer than none
    assert grouped_test_mask(labels, groups, 0.5, 0).tolist() == [True] * 3 + [False] + [True] * 3 + [False]
    assert grouped_test_mask(labels, groups, 0.25, 0).tolist() == [False] * 3 + [True] + [False] * 3 + [True]


def test_groups_that_cannot_be_split() -> None:
    text = error_of(grouped_test_mask, np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]), 0.5, 0)
    assert "there are 2" in text
    assert "--test-share" in text
