"""Store which notices were reported, so that each is reported once.

A notice is written to the lake's table `cost_notices`, with the task that reports it, before anybody is notified.
So no other task reports it again. A retry of the same task gets the same notices again. So a task that was killed after
the write loses no notice. People are notified twice only if the task was killed after its message, or is cleared.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipelines.costs.showback.notice import Notice
from pipelines.lake import DATE_COLUMN, Lake
from pipelines.lake.month_table import MonthTable, TableVersion, get_month

TABLE = "cost_notices"
_TEXT = pa.string()
SCHEMA = pa.schema(
    [
        (DATE_COLUMN, pa.date32()),  # first day of the month of `at`
        ("at", pa.timestamp("us", tz="UTC")),
        *((name, _TEXT) for name in ("kind", "project", "subject")),
        ("budget_usd", pa.float64()),  # null for an anomaly
        ("threshold_percent", pa.int32()),  # 0 for a forecast or an anomaly
        ("text", _TEXT),
        ("run", _TEXT),
    ]
)


class NoticeTable:
    """The table of the notices that were reported."""

    def __init__(self, months: MonthTable) -> None:
        self._months = months

    @classmethod
    def open(cls, lake: Lake | None = None) -> NoticeTable:
        """Open the table in the configured lake, or in another `lake`.

        Raises:
            ConflictError: the lake's catalog stayed locked. A retry can help.
        """
        return cls((lake or Lake.open()).get_month_table(TABLE, SCHEMA))

    def claim(self, notices: Sequence[Notice], run: str, now: dt.datetime) -> list[Notice]:
        """Write the notices that nobody has reported yet, and return those that this task has to report.

        Idempotent for a task: a retry also gets the notices that its earlier try has written.

        Args:
            notices: the notices that could be reported.
            run: task that reports them, DAG/RUN/TASK. Empty: nothing is written, because a person only
                reads the notices, and the next task reports them.
            now: the current moment.

        Raises:
            ConflictError: other writers kept changing the table. A retry can help.
        """
        reported_rows = self._months.read().to_pylist()

        def add(version: TableVersion) -> list[Notice]:
            month = get_month(now)
            month_table = version.read_month(month)
            earlier_rows = [row for row in reported_rows if row[DATE_COLUMN] != month]
            stored_rows = [*earlier_rows, *month_table.to_pylist()]
            new_notices = [item for item in notices if not any(map(item.is_covered_by, stored_rows))]
            if new_notices and run:
                rows = [{**item.model_dump(), DATE_COLUMN: month, "at": now, "run": run} for item in new_notices]
                new_table = pa.Table.from_pylist(rows, schema=SCHEMA)
                version.replace_month(month, pa.concat_tables([month_table, new_table]))
            own_notices = [_to_notice(row) for row in stored_rows if run and row["run"] == run]
            return [*own_notices, *new_notices]

        return self._months.update(add)


def _to_notice(row: Mapping[str, Any]) -> Notice:
    return Notice(**{name: row[name] for name in Notice.model_fields})
