"""Compute which costs the stated commitments cover, hour by hour, and which part of a commitment is not used.

The rules are those of AWS: Savings Plans user guide, "Understanding how Savings Plans apply to your AWS usage",
https://docs.aws.amazon.com/savingsplans/latest/userguide/sp-applying.html.

- A commitment is per hour. Usage is charged against it at the plan's rates; the rest of the usage is paid on demand.
- A commitment covers first the usage with the highest saving in percent. Of usage with equal savings, it covers first
  that with the lowest rate of the plan.
- It never covers spot instances or serverless endpoints. The part of it that an hour does not use is lost.

AWS says nothing about jobs or endpoints with the same saving and the same rate: here, the same share of each is
covered. AWS applies all commitments of an account together; here, the oldest is used first, which gives the same sums
for equal terms.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from pipelines.costs.budgets import TOLERANCE_USD
from pipelines.costs.commitments.hours import HOUR, can_be_covered, spread_row
from pipelines.costs.commitments.stated import StatedCommitment
from pipelines.costs.daily.days import get_day

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
"""Hours are numbered from this moment on."""

Row = Mapping[str, Any]
FindSaving = Callable[[StatedCommitment, Row], float | None]
"""Function that returns the share by which a plan reduces the cost of a row, above 0 and below 1; None: not known."""


class UncoveredUse(NamedTuple):
    """The part of a row's usage in an hour that is not covered yet."""

    row: int
    """Index of the row in the list of all rows."""
    usd: float
    """Cost on demand, USD."""
    saving: float
    """Share by which the plan is cheaper than on demand, above 0 and below 1."""
    rate_usd_h: float
    """Rate of the plan for an instance, USD an hour."""

    @property
    def plan_usd(self) -> float:
        """Cost at the plan's rate, USD."""
        return self.usd * (1 - self.saving)


@dataclass(frozen=True)
class Coverage:
    """What the stated commitments cover.

    Attributes:
        reserved_usd: for each row, the part of its cost on demand that the commitments cover, USD. None means
            that the part is not known: a commitment could cover usage that older commitments leave, but its saving on
            the row is not known.
        committed_usd: maps each month, YYYY-MM, to the sum of the commitments of its hours up to yesterday, USD.
        unused_usd: maps each month to the part of this sum that was not used, USD.
    """

    reserved_usd: Sequence[float | None]
    committed_usd: Mapping[str, float]
    unused_usd: Mapping[str, float]


def cover_costs(
    rows: Sequence[Row], commitments: Sequence[StatedCommitment], find_saving: FindSaving, now: dt.datetime
) -> Coverage:
    """Compute which part of each row the commitments cover, and which part of the commitments is not used.

    The cost of a row is spread evenly over its time. The commitments and their unused part are summed over whole days,
    UTC, from the first day in the ledgers up to yesterday. Today is left out, because jobs that still run are not in
    the ledger.

    Args:
        rows: all rows of both ledgers, because a plan covers the whole account. `check_rows` has accepted them.
        commitments: the stated commitments.
        find_saving: finds the saving of a commitment on a row.
        now: the current moment.
    """
    uncovered_usd = _spread_rows(rows)
    covered_usd = [0.0] * len(rows)
    unknown_rows: set[int] = set()
    committed_usd: dict[str, float] = defaultdict(float)
    unused_usd: dict[str, float] = defaultdict(float)
    today = now.astimezone(dt.UTC).date()
    first_day = min(map(get_day, rows), default=today)
    for commitment in sorted(commitments, key=lambda item: item.begin):
        savings = _find_savings(rows, commitment, find_saving)
        used_usd = {}
        for hour in _list_hours(commitment, uncovered_usd):
            unknown_rows |= {
                index for index, usd in uncovered_usd[hour].items() if index not in savings and usd > TOLERANCE_USD
            }
            used_usd[hour] = _apply_to_hour(commitment, uncovered_usd[hour], savings, covered_usd)
        for hour in _get_hour_range(max(commitment.begin, first_day), min(commitment.end, today)):
            month = f"{EPOCH + hour * HOUR:%Y-%m}"
            committed_usd[month] += commitment.usd_h
            unused_usd[month] += commitment.usd_h - used_usd.get(hour, 0.0)
    reserved_usd = [None if index in unknown_rows else usd for index, usd in enumerate(covered_usd)]
    return Coverage(reserved_usd, committed_usd, unused_usd)


def cover_hour(uses: Sequence[UncoveredUse], usd_h: float) -> tuple[dict[int, float], float]:
    """Apply a commitment to the usage of an hour.

    Args:
        uses: usage that the plan covers.
        usd_h: commitment of the hour, USD.

    Returns:
        The covered cost on demand of each row, USD, by its index; and the used part of the commitment, USD.
    """

    def get_order(use: UncoveredUse) -> tuple[float, float]:
        return -use.saving, use.rate_usd_h

    covered_usd: dict[int, float] = {}
    left_usd = usd_h
    for _, group in groupby(sorted(uses, key=get_order), get_order):
        equal_uses = list(group)
        plan_usd = sum(use.plan_usd for use in equal_uses)
        share = min(left_usd / plan_usd, 1.0) if plan_usd else 0.0
        covered_usd |= {use.row: share * use.usd for use in equal_uses}
        left_usd -= share * plan_usd
    return covered_usd, usd_h - left_usd


def _find_savings(
    rows: Sequence[Row], commitment: StatedCommitment, find_saving: FindSaving
) -> dict[int, tuple[float, float]]:
    """Map each row that the plan covers to its saving and its rate, USD an hour, if the saving is known."""
    savings = ((index, row, find_saving(commitment, row)) for index, row in enumerate(rows) if can_be_covered(row))
    return {
        index: (saving, (1 - saving) * (row["price_usd_h"] or 0.0))
        for index, row, saving in savings
        if saving is not None
    }


def _spread_rows(rows: Sequence[Row]) -> dict[int, dict[int, float]]:
    """Map each hour to the rows that plans can cover, by index, and each row to its cost in this hour, USD."""
    hours: dict[int, dict[int, float]] = {}
    for index, row in enumerate(rows):
        if can_be_covered(row):
            for hour, usd in spread_row(row, EPOCH):
                hours.setdefault(hour, {})[index] = usd
    return hours


def _apply_to_hour(
    commitment: StatedCommitment,
    uncovered_usd: dict[int, float],
    savings: Mapping[int, tuple[float, float]],
    covered_usd: list[float],
) -> float:
    """Move what a commitment covers in an hour from `uncovered_usd` to `covered_usd`; return its used part, USD."""
    uses = [UncoveredUse(index, usd, *savings[index]) for index, usd in uncovered_usd.items() if index in savings]
    covered, used_usd = cover_hour(uses, commitment.usd_h)
    for index, usd in covered.items():
        covered_usd[index] += usd
        uncovered_usd[index] -= usd
    return used_usd


def _list_hours(commitment: StatedCommitment, hours: Iterable[int]) -> list[int]:
    """Return the hours that are in the term of a commitment."""
    term = _get_hour_range(commitment.begin, commitment.end)
    return [hour for hour in hours if hour in term]


def _get_hour_range(begin: dt.date, end: dt.date) -> range:
    """Return the numbers of the hours of the days from `begin` to `end`, UTC; `end` is excluded."""
    return range(*((dt.datetime.combine(day, dt.time(), dt.UTC) - EPOCH) // HOUR for day in (begin, end)))
