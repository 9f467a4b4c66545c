"""Statistics and splits of a data set."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from augbench.bench.data import dataset
from augbench.bench.data.dataset import ImageData, Split, class_balanced_subset, class_shares_mask, grey_level_counts


def image_data(images: torch.Tensor, labels: torch.Tensor, held_out: torch.Tensor | None = None) -> ImageData:
    split = Split(images, labels)
    return ImageData(split, split, classes=10, provenance="made here", held_out=held_out)


@pytest.mark.parametrize("channels", [1, 3])
def test_statistics_of_each_channel_are_numpys(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "IMAGES_AT_A_TIME", 7)  # which does not divide 30
    images = np.random.default_rng(0).integers(0, 256, (30, channels, 5, 4), np.uint8)
    images[:, 0] //= 3
    mean, deviation = image_data(torch.from_numpy(images), torch.zeros(30)).mean_and_deviation
    np.testing.assert_allclose(mean, (images / 255).mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(deviation, (images / 255).std((0, 2, 3)), rtol=1e-6)
    for channel, counts in enumerate(grey_level_counts(torch.from_numpy(images))):
        assert counts.tolist() == np.bincount(images[:, channel].ravel(), minlength=256).tolist()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.floats(0, 1), st.integers(0, 5))
def test_a_share_of_every_class_is_chosen(labels: list[int], fraction: float, seed: int) -> None:
    known = torch.tensor(labels)
    chosen = class_shares_mask(known, fraction, seed)
    for label in set(labels):
        assert int(chosen[known == label].sum()) == round(fraction * labels.count(label))
    assert torch.equal(class_shares_mask(known, fraction, seed), chosen)


def test_validation_images_are_a_fifth_of_each_class_or_what_the_publishers_hold_out() -> None:
    labels = torch.arange(10).repeat_interleave(20)
    images = torch.zeros(200, 1, 2, 2, dtype=torch.uint8)
    ours = image_data(images, labels).validation_mask()
    assert labels[ours].bincount().tolist() == [4] * 10
    published = torch.arange(200) >= 150
    data = image_data(images, labels, published)
    assert torch.equal(data.validation_mask(), published)
    assert torch.equal(data.to(torch.device("cpu")).validation_mask(), published)
    tuned = data.for_tuning()
    assert torch.equal(tuned.train.labels, labels[:150]), "the validation images stand in place of the test images"
    assert torch.equal(tuned.test.labels, labels[150:])
    assert "without its test images" in tuned.provenance


def test_probes_see_the_test_images_or_what_they_were_before() -> None:
    data = image_data(torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.arange(4))
    assert data.probe_images is data.test
    before = Split(torch.ones(4, 1, 2, 2, dtype=torch.uint8), torch.arange(4))
    moved = replace(data, upright_test=before).to(torch.device("cpu"))
    assert torch.equal(moved.probe_images.images, before.images)


@pytest.mark.parametrize(
    ("sizes", "count", "taken"),
    [
        ([990, 10], 20, [19, 1]),
        ([990, 10], 2, [1, 1]),
        ([990, 10], 1, [1, 0]),
        ([970, 10, 20], 40, [38, 1, 1]),
        ([600, 380, 10, 10], 10, [5, 3, 1, 1]),
    ],
)
def test_a_rare_class_is_not_lost_where_there_are_images_for_all(
    sizes: list[int], count: int, taken: list[int]
) -> None:
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    chosen = class_balanced_subset(labels, count, seed=0)
    assert labels[chosen].bincount(minlength=len(sizes)).tolist() == taken


@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.data())
def test_a_balanced_subset_has_exactly_as_many_images_as_asked_for(labels: list[int], data: st.DataObject) -> None:
    known = torch.tensor(labels)
    count = data.draw(st.integers(1, len(labels)))
    chosen = class_balanced_subset(known, count, seed=3)
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    assert len(chosen) == count
    fractions = {label: count * labels.count(label) / len(labels) for label in set(labels)}
    taken = {label: int((known[chosen] == label).sum()) for label in fractions}
    if count >= len(fractions):
        assert min(taken.values()) >= 1
    if min(fractions.values()) >= 1 or count < len(fractions):
        assert all(abs(taken[label] - fraction) < 1 for label, fraction in fractions.items())
    assert torch.equal(class_balanced_subset(known, count, seed=3), chosen)
