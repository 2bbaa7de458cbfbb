"""Compute the cost of running endpoints until the end of a month."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.costs.endpoints.fleets import HOUR_S, Fleet
from pipelines.costs.endpoints.ledger import get_fleet, get_key


@dataclass(frozen=True)
class RunningFleet:
    """A fleet that was running according to its last row in the ledger or, if it has no row, to its deployment."""

    fleet: Fleet
    since: dt.datetime
    """End of the fleet's last row in the ledger; start of the fleet if it has no row yet."""
    usd_h: float
    """Cost of an hour of all instances, USD. For a serverless variant: its average cost of an hour so far or,
    before its first metering, the cost with its expected load."""

    def compute_cost_usd(self, month: str, until: dt.datetime | None = None) -> float:
        """Compute the cost, USD, of the part of a month that is not in the ledger yet, if the fleet does not change.

        Args:
            month: the month, YYYY-MM.
            until: end of the part; None: the end of the month.
        """
        begin, end = get_month_bounds(month)
        hours = (min(end, until or end) - max(begin, self.since)).total_seconds() / HOUR_S
        return max(0.0, hours) * self.usd_h


def list_metered_fleets(rows: Iterable[Mapping[str, Any]]) -> list[RunningFleet]:
    """List the fleets that ran when they were last metered.

    Args:
        rows: rows of the ledger; the last row of each fleet comes after its other rows.
    """
    rows_by_key: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        rows_by_key.setdefault(get_key(row), []).append(row)
    return [
        RunningFleet(get_fleet(fleet_rows[-1]), fleet_rows[-1]["end"], _estimate_usd_h(fleet_rows))
        for fleet_rows in rows_by_key.values()
        if fleet_rows[-1]["running"]
    ]


def get_month_bounds(month: str) -> tuple[dt.datetime, dt.datetime]:
    """Return the start of a month (YYYY-MM) and the start of the month after it, UTC."""
    begin = dt.datetime.fromisoformat(f"{month}-01").replace(tzinfo=dt.UTC)
    return begin, (begin + dt.timedelta(days=32)).replace(day=1)


def _estimate_usd_h(rows: list[Mapping[str, Any]]) -> float:
    """Return the cost of an hour, USD: of all instances now or, for a serverless variant, the average so far."""
    last_row = rows[-1]
    if not last_row["memory_mb"]:
        return float(last_row["instances"] * last_row["price_usd_h"])
    hours = sum((row["end"] - row["begin"]).total_seconds() for row in rows) / HOUR_S
    return sum(row["cost_usd"] for row in rows) / hours if hours else 0.0
