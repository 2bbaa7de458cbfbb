"""Define a verdict: a list of checks, and the outcome of all of them."""

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
"""When a person must approve a candidate before it may be promoted. none: never; required: if it passed;
when_undecided: if it is undecided. A failed candidate is never promoted."""


class Check(BaseModel):
    """One check of a verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str
    """Name of the check, such as `auc` or `rows of holdout`."""
    value: float | None
    """Measured value; null if there is none, or if it is not a finite number."""
    bound: float | None
    """Bound that the value was compared with; null if there is none, or if it is not a finite number."""
    low: float | None = None
    """Lower end of the value's interval; null if the value is exact, or if this end is infinite."""
    high: float | None = None
    """Upper end of the value's interval; null if the value is exact, or if this end is infinite."""
    outcome: Outcome
    """passed; failed; undecided: too little data to decide; reported: there is no bound."""
    rows_needed: int | None = None
    """For an undecided check, the number of holdout rows that would decide it; null if no number would or if the number
    is not known, and for other checks."""
    groups_needed: int | None = None
    """For an undecided check by groups (`group_by`), the number of groups that would decide it; null if no number
    would, and for other checks."""
    reason: str
    """The outcome in words."""
    timed: bool = False
    """Whether the value is a measured time, which differs from run to run."""


def combine_outcomes(checks: Iterable[Check]) -> Outcome:
    """Combine the outcomes of the checks into one, leaving out checks with the outcome `reported`.

    The outcome is failed if a check failed, or if no check is left. Otherwise, it is undecided if a check is undecided,
    else passed.
    """
    outcomes = {check.outcome for check in checks} - {REPORTED}
    if not outcomes or FAILED in outcomes:
        return FAILED
    return UNDECIDED if UNDECIDED in outcomes else PASSED


def needs_approval(outcome: Outcome, approval: Approval) -> bool:
    """Return whether a person must approve a promotion. After a failed verdict, no approval is possible."""
    if approval == "when_undecided":
        return outcome == UNDECIDED
    return outcome == PASSED and approval == "required"


def summarize_checks(checks: Iterable[Check]) -> str:
    """Return the reasons of the failed and then of the undecided checks; if there are none, how many checks passed."""
    checks = list(checks)
    reasons = [check.reason for outcome in (FAILED, UNDECIDED) for check in checks if check.outcome == outcome]
    passed_count = sum(check.outcome == PASSED for check in checks)
    if reasons:
        return "; ".join(reasons)
    return f"all {passed_count} checks passed" if passed_count else "nothing was checked"
