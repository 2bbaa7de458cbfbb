"""Make one check of a verdict from an exact value, a number of rows, or an estimate with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.gates.verdict import FAILED, PASSED, REPORTED, UNDECIDED, Check, Outcome
from pipelines.evaluation.statistics.edges import MIN_LABEL_ROWS
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.hypotheses import compute_groups_needed, compute_rows_needed, decide


def check_value(
    name: str, value: float | None, *, at_least: float | None = None, at_most: float | None = None
) -> Check:
    """Compare an exact value with one bound, either `at_least` or `at_most`.

    The check fails if the value or the bound is not a finite number.
    """
    number, lower, upper = _replace_non_finite(value), _replace_non_finite(at_least), _replace_non_finite(at_most)
    bound = lower if at_least is not None else upper
    if number is None or bound is None:
        subject = name if number is None else f"the bound of {name}"
        return Check(name=name, value=number, bound=bound, outcome=FAILED, reason=f"{subject} is not a number")
    has_passed = number >= bound if at_least is not None else number <= bound
    requirement = f"{'at least' if at_least is not None else 'at most'} {bound:.6g}"
    reason = f"{name} is {number:.6g}, {_get_connective(has_passed)} {requirement}"
    return Check(name=name, value=number, bound=bound, outcome=PASSED if has_passed else FAILED, reason=reason)


def check_row_count(name: str, rows: int, minimum: int, label_rows: Mapping[str, int] | None = None) -> Check:
    """Check that there are enough rows, and enough of each label, to judge; otherwise the check is undecided.

    If a label has no rows, the number of needed rows is not known.

    Args:
        name: name of the check.
        rows: number of rows.
        minimum: smallest number of rows with which a verdict can pass.
        label_rows: maps the description of a label, such as "the rarer label", to its number of rows; each label must
            have `MIN_LABEL_ROWS`.
    """
    rare_labels = {label: count for label, count in (label_rows or {}).items() if count < MIN_LABEL_ROWS}
    has_passed = rows >= minimum and not rare_labels
    reason = f"{name} are {rows}, {_get_connective(rows >= minimum)} at least {minimum}"
    for label, count in rare_labels.items():
        reason += f"; {label} has {count} rows, but must have at least {MIN_LABEL_ROWS}"
    rarest = min(rare_labels.values(), default=MIN_LABEL_ROWS)
    rows_needed = max(minimum, math.ceil(rows * MIN_LABEL_ROWS / rarest)) if rarest else None
    return Check(
        name=name,
        value=rows,
        bound=minimum,
        outcome=PASSED if has_passed else UNDECIDED,
        rows_needed=None if has_passed else rows_needed,
        reason=reason,
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

    With fewer groups than the policy requires, the check is undecided.

    Args:
        name: name of the check.
        estimate: value with its interval at the policy's alpha.
        bound: smallest allowed value.
        policy: its `group_by`, `min_groups`, `alpha` and `power` are used.
        is_upper: whether the bound is the largest allowed value instead.
        is_strict: whether a value equal to the bound fails: a gain of 0 is no gain.
        relevant_effect: smallest relevant distance from the bound, on its allowed side. If no value in the
            interval has at least this distance, the check fails. 0: every distance is relevant, and the number of
            needed rows is computed from the observed distance.
    """
    # `decide` compares with a lower bound: for an upper bound, both numbers change their signs.
    signed_estimate, lower = (-estimate, -bound) if is_upper else (estimate, bound)
    outcome: Outcome = decide(signed_estimate, math.nextafter(lower, math.inf) if is_strict else lower, relevant_effect)
    if _has_too_few_groups(estimate, policy):
        outcome = UNDECIDED
    requirement = f"{'more than' if is_strict else 'at most' if is_upper else 'at least'} {bound:.6g}"
    effect = relevant_effect or abs(estimate.value - bound)
    units_needed = _compute_units_needed(estimate, effect, policy) if outcome == UNDECIDED else None
    reason = _describe_estimate(name, estimate, outcome, requirement, units_needed, policy)
    return _build_check(name, estimate, bound, outcome, units_needed, reason)


