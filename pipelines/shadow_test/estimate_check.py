"""Compare an estimate from the requests of a shadow with a bound."""

from __future__ import annotations

from pipelines.evaluation.gates.verdict import PASSED, UNDECIDED, Check
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.hypotheses import decide


def check_upper_bound(name: str, estimate: Estimate, bound: float, unit: str) -> Check:
    """Check that a value is at most `bound`. The outcome is `undecided` if the bound is inside the value's interval.

    Args:
        name: name of the check.
        estimate: the value with its interval.
        bound: largest allowed value.
        unit: what the rows of the estimate are, in the plural, such as "requests". The reason contains it.
    """
    return _check(name, estimate, bound, unit, decide(-estimate, -bound, relevant_effect=0.0), "at most")


def check_lower_bound(name: str, estimate: Estimate, bound: float, unit: str) -> Check:
    """Check that a value is at least `bound`. Arguments: as for `check_upper_bound`."""
    return _check(name, estimate, bound, unit, decide(estimate, bound, relevant_effect=0.0), "at least")


def _check(name: str, estimate: Estimate, bound: float, unit: str, outcome: str, relation: str) -> Check:
    value = f"{name} is {estimate.value:.4g} [{estimate.low:.4g}, {estimate.high:.4g}]"
    if outcome == UNDECIDED:
        reason = f"{value}: {estimate.rows} {unit} are too few to decide whether it is {relation} {bound:g}"
    else:
        reason = f"{value}, {'as required:' if outcome == PASSED else 'but must be'} {relation} {bound:g}"
    return Check(
        name=name,
        value=estimate.value,
        bound=bound,
        low=estimate.low,
        high=estimate.high,
        outcome=outcome,  # type: ignore[arg-type]
        reason=reason,
    )
