"""A verdict: a row for each check, and what they say together."""

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
    """One row of a verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    check: str
    """Its name."""
    value: float | None
    """What was measured; null where it is not a number."""
    bound: float | None
    """What was demanded; null where nothing is, or where it is not a number."""
    low: float | None = None
    """Lower end of the value's interval; null where the value is exact."""
    high: float | None = None
    """Upper end."""
    outcome: Outcome
    """passed; failed; undecided: there is too little data to say; reported: nothing was demanded."""
    rows_needed: int | None = None
    """Of an undecided one: rows of holdout that would decide it; null where no number would."""
    reason: str
    """The same in words."""
    timed: bool = False
    """Whether it is of a clock, and so another number each time."""


def verdict(checks: Iterable[Check]) -> Outcome:
    """What the checks say together: one failure fails, one open question leaves it open; no checks is no."""
    outcomes = {one.outcome for one in checks} - {REPORTED}
    if not outcomes or FAILED in outcomes:
        return FAILED
    return UNDECIDED if UNDECIDED in outcomes else PASSED


def asks_a_person(outcome: Outcome, approval: Approval) -> bool:
    """Whether this verdict goes to a person: a failed one never does, an undecided one where a person may decide it."""
    return outcome == UNDECIDED if approval == "when_undecided" else outcome == PASSED and approval == "required"


def words(checks: Iterable[Check]) -> str:
    """The failed checks in words, then the open ones; or that all passed."""
    told = list(checks)
    open_ones = [one.reason for outcome in (FAILED, UNDECIDED) for one in told if one.outcome == outcome]
    judged = sum(one.outcome == PASSED for one in told)
    return "; ".join(open_ones) if open_ones else f"all {judged} checks passed" if judged else "nothing was checked"