def _build_check(
    name: str, estimate: Estimate, bound: float, outcome: Outcome, units_needed: int | None, reason: str
) -> Check:
    return Check(
        name=name,
        value=_replace_non_finite(estimate.value),
        bound=bound,
        low=_replace_non_finite(estimate.low),
        high=_replace_non_finite(estimate.high),
        outcome=outcome,
        rows_needed=_convert_to_rows(estimate, units_needed),
        groups_needed=None if estimate.groups is None else units_needed,
        reason=reason,
    )


def report_value(name: str, reason: str, value: float | None = None) -> Check:
    """Make a check that only reports: it has no bound."""
    return Check(name=name, value=value, bound=None, outcome=REPORTED, reason=reason)


def report_estimate(name: str, estimate: Estimate) -> Check:
    """Make a check that only reports an estimate with its interval: it has no bound."""
    low, high = _replace_non_finite(estimate.low), _replace_non_finite(estimate.high)
    interval = "" if low is None or high is None else f" [{low:.6g}, {high:.6g}]"
    reason = f"{name} is {estimate.value:.6g}{interval}"
    value = _replace_non_finite(estimate.value)
    return Check(name=name, value=value, bound=None, low=low, high=high, outcome=REPORTED, reason=reason)


def _has_too_few_groups(estimate: Estimate, policy: Policy) -> bool:
    """Return whether the estimate is by groups, and has too few groups to decide."""
    return estimate.groups is not None and estimate.groups < policy.min_groups


def _compute_units_needed(estimate: Estimate, effect: float, policy: Policy) -> int | None:
    """Compute how many groups would decide the check, or how many rows if the estimate is not by groups.

    Returns:
        The number; None if no number would decide the check.
    """
    groups = estimate.groups
    if _has_too_few_groups(estimate, policy):
        return policy.min_groups
    if not (math.isfinite(estimate.se) and effect > 0):
        return None
    # An undecided check needs more rows or groups than there are. The computed number may be smaller, because an
    # interval is sometimes wider than its standard error says, and because few rows are enough to find a large relevant
    # effect.
    if groups is None:
        rows_needed = compute_rows_needed(estimate.se, estimate.rows, effect, policy.alpha, policy.power)
        return max(estimate.rows + 1, rows_needed)
    return max(groups + 1, compute_groups_needed(estimate.se, groups, effect, policy.alpha, policy.power))


def _convert_to_rows(estimate: Estimate, units_needed: int | None) -> int | None:
    """Convert a number of groups to rows, at the mean number of rows in a group; a number of rows is unchanged."""
    if units_needed is None or not estimate.groups:
        return units_needed
    return math.ceil(units_needed * estimate.rows / estimate.groups)


def _describe_estimate(
    name: str, estimate: Estimate, outcome: Outcome, requirement: str, units_needed: int | None, policy: Policy
) -> str:
    groups, unit = estimate.groups, "rows" if estimate.groups is None else name_groups(policy.group_by)
    if _has_too_few_groups(estimate, policy):
        return (
            f"{name} is {estimate.value:.6g}: {groups} {unit} are too few to decide, at least {units_needed} are needed"
        )
    value = f"{name} is {estimate.value:.6g} [{estimate.low:.6g}, {estimate.high:.6g}]"
    if outcome != UNDECIDED:
        return f"{value}, {_get_connective(outcome == PASSED)} {requirement} with confidence"
    remedy = f"no number of {unit} would decide"
    if units_needed:
        missing_units = units_needed - (groups or estimate.rows)
        remedy = f"about {units_needed:,} {unit} of holdout would decide, {missing_units:,} more than now"
    return f"{value}: its interval leaves open whether it is {requirement}; {remedy}"


def name_groups(column: str) -> str:
    """Return the name of the groups of a column, in the plural: `days` for the column `date`."""
    return "days" if column == "date" else f"groups by {column}"


def _get_connective(has_passed: bool) -> str:
    """Return the words between a value and its requirement."""
    return "as required:" if has_passed else "but must be"


def _replace_non_finite(value: float | None) -> float | None:
    """Return a finite number unchanged; return None for NaN and the infinities, which JSON does not have."""
    return value if value is not None and math.isfinite(value) else None
