"""Decide whether there is an alarm on a day, from the findings of the windows up to that day.

The decision depends on these windows only, so a backfill gives the same decisions as the daily runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from pipelines.monitoring.drift.finding import BoundedMeasure, Finding, WindowResult
from pipelines.monitoring.drift.policy import Policy

Outcome = Literal["drift", "none", "undecided"]
MAX_EXPLAINED = 5
"""Largest number of columns that a decision without an alarm explains."""
NO_DRIFT = "nothing drifted"
"""Reason of a decision without an alarm if no effect reaches its bound."""
Breaches = dict[str, Finding]
"""Maps a column to its breach: a finding of a window that reaches its bound and is significant.

If a column has several such findings, only the one furthest over its bound is included.
"""


@dataclass(frozen=True)
class Decision:
    """The decision on a day."""

    day: str
    """Last day of the window, YYYY-MM-DD; empty if there is no window."""
    outcome: Outcome
    """`drift`: there is an alarm. `none`: there is no alarm. `undecided`: the window has too few rows, or there is no
    window."""
    reasons: tuple[str, ...]
    """The reasons for the outcome; for an alarm, one for each column that drifted."""
    drifted_columns: tuple[str, ...]
    """Columns that drifted, the one furthest over its bound first."""

    @property
    def is_drift(self) -> bool:
        """Whether there is an alarm."""
        return self.outcome == "drift"


def decide(history: Sequence[WindowResult], policy: Policy) -> Decision:
    """Decide whether there is an alarm on the day of the last window.

    Args:
        history: windows since the reference was made, oldest first, up to the day to decide on.
        policy: bounds of the decision.
    """
    decision = Decision(day="", outcome="undecided", reasons=("there are no windows",), drifted_columns=())
    for decision in decide_each(history, policy):  # noqa: B007
        pass
    return decision


def decide_each(history: Sequence[WindowResult], policy: Policy) -> Iterator[Decision]:
    """Decide for the day of each window, in order: the n-th decision equals `decide` on the first n windows.

    A window with too few rows neither begins nor ends an alarm.
    """
    recent_breaches: deque[Breaches] = deque(maxlen=policy.of_last)
    alarm_columns: frozenset[str] = frozenset()
    for window in history:
        if window.rows < policy.min_rows:
            reason = f"{window.rows} rows, fewer than the {policy.min_rows} that a decision needs"
            yield Decision(window.day, "undecided", (reason,), ())
            continue
        recent_breaches.append(find_breaches(window, policy))
        alarm_columns = _find_continued_alarms(window, alarm_columns, policy) | _find_new_alarms(
            recent_breaches, policy
        )
        yield _make_decision(window, alarm_columns, recent_breaches, policy)


def find_breaches(window: WindowResult, policy: Policy) -> Breaches:
    """Find the breaches of a window; the p-values are adjusted for all tests of the window."""
    breaches: Breaches = {}
    for finding, p_value in _adjust_findings(window, policy).items():
        ratio = compute_bound_ratio(finding, policy)
        if ratio >= 1 and p_value <= policy.alpha and ratio > compute_bound_ratio(breaches.get(finding.column), policy):
            breaches[finding.column] = finding
    return breaches


def get_bound(finding: Finding, policy: Policy) -> float | None:
    """Return the smallest effect that is treated as drift; None if the policy sets no bound for the measure.

    The bound of `missing_column` is always 1: if the column is missing in the window, the effect is 1 and reaches it.
    """
    return 1.0 if finding.measure == "missing_column" else policy.bounds.get(cast(BoundedMeasure, finding.measure))


def compute_bound_ratio(finding: Finding | None, policy: Policy) -> float:
    """Divide the effect by its bound: 1 or more if the effect reaches it; 0 if finding, effect or bound is None."""
    bound = get_bound(finding, policy) if finding else None
    return finding.effect / bound if finding and finding.effect is not None and bound else 0.0


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for multiple testing (Benjamini & Hochberg 1995, JRSS B 57).

    An adjusted p-value of at most alpha is significant. This controls the false discovery rate. If nothing drifts,
    the probability of any false finding is at most alpha (Simes 1986). This also holds for positively
    dependent tests (Benjamini & Yekutieli 2001).
    """
    from scipy.stats import false_discovery_control  # loading scipy takes longer than all decisions of a year

    return [float(p_value) for p_value in false_discovery_control(p_values)] if p_values else []


def _is_testable(finding: Finding, policy: Policy) -> bool:
    return finding.effect is not None and finding.p_value is not None and get_bound(finding, policy) is not None


def _adjust_findings(window: WindowResult, policy: Policy) -> dict[Finding, float]:
    """Return the tested findings of a window with their adjusted p-values."""
    findings = [finding for finding in window.findings if _is_testable(finding, policy)]
    # A testable finding has a p-value; `or 0.0` is for the type checker.
    adjusted_p_values = adjust_p_values([finding.p_value or 0.0 for finding in findings])
    return dict(zip(findings, adjusted_p_values, strict=True))


def _find_continued_alarms(window: WindowResult, alarm_columns: frozenset[str], policy: Policy) -> frozenset[str]:
    """Find the columns whose alarm continues: an effect is at least `policy.end_below` times its bound (hysteresis)."""
    findings = (finding for finding in window.findings if finding.column in alarm_columns)
    return frozenset(finding.column for finding in findings if compute_bound_ratio(finding, policy) >= policy.end_below)


