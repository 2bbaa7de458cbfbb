"""Judge a candidate: check what it must prove before it may be promoted.

A verdict is `passed`, `failed`, or `undecided`. Undecided means that there is too little data to decide; this is never
a pass. Importing the package loads no large library; the module `judge` loads the statistics.
"""

from __future__ import annotations

from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.gates.verdict import (
    FAILED,
    PASSED,
    REPORTED,
    UNDECIDED,
    Approval,
    Check,
    Outcome,
    combine_outcomes,
    needs_approval,
    summarize_checks,
)

__all__ = [
    "FAILED",
    "PASSED",
    "REPORTED",
    "UNDECIDED",
    "Approval",
    "Check",
    "Outcome",
    "Policy",
    "combine_outcomes",
    "needs_approval",
    "summarize_checks",
]
