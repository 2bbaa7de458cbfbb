"""Compute the features of a flight that are known before its departure, as one ibis expression."""

from __future__ import annotations

import ibis


def features(rows: ibis.Table) -> ibis.Table:
    """Add the columns of `DATASET.features` to `rows`, which lack the columns of `DATASET.known_later`.

    `departs_hour` is added, too, because it is in the key of the lookup. All features come from the timetable, the
    register of planes, or the weather report of the hour of departure.
    """
    departs_hour = rows.sched_dep_time // 100
    same_hour = ibis.window(group_by=[rows.date, rows.origin, departs_hour])
    return rows.mutate(
        departs_hour=departs_hour,
        weekday=rows.date.day_of_week.index(),
        departs_minute=_compute_minute_of_day(rows.sched_dep_time),
        arrives_minute=_compute_minute_of_day(rows.sched_arr_time),
        departures_hour=rows.count().over(same_hour),
        plane_age=rows.date.year() - rows.plane_year,
    )


def _compute_minute_of_day(clock_time: ibis.expr.types.IntegerColumn) -> ibis.expr.types.IntegerColumn:
    """Return the minutes since midnight of a clock time written as HHMM."""
    return (clock_time // 100) * 60 + clock_time % 100
