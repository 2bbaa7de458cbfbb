"""Store profiles in the lake's table `profiles`. A row is one column of the profile of a day and model version.

The table is partitioned by month, so that a year of profiles is read from a dozen files. A table that an earlier
version of Leeway created also has a column `sketch`, which is not used: it is not read, and is null in new rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThanOrEqual

from pipelines.lake import DATE_COLUMN, Lake
from pipelines.lake.month_table import MonthTable, TableVersion, get_month_of_day
from pipelines.monitoring.profiles.profile import Profile

TABLE = "profiles"
SCHEMA = pa.schema(
    [
        (DATE_COLUMN, pa.date32()),  # first day of the month of `day`
        ("day", pa.date32()),
        *((name, pa.string()) for name in ("model_name", "model_version", "reference", "kind", "name")),
        ("at", pa.int32()),  # position among the columns of the profile
        ("rows", pa.int64()),
        ("counts", pa.list_(pa.field("element", pa.int64()))),
        *((name, pa.int64()) for name in ("missing", "absent")),
        ("actual_types", pa.list_(pa.field("element", pa.string()))),
        ("n", pa.int64()),
        *((name, pa.float64()) for name in ("center", "s1", "s2", "minimum", "maximum")),
        ("sums", pa.list_(pa.field("element", pa.float64()))),
    ]
)
"""Columns of the table. `reference` and `rows` are fields of `Profile`; `Column` explains the others from `kind` on."""


class Profiles:
    """The table of profiles, with one profile for each day and model version."""

    def __init__(self, months: MonthTable) -> None:
        self._months = months

    @classmethod
    def open(cls, lake: Lake | None = None) -> Profiles:
        """Open the table in the configured lake, or in another `lake`.

        Raises:
            ConflictError: the lake's catalog stayed locked. A retry can help.
        """
        return cls((lake or Lake.open()).get_month_table(TABLE, SCHEMA))

    def write(self, day: dt.date, model_name: str, model_version: str, profile: Profile) -> bool:
        """Write the profile of a day that a model version scored, replacing the earlier profile of that day.

        Idempotent: if the profile is the same as before, nothing is committed.

        Returns:
            Whether the profile changed.

        Raises:
            ConflictError: other writers kept changing the table. A retry can help.
        """
        key = {"day": day, "model_name": model_name, "model_version": model_version}
        return self._months.update(partial(_replace_profile, key=key, profile=profile))

    def read_window(self, first: dt.date, last: dt.date, model_name: str, model_version: str) -> dict[dt.date, Profile]:
        """Read the profiles of a model version on the days `first` to `last`. Days without a profile are left out.

        Args:
            first: first day, included.
            last: last day, included.
            model_name: registered model.
            model_version: number of the version.

        Returns:
            Maps each day to its profile, in the order of the days.

        Raises:
            DataError: the rows of a profile belong to several references. A retry cannot help.
        """
        condition = And(
            And(
                GreaterThanOrEqual(DATE_COLUMN, get_month_of_day(first).isoformat()),
                LessThanOrEqual(DATE_COLUMN, last.isoformat()),
            ),
            And(GreaterThanOrEqual("day", first.isoformat()), LessThanOrEqual("day", last.isoformat())),
            And(EqualTo("model_name", model_name), EqualTo("model_version", model_version)),
        )
        rows_by_day: dict[dt.date, list[dict[str, Any]]] = {}
        for row in self._months.read(condition, SCHEMA.names).to_pylist():
            rows_by_day.setdefault(row["day"], []).append(row)
        return {day: _build_profile(rows_by_day[day]) for day in sorted(rows_by_day)}

    def find_profiled_days(self, first: dt.date, last: dt.date, model_name: str) -> set[dt.date]:
        """Find the days from `first` to `last` for which any version of the model has a profile."""
        in_days = And(GreaterThanOrEqual("day", first.isoformat()), LessThanOrEqual("day", last.isoformat()))
        from_month = GreaterThanOrEqual(DATE_COLUMN, get_month_of_day(first).isoformat())
        condition = And(from_month, in_days, EqualTo("model_name", model_name))
        return set(self._months.read(condition, ("day",))["day"].to_pylist())


def _replace_profile(version: TableVersion, key: Mapping[str, Any], profile: Profile) -> bool:
    """Replace the rows of one profile among those of its month. Return whether the profile changed."""
    month = get_month_of_day(key["day"])
    month_rows = version.read_month(month).to_pylist()
    old_rows = [row for row in month_rows if all(row[name] == value for name, value in key.items())]
    if old_rows and _build_profile(old_rows).is_equivalent(profile):
        return False
    new_rows = [{**row, **key, DATE_COLUMN: month, "at": position} for position, row in enumerate(profile.to_rows())]
    rows = sorted([row for row in month_rows if row not in old_rows] + new_rows, key=_get_sort_key)
    version.replace_month(month, pa.Table.from_pylist(rows, schema=SCHEMA))
    return True


def _build_profile(rows: Sequence[Mapping[str, Any]]) -> Profile:
    return Profile.from_rows(sorted(rows, key=_get_sort_key))


def _get_sort_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["day"], row["model_name"], row["model_version"], row["at"]
