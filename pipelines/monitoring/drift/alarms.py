"""Decide whether the findings of the windows up to a day are an alarm.

A pure function of these windows: a backfill decides as the daily runs did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from pipelines.monitoring.drift.finding import Decisive, Finding, WindowResult
from pipelines.monitoring.drift.policy import Policy

Outcome = Literal["drift", "none", "undecided"]
Breaches = dict[str, Finding]
"""Column to its finding that is furthest over its bound."""


@dataclass(frozen=True)
class Decision:
    """The decision on a day."""

    day: str
    outcome: Outcome
    """drift; none; undecided: there are too few rows to decide."""
    reasons: tuple[str, ...]
    """Why, one sentence for each column."""
    worst: tuple[str, ...]
    """Columns that drifted; the one furthest over its bound comes first."""

    @property
    def is_drift(self) -> bool:
        """Whether there is an alarm."""
        return self.outcome == "drift"


def decide(history: Sequence[WindowResult], policy: Policy) -> Decision:
    """Decide on the day of the last window.

    Args:
        history: windows since the reference was made, oldest first. Only windows up to the day may be in it.
        policy: when drift is an alarm.
    """
    decision = Decision("", "undecided", ("there are no windows",), ())
    for decision in decide_each(history, policy):  # noqa: B007
        pass
    return decision


def decide_each(history: Sequence[WindowResult], policy: Policy) -> Iterator[Decision]:
    """Decide on the day of each window, in order: the n-th decision is `decide` of the first n windows."""
    recent: deque[Breaches] = deque(maxlen=policy.of_last)
    alarmed: frozenset[str] = frozenset()
    for window in history:
        if window.rows < policy.min_rows:
            reason = f"{window.rows} rows, fewer than the {policy.min_rows} that decide"
            yield Decision(window.day, "undecided", (reason,), ())
            continue
        recent.append(find_breaches(window, policy))
        alarmed = _find_continued_alarms(window, alarmed, policy) | _find_new_alarms(recent, policy)
        yield _make_decision(window, alarmed, recent, policy)


def find_breaches(window: WindowResult, policy: Policy) -> Breaches:
    """Find the columns with an effect over its bound that is significant, corrected for all tests of the window."""
    findings = [finding for finding in window.findings if _is_testable(finding, policy)]
    adjusted = adjust_p_values([finding.p_value or 0.0 for finding in findings])
    breaches: Breaches = {}
    for finding, p_value in zip(findings, adjusted, strict=True):
        over = compute_excess(finding, policy)
        if over >= 1 and p_value <= policy.alpha and over > compute_excess(breaches.get(finding.column), policy):
            breaches[finding.column] = finding
    return breaches


def get_bound(finding: Finding, policy: Policy) -> float | None:
    """Return the least effect that matters; None where the measure decides nothing.

    A column that vanished has the largest effect, 1, and that is its bound.
    """
    return 1.0 if finding.measure == "vanished" else policy.bounds.get(cast(Decisive, finding.measure))


def compute_excess(finding: Finding | None, policy: Policy) -> float:
    """Return the effect divided by its bound: 1 and more matters; 0 where nothing was measured."""
    least = get_bound(finding, policy) if finding else None
    return finding.effect / least if finding and finding.effect is not None and least else 0.0


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values for their number, by Benjamini & Hochberg (1995), JRSS B 57; reject those up to alpha.

    This controls the false discovery rate. Where nothing drifts, the chance of any false finding is at most alpha
    (Simes 1986), for positively dependent tests too (Benjamini & Yekutieli 2001).
    """
    from scipy.stats import false_discovery_control  # loading scipy takes longer than all decisions of a year

    return [float(p_value) for p_value in false_discovery_control(p_values)] if p_values else []


def _is_testable(finding: Finding, policy: Policy) -> bool:
    return finding.effect is not None and finding.p_value is not None and get_bound(finding, policy) is not None


def _find_continued_alarms(window: WindowResult, alarmed: frozenset[str], policy: Policy) -> frozenset[str]:
    """Keep the alarms whose effect is not yet below the release bound (hysteresis)."""
    findings = (finding for finding in window.findings if finding.column in alarmed)
    return frozenset(finding.column for finding in findings if compute_excess(finding, policy) >= policy.release)


def _find_new_alarms(recent: Sequence[Breaches], policy: Policy) -> frozenset[str]:
    """Find the columns that breach now, did so often enough before, and are important enough together."""
    now = recent[-1]
    lasting = frozenset(column for column in now if _count_breaches(column, recent) >= policy.at_least)
    return lasting if sum(now[column].weight for column in lasting) >= policy.min_weight else frozenset()


def _count_breaches(column: str, recent: Sequence[Breaches]) -> int:
    return sum(column in breaches for breaches in recent)


def _make_decision(
    window: WindowResult, alarmed: frozenset[str], recent: Sequence[Breaches], policy: Policy
) -> Decision:
    if not alarmed:
        return Decision(window.day, "none", (_explain_no_alarm(window, recent[-1], policy),), ())
    worst = sorted(
        (_find_largest_finding(window, column, policy) for column in alarmed),
        key=lambda finding: (-compute_excess(finding, policy), finding.column),
    )
    reasons = tuple(
        _explain_alarm(finding, _count_breaches(finding.column, recent), len(recent), policy) for finding in worst
    )
    return Decision(window.day, "drift", reasons, tuple(finding.column for finding in worst))


def _explain_no_alarm(window: WindowResult, breaches: Breaches, policy: Policy) -> str:
    if breaches:
        number = _format_number(breaches)
        return f"{number} significantly over the bound, but not for long enough or not important enough"
    large = {finding.column for finding in window.findings if compute_excess(finding, policy) >= 1}
    return f"{_format_number(large)} over the bound, but not significantly" if large else "nothing drifted"


def _format_number(columns: Collection[str]) -> str:
    return "1 column is" if len(columns) == 1 else f"{len(columns)} columns are"


def _find_largest_finding(window: WindowResult, column: str, policy: Policy) -> Finding:
    findings = (finding for finding in window.findings if finding.column == column)
    return max(findings, key=lambda finding: compute_excess(finding, policy))


def _explain_alarm(finding: Finding, times: int, windows: int, policy: Policy) -> str:
    if finding.measure == "vanished":
        return f"{finding.column}: {finding.note}"
    p_value = "" if finding.p_value is None else f", p = {finding.p_value:.2g}"
    over = f"significantly over it in {times} of {windows} windows"
    lasting = over if compute_excess(finding, policy) >= 1 else "not yet far enough below it to end the alarm"
    effect = f"{finding.measure} {finding.effect:.4g}, bound {get_bound(finding, policy):.4g}{p_value}"
    return f"{finding.column}: {effect}; {lasting}"
