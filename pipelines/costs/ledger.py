"""The ledger: one row a training job in the lake's table `training_costs`, a partition a month."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import EqualTo

from pipelines.lake import PARTITION
from pipelines.lake.month_table import MonthTable, TableVersion, month_of

TABLE = "training_costs"
_MOMENT, _TEXT = pa.timestamp("us", tz="UTC"), pa.string()
SCHEMA = pa.schema(
    [
        (PARTITION, pa.date32()),  # first day of the month in which the job was created
        *((name, _TEXT) for name in ("name", "arn", "region", "project", "model", "dag_id", "run_id", "task_id")),
        ("map_index", pa.int32()),
        ("instance_type", _TEXT),
        ("instance_count", pa.int32()),
        ("spot", pa.bool_()),
        *((name, _TEXT) for name in ("status", "secondary_status", "failure_reason")),
        *((name, _MOMENT) for name in ("created", "started", "ended")),
        *((name, pa.int64()) for name in ("training_s", "billable_s")),
        ("price_usd_h", pa.float64()),
        ("price_date", pa.date32()),
        ("price_source", _TEXT),
        *((name, pa.float64()) for name in ("cost_usd", "on_demand_usd", "saving")),
        ("interruptions", pa.int64()),
        *((name, pa.float64()) for name in ("lost_s", "capacity_s", "first_capacity_s")),
    ]
)

Row = dict[str, Any]


class Ledger:
    """The table of what trainings cost. Rows are added, and never changed."""

    def __init__(self, months: MonthTable) -> None:
        self._months = months

    @classmethod
    def open(cls) -> Ledger:
        """The ledger in the configured lake.

        Raises:
            ConflictError: the lake's catalog stayed locked. A retry can help.
        """
        return cls(MonthTable(TABLE, SCHEMA))

    def add(self, rows: Iterable[Mapping[str, Any]]) -> list[Row]:
        """Every job of `rows` has its row. Idempotent: a job that has one keeps it, whoever else writes meanwhile.

        Args:
            rows: column to value, `date` excepted; what says which job it is are `arn` and `created`.

        Returns:
            The jobs' rows as the ledger has them, in the order of `rows`.

        Raises:
            ConflictError: other writers kept winning. A retry can help.
        """
        given = [{**row, PARTITION: month_of(row["created"])} for row in rows]
        kept: dict[tuple[str, dt.datetime], Row] = {}
        for month, members in groupby(sorted(given, key=_month), _month):
            fresh = list(members)
            kept |= self._months.update(partial(_add_once, month=month, fresh=fresh))
        return [kept[_key(row)] for row in given]

    def rows(self, month: str = "", project: str = "", dag_id: str = "") -> list[Row]:
        """The rows of a month (YYYY-MM), a project and a DAG, oldest job first; of all where it is empty."""
        where = EqualTo(PARTITION, f"{month}-01") if month else None
        found: list[Row] = self._months.read(where).to_pylist()
        chosen = [one for one in found if project in ("", one["project"]) and dag_id in ("", one["dag_id"])]
        return sorted(chosen, key=lambda row: (row["created"], row["arn"]))

    def spent_usd(self, month: str, project: str) -> float:
        """What the jobs of a project cost that were created in a month (YYYY-MM). One that still runs is not in it."""
        return float(sum(row["cost_usd"] for row in self.rows(month, project)))


def _add_once(version: TableVersion, month: dt.date, fresh: list[Row]) -> dict[tuple[str, dt.datetime], Row]:
    """Add those of the fresh rows that the month lacks; return the month's rows by job."""
    had = version.read_month(month)
    kept = {_key(row): row for row in had.to_pylist()}
    new = {_key(row): row for row in fresh if _key(row) not in kept}
    if new:
        added = pa.Table.from_pylist(list(new.values()), schema=SCHEMA)
        version.replace_month(month, pa.concat_tables([had, added]))
        kept |= {_key(row): row for row in added.to_pylist()}
    return kept


def this_month() -> str:
    """The current month, YYYY-MM, in UTC."""
    return f"{dt.datetime.now(dt.UTC):%Y-%m}"


def _key(row: Row) -> tuple[str, dt.datetime]:
    # AWS never gives a name twice, so the ARN would do there; a drydock whose data was removed does.
    return row["arn"], row["created"]


def _month(row: Row) -> dt.date:
    return row[PARTITION]  # type: ignore[no-any-return]
