"""What comes out of a check."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ConformanceError(Exception):
    """A method does not keep the contract.

    Args:
        wrong: What is wrong, in a sentence.
        advice: What to do about it.
    """

    def __init__(self, wrong: str, advice: str) -> None:
        super().__init__(f"{wrong} {advice}")
        self.wrong = wrong
        self.advice = advice


class DoesNotApplyError(Exception):
    """A method has nothing that the check is about; the text says what."""


class Result(StrEnum):
    """How a check ended: left out is one that makes no sense while another one fails."""

    PASSED = "passed"
    FAILED = "failed"
    DOES_NOT_APPLY = "does not apply"
    LEFT_OUT = "left out"


@dataclass(frozen=True)
class Outcome:
    """How one check ended.

    Attributes:
        check: Name of the check.
        result: How it ended.
        text: What is wrong, or a remark.
        advice: What to do about a failure.
    """

    check: str
    result: Result
    text: str = ""
    advice: str = ""


@dataclass(frozen=True)
class Report:
    """How every check of a method ended; as text, what is wrong with it."""

    method: str
    outcomes: tuple[Outcome, ...]

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The checks that failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.result is Result.FAILED)

    @property
    def passed(self) -> bool:
        """Whether none failed."""
        return not self.failures

    def as_json(self) -> dict[str, Any]:
        """Turn it into plain values."""
        checks = [
            {"check": one.check, "result": str(one.result), "text": one.text, "advice": one.advice}
            for one in self.outcomes
        ]
        return {"method": self.method, "passed": self.passed, "checks": checks}

    def __str__(self) -> str:
        if self.passed:
            return f"{self.method} passes all checks."
        lines = [f"{failure.check}: {failure.text} {failure.advice}" for failure in self.failures]
        return "\n".join([f"{self.method} fails {len(lines)} of {len(self.outcomes)} checks.", *lines])
