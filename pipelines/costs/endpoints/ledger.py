"""Read and write the costs of endpoints: the lake's table `endpoint_costs`, partitioned by month.

A row has the cost of a fleet for a period within one day. The periods of a fleet do not overlap. So each hour is
charged once, however often and from however many processes the endpoints are metered.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import EqualTo

from pipelines.costs.charges import DIGITS, Price
from pipelines.costs.endpoints.fleets import HOUR_S, MB_PER_GB, Fleet, Key, Usage
from pipelines.costs.row_checks import check_rows, sum_project_cost_usd
from pipelines.costs.usage.columns import COLUMNS
from pipelines.lake import DATE_COLUMN, Lake
from pipelines.lake.month_table import MonthTable, TableVersion, get_month

TABLE = "endpoint_costs"
OBSERVED_COLUMN = "observed_h"
"""The column with the hours for which the utilization of the instances' CPU is known."""
_MOMENT, _TEXT = pa.timestamp("us", tz="UTC"), pa.string()
SCHEMA = pa.schema(
    [
        (DATE_COLUMN, pa.date32()),  # first day of the month of `begin`
        *((name, _TEXT) for name in ("region", "endpoint", "config", "variant", "project", "model")),
        ("instance_type", _TEXT),  # empty if the variant is serverless
        ("memory_mb", pa.int32()),  # 0 if the variant has instances
        *((name, _MOMENT) for name in ("begin", "end")),
        ("instances", pa.int32()),  # their number at the end of the period
        ("running", pa.bool_()),  # whether the fleet still ran at the end, as far as the metering knew
        ("instance_h", pa.float64()),
        ("requests", pa.int64()),
        ("busy_s", pa.float64()),
        ("price_usd_h", pa.float64()),  # of an instance, or of 1 GB of a serverless variant while it works
        ("price_date", pa.date32()),
        ("price_source", _TEXT),
        ("cost_usd", pa.float64()),
        *((name, pa.float64()) for name in ("zero_h", "saved_usd")),  # hours without any instance, what they saved
        # What the instances used, percent: cpu_peak, cpu_mean ... Null if it is not known.
        *((name, pa.float64()) for name in COLUMNS),
        (OBSERVED_COLUMN, pa.float64()),  # null if the utilization was not read: serverless variants, and old rows
        ("scaled", pa.bool_()),  # whether Application Auto Scaling changes the number of instances; null: not known
    ]
)

Row = dict[str, Any]


class EndpointLedger:
    """The table of the cost of endpoints. Rows are added and never changed."""

    def __init__(self, months: MonthTable) -> None:
        self._months = months

    @classmethod
    def open(cls, lake: Lake | None = None) -> EndpointLedger:
        """Open the table in the configured lake, or in another `lake`.

        Raises:
            ConflictError: the lake's catalog stayed locked. A retry can help.
        """
        return cls((lake or Lake.open()).get_month_table(TABLE, SCHEMA))

    def add(self, rows: Iterable[Row]) -> list[Row]:
        """Add rows, except those whose period is charged already. Each month is one commit; the oldest month is first.

        If the process ends between two months, the next metering begins where the added rows end.

        Returns:
            The rows that were added.

        Raises:
            ConflictError: other writers kept changing the table. A retry can help.
        """
        dated_rows = [{**row, DATE_COLUMN: get_month(row["begin"])} for row in rows]
        added_rows: list[Row] = []
        for month, group in groupby(sorted(dated_rows, key=lambda row: row[DATE_COLUMN]), lambda row: row[DATE_COLUMN]):
            added_rows += self._months.update(partial(_add_to_month, month=month, rows=list(group)))
        return added_rows

    def read_rows(self, month: str = "", project: str = "") -> list[Row]:
        """Read the rows of a month (YYYY-MM) and a project, oldest first. An empty argument selects all.

        Raises:
            DataError: a selected row lacks a time, or ends before it begins. A retry cannot help.
        """
        where = EqualTo(DATE_COLUMN, f"{month}-01") if month else None
        rows: list[Row] = self._months.read(where).to_pylist()
        selected_rows = [row for row in rows if project in ("", row["project"])]
        check_rows(selected_rows, names=())  # check only the times
        # A row without length says that a fleet has ended. It must follow the row that ends at the same moment.
        return sorted(selected_rows, key=lambda row: (row["end"], row["begin"], not row["running"], get_key(row)))

    def sum_cost_usd(self, month: str, project: str) -> float:
        """Sum the cost of the endpoints of a project in a month (YYYY-MM) as far as they were metered, USD.

        An empty project selects the endpoints without a project.

        Raises:
            DataError: a row is damaged, such as one whose cost is not known. A retry cannot help.
        """
        return sum_project_cost_usd(self.read_rows(month, project), project)


