"""What a check is, what comes out of it, and how several are gone through."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

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


S = TypeVar("S")


@dataclass(frozen=True)
class Check(Generic[S]):
    """One thing to examine.

    Attributes:
        name: What it is called.
        examine: Returns nothing, or a remark; raises ConformanceError, DoesNotApplyError or whatever.
        needs: Names of the checks without which it makes no sense.
    """

    name: str
    examine: Callable[[S], str | None]
    needs: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        """What is checked, in a sentence."""
        return (self.examine.__doc__ or "").strip()


class Result(StrEnum):
    """How a check ended; one is left out while a check that it needs fails."""

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


WORK_ON_A_COPY = "Work on a copy: no functions that end in an underscore, and no assignment to parts of a tensor."

Explain = Callable[[BaseException], tuple[str, str]]
"""Says what an exception of strangers' code means, and what to do about it."""


def _explain(error: BaseException) -> tuple[str, str]:
    return f"It raised {format_exception(error, *plugin_files())}.", "Fix that."


def go_through(
    checks: Sequence[Check[S]],
    subject: S,
    outcomes: dict[str, Outcome],
    begin: Callable[[str], None],
    explain: Explain = _explain,
) -> None:
    """Go through checks, one after the other.

    Args:
        checks: Each after those that it needs.
        subject: What is checked.
        outcomes: How the checks before these ended, by name; how these end is added.
        begin: Called with the name of each check when it begins.
        explain: Says what an exception means.
    """
    for check in checks:
        begin(check.name)
        outcome = _outcome(check, subject, outcomes, explain)
        same = [one.check for one in outcomes.values() if one.result is outcome.result and one.text == outcome.text]
        if outcome.result is Result.FAILED and same:  # each fault is told once
            outcome = Outcome(check.name, Result.LEFT_OUT, f"for the same reason as {same[0]!r}")
        outcomes[check.name] = replace(outcome, meaning=check.meaning)


def _outcome(check: Check[S], subject: S, before: Mapping[str, Outcome], explain: Explain) -> Outcome:
    missing = [name for name in check.needs if before[name].result in (Result.FAILED, Result.LEFT_OUT)]
    if missing:
        return Outcome(check.name, Result.LEFT_OUT, f"while {missing[0]!r} is not passed")
    try:
        return Outcome(check.name, Result.PASSED, check.examine(subject) or "")
    except ConformanceError as error:
        return Outcome(check.name, Result.FAILED, error.wrong, error.advice)
    except DoesNotApplyError as reason:
        return Outcome(check.name, Result.DOES_NOT_APPLY, str(reason))
    except UserError as error:
        return Outcome(check.name, Result.FAILED, str(error))
    except USER_CODE_ERRORS as error:
        return Outcome(check.name, Result.FAILED, *explain(error))
