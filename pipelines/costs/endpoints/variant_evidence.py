"""Collect what is known of the utilization of an endpoint's variant since it got its present instances."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.costs.charges import format_usd
from pipelines.costs.endpoints.fleets import Fleet
from pipelines.costs.endpoints.ledger import OBSERVED_COLUMN
from pipelines.costs.endpoints.use import compute_mean_use, get_hours
from pipelines.costs.usage.task_jobs import MIN_DAYS, YEAR_DAYS
from pipelines.instances.catalogue import Size

PERIOD_DAYS = 30
"""Number of days whose rows are evidence."""
MIN_OBSERVED_H = 24 * MIN_DAYS
"""Number of hours for which the utilization must be known: a week, because most endpoints' load differs by weekday."""
COUNT_TOLERANCE = 0.01
"""Largest difference of a row's mean number of instances from the present number, as a share of the present number."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class VariantEvidence:
    """The utilization of a variant that runs, and its cost."""

    fleet: Fleet
    """The fleet that runs now."""
    size: Size
    """Size of its instance type."""
    rows: Sequence[Row]
    """Rows of the ledger with the present instances, oldest first, without rows whose period has no length."""

    @property
    def resources(self) -> tuple[str, ...]:
        """Resources whose utilization must be known."""
        return ("cpu", "memory", "gpu") if self.size.gpus else ("cpu", "memory")

    @property
    def known_rows(self) -> list[Row]:
        """Rows in which the utilization of all `resources` is known."""
        names = [f"{resource}_{name}" for resource in self.resources for name in ("peak", "mean")]
        return [
            row
            for row in self.rows
            if row[OBSERVED_COLUMN] and row["instance_h"] and None not in [row[name] for name in names]
        ]

    @property
    def unknown_resources(self) -> list[str]:
        """Resources of which CloudWatch had no value in any row, although instances ran for an hour or more."""
        read_rows = [row for row in self.rows if row[OBSERVED_COLUMN] is not None]
        if sum(row["instance_h"] for row in read_rows) < 1:
            return []
        return [name for name in self.resources if all(row[f"{name}_mean"] is None for row in read_rows)]

    @property
    def observed_h(self) -> float:
        """Hours in which the utilization is known."""
        return float(sum(row[OBSERVED_COLUMN] for row in self.known_rows))

    @property
    def count(self) -> int:
        """Number of instances at the end of the last row; 0 if there are no rows."""
        return int(self.rows[-1]["instances"]) if self.rows else 0

    @property
    def mean_count(self) -> float:
        """Mean number of instances over all rows, of which there must be one at least."""
        return float(sum(row["instance_h"] for row in self.rows)) / self.hours

    @property
    def hours(self) -> float:
        """Hours of all rows."""
        return sum(get_hours(row) for row in self.rows)

    @property
    def cost_usd(self) -> float:
        """Cost of all rows, USD."""
        return float(sum(row["cost_usd"] for row in self.rows))

    @property
    def is_scaled(self) -> bool | None:
        """Whether the number of instances is scaled automatically; None if it is not known."""
        return self.rows[-1]["scaled"] if self.rows else None

    @property
    def has_no_requests(self) -> bool:
        """Whether all rows are known to have no request; true if there are no rows."""
        return all(row["requests"] == 0 for row in self.rows)

    def find_peak(self, name: str) -> float | None:
        """Return the highest utilization of a resource in `known_rows`, percent.

        Return None if one of these rows lacks it, or if there is no known row.
        """
        peaks = [row[f"{name}_peak"] for row in self.known_rows]
        return None if None in peaks else max(peaks, default=None)

    def compute_mean(self, name: str) -> float:
        """Compute the mean utilization of a resource of `resources`, percent; 0 if there is no known row."""
        return compute_mean_use(self.known_rows, name) or 0.0

    def describe(self) -> str:
        """Describe the variant as the subject of a sentence."""
        has_fixed_count = self.rows and not self.is_scaled
        instances = f"{self.count} x {self.fleet.instance_type}" if has_fixed_count else self.fleet.instance_type
        ending = ", scaled automatically" if self.is_scaled else ""
        return f"Endpoint {self.fleet.endpoint} (variant {self.fleet.variant}, {instances}{ending})"

    def describe_observation(self) -> str:
        """Describe the hours of observation and the number of requests in them: "240 h observed from ... to ..."."""
        known_rows = self.known_rows
        counts = [row["requests"] for row in known_rows]
        requests = "an unknown number of" if None in counts else f"{sum(counts):,}"
        days = f"{known_rows[0]['begin']:%Y-%m-%d} to {known_rows[-1]['end']:%Y-%m-%d}"
        return f"{self.observed_h:,.0f} h observed from {days}, {requests} requests"

    def describe_saving(self, share: float) -> str:
        """Describe a share of the cost, from 0 to 1, as a saving in the period of the rows and in a year."""
        return self.describe_amount(share, " less")

    def describe_amount(self, share: float, ending: str = "") -> str:
        """Describe a share of the cost, from 0 to 1: "about 3.00 USD, or 109.50 USD a year".

        Args:
            share: the share.
            ending: text after the amount of the period.
        """
        amount_usd = share * self.cost_usd
        yearly_usd = amount_usd / self.hours * 24 * YEAR_DAYS
        return f"about {format_usd(amount_usd)}{ending}, or {format_usd(yearly_usd)} a year"


def collect_rows(rows: Iterable[Row], fleet: Fleet, now: dt.datetime) -> list[Row]:
    """Return the rows of the last `PERIOD_DAYS` days since a variant got its present instances, oldest first.

    Rows before a change of the instance type are left out. So are rows before a change of the number of instances,
    unless it is scaled automatically: with fewer instances, each has more to do. A release alone leaves out no row.

    Args:
        rows: rows of the ledger of endpoints, oldest first.
        fleet: the fleet that runs now.
        now: the current moment.
    """
    start = now - dt.timedelta(PERIOD_DAYS)
    variant_rows = [
        row
        for row in rows
        if _get_variant(row) == (fleet.region, fleet.endpoint, fleet.variant)
        and row["end"] > start
        and row["begin"] < row["end"]
    ]
    present_rows: list[Row] = []
    for row in reversed(variant_rows):
        newest_row = present_rows[0] if present_rows else row
        if row["instance_type"] != fleet.instance_type or not _has_same_count(row, newest_row):
            break
        present_rows.append(row)
    return present_rows[::-1]


def _has_same_count(row: Row, newest_row: Row) -> bool:
    """Return whether a row had the present number of instances all the time, or this number is scaled automatically."""
    count = newest_row["instances"]
    mean_count = row["instance_h"] / get_hours(row)
    return bool(newest_row["scaled"]) or abs(mean_count - count) <= COUNT_TOLERANCE * count


def _get_variant(row: Row) -> tuple[Any, ...]:
    return row["region"], row["endpoint"], row["variant"]
