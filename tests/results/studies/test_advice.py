"""What `augbench recommend` advises for made-up outcomes of test images, and how it words that."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from augbench.bench.common.wording import two_digits
from augbench.results.statistics.bootstrap import paired_difference
from augbench.results.statistics.paired import holm, paired_p_values
from augbench.results.statistics.resolution import smallest_difference, spread_of
from augbench.results.studies.advice import Advice, advise
from augbench.results.studies.advice_text import Setting, advice_text, headline
from augbench.results.studies.symmetries import symmetry_sentences, width_sentence

IMAGES = 400
SECONDS = {"none": 10.0, "fixed": 11.0, "trivialaugment": 12.0, "augerino": 13.0, "scale": 14.0}
SETTING = Setting("pets", 3200, "tiny-stride2", 24, "augbench run MORE", "augbench recommend PETS", ())


def outcomes(accuracies: Sequence[float], seed: int = 0) -> pd.DataFrame:
    """Make outcomes with given accuracies of seeds: images are about equally hard with every seed."""
    random = np.random.default_rng(seed)
    hardness = np.random.default_rng(99).permutation(IMAGES)
    rows = []
    for accuracy in accuracies:
        order = np.argsort(hardness + random.normal(0, 30, IMAGES))
        right = np.zeros(IMAGES)
        right[order[: round(accuracy * IMAGES)]] = 1
        rows.append(right)
    return pd.DataFrame(rows, index=pd.Index(range(len(rows)), name="seed"))


def made_up(**accuracies: Sequence[float]) -> Advice:
    """Advise from the accuracies of each learner's seeds."""
    correct = {label: outcomes(values, number) for number, (label, values) in enumerate(accuracies.items())}
    return advise(correct, SECONDS, 5)


def words(advice: Advice, **changed: Any) -> str:
    """Word the advice, on one line."""
    setting = Setting(**(vars(SETTING) | changed))
    return " ".join(advice_text(advice, setting, [], ["`report.html`."]).split())


NONE = [0.70, 0.71, 0.705, 0.695, 0.70]
FIXED = [0.64, 0.65, 0.655, 0.65, 0.64]
GOOD = [0.85, 0.86, 0.86, 0.855, 0.85]
BEST = [0.955, 0.95, 0.965, 0.95, 0.96]


def test_a_clear_winner_is_recommended_with_how_much_it_is_better_than_nothing_and_flip_and_crop() -> None:
    advice = made_up(none=NONE, fixed=FIXED, scale=BEST)
    assert advice.recommended == "scale"
    text = words(advice)
    assert "**Use `scale`.**" in text
    assert "3 learners trained `tiny-stride2` with 5 seeds each: 24 passes of 3,200 training images, " in text
    assert "tested on 400 images" in text
    assert "better than no augmentation by +25.4 [" in text
    assert "better than flip and crop (`fixed`) by +30.9 [" in text
    assert "Not told apart" not in text


def test_numbers_are_those_of_the_projects_statistics() -> None:
    correct = {"none": outcomes(NONE, 0), "fixed": outcomes(FIXED, 1), "scale": outcomes(GOOD, 2)}
    advice = advise(correct, SECONDS, 5)
    pairs = [("none", "fixed"), ("none", "scale"), ("fixed", "scale")]
    differences = [(correct[one].mean(axis=1) - correct[other].mean(axis=1)).round(12) for one, other in pairs]
    corrected = holm(paired_p_values(differences))
    for (one, other), p_value in zip(pairs, corrected, strict=True):
        contrast = advice.contrasts[one, other]
        assert contrast.interval == paired_difference(correct[one], correct[other])
        assert contrast.p_adjusted == pytest.approx(p_value)
        opposite = advice.contrasts[other, one]
        assert opposite.interval.low == -(contrast.interval.high or 0)
        assert opposite.interval.high == -(contrast.interval.low or 0)


