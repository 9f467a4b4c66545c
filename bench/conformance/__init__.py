"""Checks whether a method keeps the contract, for `augbench check method` and for the tests of its author."""

from augbench.bench.conformance.checks import CHECKS, check_method
from augbench.bench.conformance.outcome import ConformanceError, Outcome, Report, Result
from augbench.bench.conformance.problem import small_context

__all__ = ["CHECKS", "ConformanceError", "Outcome", "Report", "Result", "check_method", "small_context"]
