"""Make the checks of whole tables: of the columns, of the number of rows and of freshness.

`make_freshness_check` returns None if the column is not a timestamp: then Great Expectations gets the expectation.
"""

from __future__ import annotations

import datetime as dt
from itertools import zip_longest
from statistics import median
from typing import Any

from pipelines.partitions import Hour, Month, Partition, get_date, get_end, shift_partition
from pipelines.validation.evaluators import arguments
from pipelines.validation.evaluators.checks import CheckResult, TableCheck
from pipelines.validation.evaluators.column_checks import check_bounds
from pipelines.validation.evaluators.rows import Rows


def make_row_count_range_check(args: arguments.CountRange, rows: Rows) -> TableCheck:
    """Make the check that the number of rows is in a range."""
    return TableCheck(aggregates=[], compute_result=lambda rows, _: check_bounds(args, rows.count))


def make_row_count_check(args: arguments.ExactCount, rows: Rows) -> TableCheck:
    """Make the check that the number of rows is `value`."""
    return TableCheck(
        aggregates=[], compute_result=lambda rows, _: (rows.count == args.value, {"observed_value": rows.count})
    )


def make_column_count_range_check(args: arguments.ColumnCountRange, rows: Rows) -> TableCheck:
    """Make the check that the number of columns is in a range."""
    bounds = arguments.RangeArguments(min_value=args.min_value, max_value=args.max_value)
    return TableCheck(aggregates=[], compute_result=lambda rows, _: check_bounds(bounds, len(rows.schema)))


def make_column_count_check(args: arguments.ExactCount, rows: Rows) -> TableCheck:
    """Make the check that the number of columns is `value`."""
    return TableCheck(
        aggregates=[],
        compute_result=lambda rows, _: (len(rows.schema) == args.value, {"observed_value": len(rows.schema)}),
    )


def make_existing_column_check(args: arguments.ExistingColumn, rows: Rows) -> TableCheck:
    """Make the check that a column exists. If a position is given, the column must be at that position."""
    names = rows.schema.names
    if args.column_index:  # Great Expectations ignores an index of 0
        exists = names[args.column_index : args.column_index + 1 or None] == [args.column]
    else:
        exists = args.column in names
    return TableCheck(aggregates=[], compute_result=lambda *_: (exists, {}))


def make_column_set_check(args: arguments.ColumnSet, rows: Rows) -> TableCheck:
    """Make the check that the columns have these names; other columns are allowed if `exact_match` is false."""
    names, expected_names = set(rows.schema.names), set(args.column_set)
    mismatches = {"unexpected": sorted(names - expected_names), "missing": sorted(expected_names - names)}
    result: dict[str, Any] = {"observed_value": sorted(names)}
    if any(mismatches.values()):
        result["details"] = {"mismatched": {kind: columns for kind, columns in mismatches.items() if columns}}
    success = not mismatches["missing"] and not (args.exact_match and mismatches["unexpected"])
    return TableCheck(aggregates=[], compute_result=lambda *_: (success, result))


def make_column_list_check(args: arguments.ColumnList, rows: Rows) -> TableCheck:
    """Make the check that the columns have these names, in this order."""
    names = rows.schema.names
    mismatches = [
        {"Expected Column Position": position, "Expected": expected_name, "Found": name}
        for position, (expected_name, name) in enumerate(zip_longest(args.column_list, names))
        if expected_name != name
    ]
    result: dict[str, Any] = {"observed_value": names}
    if mismatches:
        result["details"] = {"mismatched": mismatches}
    return TableCheck(aggregates=[], compute_result=lambda *_: (not mismatches, result))


def make_volume_check(args: arguments.VolumeArguments, rows: Rows) -> TableCheck:
    """Make the check that the number of rows is close to the median of earlier partitions.

    For a month, these are the months before it; for a day, the same weekday of the weeks before it; for an hour, the
    same hour of these weekdays. The check passes if fewer than `min_history` of them are published.
    """
    is_month = isinstance(rows.partition, Month)
    earlier_partitions = [
        shift_partition(rows.partition, -number if is_month else -7 * number) for number in range(1, args.weeks + 1)
    ]

    def compute_result(rows: Rows, _: Any) -> CheckResult:
        row_counts = rows.lake.count_rows_of_partitions(rows.published_table, earlier_partitions)
        history_details = {"history": {str(partition): row_counts[partition] for partition in sorted(row_counts)}}
        if len(row_counts) < args.min_history:
            unit = "months" if is_month else "weeks"
            history_text = f"{len(row_counts)} of the last {args.weeks} {unit} are published"
            observed_text = f"{rows.count} rows; {history_text}: too few to judge by"
            return True, {"observed_value": observed_text, "details": history_details}
        typical_count = median(row_counts.values())
        name = _format_earlier_partition(rows.partition)
        ratio = rows.count / typical_count
        observed_text = f"{rows.count} rows, {ratio:.2f} of the {typical_count:g} that a {name} has"
        details = history_details | {"typical": typical_count, "ratio": round(ratio, 4)}
        return args.min_ratio <= ratio <= args.max_ratio, {"observed_value": observed_text, "details": details}

    return TableCheck(aggregates=[], compute_result=compute_result)


def _format_earlier_partition(partition: Partition) -> str:
    """Return what the earlier partitions are, such as "Friday"."""
    if isinstance(partition, Month):
        return "month"
    hour_text = f" at {partition.hour:02}:00 UTC" if isinstance(partition, Hour) else ""
    return f"{get_date(partition):%A}{hour_text}"


def make_freshness_check(args: arguments.FreshnessArguments, rows: Rows) -> TableCheck | None:
    """Make the check that the newest value is at most `max_age_hours` old at the partition's end, in UTC."""
    if rows.get_kind(args.column) != "timestamp":
        return None
    partition_end = get_end(rows.partition)

    def compute_result(rows: Rows, values: Any) -> CheckResult:
        if values[0] is None:
            return False, {"observed_value": f"no value in {args.column}"}
        age_hours = (partition_end.timestamp() - values[0]) / 3600
        newest_time = dt.datetime.fromtimestamp(values[0], dt.UTC).isoformat()
        observed_text = f"newest {newest_time}, {max(age_hours, 0):.1f} h before the end of {rows.partition}"
        details = {"age_hours": round(age_hours, 4)}
        return age_hours <= args.max_age_hours, {"observed_value": observed_text, "details": details}

    return TableCheck([f"epoch(max({rows.build_value_sql(args.column)}))"], compute_result)
