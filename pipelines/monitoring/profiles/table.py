"""The lake's table `profiles`: one row a column of a partition's profile, by model version.

A partition of the table is a month: a year of profiles is a dozen files, read in a moment.
"""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression, EqualTo, GreaterThanOrEqual, LessThanOrEqual

from pipelines.errors import DataError
from pipelines.lake import PARTITION, PARTITION_PROPERTY, Lake, retry_conflicts
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


class Profiles(Lake):
    """The table of profiles: one of each partition and model version."""

    @classmethod
    def open(cls) -> Profiles:
        """The table in the configured lake.

        Raises:
            ConflictError: the lake's catalog stayed locked. A retry can help.
        """
        return cls(Lake.open().catalog)

    def put(self, day: dt.date, model_name: str, model_version: str, profile: Profile) -> bool:
        """`profile` is the partition's by that version, in the place of what was. Returns whether it changed.

        Idempotent: a profile of equal rows commits nothing.

        Raises:
            ConflictError: other writers kept winning. A retry can help.
        """
        self._ensure(TABLE, SCHEMA)
        whose = {"day": day, "model_name": model_name, "model_version": model_version}
        for attempt in retry_conflicts():
            with attempt:
                return self._put_once(whose, profile)
        raise AssertionError("tenacity returns or raises")

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
            And(GreaterThanOrEqual(PARTITION, _month(first).isoformat()), LessThanOrEqual(PARTITION, last.isoformat())),
            And(GreaterThanOrEqual("day", first.isoformat()), LessThanOrEqual("day", last.isoformat())),
            And(EqualTo("model_name", model_name), EqualTo("model_version", model_version)),
        )
        by_day: dict[dt.date, list[dict[str, Any]]] = {}
        for row in self._rows(only, sketches=sketches):
            by_day.setdefault(row["day"], []).append(row)
        return {day: _profile(by_day[day]) for day in sorted(by_day)}

    def scored(self, first: dt.date, last: dt.date, model_name: str) -> set[dt.date]:
        """The days `first`..`last` of which any version of the model has a profile."""
        between = And(GreaterThanOrEqual("day", first.isoformat()), LessThanOrEqual("day", last.isoformat()))
        months = GreaterThanOrEqual(PARTITION, _month(first).isoformat())
        try:
            scan = self._table(TABLE).scan(And(months, between, EqualTo("model_name", model_name)), ("day",))
        except DataError:
            return set()
        return set(scan.to_arrow()["day"].to_pylist())

    def _rows(self, only: BooleanExpression, *, sketches: bool) -> list[dict[str, Any]]:
        try:
            table = self._table(TABLE)
        except DataError:
            return []
        names = tuple(name for name in SCHEMA.names if sketches or name != SKETCH)
        found: list[dict[str, Any]] = table.scan(row_filter=only, selected_fields=names).to_arrow().to_pylist()
        return found

    def _put_once(self, whose: Mapping[str, Any], profile: Profile) -> bool:
        """The month's rows with the profile's in the place of the old ones: refused where another changed the month."""
        month = _month(whose["day"])
        table, only = self._table(TABLE), EqualTo(PARTITION, month.isoformat())
        had = table.scan(row_filter=only).to_arrow().select(SCHEMA.names).cast(SCHEMA).to_pylist()
        old = [row for row in had if all(row[name] == value for name, value in whose.items())]
        if old and _profile(old).same(profile):
            return False
        new = [{**row, **whose, PARTITION: month, "at": at} for at, row in enumerate(profile.to_rows())]
        rows = sorted([row for row in had if row not in old] + new, key=_order)
        with warnings.catch_warnings():
            # pyiceberg 0.12 warns where there is nothing to overwrite: a new month.
            warnings.filterwarnings("ignore", "Delete operation did not match", UserWarning)
            arrow = pa.Table.from_pylist(rows, schema=SCHEMA)
            table.overwrite(arrow, overwrite_filter=only, snapshot_properties={PARTITION_PROPERTY: month.isoformat()})
        return True


def _profile(rows: Sequence[Mapping[str, Any]]) -> Profile:
    return Profile.from_rows(sorted(rows, key=_order))


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["day"], row["model_name"], row["model_version"], row["at"]


def _month(day: dt.date) -> dt.date:
    return day.replace(day=1)
