"""Infer the formats of the times in a column of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingestion.sources.timestamps import BadValueError, Zone, parse_texts, to_utc

DATES = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d"),
    *("%d %b %Y", "%b %d, %Y", "%d-%b-%Y", "%B %d, %Y", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y"),
)
CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", " %I:%M %p")
FORMATS = tuple(date + clock for date, clock in product(DATES, CLOCKS))
CONFUSABLE = (("%d", "%m"), ("%m", "%d"))
ISO = ""
"""The value among the formats that means ISO 8601."""
MIN_SHARE = 0.95
"""Smallest share of times in a column of times. The other values are errors."""


@dataclass(frozen=True)
class TimeFormats:
    """The formats of a column of texts."""

    formats: Sequence[str]
    """Formats other than ISO 8601; empty: all values are ISO 8601."""
    times: pa.Array
    """The values as times in UTC; null if a value is not a time."""
    has_clock: bool
    """Whether a value has a time of day."""
    ambiguous: Sequence[str] = ()
    """Two formats that both fit the same values, so the right one cannot be inferred; empty if there is no doubt."""
    bad_value: str = ""
    """A value in none of the formats; empty if there is none."""


def find_time_formats(texts: pa.Array, given: Sequence[str] = ()) -> TimeFormats | None:
    """Find the formats; None if the column does not hold times.

    Args:
        texts: the values; null where one is missing.
        given: formats to use instead of inferring them.
    """
    parsed = {name: times for name, times in _parse_in_all(texts, given or FORMATS) if len(times) - times.null_count}
    chosen, is_time = list[str](), texts.is_null()
    while not pc.all(is_time).as_py():
        gains = {name: _count(pc.and_not(times.is_valid(), is_time)) for name, times in parsed.items()}
        best = max(gains, key=gains.__getitem__, default=ISO)
        if not gains.get(best):
            break
        chosen.append(best)
        is_time = pc.or_(is_time, parsed[best].is_valid())
    values = len(texts) - texts.null_count
    missing = len(texts) - _count(is_time)
    if not chosen or missing > (1 - MIN_SHARE) * values:
        return None
    times = pc.coalesce(*(parsed[name] for name in chosen))
    clock = pc.subtract(times, pc.floor_temporal(times, unit="day")).cast(pa.int64())
    return TimeFormats(
        formats=[name for name in chosen if name != ISO],
        times=times,
        has_clock=bool(_count(pc.fill_null(pc.not_equal(clock, 0), False))),
        ambiguous=() if given else _find_ambiguity(chosen, parsed),
        bad_value=str(texts.filter(pc.invert(is_time))[0]) if missing else "",
    )


def _parse_in_all(texts: pa.Array, formats: Sequence[str]) -> Iterator[tuple[str, pa.Array]]:
    """Yield each format with the times that texts have in it."""
    iso = pc.match_substring_regex(texts, r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}.*)?$")
    iso_texts = pc.if_else(pc.fill_null(iso, False), texts, pa.scalar(None, pa.string()))
    try:
        yield ISO, to_utc(iso_texts, Zone("UTC", "earliest"))
    except (BadValueError, pa.ArrowException):  # some look like ISO 8601 only
        yield (
            ISO,
            pc.strptime(iso_texts, format="%Y-%m-%d", unit="us", error_is_null=True).cast(pa.timestamp("us", "UTC")),
        )
    for name in formats:
        yield name, parse_texts(texts, [name]).cast(pa.timestamp("us", "UTC"))


def _find_ambiguity(chosen: Sequence[str], parsed: dict[str, pa.Array]) -> Sequence[str]:
    """Return two formats that differ only in the order of day and month, if both fit the same values."""
    for name in chosen:
        twin = name.replace("%d", "%?").replace("%m", "%d").replace("%?", "%m")
        other = parsed.get(twin)
        if twin == name or other is None or other.equals(parsed[name]):
            continue
        if other.is_valid().equals(parsed[name].is_valid()):
            return (name, twin)
    return ()


def _count(mask: pa.Array) -> int:
    return int(pc.sum(mask).as_py() or 0)
