"""Convert timestamps, ISO 8601 texts and texts in declared formats to UTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import SpecError

UTC = pa.timestamp("us", tz="UTC")
OFFSET_PATTERN = r"[ T]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
"""Pattern of the end of an ISO 8601 text that has an offset."""
Ambiguous = Literal["refuse", "earliest", "latest"]
"""What to do with a local time that occurs twice, when clocks go back: refuse it, or choose one of the two moments."""


@dataclass(frozen=True)
class Zone:
    """Rules for converting values to times in UTC: the time zone of times without an offset, and the formats of texts.

    Args:
        name: name of the time zone in the IANA database; empty if every timestamp must have an offset.
        ambiguous: how to read times of the hour that occurs twice in autumn.
        formats: formats of texts, as `strptime` takes them. A text in none of these formats must be ISO 8601.

    Raises:
        SpecError: there is no such zone, or `ambiguous` is unknown. A retry cannot help.
    """

    name: str = ""
    ambiguous: Ambiguous = "refuse"
    formats: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuse an unknown zone, and an unknown value of `ambiguous`."""
        try:
            ZoneInfo(self.name or "UTC")
        except (ValueError, OSError, LookupError):
            hint = "Use a name of the IANA database, such as America/New_York or UTC."
            raise SpecError(f"there is no time zone {self.name!r}.", hint) from None
        if self.ambiguous not in ("refuse", "earliest", "latest"):
            raise SpecError(f"ambiguous={self.ambiguous!r} is not one of refuse, earliest, latest.")


class BadValueError(Exception):
    """The value at an index of an array cannot be converted. The module `convert` turns this into a DataError."""

    def __init__(self, index: int, problem: str, hint: str = "") -> None:
        super().__init__(index, problem, hint)
        self.index, self.problem, self.hint = index, problem, hint


def to_utc(array: pa.Array, zone: Zone) -> pa.Array:
    """Convert timestamps, or texts, to UTC. A time without an offset is treated as local time of the zone.

    Raises:
        BadValueError: a time has no offset and there is no zone; or a local time does not exist in the zone, or occurs
            twice there and `zone.ambiguous` is `refuse`.
        pyarrow.ArrowException: a value is not a time.
    """
    if pa.types.is_timestamp(array.type):
        return array.cast(UTC) if array.type.tz else _convert_local_times(array.cast(pa.timestamp("us")), zone)
    if not (pa.types.is_string(array.type) or pa.types.is_null(array.type)):
        raise pa.ArrowInvalid("neither text nor a timestamp")
    text = array.cast(pa.string())
    if zone.formats:
        times = parse_texts(text, zone.formats)
        other_texts = pc.if_else(times.is_valid(), pa.scalar(None, pa.string()), text)
        return pc.coalesce(_convert_local_times(times, zone), to_utc(other_texts, replace(zone, formats=())))
    has_offset = pc.fill_null(pc.match_substring_regex(text, OFFSET_PATTERN), False)
    null = pa.scalar(None, pa.string())
    times_with_offset = pc.if_else(has_offset, text, null).cast(UTC)
    local_times = pc.if_else(has_offset, null, text).cast(pa.timestamp("us"))
    return pc.coalesce(times_with_offset, _convert_local_times(local_times, zone))


def parse_texts(text: pa.Array, formats: Sequence[str]) -> pa.Array:
    """Return the times of the texts, without a zone; null if a text has none of the formats."""
    times = [pc.strptime(text, format=format, unit="us", error_is_null=True) for format in formats]
    return pc.coalesce(*times)


def _convert_local_times(local_times: pa.Array, zone: Zone) -> pa.Array:
    """Convert local times of the zone to UTC."""
    if local_times.null_count == len(local_times):
        return local_times.cast(UTC)
    if not zone.name:
        index = pc.index(local_times.is_valid(), True).as_py()
        raise BadValueError(index, "has no time zone", "Set timezone= to the time zone of the source's clocks.")
    earliest_time, latest_time = (
        pc.assume_timezone(local_times, zone.name, ambiguous=choice, nonexistent="earliest")
        for choice in ("earliest", "latest")
    )
    is_skipped = pc.not_equal(pc.local_timestamp(earliest_time), local_times)
    _refuse_bad_values(is_skipped, f"is not on the clocks of {zone.name} (DST gap)")
    if zone.ambiguous == "refuse":
        hint = 'Set ambiguous="earliest" or "latest".'
        _refuse_bad_values(pc.not_equal(earliest_time, latest_time), f"occurs twice on the clocks of {zone.name}", hint)
    return (latest_time if zone.ambiguous == "latest" else earliest_time).cast(UTC)


def _refuse_bad_values(is_bad: pa.Array, problem: str, hint: str = "") -> None:
    index = pc.index(pc.fill_null(is_bad, False), True).as_py()
    if index >= 0:
        raise BadValueError(index, problem, hint)
