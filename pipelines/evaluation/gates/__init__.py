"""Gates: what a candidate must show before it may be promoted.

A verdict is `passed`, `failed`, or `undecided`: too little data to say, which is never a pass. Only what a verdict is
made of is loaded by importing the package; the statistics when something is judged (`judging`).
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
    asks_a_person,
    verdict,
    words,
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
    "asks_a_person",
    "verdict",
    "words",
]
