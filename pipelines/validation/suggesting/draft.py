"""Draft a suite from the summary of a table, in Great Expectations' JSON. Each expectation gives its reason in numbers.

- Severity critical: the columns, the number of rows a day, a unique key, and values that were never missing.
- Severity warning: ranges, patterns, lengths and sets of values (rows that violate them are quarantined for review),
  means, freshness, and the number of rows compared with earlier weeks.
- Severity info, which is only reported: values that were sometimes missing, and a key that several rows share.

Limits on numbers have a margin. If the window is shorter than a year, the draft has not seen every season. Then only
the expectations that do not depend on the season are critical: the columns, the key, and that the key's columns are
never missing. All others are only reported: they neither block a day nor quarantine rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from pipelines.lake import DATE_COLUMN
from pipelines.partitions import get_date, get_last_day, get_unit, shift_partition
from pipelines.validation.suggesting.summary import ColumnSummary, TableSummary

MARGIN = 0.25
"""Width that is added at each end of the observed range of values, as a share of the range. For means, it is 1."""
MAX_LENGTH = 64
"""Maximum number of characters of a code. A column with longer values is prose: it gets no pattern and no length."""
WEEKS, MIN_HISTORY = 8, 3
"""Number of earlier weeks (or months) to compare the number of rows with, and the smallest number that must exist."""
MAX_AGE_H = 72
"""Largest number of hours from the newest timestamp to the end of the partition, or from this end to the timestamp. If
there are more, the column gets no expectation of freshness."""
YEAR_DAYS = 365
"""Number of days that a window must cover, so that the draft has seen every season."""
ROW_EXPECTATION_PREFIXES = ("column_values_", "column_value_lengths_")
"""Prefixes of the types of drafted expectations that quarantine rows if their severity is `warning`. One more type does
so: that of a unique key with several columns."""
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

Expectation = dict[str, Any]


def draft_suite(summary: TableSummary, name: str) -> dict[str, Any]:
    """Draft the suite `name`, which every partition of the window passes."""
    about = (
        f"Draft of python -m pipelines expectations suggest, from {summary.rows:,} rows of "
        f"{len(summary.rows_by_partition)} partitions of {summary.table}, {summary.first} to {summary.last}. "
        "Give each expectation its real reason."
    )
    expectations = [*_draft_table(summary), *_draft_volume(summary), *_draft_key(summary)]
    for column in summary.columns:
        mean_expectations = _draft_mean(column) if column.name not in summary.key else ()
        expectations += [
            *_draft_presence(column, summary.rows),
            *_draft_range(column),
            *_draft_text(column),
            *mean_expectations,
            *_draft_freshness(column),
        ]
    if (days := _count_days(summary)) < YEAR_DAYS:
        about += f" They cover {days} days, less than a year: what may depend on the season is only reported."
        expectations = [_lower_severity(expectation, summary.key) for expectation in expectations]
    return {"name": name, "expectations": expectations, "meta": {"about": about}}


def _count_days(summary: TableSummary) -> int:
    """Return the number of days from the first to the last partition, both included."""
    last = max(get_last_day(partition) for partition in summary.rows_by_partition)
    return (last - min(get_date(partition) for partition in summary.rows_by_partition)).days + 1


def _lower_severity(expectation: Expectation, key: Sequence[str]) -> Expectation:
    """Lower the severity of an expectation that may depend on the season, so that it blocks no day; keep all others.

    For a type with one of `ROW_EXPECTATION_PREFIXES`, the severity is `info`. For any other type it is `warning`, so
    that a failure is only reported.
    """
    kind, column = expectation["type"].removeprefix("expect_"), expectation["kwargs"].get("column")
    is_about_key = "unique" in kind or column in key
    is_critical_key = is_about_key and expectation["severity"] == "critical"
    if kind == "table_columns_to_match_set" or is_critical_key or expectation["severity"] == "info":
        return expectation
    return {**expectation, "severity": "info" if kind.startswith(ROW_EXPECTATION_PREFIXES) else "warning"}


def _build_expectation(kind: str, severity: str, why: str, **kwargs: Any) -> Expectation:
    """Build an expectation; `kind` is its type without the prefix `expect_`, `why` the reason for it."""
    return {"type": f"expect_{kind}", "kwargs": kwargs, "severity": severity, "meta": {"why": why}}


def _draft_table(summary: TableSummary) -> Iterator[Expectation]:
    """Expect the columns, and a number of rows not far from those of the window's partitions."""
    names = [DATE_COLUMN, *(column.name for column in summary.columns)]
    why = f"All {len(names)} columns were there; more columns are allowed."
    yield _build_expectation("table_columns_to_match_set", "critical", why, column_set=names, exact_match=False)
    minimum, maximum = min(summary.rows_by_partition.values()), max(summary.rows_by_partition.values())
    bounds = {"min_value": minimum // 2, "max_value": 2 * maximum}
    span = _format_span(f"{minimum:,}", f"{maximum:,}")
    unit = get_unit(next(iter(summary.rows_by_partition)))
    weekdays = "" if unit == "month" else f" ({_describe_weekdays(summary)})"
    article = "an" if unit == "hour" else "a"
    why = f"{span} rows {article} {unit}{weekdays}; half of the minimum and twice the maximum are allowed."
    yield _build_expectation("table_row_count_to_be_between", "critical", why, **bounds)


def _draft_volume(summary: TableSummary) -> Iterator[Expectation]:
    """Expect about as many rows as on the same weekday of earlier weeks, or as in earlier months.

    Yield nothing if the window is too short.
    """
    unit, ratios = get_unit(next(iter(summary.rows_by_partition))), []
    distance = 1 if unit == "month" else 7  # `shift_partition` moves a month by months
    for partition, rows in summary.rows_by_partition.items():
        earlier_counts = [
            summary.rows_by_partition.get(shift_partition(partition, -distance * number))
            for number in range(1, WEEKS + 1)
        ]
        history = [count for count in earlier_counts if count]
        if len(history) >= MIN_HISTORY:
            ratios.append(rows / median(history))
    if ratios:
        minimum, maximum = min(ratios), max(ratios)
        kwargs: dict[str, float] = {"weeks": WEEKS, "min_history": MIN_HISTORY}
        kwargs |= {"min_ratio": round(min(0.5, 0.8 * minimum), 2), "max_ratio": round(max(2.0, 1.25 * maximum), 2)}
        span = _format_span(f"{minimum:.2f}", f"{maximum:.2f}")
        why = f"A day had {span} times the median rows of its weekday in the {WEEKS} weeks before."
        if unit != "day":
            history_text = "months before" if unit == "month" else "weeks before, at this hour of its weekday"
            why = f"A partition had {span} times the median rows of the {WEEKS} {history_text}."
        yield _build_expectation("partition_volume_to_be_in_line", "warning", why, **kwargs)


def _describe_weekdays(summary: TableSummary) -> str:
    by_weekday: dict[int, list[int]] = {}
    for partition, rows in summary.rows_by_partition.items():
        by_weekday.setdefault(get_date(partition).weekday(), []).append(rows)
    spans = {weekday: _format_span(f"{min(rows):,}", f"{max(rows):,}") for weekday, rows in sorted(by_weekday.items())}
    return ", ".join(f"{WEEKDAYS[weekday]} {span}" for weekday, span in spans.items())


def _draft_key(summary: TableSummary) -> Iterator[Expectation]:
    """Expect a unique key. If several rows have the same key, the expectation only reports it."""
    if not summary.key:
        return
    if summary.repeated_key_rows:
        severity, why = (
            "info",
            f"The key of the dataset, but {summary.repeated_key_rows:,} rows have the key of another row.",
        )
    else:
        severity, why = "critical", f"The key of the dataset: unique within its partition in all {summary.rows:,} rows."
    if len(summary.key) == 1:
        yield _build_expectation("column_values_to_be_unique", severity, why, column=summary.key[0])
    else:
        yield _build_expectation(
            "compound_columns_to_be_unique", severity, why, column_list=[DATE_COLUMN, *summary.key]
        )


def _draft_presence(column: ColumnSummary, rows: int) -> Iterator[Expectation]:
    """Expect that no value is missing or, if some were missing, that their share does not grow much."""
    kind = "column_values_to_not_be_null"
    if not column.null_count:
        yield _build_expectation(kind, "critical", f"Never missing in {rows:,} rows.", column=column.name)
        return
    # Half more missing values than in the worst partition are allowed, and one percentage point.
    mostly = math.floor(100 * (1 - 1.5 * column.max_null_share - 0.01)) / 100
    if mostly > 0:
        why = (
            f"{column.null_count:,} values are missing, at most {100 * column.max_null_share:.2g} % of a partition; "
            "half more is allowed. Rows without a value may be correct, so this is only reported."
        )
        yield _build_expectation(kind, "info", why, column=column.name, mostly=mostly)


def _draft_range(column: ColumnSummary) -> Iterator[Expectation]:
    if column.minimum is None or column.maximum is None:
        return
    low, middle, high = (_format_number(quantile) for quantile in column.quantiles)
    bounds = _compute_bounds(column.minimum, column.maximum, is_integer=column.kind == "integer")
    span = _format_span(_format_number(column.minimum), _format_number(column.maximum))
    why = f"{span}; 1 % below {low}, half below {middle}, 1 % above {high}."
    if _has_outliers(column):
        why += " One end is far from the other values: check whether it is an error."
    kwargs = {"column": column.name, "min_value": bounds[0], "max_value": bounds[1]}
    yield _build_expectation("column_values_to_be_between", "warning", why, **kwargs)


def _draft_mean(column: ColumnSummary) -> Iterator[Expectation]:
    if not column.mean_range or column.distinct_count <= 2:
        return
    bounds = _compute_bounds(*column.mean_range, is_integer=False, margin=1.0, has_floor=(column.minimum or 0) >= 0)
    why = f"The mean of a partition was {_format_span(*map(_format_number, column.mean_range))}."
    kwargs = {"column": column.name, "min_value": bounds[0], "max_value": bounds[1]}
    yield _build_expectation("column_mean_to_be_between", "warning", why, **kwargs)


def _draft_freshness(column: ColumnSummary) -> Iterator[Expectation]:
    if column.max_age_h is not None and abs(column.max_age_h) <= MAX_AGE_H:
        side = "before" if column.max_age_h >= 0 else "after"
        hours_text = f"{abs(column.max_age_h):.1f} hours {side} the end of the partition"
        why = f"In the partition with the oldest values, the newest value is {hours_text}."
        hours = max(1, math.ceil(1.5 * column.max_age_h) + 1)
        yield _build_expectation("partition_to_be_fresh", "warning", why, column=column.name, max_age_hours=hours)


def _draft_text(column: ColumnSummary) -> Iterator[Expectation]:
    """Expect a set of values if there are few; else one pattern that all values match; else a range of lengths."""
    if column.values:
        why = f"{len(column.values)} values, none of them new in the later half of the window."
        yield _build_expectation(
            "column_values_to_be_in_set", "warning", why, column=column.name, value_set=list(column.values)
        )
    elif column.length_range and column.length_range[1] <= MAX_LENGTH:
        yield _draft_pattern_or_length(column, *column.length_range)


def _draft_pattern_or_length(column: ColumnSummary, shortest_length: int, longest_length: int) -> Expectation:
    lengths = f"{shortest_length} to {longest_length}" if shortest_length != longest_length else f"{shortest_length}"
    why = f"About {column.distinct_count:,} values of {lengths} characters"
    if not column.character_class:
        max_length = longest_length if shortest_length == longest_length else 2 * longest_length
        min_length = shortest_length if shortest_length == longest_length else min(shortest_length, 1)
        kwargs = {"column": column.name, "min_value": min_length, "max_value": max_length}
        return _build_expectation("column_value_lengths_to_be_between", "warning", f"{why}.", **kwargs)
    quantifier = (
        f"{{{shortest_length}}}" if shortest_length == longest_length else f"{{{shortest_length},{longest_length}}}"
    )
    regex, why = f"^{column.character_class}{quantifier}$", f"{why}, all of {column.character_class}."
    return _build_expectation("column_values_to_match_regex", "warning", why, column=column.name, regex=regex)


def _compute_bounds(
    minimum: float, maximum: float, *, is_integer: bool, margin: float = MARGIN, has_floor: bool | None = None
) -> tuple[float, float]:
    """Return the range with its margin, rounded outwards to the second digit of the margin's width.

    If `has_floor` is true, the lower bound is at least 0. If `has_floor` is None, `minimum` decides: the lower
    bound is at least 0 unless `minimum` is negative.
    """
    span = float(maximum) - float(minimum)
    margin_width = margin * (span or abs(minimum) or 1.0)
    step = 10.0 ** (math.floor(math.log10(max(margin_width, 1e-300))) - 1)
    low, high = math.floor((minimum - margin_width) / step) * step, math.ceil((maximum + margin_width) / step) * step
    if low < 0 and (minimum >= 0 if has_floor is None else has_floor):
        low = 0.0
    if is_integer:
        return math.floor(low), math.ceil(high)
    return float(f"{low:.12g}"), float(f"{high:.12g}")


def _has_outliers(column: ColumnSummary) -> bool:
    """Return whether an end is farther from the median than ten times the range of the middle 98 % of the values."""
    low, middle, high = column.quantiles
    usual_range = max(high - low, 1e-12)
    return (column.maximum or 0) - middle > 10 * usual_range or middle - (column.minimum or 0) > 10 * usual_range


def _format_span(minimum: str, maximum: str) -> str:
    """Format two numbers as a range, or as one number if both texts are equal."""
    return minimum if minimum == maximum else f"{minimum} to {maximum}"


def _format_number(value: float) -> str:
    """Format with four significant digits; integers in full."""
    return f"{float(f'{value:.4g}'):,.10g}" if isinstance(value, float) else f"{value:,}"
