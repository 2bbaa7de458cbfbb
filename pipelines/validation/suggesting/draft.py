"""Draft a suite from a profile, in Great Expectations' JSON. Each expectation gives its reason, in figures.

Critical: the columns, the number of rows a day, a unique key, and values that were never missing. Warning: ranges,
patterns, lengths and sets of values (rows that violate them are quarantined for review), means, freshness, and the
number of rows compared with earlier weeks. Info, which is only reported: values that were sometimes missing, and a key
that repeats. Limits on numbers have a margin.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from statistics import median
from typing import Any

from pipelines.lake import PARTITION
from pipelines.validation.suggesting.profile import Column, Profile

MARGIN = 0.25
"""Share of the observed range that a draft allows beyond each end."""
MAX_LENGTH = 64
"""A column with longer values gets no pattern and no limits of length, because its values are prose."""
WEEKS, MIN_HISTORY = 8, 3
"""Number of earlier weeks with which the number of rows is compared, and how many of them must exist."""
MAX_STALE_H = 72
"""Hours. A column gets no expectation of freshness if its newest timestamp is further from the partition's end."""
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

Expectation = dict[str, Any]


def draft_suite(profile: Profile, name: str) -> dict[str, Any]:
    """Draft the suite `name`, which every partition of the profile's window passes."""
    about = (
        f"Draft of python -m pipelines expectations suggest, from {profile.rows:,} rows of {len(profile.days)} "
        f"partitions of {profile.table}, {profile.first} to {profile.last}. Give each expectation its real reason."
    )
    expectations = [*_draft_table(profile), *_draft_volume(profile), *_draft_key(profile)]
    for column in profile.columns:
        means = _draft_mean(column) if column.name not in profile.key else ()
        expectations += [
            *_draft_presence(column, profile.rows),
            *_draft_range(column),
            *_draft_text(column),
            *means,
            *_draft_freshness(column),
        ]
    return {"name": name, "expectations": expectations, "meta": {"about": about}}


def _build_expectation(kind: str, severity: str, why: str, **kwargs: Any) -> Expectation:
    return {"type": f"expect_{kind}", "kwargs": kwargs, "severity": severity, "meta": {"why": why}}


