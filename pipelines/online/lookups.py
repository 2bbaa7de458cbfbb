"""Look up the features that one request does not have; use their defaults where there is no current value."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

from pipelines.dataset import Dataset
from pipelines.errors import LeewayError
from pipelines.lookups import Lookup
from pipelines.online.declarations import name_group
from pipelines.online.store import OnlineStore, Record
from pipelines.online.values import build_array, iterate_identifiers, parse_value
from pipelines.partitions import Partition, get_begin
from pipelines.system.log import log

PAUSE_S = 1.0
"""Time without requests to a store that did not answer, seconds: so the server does not wait for it at each request."""
MEASURED_LOOKUPS = 1_000
"""Number of the last lookups whose latencies are kept."""


class Outcome(StrEnum):
    """What a lookup of one row found. All but the first mean that the row has the defaults."""

    FOUND = "found"
    MISSING = "missing"
    """The key is missing, or the store has no value for it."""
    TOO_OLD = "too_old"
    """The value is of a partition that is too far before the row's."""
    UNREACHABLE = "unreachable"
    """The store does not answer, or refuses the request."""


@dataclass(frozen=True)
class LookedUp:
    """The looked-up features of the rows of a request."""

    columns: Mapping[str, pa.Array]
    """Feature to its values, one for each row."""
    outcomes: Mapping[str, Sequence[Outcome]]
    """Lookup to its outcomes, one for each row."""

    def count(self) -> dict[str, dict[str, int]]:
        """Return the number of rows by lookup and outcome."""
        return {name: _format_counts(Counter(outcomes)) for name, outcomes in self.outcomes.items()}


@dataclass
class LookupReader:
    """Looks up the features of a dataset, and counts the outcomes. Threads may share it.

    A store that does not answer is not asked again for a second, and is logged once.
    """

    dataset: Dataset
    store: OnlineStore
    _counts: dict[str, Counter[Outcome]] = field(default_factory=dict)
    _latencies_s: deque[float] = field(default_factory=lambda: deque(maxlen=MEASURED_LOOKUPS))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _paused_until: float = 0.0
    _is_reachable: bool = True

    def look_up(self, rows: pa.Table, partitions: Sequence[Partition]) -> LookedUp:
        """Return the features of each row, as they are in the store, or their defaults. Never fails.

        Args:
            rows: rows with the columns of the keys, with the prefix `KEY_PREFIX`.
            partitions: the partition of each row.
        """
        lookups = self.dataset.lookups
        groups = {lookup.name: name_group(self.dataset, lookup) for lookup in lookups}
        identifiers = {lookup.name: list(iterate_identifiers(lookup, rows)) for lookup in lookups}
        wanted = {groups[name]: sorted({key for key in keys if key}) for name, keys in identifiers.items()}
        records = self._read(wanted)
        columns, outcomes = dict[str, pa.Array](), dict[str, list[Outcome]]()
        for lookup in lookups:
            found, outcomes[lookup.name] = [], list[Outcome]()
            for identifier, partition in zip(identifiers[lookup.name], partitions, strict=True):
                record = records.get((groups[lookup.name], identifier)) if records is not None else None
                outcome = _judge(lookup, record, partition) if records is not None else Outcome.UNREACHABLE
                outcomes[lookup.name].append(outcome)
                found.append(record if outcome is Outcome.FOUND else None)
            columns |= {name: self._build_column(lookup, name, found) for name in lookup.features}
        self._add_counts(outcomes)
        return LookedUp(columns, outcomes)

    def warm_up(self, rows: pa.Table) -> LookedUp:
        """Connect to the store, and look up one row without counting it: the first request would take longer."""
        self._read({name_group(self.dataset, self.dataset.lookups[0]): ["[]"]})
        looked_up = self.look_up(rows, [dt.date.max])
        self._counts.clear()
        self._latencies_s.clear()
        return looked_up

    def describe(self) -> dict[str, Any]:
        """Return the counts of all rows by lookup and outcome, and the latency of the last lookups, for /ping."""
        with self._lock:
            latencies = sorted(self._latencies_s)
            counts = {name: _format_counts(counter) for name, counter in self._counts.items()}
        quantiles = {f"p{share}_ms": _find_quantile_ms(latencies, share) for share in (50, 99)} if latencies else {}
        return {"lookups": counts, "lookup_latency": quantiles}

    def _read(self, wanted: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], Record] | None:
        """Return the records that exist; None if the store does not answer."""
        if not any(wanted.values()):
            return {}
        if time.monotonic() < self._paused_until:
            return None
        begin = time.perf_counter()
        try:
            records = self.store.read({group: keys for group, keys in wanted.items() if keys})
        except LeewayError as error:
            self._report(error)
            return None
        self._report(None)
        with self._lock:
            self._latencies_s.append(time.perf_counter() - begin)
        return records

    def _report(self, error: LeewayError | None) -> None:
        """Log that the store does not answer, or that it answers again; once for each change."""
        with self._lock:
            if error:
                self._paused_until = time.monotonic() + PAUSE_S
            has_changed, self._is_reachable = self._is_reachable is bool(error), error is None
        if has_changed and error:
            log.error("defaults are used instead of looked-up features: %s", error)
        elif has_changed:
            log.info("the online store answers again")

    def _build_column(self, lookup: Lookup, name: str, records: Sequence[Record | None]) -> pa.Array:
        default = lookup.features[name]
        values = [parse_value(self.dataset, name, record.values.get(name)) if record else default for record in records]
        return build_array(self.dataset, name, values)

    def _add_counts(self, outcomes: Mapping[str, Sequence[Outcome]]) -> None:
        with self._lock:
            for name, outcomes_of_rows in outcomes.items():
                self._counts.setdefault(name, Counter()).update(outcomes_of_rows)


def _judge(lookup: Lookup, record: Record | None, partition: Partition) -> Outcome:
    if record is None:
        return Outcome.MISSING
    # The event time is the begin of the value's partition and some milliseconds.
    age = get_begin(partition) - record.event_time
    return Outcome.TOO_OLD if age > lookup.max_age else Outcome.FOUND


def _format_counts(counts: Counter[Outcome]) -> dict[str, int]:
    return {outcome.value: counts[outcome] for outcome in Outcome if counts[outcome]}


def _find_quantile_ms(latencies: Sequence[float], share: int) -> float:
    return round(1e3 * latencies[min(len(latencies) * share // 100, len(latencies) - 1)], 2)