def test_nothing_is_recommended_where_nothing_is_shown_to_be_better() -> None:
    fixed, scale = [0.70, 0.69, 0.71, 0.72, 0.69], [0.72, 0.70, 0.69, 0.71, 0.70]
    advice = made_up(none=NONE, fixed=fixed, scale=scale)
    assert advice.recommended == "none"
    text = words(advice)
    assert "**Use no augmentation: nothing is shown to be better, and it costs least.**" in text
    assert "Not told apart from no augmentation: flip and crop (`fixed`) and `scale`" in text
    spread = spread_of(np.column_stack([NONE, fixed, scale]))
    assert spread is not None and advice.smallest == pytest.approx(smallest_difference(spread, 5, 3))
    smallest = two_digits(100 * (advice.smallest or 0))
    assert f"With 5 seeds, the test finds a difference of about {smallest} points with a probability of 80 %; " in text
    assert "points to either side with 400 test images" in text


def test_where_every_learner_is_worse_the_text_says_so() -> None:
    advice = made_up(none=GOOD, fixed=FIXED, scale=NONE)
    assert advice.recommended == "none"
    assert headline(advice) == "Use no augmentation: every learner is worse."
    assert "It is better than flip and crop (`fixed`) by +20.8 [" in words(advice)


def test_of_learners_that_are_not_told_apart_the_fastest_is_recommended() -> None:
    like_good = [0.86, 0.85, 0.855, 0.86, 0.855]
    advice = made_up(none=NONE, fixed=FIXED, trivialaugment=GOOD, scale=like_good)
    assert advice.recommended == "trivialaugment"
    assert "`scale` is better than no augmentation, too, and not told apart from `trivialaugment`" in words(advice)


def test_a_learner_that_another_one_beats_is_not_recommended_though_it_is_faster() -> None:
    assert made_up(none=FIXED, fixed=NONE, trivialaugment=GOOD, scale=BEST).recommended == "scale"


def test_a_learner_that_is_better_than_nothing_but_not_than_flip_and_crop_is_said_to_be_so() -> None:
    advice = made_up(none=NONE, fixed=[0.95, 0.70, 0.96, 0.72, 0.97], scale=GOOD)
    assert advice.recommended == "scale"  # fixed is better by its mean, and not shown to be better than none
    assert "not told apart from flip and crop (`fixed`): " in words(advice)
    assert made_up(none=NONE, fixed=BEST, scale=GOOD).recommended == "fixed"


def test_a_difference_on_few_test_images_is_no_proof_whatever_the_seeds_say() -> None:
    """The seeds agree on the two images in which the learners differ, and other images could be others."""
    plain = pd.DataFrame(np.tile([1.0] * 10 + [0.0] * 10, (5, 1)))
    better = plain.copy()
    better.loc[:, 10] = 1.0
    better.loc[:3, 11] = 1.0
    advice = advise({"none": plain, "scale": better}, SECONDS, 5)
    p_value = advice.contrasts["scale", "none"].p_adjusted
    assert p_value is not None
    assert p_value < 0.05
    assert advice.recommended == "none"


def test_one_or_two_seeds_carry_no_recommendation_and_the_text_says_so() -> None:
    for seeds in (1, 2):
        advice = advise({"none": outcomes(NONE[:seeds]), "scale": outcomes(BEST[:seeds], 1)}, SECONDS, seeds)
        assert advice.recommended == "none"
        assert f"{seeds} seed{'s' * (seeds > 1)} cannot show that anything is better" in headline(advice)
        assert "A test takes at least 3 seeds." in words(advice)


def test_learners_without_every_seed_are_left_out_and_named_with_the_reason() -> None:
    advice = made_up(none=NONE, fixed=FIXED, scale=BEST[:3], augerino=GOOD)
    assert advice.recommended == "augerino"
    text = words(advice, reasons=["`scale` failed: out of memory."])
    assert (
        "Left out, since some of their runs have no result: `scale` (3 seeds). `scale` failed: out of memory." in text
    )
    assert "3 learners trained" in text