def build_row(
    fleet: Fleet,
    period: tuple[dt.datetime, dt.datetime],
    usage: Usage,
    price: Price,
    *,
    is_running: bool,
    resource_use: Mapping[str, float] | None = None,
    is_scaled: bool | None = None,
) -> Row:
    """Build the row of a fleet for a period within one day.

    Args:
        fleet: the fleet.
        period: beginning and end.
        usage: instance hours and requests of the fleet in the period.
        price: price of an instance per hour, or of an hour of work with 1 GB of memory.
        is_running: whether the fleet still ran at the end.
        resource_use: columns with the utilization of the instances, each with its value; None: it was not read.
        is_scaled: whether the number of instances is scaled automatically; None: not known.
    """
    busy_gb_h = usage.busy_s * fleet.memory_mb / MB_PER_GB / HOUR_S
    return {
        **vars(fleet),
        **dict(zip(("begin", "end"), period, strict=True)),
        "instances": usage.instance_count,
        "running": is_running,
        **{name: getattr(usage, name) for name in ("instance_h", "requests", "busy_s", "zero_h")},
        **{"price_usd_h": price.usd_h, "price_date": price.date, "price_source": price.source},
        "cost_usd": round((usage.instance_h + busy_gb_h) * price.usd_h, DIGITS),
        # Without scaling to zero, one instance would have run in these hours.
        "saved_usd": round(usage.zero_h * price.usd_h, DIGITS),
        **dict.fromkeys((*COLUMNS, OBSERVED_COLUMN)),
        **(resource_use or {}),
        "scaled": is_scaled,
    }


def find_last_rows(rows: Iterable[Row]) -> dict[Key, Row]:
    """Return the last row of each fleet. The rows are sorted as `EndpointLedger.read_rows` sorts them."""
    return {get_key(row): row for row in rows}


def get_fleet(row: Mapping[str, Any]) -> Fleet:
    """Return the fleet of a row."""
    return Fleet(**{name: row[name] for name in Fleet.__dataclass_fields__})


def get_key(row: Mapping[str, Any]) -> Key:
    """Return the key of the fleet of a row."""
    return row["region"], row["endpoint"], row["config"], row["variant"]


def _add_to_month(version: TableVersion, month: dt.date, rows: list[Row]) -> list[Row]:
    """Add the rows whose period does not overlap with one of the month; return these rows."""
    month_table = version.read_month(month)
    stored_rows = month_table.to_pylist()
    new_rows = [row for row in rows if not any(_is_charged(row, stored_row) for stored_row in stored_rows)]
    if new_rows:
        new_table = pa.Table.from_pylist(new_rows, schema=SCHEMA)
        version.replace_month(month, pa.concat_tables([month_table, new_table]))
    return new_rows


def _is_charged(row: Row, stored_row: Row) -> bool:
    """Return whether a stored row of the same fleet has the same period, or a period that overlaps with it."""
    if get_key(row) != get_key(stored_row):
        return False
    is_equal = (row["begin"], row["end"]) == (stored_row["begin"], stored_row["end"])
    return is_equal or (row["begin"] < stored_row["end"] and row["end"] > stored_row["begin"])
