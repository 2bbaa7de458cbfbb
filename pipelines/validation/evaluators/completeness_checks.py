"""Make the checks that a partition is complete: it does not shrink, and it does not end early."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from pipelines.dataset import Dataset
from pipelines.lake import DATE_COLUMN
from pipelines.partitions import get_date, get_unit
from pipelines.system.duckdb_session import quote_identifier, quote_text
from pipelines.validation.evaluators import arguments
from pipelines.validation.evaluators.checks import CheckResult, TableCheck
from pipelines.validation.evaluators.day_ends import EarlyEnd, find_early_end
from pipelines.validation.evaluators.rows import VIEW, Rows

BIN_MINUTES = 10
"""Length of a bin, minutes. The rows of a day are counted in bins of the time of day."""
FIRST_HOUR, LAST_HOUR = -24, 48
"""Range of the bins, in hours relative to the start of the partition's day. Earlier rows are counted in the first bin,
later rows in the last."""
BINS = (LAST_HOUR - FIRST_HOUR) * 60 // BIN_MINUTES
"""Number of bins."""
CLOCK_CHANGE_BINS = 60 // BIN_MINUTES
"""Number of bins by which times can differ from those of other days, when daylight saving time begins or ends."""
MAX_DAYS = 14
"""Maximum number of published days to compare with, the nearest ones: for the newest day, those of the two weeks before
it."""
MAX_HISTORY_ROWS = 10_000_000
"""Maximum number of published rows to compare with, so that a validation does not take too long. One day is always
read, even if it has more rows."""
_HISTORY = "leeway_history"
"""Name of the view of the published rows to compare with."""

Counts = dict[tuple[Any, ...], np.ndarray]
"""For each series, the number of rows in each bin. The key has the values of the check's columns `series`; the
empty tuple stands for all rows."""


def make_shrink_check(args: arguments.ShrinkArguments, rows: Rows) -> TableCheck:
    """Make the check that a partition's new rows are no fewer than its published and quarantined rows together.

    With `min_ratio` below 1, this share of them is enough. The check passes if nothing is published yet.
    """

    def compute_result(rows: Rows, _: Any) -> CheckResult:
        if rows.table == rows.published_table:
            return True, {"observed_value": f"{rows.count} rows; they are the published version"}
        published_rows = rows.count_published_rows().get(rows.partition, 0)
        if not published_rows:
            return True, {"observed_value": f"{rows.count} rows; the {get_unit(rows.partition)} is not published yet"}
        quarantined_rows = _count_quarantined_rows(rows, published_rows, args)
        details = {"published": published_rows, "quarantined": quarantined_rows}
        quarantine_text = f" and {quarantined_rows} in quarantine" if quarantined_rows else ""
        observed_text = f"{rows.count} rows; the published version has {published_rows}{quarantine_text}"
        is_enough = rows.count >= args.min_ratio * (published_rows + quarantined_rows)
        return is_enough, {"observed_value": observed_text, "details": details}

    return TableCheck(aggregates=[], compute_result=compute_result)


def _count_quarantined_rows(rows: Rows, published_count: int, args: arguments.ShrinkArguments) -> int:
    """Count the keys of the quarantined rows that are not published; a killed run may have left rows in both tables.

    All quarantined rows are counted if the check passes with all of them, or if the tables cannot be compared: without
    a key, or if a published file is lost.
    """
    table = Dataset(rows.published_table, key=()).quarantine
    quarantined_count = rows.lake.count_rows_of_partitions(table, [rows.partition]).get(rows.partition, 0)
    has_key = args.key and set(args.key) <= set(rows.schema.names)
    if not quarantined_count or not has_key or rows.count >= args.min_ratio * (published_count + quarantined_count):
        return quarantined_count
    if rows.partition in rows.find_lost_partitions():
        return quarantined_count
    key = ", ".join(quote_identifier(name) for name in args.key)
    query = f"SELECT count(*) FROM (SELECT {key} FROM leeway_bad_rows EXCEPT SELECT {key} FROM {_HISTORY})"  # noqa: S608
    with (
        rows.lake.create_view(rows.connection, _HISTORY, rows.published_table, rows.partition, rows.partition),
        rows.lake.create_view(rows.connection, "leeway_bad_rows", table, rows.partition, rows.partition),
    ):
        return int(rows.connection.execute(query).fetchall()[0][0])


def make_early_end_check(args: arguments.EarlyEndArguments, rows: Rows) -> TableCheck:
    """Make the check that, at its end, the day has not far fewer rows than the published days around it.

    The check passes if the partition is not a day, if the day is not over, if there is no other published day, or if
    the rows are spread over the day as in the published version.
    """

    def compute_result(rows: Rows, _: Any) -> CheckResult:
        if (unit := get_unit(rows.partition)) != "day":
            return True, {"observed_value": f"{rows.count} rows; only the ends of days are compared, not of {unit}s"}
        if dt.datetime.now(dt.UTC) < _find_end_of_day(get_date(rows.partition), args.timezone or "UTC"):
            return True, {"observed_value": f"{rows.count} rows; the day is not over yet"}
        days = _choose_days(rows)
        if not days:
            return True, {"observed_value": f"{rows.count} rows; no day around it is published to compare with"}
        details = {"compared_with": [str(day) for day in days]}
        counts = _count_by_time(rows, VIEW, args).get(get_date(rows.partition), {})
        history = _count_history(rows, args, days)
        # Rows as in the published version pass again: a person allowed them, or no other day was published then.
        if _are_equal(counts, history.get(get_date(rows.partition), {})):
            observed_text = f"{rows.count} rows, spread as in the published version"
            return True, {"observed_value": observed_text, "details": details}
        early_ends = _find_early_ends(counts, [history.get(day, {}) for day in days], args)
        problems = (_describe_early_end(key, end, rows.count, len(days), args) for key, end in early_ends)
        problem = next(problems, "")
        observed_text = problem or f"{rows.count} rows up to the usual end"
        return not problem, {"observed_value": observed_text, "details": details}

    return TableCheck(aggregates=[], compute_result=compute_result)


def _find_end_of_day(day: dt.date, timezone: str) -> dt.datetime:
    return dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), ZoneInfo(timezone))


def _choose_days(rows: Rows) -> list[dt.date]:
    """Choose published days without a lost file, the nearest to the partition; return them in order.

    They are at most `MAX_DAYS` days, with at most `MAX_HISTORY_ROWS` rows together, or the nearest day alone.
    """
    judged_day, lost_partitions = get_date(rows.partition), rows.find_lost_partitions()
    published_counts = {
        get_date(day): count for day, count in rows.count_published_rows().items() if day not in lost_partitions
    }
    row_counts = {day: count for day, count in published_counts.items() if day != judged_day}
    nearest_days = sorted(row_counts, key=lambda day: (abs(day - judged_day), day))[:MAX_DAYS]
    totals = accumulate(row_counts[day] for day in nearest_days)
    chosen_days = [day for day, total in zip(nearest_days, totals, strict=True) if total <= MAX_HISTORY_ROWS]
    return sorted(chosen_days or nearest_days[:1])


def _count_history(rows: Rows, args: arguments.EarlyEndArguments, days: Sequence[dt.date]) -> dict[dt.date, Counts]:
    """Count the rows of published days, and of the published version of the partition, by the time of day."""
    all_days = [*days, get_date(rows.partition)]
    first, last, lost_partitions = min(all_days), max(all_days), rows.find_lost_partitions()
    with rows.lake.create_view(
        rows.connection, _HISTORY, rows.published_table, first, last, excluded_partitions=lost_partitions
    ):
        return _count_by_time(rows, _HISTORY, args, all_days)


def _count_by_time(
    rows: Rows, view: str, args: arguments.EarlyEndArguments, days: Sequence[dt.date] = ()
) -> dict[dt.date, Counts]:
    """Count the rows of each day in a view by the time of day: all rows, and those of each series."""
    # The published table may lack a column that was added later.
    types = {name: str(kind) for name, kind, *_ in rows.connection.table(view).description}
    series_columns = [quote_identifier(name) for name in args.series if name in types]
    has_time = types.get(args.column) == "TIMESTAMP WITH TIME ZONE"
    columns = ", ".join([quote_identifier(DATE_COLUMN), _build_bin_sql(args) if has_time else "0", *series_columns])
    condition = f"{quote_identifier(DATE_COLUMN)} IN ({', '.join(f'DATE {quote_text(str(day))}' for day in days)})"
    query = f"SELECT {columns}, count(*) FROM {view} WHERE {condition if days else 'TRUE'} GROUP BY ALL"  # noqa: S608
    counts: dict[dt.date, Counts] = defaultdict(lambda: defaultdict(lambda: np.zeros(BINS, np.int64)))
    for day, time_bin, *values, row_count in rows.connection.execute(query).fetchall():
        for key in {(), tuple(values)}:
            counts[day][key][time_bin] += row_count
    return counts


def _build_bin_sql(args: arguments.EarlyEndArguments) -> str:
    """Return the SQL of a row's bin; a row without a time is in the first bin."""
    local_time = f"{quote_identifier(args.column)} AT TIME ZONE {quote_text(args.timezone or 'UTC')}"
    minutes = f"(epoch({local_time}) - epoch({quote_identifier(DATE_COLUMN)})) / 60 - {FIRST_HOUR * 60}"
    return f"coalesce(greatest(0, least({BINS - 1}, floor(({minutes}) / {BIN_MINUTES}))), 0)::INTEGER"


