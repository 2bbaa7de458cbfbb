"""The lake's table `profiles`: one row a column of a partition's profile, by model version.

A partition of the table is a month: a year of profiles is a dozen files, read in a moment.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThanOrEqual

from pipelines.lake import PARTITION
from pipelines.lake.month_table import ALL_COLUMNS, MonthTable, TableVersion, month_of_day
from pipelines.monitoring.profiles.profile import Profile

TABLE = "profiles"
SKETCH = "sketch"
SCHEMA = pa.schema(
    [
        (PARTITION, pa.date32()),  # first day of the month of the next
        ("day", pa.date32()),
        *((name, pa.string()) for name in ("model_name", "model_version", "reference", "kind", "name")),
        ("at", pa.int32()),  # place among the columns of the profile
        ("rows", pa.int64()),
        ("counts", pa.list_(pa.field("element", pa.int64()))),
        *((name, pa.int64()) for name in ("missing", "absent")),
        ("found", pa.list_(pa.field("element", pa.string()))),
        ("n", pa.int64()),
        *((name, pa.float64()) for name in ("center", "s1", "s2", "minimum", "maximum")),
        ("sums", pa.list_(pa.field("element", pa.float64()))),
        (SKETCH, pa.binary()),
    ]
)


class Profiles:
    """The table of profiles: one of each partition and model version."""

    def __init__(self, months: MonthTable) -> None:
        self._months = months

    @classmethod
    def open(cls) -> Profiles:
        """The table in the configured lake.

        Raises:
            ConflictError: the lake's catalog stayed locked. A retry can help.
        """
        return cls(MonthTable(TABLE, SCHEMA))

    def put(self, day: dt.date, model_name: str, model_version: str, profile: Profile) -> bool:
        """`profile` is the partition's by that version, in the place of what was. Returns whether it changed.

        Idempotent: a profile of equal rows commits nothing.

        Raises:
            ConflictError: other writers kept winning. A retry can help.
        """
        whose = {"day": day, "model_name": model_name, "model_version": model_version}
        return self._months.update(partial(_put_once, whose=whose, profile=profile))

    def window(
        self, first: dt.date, last: dt.date, model_name: str, model_version: str, *, sketches: bool = False
    ) -> dict[dt.date, Profile]:
        """The profiles of the partitions `first`..`last` by a version, by day; days without one are not among them.

        Args:
            first: of the days.
            last: of the days, included.
            model_name: of the registry.
            model_version: its number.
            sketches: whether the quantile sketches are read, too.

        Raises:
            DataError: a profile is not whole.
        """
        only = And(
            And(
                GreaterThanOrEqual(PARTITION, month_of_day(first).isoformat()),
                LessThanOrEqual(PARTITION, last.isoformat()),
            ),
            And(GreaterThanOrEqual("day", first.isoformat()), LessThanOrEqual("day", last.isoformat())),
            And(EqualTo("model_name", model_name), EqualTo("model_version", model_version)),
        )
        by_day: dict[dt.date, list[dict[str, Any]]] = {}
        columns = ALL_COLUMNS if sketches else tuple(name for name in SCHEMA.names if name != SKETCH)
        for row in self._months.read(only, columns).to_pylist():
            by_day.setdefault(row["day"], []).append(row)
        return {day: _profile(by_day[day]) for day in sorted(by_day)}

    def scored(self, first: dt.date, last: dt.date, model_name: str) -> set[dt.date]:
        """The days `first`..`last` of which any version of the model has a profile."""
        between = And(GreaterThanOrEqual("day", first.isoformat()), LessThanOrEqual("day", last.isoformat()))
        months = GreaterThanOrEqual(PARTITION, month_of_day(first).isoformat())
        where = And(months, between, EqualTo("model_name", model_name))
        return set(self._months.read(where, ("day",))["day"].to_pylist())


def _put_once(version: TableVersion, whose: Mapping[str, Any], profile: Profile) -> bool:
    """Replace the rows of one profile among those of its month; return whether it differs from what was there."""
    month = month_of_day(whose["day"])
    had = version.read_month(month).to_pylist()
    old = [row for row in had if all(row[name] == value for name, value in whose.items())]
    if old and _profile(old).same(profile):
        return False
    new = [{**row, **whose, PARTITION: month, "at": at} for at, row in enumerate(profile.to_rows())]
    rows = sorted([row for row in had if row not in old] + new, key=_order)
    version.replace_month(month, pa.Table.from_pylist(rows, schema=SCHEMA))
    return True


def _profile(rows: Sequence[Mapping[str, Any]]) -> Profile:
    return Profile.from_rows(sorted(rows, key=_order))


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["day"], row["model_name"], row["model_version"], row["at"]
