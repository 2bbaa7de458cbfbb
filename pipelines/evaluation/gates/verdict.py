"""A verdict: a list of checks, and the outcome that they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

PASSED: Final = "passed"
FAILED: Final = "failed"
UNDECIDED: Final = "undecided"
REPORTED: Final = "reported"
Outcome = Literal["passed", "failed", "undecided", "reported"]
Approval = Literal["none", "required", "when_undecided"]
"""When a person has to agree before a candidate that did not fail may be promoted."""


class Check(BaseModel):
    """One check of a verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str
    """Name of the check."""
    value: float | None
    """Measured value; null where it is not a number."""
    bound: float | None
    """Bound that the value was compared with; null where there is none, or the bound is not a number."""
    low: float | None = None
    """Lower end of the value's interval; null where the value is exact."""
    high: float | None = None
    """Upper end of the value's interval; null where the value is exact."""
    outcome: Outcome
    """passed; failed; undecided: too little data to decide; reported: there is no bound."""
    rows_needed: int | None = None
    """For an undecided check, how many rows of holdout would decide it; null where no number of rows would."""
    groups_needed: int | None = None
    """For an undecided check by groups (`group_by`), how many groups, such as days, would decide it; else null."""
    reason: str
    """The outcome in words."""
    timed: bool = False
    """Whether the value was read from a clock, and so differs each time."""


def combine_outcomes(checks: Iterable[Check]) -> Outcome:
    """Return the outcome of all checks, leaving out those with the outcome `reported`.

    It is failed if one failed or no check is left; else undecided if one is undecided; else passed.
    """
    outcomes = {check.outcome for check in checks} - {REPORTED}
    if not outcomes or FAILED in outcomes:
        return FAILED
    return UNDECIDED if UNDECIDED in outcomes else PASSED


def needs_approval(outcome: Outcome, approval: Approval) -> bool:
    """Return whether a person has to agree to a verdict. A failed one never needs it: it cannot be promoted."""
    if approval == "when_undecided":
        return outcome == UNDECIDED
    return outcome == PASSED and approval == "required"


def summarize_checks(checks: Iterable[Check]) -> str:
    """Return the reasons of the failed checks, then of the undecided ones; or how many passed, if all did."""
    checks = list(checks)
    reasons = [check.reason for outcome in (FAILED, UNDECIDED) for check in checks if check.outcome == outcome]
    passed = sum(check.outcome == PASSED for check in checks)
    if reasons:
        return "; ".join(reasons)
    return f"all {passed} checks passed" if passed else "nothing was checked"
