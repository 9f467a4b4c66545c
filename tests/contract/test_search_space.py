"""Ranges that are searched: declared where a hyperparameter is, and what is drawn from them is valid."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augbench.bench.contract.method import Hyperparameters
from augbench.bench.contract.search_space import Range, grid_size, ranges_of, tunable
from augbench.bench.experiment.catalogues import methods

CommandLine = Callable[..., tuple[int, str, str]]
SHARES = st.floats(0, 1, exclude_max=True)
TUNED = [entry.name for entry in methods() if ranges_of(entry.target.hyperparameters_type)]


def test_every_learner_has_something_to_tune_and_the_others_have_not() -> None:
    assert set(TUNED) >= {"scale", "scale-norm", "augerino", "augerino-pb", "dada", "fast-aa", "faster-aa"}
    assert not {"none", "fixed", "trivialaugment", "trivialaugment-wide", "autoaugment"} & set(TUNED)


@pytest.mark.parametrize("name", TUNED)
@settings(max_examples=20)
@given(fractions=st.lists(SHARES, min_size=10, max_size=10))
def test_whatever_is_drawn_lies_in_its_range_and_the_method_takes_it(name: str, fractions: list[float]) -> None:
    model = methods().get(name).hyperparameters_type
    ranges = ranges_of(model)
    values = {key: tried.from_unit(fraction) for (key, tried), fraction in zip(ranges.items(), fractions, strict=False)}
    assert all(ranges[key].contains(value) for key, value in values.items())
    checked = model.model_validate(values)
    assert {key: getattr(checked, key) for key in values} == values


@pytest.mark.parametrize("name", TUNED)
def test_the_default_is_among_the_values(name: str) -> None:
    model = methods().get(name).hyperparameters_type
    assert all(tried.contains(model.model_fields[key].default) for key, tried in ranges_of(model).items())


def test_numbers_are_spread_evenly_or_over_orders_of_magnitude() -> None:
    assert [Range(low=2, high=4).from_unit(fraction) for fraction in (0, 0.25, 0.5)] == [2, 2.5, 3]
    assert [Range(low=0.001, high=10, log=True).from_unit(fraction) for fraction in (0, 0.25, 0.5, 0.75)] == [
        0.001,
        0.01,
        0.1,
        1,
    ]
    assert Range(low=0, high=1).from_unit(1 / 3) == 0.333
    assert Range(low=0.12345, high=1).from_unit(0) == 0.12345  # rounded, but not out of the range


@pytest.mark.parametrize("tried", [Range(low=1, high=4, whole=True), Range(choices=("a", "b", "c", "d"))])
def test_whole_numbers_and_choices_come_equally_often(tried: Range) -> None:
    counts = Counter(tried.from_unit(step / 1000) for step in range(1000))
    assert len(counts) == 4
    assert max(counts.values()) - min(counts.values()) <= 2  # halves are rounded to even numbers


@given(SHARES)
def test_whole_numbers_over_orders_of_magnitude_stay_in_their_range(fraction: float) -> None:
    value = Range(low=1, high=100, whole=True, log=True).from_unit(fraction)
    assert isinstance(value, int)
    assert 1 <= value <= 100


@pytest.mark.parametrize(
    ("default", "wrong", "words"),
    [
        (0.5, {}, "empty"),
        (0.5, {"low": 1, "high": 1}, "empty"),
        (0.5, {"low": 0, "high": 1, "log": True}, "cannot begin at 0"),
        (2.0, {"low": 0, "high": 1}, "2.0 is not among"),
        ("d", {"choices": ("a", "b")}, "'d' is not among"),
        ("a", {"choices": ("a", None)}, "None can be tried only"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused_where_it_is_declared(
    default: object, wrong: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        tunable(default, **wrong)


def test_a_declared_range_changes_neither_default_nor_limits() -> None:
    class Blur(Hyperparameters):
        """Hyperparameters of a blur."""

        width: float = tunable(0.1, low=0.01, high=1, log=True, gt=0, le=10, description="width")
        kind: str = tunable("box", choices=("box", "disc"))
        passes: int = tunable(1, low=1, high=4, ge=1)

    assert Blur().model_dump() == {"width": 0.1, "kind": "box", "passes": 1}
    assert Blur(width=10, passes=99).passes == 99
    with pytest.raises(ValueError, match="less than or equal to 10"):
        Blur(width=11)
    ranges = ranges_of(Blur)
    assert list(map(str, ranges.values())) == ["one of box, disc", "1 to 4", "0.01 to 1, logarithmic"]
    assert grid_size({name: ranges[name] for name in ("kind", "passes")}) == 8
    assert grid_size(ranges) == float("inf")


def test_the_card_of_a_method_shows_what_is_tuned(augbench: CommandLine) -> None:
    code, text, _ = augbench("list", "methods", "scale")
    assert code == 0
    (line,) = [line for line in text.splitlines() if line.strip().startswith("regularisation:")]
    assert "default 0.006, ≥ 0" in line
    assert line.endswith("tuned: 0.001 to 0.1, logarithmic)")
    (other,) = [line for line in text.splitlines() if line.strip().startswith("copies:")]
    assert "tuned" not in other
