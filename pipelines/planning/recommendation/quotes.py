"""Read the quotes of instance types in a region: prices on demand and on spot, waits, and interruptions."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from pipelines.costs.charges import HOUR_S, Price
from pipelines.costs.price_sources.price_tables import PlanTerm
from pipelines.costs.prices import find_region_prices
from pipelines.planning.recommendation.past_jobs import Row, has_figures, read_figure

MIN_HOURS = 1.0
"""Smallest number of instance hours on spot from which the rate of interruptions is estimated."""


@dataclass(frozen=True)
class Quote:
    """The prices of an instance type in a region. A value that is not known is None.

    Attributes:
        price: on-demand price.
        spot_saving: share, 0 to 1, by which spot is cheaper.
        spot_source: where the saving comes from.
        interruptions_per_h: interruptions of an instance in an hour, from the ledger.
        spot_h: instance hours on spot in which the interruptions were counted.
        wait_s: median wait for instances on demand, from the ledger, seconds.
        spot_wait_s: median wait for instances on spot, from the ledger, seconds.
        plans: maps the term of a savings plan to its price.
    """

    price: Price
    spot_saving: float | None = None
    spot_source: str = ""
    interruptions_per_h: float | None = None
    spot_h: float = 0.0
    wait_s: float | None = None
    spot_wait_s: float | None = None
    plans: Mapping[PlanTerm, Price] = field(default_factory=dict)


def read_quotes(region: str, as_of: dt.date | None, rows: Sequence[Row]) -> dict[str, Quote]:
    """Read the quotes of a region. Prices come from the tables, or from AWS with LEEWAY_PRICES=api.

    Waits and interruptions come from the ledger. So does the saving by spot that past jobs reached; without past
    spot jobs, the saving comes from the tables.

    Args:
        region: AWS region.
        as_of: use only tables of this day or earlier; None: all tables.
        rows: rows of the ledger.

    Returns:
        Each instance type with its quote. A type without a price is missing.

    Raises:
        InvalidError: a table is not valid, or AWS denies access. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    prices = find_region_prices(region, as_of)
    rows_by_type: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["region"] == region:
            rows_by_type[row["instance_type"]].append(row)
    return {
        name: build_quote(
            price,
            rows_by_type[name],
            prices.spot_savings.get(name),
            {term: plans[name] for term, plans in prices.plans.items() if name in plans},
        )
        for name, price in prices.on_demand.items()
    }


def build_quote(
    price: Price, rows: Sequence[Row], table_saving: float | None, plans: Mapping[PlanTerm, Price]
) -> Quote:
    """Build the quote of an instance type from its price, its rows of the ledger, and the saving of the tables."""
    spot_rows = [row for row in rows if row["spot"] and has_figures(row) and row["on_demand_usd"]]
    ledger_saving = None
    if spot_rows:
        ledger_saving = 1 - sum(row["cost_usd"] for row in spot_rows) / sum(row["on_demand_usd"] for row in spot_rows)
    hours = sum(row["training_s"] * row["instance_count"] for row in spot_rows) / HOUR_S
    saving = table_saving if ledger_saving is None else min(max(0.0, ledger_saving), 0.99)
    table_source = "tables of prices" if table_saving is not None else ""
    return Quote(
        price=price,
        spot_saving=saving,
        spot_source=f"{len(spot_rows)} past spot job(s)" if ledger_saving is not None else table_source,
        interruptions_per_h=sum(row["interruptions"] for row in spot_rows) / hours if hours >= MIN_HOURS else None,
        spot_h=hours,
        wait_s=_find_wait_s(rows, is_spot=False),
        spot_wait_s=_find_wait_s(rows, is_spot=True),
        plans=plans,
    )


def _find_wait_s(rows: Sequence[Row], is_spot: bool) -> float | None:
    """Return the median wait for instances on spot, or on demand; None if no row has it. The two are never mixed."""
    waits = [read_figure(row, "first_capacity_s") for row in rows if row["spot"] is is_spot]
    known_waits = [wait_s for wait_s in waits if wait_s is not None]
    return median(known_waits) if known_waits else None
