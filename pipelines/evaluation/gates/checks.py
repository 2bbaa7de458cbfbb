"""How a row of a verdict comes about: of a number, of an estimate with its interval, or of nothing that is demanded."""

from __future__ import annotations

import math

from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.gates.verdict import FAILED, PASSED, REPORTED, UNDECIDED, Check, Outcome
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.hypotheses import decide, rows_needed


def exact(name: str, value: float | None, *, at_least: float | None = None, at_most: float | None = None) -> Check:
    """A check of a number that has no interval. What is not a number keeps no bound."""
    known, least, most = _number(value), _number(at_least), _number(at_most)
    bound = least if at_least is not None else most
    if known is None or bound is None:
        what = name if known is None else f"the bound of {name}"
        return Check(check=name, value=known, bound=bound, outcome=FAILED, reason=f"{what} is not a number")
    good = known >= bound if at_least is not None else known <= bound
    wanted = f"at {'least' if at_least is not None else 'most'} {bound:.6g} is demanded"
    reason = f"{name} is {known:.6g}, {'and' if good else 'but'} {wanted}"
    return Check(check=name, value=known, bound=bound, outcome=PASSED if good else FAILED, reason=reason)


def enough(name: str, rows: int, wanted: int) -> Check:
    """Whether there are rows enough to judge at all: too few are no failure of the candidate's."""
    good = rows >= wanted
    return Check(
        check=name,
        value=rows,
        bound=wanted,
        outcome=PASSED if good else UNDECIDED,
        rows_needed=None if good else wanted,
        reason=f"{name} are {rows}, {'and' if good else 'but'} at least {wanted} are demanded",
    )


def sure(
    name: str,
    told: Estimate,
    bound: float,
    policy: Policy,
    *,
    most: bool = False,
    beyond: bool = False,
    matters: float = 0.0,
) -> Check:
    """A check of an estimate: its whole interval has to keep the bound.

    Args:
        name: of the check.
        told: the estimate, with its interval at the policy's alpha.
        bound: least value; largest where `most`.
        policy: its power is the chance to find `matters`, or the distance from the bound, with the rows that are told
            to be needed.
        most: whether the bound is the largest value.
        beyond: whether the bound itself is not enough: a model is not better than itself.
        matters: distance beyond the bound that is worth having.
    """
    upright = -told if most else told
    least = -bound if most else bound
    outcome: Outcome = decide(upright, math.nextafter(least, math.inf) if beyond else least, matters)
    distance = matters or abs(told.value - bound)
    open_still = outcome == UNDECIDED and distance > 0
    needed = rows_needed(told.se, told.rows, distance, policy.alpha, policy.power) if open_still else None
    wanted = f"{'more than' if beyond else 'at most' if most else 'at least'} {bound:.6g}"
    interval = f"{told.value:.6g} [{told.low:.6g}, {told.high:.6g}]"
    how = {
        PASSED: f"and surely {wanted}, as is demanded",
        FAILED: f"but surely {wanted} is demanded",
        UNDECIDED: f"which leaves open whether it is {wanted}: {_more(needed)}",
    }[outcome]
    return Check(
        check=name,
        value=told.value,
        bound=bound,
        low=told.low,
        high=told.high,
        outcome=outcome,
        rows_needed=needed,
        reason=f"{name} is {interval}, {how}",
    )


def reported(name: str, reason: str, value: float | None = None) -> Check:
    """A row that demands nothing."""
    return Check(check=name, value=value, bound=None, outcome=REPORTED, reason=reason)


def _more(needed: int | None) -> str:
    return f"some {needed:,} rows of holdout would decide" if needed else "no number of rows would decide"


def _number(value: float | None) -> float | None:
    """None for NaN and the infinities: JSON does not have them, and they keep no bound."""
    return value if value is not None and math.isfinite(value) else None
