"""Find what would decide an undecided verdict: more days of holdout, a person's approval, or another policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.evaluation.gates.verdict import UNDECIDED, Check, combine_outcomes


@dataclass(frozen=True)
class Remedy:
    """What would decide an undecided verdict."""

    days_needed: int | None
    """Days of holdout that would decide all undecided checks, if the measured values stay the same; None if no such
    number is known, or if the verdict is not undecided."""
    next_steps: list[str]
    """What to do, in sentences; empty if the verdict is not undecided."""


def find_remedy(checks: Sequence[Check], rows: int, days: int, *, needs_approval: bool) -> Remedy:
    """Find what would decide an undecided verdict.

    Args:
        checks: all checks of the verdict.
        rows: rows of the holdout.
        days: days of the holdout; 0: not known.
        needs_approval: whether a person is asked to decide now.
    """
    if combine_outcomes(checks) != UNDECIDED:
        return Remedy(days_needed=None, next_steps=[])
    undecided_checks = [check for check in checks if check.outcome == UNDECIDED]
    rows_needed = [check.rows_needed for check in undecided_checks if check.rows_needed is not None]
    days_needed = None
    if len(rows_needed) == len(undecided_checks) and days:
        days_needed = max(days + 1, math.ceil(max(rows_needed) / rows * days))
    next_steps = [
        _describe_days(days_needed, days),
        _describe_approval(needs_approval),
        _describe_policy(undecided_checks),
    ]
    return Remedy(days_needed, next_steps)


def _describe_days(days_needed: int | None, days: int) -> str:
    if days_needed is None:
        return "It is not known how many days of holdout would decide it at the current values."
    return (
        f"About {days_needed} days of holdout would decide it at the current difference and variance, "
        f"{days_needed - days} more than the {days} of this holdout. "
        f"Set snapshot.holdout_days to {days_needed} and train again."
    )


def _describe_approval(needs_approval: bool) -> str:
    if needs_approval:
        return "A person has to decide now."
    return "Nobody has to decide, and the champion stays. With gate.approval: when_undecided, a person decides."


def _describe_policy(undecided_checks: Sequence[Check]) -> str:
    names = ", ".join(check.name for check in undecided_checks)
    return f"Or change the policy of these checks: {names}."
