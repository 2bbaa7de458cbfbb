"""Infer the formats of the times in a column of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingestion.sources.timestamps import BadValueError, Zone, parse_texts, to_utc

DATE_FORMATS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d"),
    *("%d %b %Y", "%b %d, %Y", "%d-%b-%Y", "%B %d, %Y", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y"),
)
CLOCK_FORMATS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", " %I:%M %p")
"""Formats of the time of day after a date; empty: the text has no time of day."""
FORMATS = tuple(date + clock for date, clock in product(DATE_FORMATS, CLOCK_FORMATS))
"""Formats that are tried, in addition to ISO 8601."""
ISO = ""
"""The value among the formats that means ISO 8601."""
MIN_SHARE = 0.95
"""A column holds times if at least this share of its values are times. Its other values are errors."""


@dataclass(frozen=True)
class TimeFormats:
    """The formats of the times in a column of texts, and the times."""

    formats: Sequence[str]
    """Formats other than ISO 8601; empty: all values are ISO 8601."""
    times: pa.Array
    """The values as times in UTC; null if a value is not a time."""
    has_time_of_day: bool
    """Whether at least one value has a time of day other than midnight."""
    ambiguous_formats: Sequence[str] = ()
    """Two formats that both fit the same values, so the right one cannot be inferred; empty if there is no doubt."""
    bad_value: str = ""
    """A value in none of the formats; empty if there is none."""


def find_time_formats(texts: pa.Array, formats: Sequence[str] = ()) -> TimeFormats | None:
    """Find the formats of a column of times; None if the column does not hold times.

    Repeatedly choose the format that parses most of the values that no chosen format has parsed.

    Args:
        texts: the values; null where one is missing.
        formats: formats to choose from, in addition to ISO 8601; by default those of `FORMATS`.
    """
    all_times = dict(_parse_with_each_format(texts, formats or FORMATS))
    times_by_format = {name: times for name, times in all_times.items() if len(times) - times.null_count}
    chosen_formats, is_parsed = list[str](), texts.is_null()
    while not pc.all(is_parsed).as_py():
        new_counts = {name: _count(pc.and_not(times.is_valid(), is_parsed)) for name, times in times_by_format.items()}
        best_format = max(new_counts, key=new_counts.__getitem__, default=ISO)
        if not new_counts.get(best_format):
            break
        chosen_formats.append(best_format)
        is_parsed = pc.or_(is_parsed, times_by_format[best_format].is_valid())
    value_count = len(texts) - texts.null_count
    bad_count = len(texts) - _count(is_parsed)
    if not chosen_formats or bad_count > (1 - MIN_SHARE) * value_count:
        return None
    times = pc.coalesce(*(times_by_format[name] for name in chosen_formats))
    time_of_day = pc.subtract(times, pc.floor_temporal(times, unit="day")).cast(pa.int64())
    return TimeFormats(
        formats=[name for name in chosen_formats if name != ISO],
        times=times,
        has_time_of_day=bool(_count(pc.fill_null(pc.not_equal(time_of_day, 0), False))),
        ambiguous_formats=() if formats else _find_ambiguity(chosen_formats, times_by_format),
        bad_value=str(texts.filter(pc.invert(is_parsed))[0]) if bad_count else "",
    )


def _parse_with_each_format(texts: pa.Array, formats: Sequence[str]) -> Iterator[tuple[str, pa.Array]]:
    """Yield each format, and the texts parsed in it: times, and null for a text in another format."""
    is_iso = pc.match_substring_regex(texts, r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}.*)?$")
    iso_texts = pc.if_else(pc.fill_null(is_iso, False), texts, pa.scalar(None, pa.string()))
    try:
        yield ISO, to_utc(iso_texts, Zone("UTC", "earliest"))
    except (BadValueError, pa.ArrowException):  # a text begins like ISO 8601, but is not a time: parse only dates
        yield (
            ISO,
            pc.strptime(iso_texts, format="%Y-%m-%d", unit="us", error_is_null=True).cast(pa.timestamp("us", "UTC")),
        )
    for name in formats:
        yield name, parse_texts(texts, [name]).cast(pa.timestamp("us", "UTC"))


def _find_ambiguity(chosen_formats: Sequence[str], times_by_format: dict[str, pa.Array]) -> Sequence[str]:
    """Return two formats that differ only in the order of day and month, if both fit the same values; else empty."""
    for name in chosen_formats:
        swapped_name = name.replace("%d", "%?").replace("%m", "%d").replace("%?", "%m")
        times, swapped_times = times_by_format[name], times_by_format.get(swapped_name)
        if swapped_name == name or swapped_times is None or swapped_times.equals(times):
            continue
        if swapped_times.is_valid().equals(times.is_valid()):
            return (name, swapped_name)
    return ()


def _count(mask: pa.Array) -> int:
    return int(pc.sum(mask).as_py() or 0)
