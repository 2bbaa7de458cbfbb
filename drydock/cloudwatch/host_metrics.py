"""Store the metrics of the hosts of jobs: CPU, memory, disk and GPU, one datum a minute for each metric of a host.

The metrics can be read after a job has ended, so they survive a restart of the server. Their number is bounded: the
oldest minutes are deleted.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from moto.core.utils import utcnow

from drydock.cloudwatch.statistics import HistogramDatum
from drydock.resources import Owner
from drydock.store import Store

MAX_AGE = timedelta(days=15)
"""Age at which a minute is deleted: as long as CloudWatch keeps the data of single minutes."""
MAX_MINUTES = 10_000
"""Largest number of stored minutes of an account and region, summed over the hosts: about 10 MB."""
DIMENSION, UNIT = "Host", "Percent"
SCHEMA = """
CREATE TABLE IF NOT EXISTS host_metrics (
    account TEXT, region TEXT, namespace TEXT, host TEXT, minute TEXT, data TEXT,
    PRIMARY KEY (account, region, namespace, host, minute)
);
"""
_WRITE = "INSERT OR REPLACE INTO host_metrics VALUES (?, ?, ?, ?, ?, ?)"
_DELETE = "DELETE FROM host_metrics WHERE account = ? AND region = ? AND namespace = ? AND host = ? AND minute = ?"
_READ = "SELECT namespace, host, minute, data FROM host_metrics WHERE account = ? AND region = ? ORDER BY minute, rowid"

Key = tuple[str, str, datetime]
"""Namespace, host and minute."""


class HostMetrics:
    """The metrics of the hosts of one account and region. Safe for several threads.

    Args:
        store: The server's storage.
        owner: The account and the region.
    """

    def __init__(self, store: Store, owner: Owner) -> None:
        self._store, self._owner = store, owner
        self._lock = threading.Lock()
        store.create_tables(SCHEMA)
        self._minutes: dict[Key, dict[str, HistogramDatum]] = dict(self._read())

    def record(self, namespace: str, host: str, values: Mapping[str, float]) -> None:
        """Add one value to each metric in `values` for the current minute, and store the minute.

        Args:
            namespace: The metrics' namespace.
            host: Value of the dimension Host.
            values: The value of each metric, in percent, by the metric's name.

        Raises:
            sqlite3.Error: The disk is full or not writable. A retry can help.
        """
        with self._lock:
            # Within the lock: a thread that waited for the lock must not add an earlier minute after a later one.
            key = (namespace, host, utcnow().replace(second=0, microsecond=0))
            data = self._minutes.setdefault(key, {})
            for name, value in values.items():
                if name in data:
                    data[name].add(value)
                else:
                    data[name] = _create_datum(key, name, value)
            text = json.dumps({name: datum.dump() for name, datum in data.items()})
            excess = list(self._remove_excess())
            with self._store.transaction() as db:
                db.execute(_WRITE, (*self._get_row_key(key), text))
                db.executemany(_DELETE, map(self._get_row_key, excess))

    def list_data(self, namespace: str = "") -> list[HistogramDatum]:
        """Return the data of the metrics of a namespace, oldest first; of all namespaces if `namespace` is ""."""
        with self._lock:
            items = [data for (name, *_), data in self._minutes.items() if namespace in ("", name)]
            return [datum for data in items for datum in data.values()]

    def delete_all(self) -> None:
        """Delete all data."""
        with self._lock, self._store.transaction() as db:
            self._minutes.clear()
            statement = "DELETE FROM host_metrics WHERE account = ? AND region = ?"
            db.execute(statement, (self._owner.account_id, self._owner.region))

    def _remove_excess(self) -> Iterator[Key]:
        """Remove the oldest minutes, if there are too many or they are too old. Yield them."""
        oldest_time = utcnow() - MAX_AGE
        while len(self._minutes) > MAX_MINUTES or next(iter(self._minutes))[2] < oldest_time:
            key = next(iter(self._minutes))  # minutes are added in the order of time
            del self._minutes[key]
            yield key

    def _get_row_key(self, key: Key) -> tuple[str, ...]:
        namespace, host, minute = key
        return self._owner.account_id, self._owner.region, namespace, host, minute.isoformat()

    def _read(self) -> Iterator[tuple[Key, dict[str, HistogramDatum]]]:
        rows = self._store.query(_READ, (self._owner.account_id, self._owner.region))
        for namespace, host, minute, text in rows:
            key = (namespace, host, datetime.fromisoformat(minute))
            data = {}
            for name, numbers in json.loads(text).items():
                data[name] = _create_datum(key, name, 0.0)  # `load` replaces the value
                data[name].load(numbers)
            yield key, data


def _create_datum(key: Key, name: str, value: float) -> HistogramDatum:
    namespace, host, minute = key
    return HistogramDatum(namespace, name, [{"Name": DIMENSION, "Value": host}], minute, UNIT, value)
