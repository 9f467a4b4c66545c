"""The values of a hyperparameter that a tuning tries, declared where the hyperparameter is."""

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
        whole: Whether they are integers.
        choices: The values themselves, where they are not numbers.
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

    def from_unit(self, u: float) -> Choice:
        """Map u in [0, 1) to a value; a uniform u gives every part of the range its share."""
        if self.choices:
            return self.choices[int(u * len(self.choices))]
        # every integer has as long a part as any other, also the first and the last
        low, high = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
        value = low * (high / low) ** u if self.log else low + u * (high - low)
        return self.legible(value)

    def legible(self, value: float) -> float | int:
        """Round a number to the digits that are written down, within the range."""
        if self.whole:
            return int(min(max(round(value), self.low), self.high))
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)

    def contains(self, value: object) -> bool:
        """Whether a value is in the range."""
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
    """Declare a hyperparameter that `augbench tune` tunes, in place of pydantic's `Field`.

    Args:
        default: Its value without tuning; one of the values to try.
        low: The least value to try.
        high: The greatest.
        log: Whether to spread the values evenly over orders of magnitude, as for learning rates and weights.
        choices: The values to try where they are not numbers, instead of `low` and `high`.
        **field: As for `Field`: limits of valid values, and the description.

    Raises:
        ValueError: If nothing is between low and high, or the default is not among the values to try.

    Examples:
        >>> from augbench import Hyperparameters, tunable
        >>> class Blurring(Hyperparameters):
        ...     width: float = tunable(0.1, low=0.01, high=1, log=True, gt=0, le=10, description="width, in pixels")
        ...     kernel: str = tunable("box", choices=("box", "disc"), description="shape of the kernel")
        >>> Blurring(width=5).model_dump()  # valid, though no tuning tries it
        {'width': 5.0, 'kernel': 'box'}
    """
    tried = Range(low=low, high=high, log=log, whole=isinstance(default, int), choices=choices)
    if not tried.contains(default):
        raise ValueError(f"the default {default!r} is not among the values that a tuning tries: {tried}")
    if None in choices and default is not None:
        raise ValueError("None can be tried only if it is the default, since a suite file cannot express it")
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
