"""Which values of a hyperparameter a tuning tries: its author says so where it is declared."""

import math
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

KEY = "tuned"
Choice = str | int | float | bool | None
DIGITS = 3  # significant ones of a tuned number: enough to matter, few enough to be read and written down


class Range(BaseModel):
    """The values of one hyperparameter among which a tuning looks.

    Attributes:
        low: The least, for numbers.
        high: The greatest.
        log: Whether numbers are spread evenly over orders of magnitude.
        whole: Whether numbers are whole.
        choices: The values themselves, for what is no number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    choices: tuple[Choice, ...] = ()

    @model_validator(mode="after")
    def _makes_sense(self) -> "Range":
        if self.choices:
            return self
        if not self.low < self.high:
            raise ValueError(f"a range from {self.low:g} to {self.high:g} is empty: give low and high, or choices")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic range cannot begin at {self.low:g}: give a low above 0")
        return self

    def from_unit(self, fraction: float) -> Choice:
        """Return the value that is so far along the range; even shares give the values their even spread.

        Args:
            fraction: In [0, 1).
        """
        if self.choices:
            return self.choices[int(fraction * len(self.choices))]
        # Each whole number has as long a part as any other, also the first and the last.
        low, high = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
        value = low * (high / low) ** fraction if self.log else low + fraction * (high - low)
        return self.legible(value)

    def legible(self, value: float) -> float | int:
        """Round a number to what it is written as, within the range."""
        if self.whole:
            return int(min(max(round(value), self.low), self.high))
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)

    def contains(self, value: object) -> bool:
        """Whether a value is one of those."""
        if self.choices:
            return value in self.choices
        return isinstance(value, int | float) and self.low <= value <= self.high

    def __str__(self) -> str:
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        return f"{self.low:g} to {self.high:g}" + (", logarithmic" if self.log else "")


def tunable(
    default: Any,
    *,
    low: float = 0.0,
    high: float = 0.0,
    log: bool = False,
    choices: tuple[Choice, ...] = (),
    **field: Any,
) -> Any:
    """Declare a hyperparameter that `augbench tune` looks for, in place of pydantic's `Field`.

    Args:
        default: Its value where nothing is tuned, which has to be among those that are tried.
        low: The least value to try.
        high: The greatest.
        log: Whether to spread the values evenly over orders of magnitude, as one does with learning rates and weights.
        choices: The values to try where they are no numbers, in place of `low` and `high`.
        **field: As for `Field`: limits of what is valid at all, and the description.

    Raises:
        ValueError: If there is nothing between low and high, the default is not there, or None is tried and is not it.
    """
    tried = Range(low=low, high=high, log=log, whole=isinstance(default, int), choices=choices)
    if not tried.contains(default):
        raise ValueError(f"the default {default!r} is not among the values that a tuning tries: {tried}")
    if None in choices and default is not None:
        raise ValueError("None can be tried only where it is the default: a suite has no way to say it")
    return Field(default, json_schema_extra={KEY: tried.model_dump(mode="json", exclude_defaults=True)}, **field)


def ranges_of(model: type[BaseModel]) -> dict[str, Range]:
    """Return the range of every hyperparameter that has one, by name."""
    found = {name: field.json_schema_extra for name, field in sorted(model.model_fields.items())}
    return {
        name: Range.model_validate(extra[KEY])
        for name, extra in found.items()
        if isinstance(extra, dict) and KEY in extra
    }


def grid_size(ranges: dict[str, Range]) -> float:
    """Count the different combinations of values, infinite where one is not whole."""
    return math.prod(
        len(tried.choices) or (tried.high - tried.low + 1 if tried.whole else math.inf) for tried in ranges.values()
    )