def _draft_table(profile: Profile) -> Iterator[Expectation]:
    names = [PARTITION, *(column.name for column in profile.columns)]
    why = f"All {len(names)} columns were there; more columns are allowed."
    yield _build_expectation("table_columns_to_match_set", "critical", why, column_set=names, exact_match=False)
    least, most = min(profile.days.values()), max(profile.days.values())
    bounds = {"min_value": least // 2, "max_value": 2 * most}
    span = _format_span(f"{least:,}", f"{most:,}")
    why = f"{span} rows a day ({_describe_weekdays(profile)}); half of the minimum and twice the maximum are allowed."
    yield _build_expectation("table_row_count_to_be_between", "critical", why, **bounds)


def _draft_volume(profile: Profile) -> Iterator[Expectation]:
    """Expect about as many rows as on the same weekday of earlier weeks; nothing where the window is too short."""
    ratios = []
    for day, rows in profile.days.items():
        past = [profile.days.get(day - dt.timedelta(weeks=back)) for back in range(1, WEEKS + 1)]
        known = [count for count in past if count]
        if len(known) >= MIN_HISTORY:
            ratios.append(rows / median(known))
    if ratios:
        least, most = min(ratios), max(ratios)
        kwargs: dict[str, float] = {"weeks": WEEKS, "min_history": MIN_HISTORY}
        kwargs |= {"min_ratio": round(min(0.5, 0.8 * least), 2), "max_ratio": round(max(2.0, 1.25 * most), 2)}
        seen = _format_span(f"{least:.2f}", f"{most:.2f}")
        why = f"A day had {seen} times the median rows of its weekday in the {WEEKS} weeks before."
        yield _build_expectation("partition_volume_to_be_in_line", "warning", why, **kwargs)


def _describe_weekdays(profile: Profile) -> str:
    by_weekday: dict[int, list[int]] = {}
    for day, rows in profile.days.items():
        by_weekday.setdefault(day.weekday(), []).append(rows)
    spans = {weekday: _format_span(f"{min(rows):,}", f"{max(rows):,}") for weekday, rows in sorted(by_weekday.items())}
    return ", ".join(f"{WEEKDAYS[weekday]} {span}" for weekday, span in spans.items())


def _draft_key(profile: Profile) -> Iterator[Expectation]:
    """Expect a unique key; where rows share a key, only report it, so that a person sees it."""
    if not profile.key:
        return
    if profile.repeated:
        severity, why = "info", f"The key of the dataset, but {profile.repeated:,} rows have the key of another row."
    else:
        severity, why = "critical", f"The key of the dataset: unique within its partition in all {profile.rows:,} rows."
    if len(profile.key) == 1:
        yield _build_expectation("column_values_to_be_unique", severity, why, column=profile.key[0])
    else:
        yield _build_expectation("compound_columns_to_be_unique", severity, why, column_list=[PARTITION, *profile.key])


def _draft_presence(column: Column, rows: int) -> Iterator[Expectation]:
    kind = "column_values_to_not_be_null"
    if not column.nulls:
        yield _build_expectation(kind, "critical", f"Never missing in {rows:,} rows.", column=column.name)
        return
    mostly = math.floor(100 * (1 - 1.5 * column.most_null - 0.01)) / 100
    if mostly > 0:
        why = (
            f"{column.nulls:,} missing; at most {100 * column.most_null:.2g} % of a partition, and half more is "
            "allowed. Rows without it may be correct, so it is only reported."
        )
        yield _build_expectation(kind, "info", why, column=column.name, mostly=mostly)


def _draft_range(column: Column) -> Iterator[Expectation]:
    if column.least is None or column.most is None:
        return
    low, middle, high = (_format_figure(quantile) for quantile in column.quantiles)
    bounds = _compute_bounds(column.least, column.most, is_integer=column.kind == "integer")
    seen = _format_span(_format_figure(column.least), _format_figure(column.most))
    why = f"{seen}; 1 % below {low}, half below {middle}, 1 % above {high}."
    if _has_outliers(column):
        why += " One end is far from the others: check whether it is an error."
    kwargs = {"column": column.name, "min_value": bounds[0], "max_value": bounds[1]}
    yield _build_expectation("column_values_to_be_between", "warning", why, **kwargs)


def _draft_mean(column: Column) -> Iterator[Expectation]:
    if not column.means or column.distinct <= 2:
        return
    bounds = _compute_bounds(*column.means, is_integer=False, margin=1.0, floor=(column.least or 0) >= 0)
    why = f"The mean of a partition was {_format_span(*map(_format_figure, column.means))}."
    kwargs = {"column": column.name, "min_value": bounds[0], "max_value": bounds[1]}
    yield _build_expectation("column_mean_to_be_between", "warning", why, **kwargs)


def _draft_freshness(column: Column) -> Iterator[Expectation]:
    if column.stale_h is not None and abs(column.stale_h) <= MAX_STALE_H:
        side = "before" if column.stale_h >= 0 else "after"
        why = (
            f"In the stalest partition, the newest value is {abs(column.stale_h):.1f} hours {side} the end of its day."
        )
        hours = max(1, math.ceil(1.5 * column.stale_h) + 1)
        yield _build_expectation("partition_to_be_fresh", "warning", why, column=column.name, max_age_hours=hours)


def _draft_text(column: Column) -> Iterator[Expectation]:
    """Expect a set of values where the column has one; else a pattern where all values match one; else a length."""
    if column.values:
        why = f"{len(column.values)} values, none of them new in the later half of the window."
        yield _build_expectation(
            "column_values_to_be_in_set", "warning", why, column=column.name, value_set=list(column.values)
        )
    elif column.lengths and column.lengths[1] <= MAX_LENGTH:
        yield _draft_shape_or_length(column, *column.lengths)


def _draft_shape_or_length(column: Column, shortest: int, longest: int) -> Expectation:
    lengths = f"{shortest} to {longest}" if shortest != longest else f"{shortest}"
    why = f"About {column.distinct:,} values of {lengths} characters"
    if not column.shape:
        most = longest if shortest == longest else 2 * longest
        least = shortest if shortest == longest else min(shortest, 1)
        kwargs = {"column": column.name, "min_value": least, "max_value": most}
        return _build_expectation("column_value_lengths_to_be_between", "warning", f"{why}.", **kwargs)
    counted = f"{{{shortest}}}" if shortest == longest else f"{{{shortest},{longest}}}"
    regex, why = f"^{column.shape}{counted}$", f"{why}, all of {column.shape}."
    return _build_expectation("column_values_to_match_regex", "warning", why, column=column.name, regex=regex)


def _compute_bounds(
    least: float, most: float, *, is_integer: bool, margin: float = MARGIN, floor: bool | None = None
) -> tuple[float, float]:
    """Return the range with its margin, rounded outwards.

    The lower bound is at least 0 if `floor` is true; without `floor`, if `least` is not negative.
    """
    span = float(most) - float(least)
    room = margin * (span or abs(least) or 1.0)
    step = 10.0 ** (math.floor(math.log10(max(room, 1e-300))) - 1)
    low, high = math.floor((least - room) / step) * step, math.ceil((most + room) / step) * step
    if low < 0 and (least >= 0 if floor is None else floor):
        low = 0.0
    if is_integer:
        return math.floor(low), math.ceil(high)
    return float(f"{low:.12g}"), float(f"{high:.12g}")


def _has_outliers(column: Column) -> bool:
    """Return whether an end is further from the median than ten times the range of 98 % of the values."""
    low, middle, high = column.quantiles
    usual = max(high - low, 1e-12)
    return (column.most or 0) - middle > 10 * usual or middle - (column.least or 0) > 10 * usual


def _format_span(least: str, most: str) -> str:
    """Format two figures as a range; as one figure where both texts are the same."""
    return least if least == most else f"{least} to {most}"


def _format_figure(value: float) -> str:
    """Format with four significant digits; integers in full."""
    return f"{float(f'{value:.4g}'):,.10g}" if isinstance(value, float) else f"{value:,}"
