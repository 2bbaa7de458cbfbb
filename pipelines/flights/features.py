"""From published rows to what a model may know before departure, as one ibis expression."""

from __future__ import annotations

import ibis

from pipelines.flights import DATASET


def features(rows: ibis.Table) -> ibis.Table:
    """One row for each of `rows`: the key and the columns of `DATASET.features`, in that order.

    All of it is in the timetable, the fleet's register or the weather report of the departure's hour. The columns of
    `DATASET.later_known` are dropped first, so that an expression that uses one does not even compile.
    """
    known = rows.drop(*DATASET.later_known)
    hour = ibis.window(group_by=[known.date, known.origin, known.sched_dep_time // 100])
    built = known.mutate(
        weekday=known.date.day_of_week.index(),
        departs_minute=_minute_of_day(known.sched_dep_time),
        arrives_minute=_minute_of_day(known.sched_arr_time),
        departures_hour=known.count().over(hour),
        plane_age=known.date.year() - known.plane_year,
    )
    columns = [
        built[name].cast("float64").name(name) if kind == "number" else built[name]
        for name, kind in DATASET.features.items()
        if name not in DATASET.key
    ]
    return built.select(*DATASET.key, *columns)


def _minute_of_day(clock: ibis.expr.types.IntegerColumn) -> ibis.expr.types.IntegerColumn:
    """Minutes since midnight of a clock time written as HHMM."""
    return (clock // 100) * 60 + clock % 100
