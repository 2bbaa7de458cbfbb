"""Compute whether a flight was on time, late or cancelled, as an ibis expression."""

from __future__ import annotations

import ibis

from pipelines.datasets.flights.source import LATE_MINUTES


def label(rows: ibis.Table) -> ibis.Column:
    """Return `cancelled`, `late` or `on_time` for each flight; null while no flight of its day has arrived.

    A flight without a departure time was cancelled. A flight that departed and did not reach its destination (it was
    diverted: 0.3 %) counts as late. The times are also missing before a flight departs. So a day without any arrival
    has no labels.
    """
    has_arrival = rows.arr_time.notnull().any().over(group_by=rows.date)
    is_late = rows.arr_delay.isnull() | (rows.arr_delay > LATE_MINUTES)
    return ibis.cases(
        (~has_arrival, ibis.null("string")),
        (rows.dep_time.isnull(), "cancelled"),
        (is_late, "late"),
        else_="on_time",
    )