def _are_equal(counts: Counts, other_counts: Counts) -> bool:
    return counts.keys() == other_counts.keys() and all(
        np.array_equal(counts[key], other_counts[key]) for key in counts
    )


def _find_early_ends(
    counts: Counts, history: Sequence[Counts], args: arguments.EarlyEndArguments
) -> Iterator[tuple[tuple[Any, ...], EarlyEnd]]:
    """Yield the early end of the whole day, and of each series of the published days.

    The first item of each pair is the key of the series in `Counts`.
    """
    no_rows = np.zeros(BINS, np.int64)
    for key in sorted({key for day_counts in history for key in day_counts}, key=repr):
        series_counts = [day_counts.get(key, no_rows) for day_counts in history]
        tolerance = 0 if args.timezone else CLOCK_CHANGE_BINS
        early_end = find_early_end(counts.get(key, no_rows), series_counts, args.min_ratio, tolerance)
        if early_end:
            yield key, early_end


def _describe_early_end(
    key: tuple[Any, ...], early_end: EarlyEnd, rows: int, days: int, args: arguments.EarlyEndArguments
) -> str:
    minute = FIRST_HOUR * 60 + early_end.first_bin * BIN_MINUTES
    series_text = f" of {', '.join(map(str, key))}" if key else ""
    start_text = f" from {_format_time(minute)} {args.timezone or 'UTC'} on" if early_end.first_bin else ""
    usual_text = f"usually at least {early_end.usual_rows} ({days} published days)"
    return (
        f"{rows} rows, {early_end.rows}{series_text}{start_text}; {usual_text}"
        if series_text or start_text
        else f"{rows} rows; {usual_text}"
    )


def _format_time(minute: int) -> str:
    day, minute_of_day = divmod(minute, 24 * 60)
    return f"{minute_of_day // 60:02d}:{minute_of_day % 60:02d}" + (f" ({day:+d} day)" if day else "")
