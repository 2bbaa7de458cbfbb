"""From findings to a decision: a pure function of the windows up to a day, so a backfill decides as daily runs did."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from pipelines.monitoring.drift.finding import Decisive, Finding, WindowResult
from pipelines.monitoring.drift.policy import Policy

Outcome = Literal["drift", "none", "undecided"]
Breaches = dict[str, Finding]
"""By column, its finding that is furthest over its bound."""


@dataclass(frozen=True)
class Decision:
    """What a day's windows say."""

    day: str
    outcome: Outcome
    """drift; none; undecided: there are too few rows to say."""
    reasons: tuple[str, ...]
    """The same in words, a line a column."""
    worst: tuple[str, ...]
    """Columns that drifted, the one furthest over its bound first."""

    @property
    def drifted(self) -> bool:
        """Whether there is an alarm."""
        return self.outcome == "drift"


def decide(history: Sequence[WindowResult], policy: Policy) -> Decision:
    """The decision of the last window's day.

    Args:
        history: oldest first, since the reference was made; of these, only windows up to the day.
        policy: when drift is an alarm.
    """
    last = Decision("", "undecided", ("there are no windows",), ())
    for last in decisions(history, policy):  # noqa: B007
        pass
    return last


def decisions(history: Sequence[WindowResult], policy: Policy) -> Iterator[Decision]:
    """The decision of each window's day, in order: the n-th is `decide` of the first n."""
    recent: deque[Breaches] = deque(maxlen=policy.of_last)
    alarmed: frozenset[str] = frozenset()
    for window in history:
        if window.rows < policy.min_rows:
            few = f"{window.rows} rows, fewer than the {policy.min_rows} that decide"
            yield Decision(window.day, "undecided", (few,), ())
            continue
        recent.append(breaches(window, policy))
        alarmed = _held(window, alarmed, policy) | _raised(window, recent, policy)
        yield _told(window, alarmed, recent, policy)


def breaches(window: WindowResult, policy: Policy) -> Breaches:
    """Columns with an effect over its bound that is also significant after correction for all tests of the window."""
    judged = [
        one for one in window.findings if one.effect is not None and one.p_value is not None and bound(one, policy)
    ]
    adjusted = benjamini_hochberg([one.p_value or 0.0 for one in judged])
    found: Breaches = {}
    for one, p_value in zip(judged, adjusted, strict=True):
        over = excess(one, policy)
        if over >= 1 and p_value <= policy.alpha and over > excess(found.get(one.column), policy):
            found[one.column] = one
    return found


def bound(finding: Finding, policy: Policy) -> float | None:
    """Least effect that matters; None: the measure decides nothing. A column that is gone is as far away as can be."""
    return 1.0 if finding.measure == "vanished" else policy.bounds.get(cast(Decisive, finding.measure))


def excess(finding: Finding | None, policy: Policy) -> float:
    """The effect in bounds: from 1 on it matters; 0 where nothing was measured."""
    least = bound(finding, policy) if finding else None
    return finding.effect / least if finding and finding.effect is not None and least else 0.0


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for their number, in their order: refuse those at most alpha.

    Benjamini & Hochberg (1995), JRSS B 57: the false discovery rate; where nothing drifts at all, the chance of any
    false finding is at most alpha (Simes 1986), also of positively related tests (Benjamini & Yekutieli 2001).
    """
    number, least = len(p_values), 1.0
    adjusted = [1.0] * number
    for rank, place in reversed(list(enumerate(sorted(range(number), key=p_values.__getitem__), start=1))):
        least = min(least, p_values[place] * number / rank)
        adjusted[place] = least
    return adjusted


def _held(window: WindowResult, alarmed: frozenset[str], policy: Policy) -> frozenset[str]:
    """Of the alarmed columns, those whose effect has not gone below the lower bound."""
    return frozenset(
        one.column for one in window.findings if one.column in alarmed and excess(one, policy) >= policy.release
    )


def _raised(window: WindowResult, recent: Sequence[Breaches], policy: Policy) -> frozenset[str]:
    """Columns that breach now and often enough before, if they are important enough together."""
    now = recent[-1]
    lasting = frozenset(name for name in now if _times(name, recent) >= policy.at_least)
    return lasting if sum(now[name].weight for name in lasting) >= policy.min_weight else frozenset()


def _times(column: str, recent: Sequence[Breaches]) -> int:
    return sum(column in one for one in recent)


def _told(window: WindowResult, alarmed: frozenset[str], recent: Sequence[Breaches], policy: Policy) -> Decision:
    if not alarmed:
        return Decision(window.day, "none", (_calm(window, recent[-1], policy),), ())
    worst = sorted(
        (_furthest(window, name, policy) for name in alarmed), key=lambda one: (-excess(one, policy), one.column)
    )
    reasons = tuple(_words(one, _times(one.column, recent), len(recent), policy) for one in worst)
    return Decision(window.day, "drift", reasons, tuple(one.column for one in worst))


def _calm(window: WindowResult, breached: Breaches, policy: Policy) -> str:
    """Why there is no alarm: a large effect may be a week's weather, and a sure one may pass or not matter."""
    if breached:
        return f"{len(breached)} columns surely over their bounds, none lasting and important enough"
    large = {one.column for one in window.findings if excess(one, policy) >= 1}
    return f"{len(large)} columns over their bounds, none of them surely" if large else "nothing drifted"


def _furthest(window: WindowResult, column: str, policy: Policy) -> Finding:
    return max((one for one in window.findings if one.column == column), key=lambda one: excess(one, policy))


def _words(one: Finding, times: int, of: int, policy: Policy) -> str:
    if one.measure == "vanished":
        return f"{one.column}: {one.note}"
    p_value = "" if one.p_value is None else f", p = {one.p_value:.2g}"
    over = f"surely over it in {times} of {of} windows"
    lasting = over if excess(one, policy) >= 1 else "not yet far enough below to end it"
    return f"{one.column}: {one.measure} {one.effect:.4g}, bound {bound(one, policy):.4g}{p_value}; {lasting}"
