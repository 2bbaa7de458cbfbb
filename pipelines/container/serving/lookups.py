"""Look up in the online store the features that a request does not have; use defaults where it has no valid value."""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

from pipelines.container.serving.compiled_features import CompiledLookup
from pipelines.container.serving.online_records import OnlineRecords, Record, StoreError
from pipelines.container.serving.values import iterate_identifiers, parse_value

PAUSE_S = 1.0
"""Seconds without lookups after the store did not answer, so that not every request waits for the store."""
MAX_LATENCIES = 1_000
"""Number of the last lookups whose latencies are kept."""
LOOKUP_TIMEOUT_S = 0.5
"""Longest time to connect to the online store, and to wait for its answer, seconds."""
log = logging.getLogger("leeway")


class Outcome(StrEnum):
    """Outcome of a lookup for one row. The row gets the defaults unless the outcome is `found`."""

    FOUND = "found"
    MISSING = "missing"
    """The key is missing, or the store has no value for it."""
    TOO_OLD = "too_old"
    """The partition of the value is too far before the row's partition."""
    TOO_NEW = "too_new"
    """The value belongs to the row's own partition or to a later one, but the lookup allows only earlier partitions."""
    UNREACHABLE = "unreachable"
    """The store does not answer, or refuses the request."""


@dataclass(frozen=True)
class LookupResult:
    """The looked-up features of the rows of a request."""

    columns: Mapping[str, Sequence[float | str | None]]
    """Maps each feature to its values, one for each row: numbers are floats, and None is a missing value."""
    outcomes: Mapping[str, Sequence[Outcome]]
    """Maps each lookup to its outcomes, one for each row."""

    def count(self) -> dict[str, dict[str, int]]:
        """Return the number of rows by lookup and outcome."""
        return {name: _format_counts(Counter(outcomes)) for name, outcomes in self.outcomes.items()}

    def slice(self, begin: int, count: int) -> LookupResult:
        """Return the features of `count` of the rows, from the position `begin`."""
        end = begin + count
        columns = {name: values[begin:end] for name, values in self.columns.items()}
        return LookupResult(columns, {name: values[begin:end] for name, values in self.outcomes.items()})


