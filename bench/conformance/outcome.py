"""What comes out of a check."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from augbench.bench.common.errors import UserError
from augbench.bench.common.user_code import USER_CODE_ERRORS, format_exception
from augbench.bench.registry.plugins import plugin_files


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
        meaning: What is checked, in a sentence.
    """

    check: str
    result: Result
    text: str = ""
    advice: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Report:
    """How every check ended; as text, what is wrong.

    Attributes:
        method: Name of the method, data set or network.
        outcomes: How each check ended.
    """

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
        checks = [{**asdict(one), "result": str(one.result)} for one in self.outcomes]
        return {"method": self.method, "passed": self.passed, "checks": checks}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Report":
        """Read what `as_json` has made."""
        outcomes = [Outcome(**{**one, "result": Result(one["result"])}) for one in content["checks"]]
        return cls(content["method"], tuple(outcomes))

    def __str__(self) -> str:
        if self.passed:
            return f"{self.method} passes all checks."
        lines = [f"{failure.check}: {failure.text} {failure.advice}" for failure in self.failures]
        return "\n".join([f"{self.method} fails {len(lines)} of {len(self.outcomes)} checks.", *lines])


def outcome_of(name: str, meaning: str, examine: Callable[[], str | None], before: Sequence[Outcome]) -> Outcome:
    """Go through one check of several of which the first is the base of all others.

    Args:
        name: What the check is called.
        meaning: What is checked, in a sentence.
        examine: Returns nothing, or a remark; raises ConformanceError, DoesNotApplyError or what code raises.
        before: How the checks before it ended.
    """
    if before and before[0].result is Result.FAILED:
        return Outcome(name, Result.LEFT_OUT, f"while {before[0].check!r} is not passed", meaning=meaning)
    try:
        return Outcome(name, Result.PASSED, examine() or "", meaning=meaning)
    except ConformanceError as error:
        return Outcome(name, Result.FAILED, error.wrong, error.advice, meaning)
    except DoesNotApplyError as reason:
        return Outcome(name, Result.DOES_NOT_APPLY, str(reason), meaning=meaning)
    except UserError as error:
        return Outcome(name, Result.FAILED, str(error), meaning=meaning)
    except USER_CODE_ERRORS as error:
        text = f"It raised {format_exception(error, *plugin_files())}."
        return Outcome(name, Result.FAILED, text, "Mend that.", meaning)
