"""Store the metrics of endpoints and notebook instances.

Without them, a busy endpoint would look idle after a restart of the server.

A row has the values of one metric that one run of the server recorded in one minute. After a day, the rows of an hour
become one row. So a metric has at most about 1,500 rows of minutes and 1,500 rows of hours, however often it is
recorded.
"""

import json
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from drydock.cloudwatch.statistics import HistogramDatum
from drydock.resources import Owner
from drydock.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS metric_data (
    account TEXT, region TEXT, namespace TEXT, name TEXT, dimensions TEXT, unit TEXT, begin INTEGER, is_hour INTEGER,
    server TEXT, content TEXT, PRIMARY KEY (account, region, namespace, name, dimensions, begin, is_hour, server)
) WITHOUT ROWID;
"""
INSERT = "INSERT OR REPLACE INTO metric_data VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
MINUTES_RETENTION = timedelta(days=1)
"""Age at which the rows of an hour's minutes become one row."""
RETENTION = timedelta(days=63)
"""Age at which rows are deleted. CloudWatch keeps data points of five minutes for the same time."""
HOUR_S = 3_600
_IS_MINUTE, _IS_HOUR = 0, 1
"""Values of the column is_hour."""

Row = tuple[Any, ...]


class StoredMetrics:
    """The stored metrics of all accounts and regions. Safe for several threads.

    Args:
        store: The server's storage.
    """

    def __init__(self, store: Store) -> None:
        # If the server restarts within a minute, both runs store a row of this minute, and the second run must not
        # replace the row of the first. So the key of a row has a random name of the run.
        self._store, self._server = store, secrets.token_hex(4)
        store.create_tables(SCHEMA)

    def build_row(self, owner: Owner, datum: HistogramDatum) -> Row:
        """Build the row of a metric's values in a minute, as they are now."""
        return (*_build_key(owner, datum), _to_seconds(datum.timestamp), _IS_MINUTE, self._server, _dump(datum))

    def write(self, rows: Iterable[Row]) -> None:
        """Store rows. They replace the rows of the same metrics and minutes that this run of the server has stored."""
        with self._store.transaction() as db:
            db.executemany(INSERT, rows)

    def load(self, owner: Owner) -> list[HistogramDatum]:
        """Return the metrics of an account and region, oldest first."""
        columns = "namespace, name, dimensions, unit, begin, content"
        statement = f"SELECT {columns} FROM metric_data WHERE account = ? AND region = ? ORDER BY begin"  # noqa: S608
        return [_load(*row) for row in self._store.query(statement, (owner.account_id, owner.region))]

    def delete(self, owner: Owner) -> None:
        """Delete the metrics of an account and region."""
        with self._store.transaction() as db:
            db.execute("DELETE FROM metric_data WHERE account = ? AND region = ?", (owner.account_id, owner.region))

    def compact(self, now: datetime) -> None:
        """Merge the minutes of each hour that ended more than a day ago, and delete rows of more than 63 days ago.

        Idempotent.

        Args:
            now: The time in UTC, without a time zone, as in moto.
        """
        end_s = _to_seconds(now - MINUTES_RETENTION) // HOUR_S * HOUR_S
        hours: dict[Row, HistogramDatum] = {}
        statement = "SELECT * FROM metric_data WHERE begin < ? AND is_hour = 0"
        for row in self._store.query(statement, (end_s,)):
            account, region, namespace, name, dimensions, unit, begin, _, _, content = row
            hour_s = begin // HOUR_S * HOUR_S
            key = (account, region, namespace, name, dimensions, unit, hour_s, _IS_HOUR, self._server)
            datum = _load(namespace, name, dimensions, unit, hour_s, content)
            if (hour := hours.setdefault(key, datum)) is not datum:
                hour.merge(datum)
        with self._store.transaction() as db:
            db.execute("DELETE FROM metric_data WHERE begin < ? AND is_hour = 0", (end_s,))
            db.executemany(INSERT, [(*key, _dump(hour)) for key, hour in hours.items()])
            db.execute("DELETE FROM metric_data WHERE begin < ?", (_to_seconds(now - RETENTION),))


def _build_key(owner: Owner, datum: HistogramDatum) -> Row:
    dimensions = json.dumps([[item.name, item.value] for item in datum.dimensions])
    return owner.account_id, owner.region, datum.namespace, datum.name, dimensions, datum.unit


def _load(namespace: str, name: str, dimensions: str, unit: str, begin: int, content: str) -> HistogramDatum:
    moment = datetime.fromtimestamp(begin, UTC).replace(tzinfo=None)
    pairs = [{"Name": key, "Value": value} for key, value in json.loads(dimensions)]
    datum = HistogramDatum(namespace, name, pairs, moment, unit, 0.0)  # `load` replaces the value
    datum.load(json.loads(content))
    return datum


def _dump(datum: HistogramDatum) -> str:
    return json.dumps(datum.dump())


def _to_seconds(moment: datetime) -> int:
    return int(moment.replace(tzinfo=UTC).timestamp())
