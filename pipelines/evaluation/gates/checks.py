"""Make one check of a verdict: from an exact value, a number of rows, or an estimate with its interval."""

from __future__ import annotations

import math

from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.gates.verdict import FAILED, PASSED, REPORTED, UNDECIDED, Check, Outcome
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.hypotheses import compute_rows_needed, decide


def check_value(
    name: str, value: float | None, *, at_least: float | None = None, at_most: float | None = None
) -> Check:
    """Compare an exact value with a lower or an upper bound. A value or bound that is not a finite number fails."""
    number, lower, upper = _replace_non_finite(value), _replace_non_finite(at_least), _replace_non_finite(at_most)
    bound = lower if at_least is not None else upper
    if number is None or bound is None:
        subject = name if number is None else f"the bound of {name}"
        return Check(name=name, value=number, bound=bound, outcome=FAILED, reason=f"{subject} is not a number")
    passed = number >= bound if at_least is not None else number <= bound
    requirement = f"{'at least' if at_least is not None else 'at most'} {bound:.6g}"
    reason = f"{name} is {number:.6g}, {_get_connective(passed)} {requirement}"
    return Check(name=name, value=number, bound=bound, outcome=PASSED if passed else FAILED, reason=reason)


def check_row_count(name: str, rows: int, minimum: int) -> Check:
    """Check that there are enough rows to judge at all. With too few, the check is undecided."""
    passed = rows >= minimum
    return Check(
        name=name,
        value=rows,
        bound=minimum,
        outcome=PASSED if passed else UNDECIDED,
        rows_needed=None if passed else minimum,
        reason=f"{name} are {rows}, {_get_connective(passed)} at least {minimum}",
    )


def check_estimate(
    name: str,
    estimate: Estimate,
    bound: float,
    policy: Policy,
    *,
    is_upper: bool = False,
    is_strict: bool = False,
    relevant_effect: float = 0.0,
) -> Check:
    """Compare an estimate with a bound. The check passes only if the whole interval is within the bound.

    Args:
        name: name of the check.
        estimate: value with its interval at the policy's alpha.
        bound: smallest allowed value; the largest one where `is_upper` is true.
        policy: gives the alpha and the power for which the needed rows are computed.
        is_upper: whether the bound is the largest allowed value.
        is_strict: whether the bound itself is not allowed: a model is not better than itself.
        relevant_effect: smallest distance beyond the bound that is worth having, 0 or more.
    """
    # `decide` takes a lower bound, so both signs change for an upper bound.
    signed_estimate = -estimate if is_upper else estimate
    lower = -bound if is_upper else bound
    outcome: Outcome = decide(signed_estimate, math.nextafter(lower, math.inf) if is_strict else lower, relevant_effect)
    effect = relevant_effect or abs(estimate.value - bound)
    rows_needed = None
    if outcome == UNDECIDED and effect > 0:
        rows_needed = compute_rows_needed(estimate.se, estimate.rows, effect, policy.alpha, policy.power)
    requirement = f"{'more than' if is_strict else 'at most' if is_upper else 'at least'} {bound:.6g}"
    return Check(
        name=name,
        value=estimate.value,
        bound=bound,
        low=estimate.low,
        high=estimate.high,
        outcome=outcome,
        rows_needed=rows_needed,
        reason=_describe_estimate(name, estimate, outcome, requirement, rows_needed),
    )


def report_value(name: str, reason: str, value: float | None = None) -> Check:
    """Make a check that only reports: it has no bound."""
    return Check(name=name, value=value, bound=None, outcome=REPORTED, reason=reason)


def _describe_estimate(
    name: str, estimate: Estimate, outcome: Outcome, requirement: str, rows_needed: int | None
) -> str:
    value = f"{name} is {estimate.value:.6g} [{estimate.low:.6g}, {estimate.high:.6g}]"
    if outcome == UNDECIDED:
        remedy = (
            f"about {rows_needed:,} rows of holdout would decide" if rows_needed else "no number of rows would decide"
        )
        return f"{value}: its interval leaves open whether it is {requirement}; {remedy}"
    return f"{value}, {_get_connective(outcome == PASSED)} {requirement} with confidence"


def _get_connective(passed: bool) -> str:
    """Return the words between a value and its requirement."""
    return "as required:" if passed else "but must be"


def _replace_non_finite(value: float | None) -> float | None:
    """Return a finite number unchanged; return None for NaN and the infinities, which JSON does not have."""
    return value if value is not None and math.isfinite(value) else None