def _find_new_alarms(recent_breaches: Sequence[Breaches], policy: Policy) -> frozenset[str]:
    """Find the columns with a breach in the newest window and in at least `policy.at_least` of the recent windows.

    Return no columns if the weights of these columns add up to less than `policy.min_weight`.
    """
    newest_breaches = recent_breaches[-1]
    lasting_columns = frozenset(
        column for column in newest_breaches if _count_breaches(column, recent_breaches) >= policy.at_least
    )
    return (
        lasting_columns
        if sum(newest_breaches[column].weight for column in lasting_columns) >= policy.min_weight
        else frozenset()
    )


def _count_breaches(column: str, recent_breaches: Sequence[Breaches]) -> int:
    return sum(column in breaches for breaches in recent_breaches)


def _make_decision(
    window: WindowResult, alarm_columns: frozenset[str], recent_breaches: Sequence[Breaches], policy: Policy
) -> Decision:
    if not alarm_columns:
        return Decision(window.day, "none", _explain_no_alarm(window, recent_breaches, policy), ())
    findings = sorted(
        (_find_largest_finding(window, column, policy) for column in alarm_columns),
        key=lambda finding: (-compute_bound_ratio(finding, policy), finding.column),
    )
    reasons = tuple(
        _explain_alarm(finding, _count_breaches(finding.column, recent_breaches), len(recent_breaches), policy)
        for finding in findings
    )
    return Decision(window.day, "drift", reasons, tuple(finding.column for finding in findings))


def _explain_no_alarm(window: WindowResult, recent_breaches: Sequence[Breaches], policy: Policy) -> tuple[str, ...]:
    breaches = recent_breaches[-1]
    if breaches:
        columns = sorted(breaches, key=lambda column: (-compute_bound_ratio(breaches[column], policy), column))
        reasons = tuple(_explain_breach(column, recent_breaches, policy) for column in columns[:MAX_EXPLAINED])
        return (f"{_format_subject(breaches)} significantly over the bound, which is no alarm yet", *reasons)
    large_columns = {finding.column for finding in window.findings if compute_bound_ratio(finding, policy) >= 1}
    return _explain_insignificant_effects(window, large_columns, policy) if large_columns else (NO_DRIFT,)


def _explain_insignificant_effects(window: WindowResult, columns: Collection[str], policy: Policy) -> tuple[str, ...]:
    """Explain that effects of these columns reach their bounds, but not significantly.

    The column furthest over its bound comes first.
    """
    adjusted_p_values = _adjust_findings(window, policy)
    findings = sorted(
        (_find_largest_finding(window, column, policy) for column in columns),
        key=lambda finding: (-compute_bound_ratio(finding, policy), finding.column),
    )
    reasons = [
        f"{finding.column}: {_describe_effect(finding, policy)}, adjusted p = {adjusted_p_values[finding]:.2g}"
        if finding in adjusted_p_values
        else f"{finding.column}: {_describe_effect(finding, policy)}, not tested"
        for finding in findings[:MAX_EXPLAINED]
    ]
    if len(findings) > MAX_EXPLAINED:
        reasons.append(f"and {len(findings) - MAX_EXPLAINED} more, in the table of findings")
    return (f"{_format_subject(columns)} over the bound, but not significantly: it may be chance", *reasons)


def _explain_breach(column: str, recent_breaches: Sequence[Breaches], policy: Policy) -> str:
    """Explain why the breach of a column in the newest window is not an alarm, and what would make it one."""
    newest_breaches = recent_breaches[-1]
    count = _count_breaches(column, recent_breaches)
    effect = f"{column}: {_describe_effect(newest_breaches[column], policy)}"
    if count < policy.at_least:
        return f"{effect}; in {count} of the last {policy.of_last} windows, and an alarm needs {policy.at_least}"
    lasting_names = [name for name in newest_breaches if _count_breaches(name, recent_breaches) >= policy.at_least]
    weight = sum(newest_breaches[name].weight for name in lasting_names)
    return (
        f"{effect}; the columns over the bound in enough windows have the total importance {weight:.2g}, and an alarm "
        f"needs {policy.min_weight:g}"
    )


def _describe_effect(finding: Finding, policy: Policy) -> str:
    p_value = "" if finding.p_value is None else f", p = {finding.p_value:.2g}"
    return f"{finding.measure} {finding.effect:.4g}, bound {get_bound(finding, policy):.4g}{p_value}"


def _format_subject(columns: Collection[str]) -> str:
    return "1 column is" if len(columns) == 1 else f"{len(columns)} columns are"


def _find_largest_finding(window: WindowResult, column: str, policy: Policy) -> Finding:
    """Return the finding of a column whose effect is largest relative to its bound."""
    findings = (finding for finding in window.findings if finding.column == column)
    return max(findings, key=lambda finding: compute_bound_ratio(finding, policy))


def _explain_alarm(finding: Finding, breach_count: int, window_count: int, policy: Policy) -> str:
    if finding.measure == "missing_column":
        return f"{finding.column}: {finding.note}"
    breach_summary = f"significantly over the bound in {breach_count} of {window_count} windows"
    status = (
        breach_summary
        if compute_bound_ratio(finding, policy) >= 1
        else "below the bound, but not far enough to end the alarm"
    )
    return f"{finding.column}: {_describe_effect(finding, policy)}; {status}"
