"""Read and write the cost ledger: the lake's table `training_costs`, with a row for each job, partitioned by month."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import EqualTo

from pipelines.costs.payers import PAYER_COLUMNS
from pipelines.costs.predictions import PREDICTIONS
from pipelines.costs.restored_checkpoints import RESTORE_COLUMNS
from pipelines.costs.row_checks import check_rows, sum_project_cost_usd
from pipelines.costs.usage.columns import COLUMNS, DATA_WAIT_COLUMN
from pipelines.lake import DATE_COLUMN, Lake
from pipelines.lake.month_table import MonthTable, TableVersion, get_month

TABLE = "training_costs"
_MOMENT, _TEXT = pa.timestamp("us", tz="UTC"), pa.string()
SCHEMA = pa.schema(
    [
        (DATE_COLUMN, pa.date32()),  # first day of the month in which the job was created
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
        # Seconds of training that interruptions lost, seconds of all waits for instances, and of the first wait.
        *((name, pa.float64()) for name in ("lost_s", "capacity_s", "first_capacity_s")),
        # What the job used of its instances, percent: cpu_peak, cpu_mean ... Null if it is not known.
        *((name, pa.float64()) for name in COLUMNS),
        # Share of its time that a training waited for data. Null if its script did not report it.
        (DATA_WAIT_COLUMN, pa.float64()),
        # Why the instance type was chosen, and what was predicted then. Null if the task named the type itself.
        *((name, _TEXT) for name in ("instance_choice", "prediction_basis")),
        *((name, pa.float64()) for name in PREDICTIONS),
        # Interruptions after which the script restored a checkpoint, and after which it began anew. Null in old rows.
        *((name, pa.int64()) for name in RESTORE_COLUMNS),
        # Seconds in a queue of AWS Batch before the job was created. Null if it had no queue.
        ("queue_s", pa.float64()),
        # Who the job ran for, and its priority. Null or empty if it is not known.
        *((name, _TEXT) for name in PAYER_COLUMNS),
        # Bytes of the data of a training job. Null if it is not known.
        ("input_bytes", pa.int64()),
    ]
)

Row = dict[str, Any]


class Ledger:
    """The table of the cost of jobs. Rows are added and never changed."""

    def __init__(self, months: MonthTable) -> None:
        self._months = months

    @classmethod
    def open(cls, lake: Lake | None = None) -> Ledger:
        """Open the ledger in the configured lake, or in another `lake`.

        Raises:
            ConflictError: the lake's catalog stayed locked. A retry can help.
        """
        return cls((lake or Lake.open()).get_month_table(TABLE, SCHEMA))

    def add(self, rows: Iterable[Mapping[str, Any]]) -> list[Row]:
        """Add a row for each job that has no row yet. Idempotent: an existing row stays as it is.

        Args:
            rows: each maps a column to its value, without `date`. The columns `arn` and `created` identify the job.

        Returns:
            The jobs' rows in the ledger, in the order of `rows`.

        Raises:
            ConflictError: other writers kept changing the table. A retry can help.
        """
        dated_rows = [{**row, DATE_COLUMN: get_month(row["created"])} for row in rows]
        stored_rows: dict[tuple[str, dt.datetime], Row] = {}
        for month, group in groupby(sorted(dated_rows, key=_get_partition), _get_partition):
            stored_rows |= self._months.update(partial(_add_to_month, month=month, rows=list(group)))
        return [stored_rows[_get_job_key(row)] for row in dated_rows]

    def read_rows(self, month: str = "", project: str = "", dag_id: str = "") -> list[Row]:
        """Read the rows of a month (YYYY-MM), a project and a DAG, oldest job first. An empty argument selects all.

        Raises:
            DataError: a selected row has no date, ARN or creation time, or ends before it begins. A retry cannot help.
        """
        where = EqualTo(DATE_COLUMN, f"{month}-01") if month else None
        rows: list[Row] = self._months.read(where).to_pylist()
        selected_rows = [row for row in rows if project in ("", row["project"]) and dag_id in ("", row["dag_id"])]
        check_rows(selected_rows, names=())  # check no amounts
        return sorted(selected_rows, key=lambda row: (row["created"], row["arn"]))

    def sum_cost_usd(self, month: str, project: str) -> float:
        """Sum the cost of the jobs that a project created in a month (YYYY-MM), USD. Running jobs are not included.

        An empty project selects the jobs without a project.

        Raises:
            DataError: a row is damaged, such as one whose cost is not known. A retry cannot help.
        """
        return sum_project_cost_usd(self.read_rows(month, project), project)


def _add_to_month(version: TableVersion, month: dt.date, rows: list[Row]) -> dict[tuple[str, dt.datetime], Row]:
    """Add the rows of jobs that the month does not have yet; return all rows of the month by job."""
    month_table = version.read_month(month)
    stored_rows = {_get_job_key(row): row for row in month_table.to_pylist()}
    new_rows = {_get_job_key(row): row for row in rows if _get_job_key(row) not in stored_rows}
    if new_rows:
        new_table = pa.Table.from_pylist(list(new_rows.values()), schema=SCHEMA)
        version.replace_month(month, pa.concat_tables([month_table, new_table]))
        stored_rows |= {_get_job_key(row): row for row in new_table.to_pylist()}
    return stored_rows


def get_current_month() -> str:
    """Return the current month in UTC, YYYY-MM."""
    return f"{dt.datetime.now(dt.UTC):%Y-%m}"


def _get_job_key(row: Row) -> tuple[str, dt.datetime]:
    # On AWS the ARN alone identifies a job. A drydock whose data was removed can use an ARN again.
    return row["arn"], row["created"]


def _get_partition(row: Row) -> dt.date:
    return row[DATE_COLUMN]  # type: ignore[no-any-return]