@pytest.mark.parametrize(
    "correct", [{}, {"none": NONE}, {"scale": BEST, "fixed": FIXED}, {"none": NONE[:2], "scale": BEST[:4]}]
)
def test_without_a_baseline_or_anything_beside_it_there_is_no_recommendation(
    correct: Mapping[str, Sequence[float]],
) -> None:
    advice = made_up(**correct)
    assert advice.recommended is None
    assert "**No recommendation: too few learners have a result.**" in words(advice)


@pytest.mark.slow
def test_equal_learners_are_seldom_told_apart() -> None:
    """With five equal learners, something is recommended in at most one of twenty comparisons, or a little more."""
    random = np.random.default_rng(1)
    wrong = 0
    for number in range(60):
        correct = {
            label: outcomes(random.normal(0.8, 0.02, 5).clip(0, 1), 10 * number + k) for k, label in enumerate(SECONDS)
        }
        wrong += advise(correct, SECONDS, 5).recommended != "none"
    assert wrong <= 6  # a binomial with 60 trials of probability 0.05 exceeds 6 with probability 0.03


def learned(values: Mapping[str, Sequence[float]], start: float = 0.1) -> pd.DataFrame:
    """Make learned numbers, one for each seed."""
    rows = [
        {"seed": seed, "quantity": name, "value": value, "start": start}
        for name, numbers in values.items()
        for seed, value in enumerate(numbers)
    ]
    return pd.DataFrame(rows)


def test_symmetries_are_worded_for_people_who_know_no_blocks() -> None:
    numbers = learned(
        {
            "probability/rotation": [0.9, 0.95, 1.0],
            "range/rotation": [3.1, 2.9, 3.0],
            "probability/half-turn": [0.9, 0.2, 0.3],
            "probability/flip": [0.01, 0.0, 0.02],
            "probability/x-scale": [0.9, 0.8, 0.9],
            "range/x-scale": [0.01, 0.02, 0.01],
        }
    )
    assert list(symmetry_sentences(numbers, "`scale`")) == [
        "In all 3 runs, `scale` learned turning by any angle.",
        "In all 3 runs, it left out, or hardly used, mirroring left to right and a change of width.",
        "In some runs only, it learned turning upside down (1 of 3).",
    ]


@pytest.mark.parametrize(
    ("degrees", "half_turn", "words"), [(80, 0.9, "any angle"), (80, 0.0, "up to ±80°"), (160, 0.0, "any angle")]
)
def test_half_turns_double_the_angles_that_turns_reach(degrees: float, half_turn: float, words: str) -> None:
    numbers = {
        "probability/rotation": [0.9],
        "range/rotation": [np.radians(degrees)],
        "probability/half-turn": [half_turn],
    }
    assert f"learned turning by {words}" in next(symmetry_sentences(learned(numbers), "`scale`"))


def test_a_narrow_range_is_given_in_degrees_and_nothing_learned_is_said_to_be_nothing() -> None:
    narrow = learned({"probability/rotation": [0.9], "range/rotation": [np.radians(30)]})
    assert next(symmetry_sentences(narrow, "`scale`")) == "In its one run, `scale` learned turning by up to ±30°."
    nothing = learned({"probability/flip": [0.0, 0.05]})
    assert next(symmetry_sentences(nothing, "`scale`")) == (
        "In all 2 runs, `scale` learned no transform for most images."
    )


def test_ranges_that_grew_or_shrank_are_said_to_have_done_so() -> None:
    start = 0.6565
    assert (
        width_sentence(learned({"range/rotation": [3.0, 2.8]}, start), "it") == "it widened turning from ±38° to ±166°."
    )
    assert (
        width_sentence(learned({"range/rotation": [0.1, 0.1]}, start), "it") == "it narrowed turning from ±38° to ±6°."
    )
    assert width_sentence(learned({"range/rotation": [0.7]}, start), "it") == "it changed no range much."
    tiny = learned({"range/stretch": [0.01]}, start=0.003)  # three times as wide, and still nothing
    assert width_sentence(tiny, "it") == "it changed no range much."