@dataclass
class LookupReader:
    """Looks up the features of rows in the online store, and counts the outcomes. Threads may share it.

    A store that does not answer, or refuses a request, gets no requests for a second. Only the first of several
    such errors in a row is logged.
    """

    lookups: Sequence[CompiledLookup]
    kinds: Mapping[str, str]
    """Maps each feature to its kind, number or category."""
    store: OnlineRecords
    _counts: dict[str, Counter[Outcome]] = field(default_factory=dict)
    _latencies_s: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_LATENCIES))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _paused_until: float = 0.0
    _is_reachable: bool = True

    def look_up(self, rows: pa.Table, partition_starts: Sequence[dt.datetime]) -> LookupResult:
        """Return the features of each row, as they are in the store, or their defaults. A `StoreError` is not raised.

        Args:
            rows: rows with the columns of the keys.
            partition_starts: beginning of the partition of each row, in UTC.
        """
        identifiers = {lookup.name: list(iterate_identifiers(lookup.key_columns, rows)) for lookup in self.lookups}
        keys_by_group = {
            lookup.group: sorted({key for key in identifiers[lookup.name] if key}) for lookup in self.lookups
        }
        records = self._read(keys_by_group)
        columns, outcomes = dict[str, list[float | str | None]](), dict[str, list[Outcome]]()
        for lookup in self.lookups:
            valid_records, outcomes[lookup.name] = [], list[Outcome]()
            for identifier, start in zip(identifiers[lookup.name], partition_starts, strict=True):
                record = records.get((lookup.group, identifier)) if records is not None else None
                outcome = _find_outcome(lookup, record, start) if records is not None else Outcome.UNREACHABLE
                outcomes[lookup.name].append(outcome)
                valid_records.append(record if outcome is Outcome.FOUND else None)
            columns |= {name: self._list_values(lookup, name, valid_records) for name in lookup.features}
        self._add_counts(outcomes)
        return LookupResult(columns, outcomes)

    def warm_up(self, rows: pa.Table) -> LookupResult:
        """Connect to the store, and look up one row without counting it. Otherwise the first request takes longer.

        Args:
            rows: one row of missing values.
        """
        # This connects: `look_up` sends no request for a row without a key.
        self._read({self.lookups[0].group: ["[]"]})
        result = self.look_up(rows, [dt.datetime.max.replace(tzinfo=dt.UTC)])
        self._counts.clear()
        self._latencies_s.clear()
        return result

    def describe(self) -> dict[str, Any]:
        """Return the counts of all rows by lookup and outcome, and the latency of the last lookups, for /ping."""
        with self._lock:
            latencies = sorted(self._latencies_s)
            counts = {name: _format_counts(counter) for name, counter in self._counts.items()}
        percents = (50, 99) if latencies else ()
        quantiles = {f"p{percent}_ms": _find_quantile_ms(latencies, percent) for percent in percents}
        return {"lookups": counts, "lookup_latency": quantiles}

    def _read(self, keys_by_group: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], Record] | None:
        """Return the records that exist; None if the store does not answer."""
        if not any(keys_by_group.values()):
            return {}
        if time.monotonic() < self._paused_until:
            return None
        begin = time.perf_counter()
        try:
            records = self.store.read({group: keys for group, keys in keys_by_group.items() if keys})
        except StoreError as error:
            self._update_reachability(error)
            return None
        self._update_reachability(None)
        with self._lock:
            self._latencies_s.append(time.perf_counter() - begin)
        return records

    def _update_reachability(self, error: StoreError | None) -> None:
        """Log that the store does not answer, or that it answers again; once for each change."""
        is_reachable = error is None
        with self._lock:
            if error:
                self._paused_until = time.monotonic() + PAUSE_S
            has_changed, self._is_reachable = is_reachable != self._is_reachable, is_reachable
        if has_changed and error:
            log.error("defaults are used instead of looked-up features: %s", error)
        elif has_changed:
            log.info("the online store answers again")

    def _list_values(
        self, lookup: CompiledLookup, name: str, records: Sequence[Record | None]
    ) -> list[float | str | None]:
        """Return a feature's value for each row: that of the row's record, or the default if the row has no record.

        A value that the record lacks is missing: it does not get the default.
        """
        kind, default = self.kinds[name], lookup.features[name]
        if kind == "number" and default is not None:
            default = float(default)
        return [parse_value(kind, record.values.get(name)) if record else default for record in records]

    def _add_counts(self, outcomes: Mapping[str, Sequence[Outcome]]) -> None:
        with self._lock:
            for name, outcomes_of_rows in outcomes.items():
                self._counts.setdefault(name, Counter()).update(outcomes_of_rows)


def _find_outcome(lookup: CompiledLookup, record: Record | None, partition_start: dt.datetime) -> Outcome:
    if record is None:
        return Outcome.MISSING
    # `pipelines.online.materialize` sets the event time: the beginning of the value's partition, plus a sequence number
    # of the write in milliseconds.
    age = partition_start - record.event_time
    if lookup.is_of_earlier_partition and age <= dt.timedelta(0):
        return Outcome.TOO_NEW
    return Outcome.TOO_OLD if age > dt.timedelta(seconds=lookup.max_age_s) else Outcome.FOUND


def _format_counts(counts: Counter[Outcome]) -> dict[str, int]:
    return {outcome.value: counts[outcome] for outcome in Outcome if counts[outcome]}


def _find_quantile_ms(latencies: Sequence[float], percent: int) -> float:
    return round(1e3 * latencies[min(len(latencies) * percent // 100, len(latencies) - 1)], 2)
