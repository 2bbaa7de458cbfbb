"""Write and read the lake's table DATASET_skew: one row for each feature, and one for the score, of a comparison.

The rows of a partition, model, version and endpoint are one commit. It replaces the rows of an earlier comparison.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression, EqualTo, GreaterThanOrEqual, LessThanOrEqual

from pipelines.dataset import Dataset
from pipelines.lake import DATE_COLUMN, Lake
from pipelines.lake.partitions import make_partition
from pipelines.partitions import HOUR_COLUMN, Hour, Partition, get_date
from pipelines.serving.skew.comparison import Skew, Verdict
from pipelines.serving.skew.request_rows import SCORE_TEXT

_TEXT, _COUNT = pa.string(), pa.int64()
FIELDS = (
    *((name, _TEXT) for name in ("model_name", "model_version", "endpoint", "name")),
    ("different_rows", _COUNT),  # rows in which the value differs
    ("share", pa.float64()),  # of `rows`; null if there are none
    ("rows", _COUNT),  # rows of requests that the lake has
    ("unmatched", _COUNT),  # rows of requests without a row in the lake
    ("max_share", pa.float64()),
    ("outcome", _TEXT),
    ("reason", _TEXT),
)
KEY = ("model_name", "model_version", "endpoint", "name")
"""Columns that identify a row of a partition."""
SORT_COLUMNS = ("partition", "model_version", "endpoint")


class Origin(NamedTuple):
    """The model version and the endpoint that answered the requests."""

    model_name: str
    model_version: str
    endpoint: str


class StoredSkew(NamedTuple):
    """A stored comparison."""

    partition: str
    """Name of the partition, as on the command line: 2013-01-31, for example."""
    model_version: str
    endpoint: str
    outcome: str
    reason: str
    rows: int
    unmatched: int
    different_shares: Mapping[str, float]
    """Maps each feature, or `score`, to the share of rows in which it differs; names that never differ are left out."""


def name_table(dataset: Dataset) -> str:
    """Return the name of the table."""
    return f"{dataset.name}_skew"


def write_skew(
    lake: Lake, dataset: Dataset, partition: Partition, origin: Origin, skew: Skew, verdict: Verdict, max_share: float
) -> bool:
    """Write a comparison, replacing an earlier one of the same partition and origin. Idempotent.

    Returns:
        Whether the table changed.

    Raises:
        ConflictError: other writers kept changing the table. A retry can help.
    """
    hours = {HOUR_COLUMN: partition.hour} if isinstance(partition, Hour) else {}
    partition_values = {DATE_COLUMN: get_date(partition), **hours}
    common_values = {
        **partition_values,
        **origin._asdict(),
        "rows": skew.rows,
        "unmatched": skew.unmatched,
        "max_share": max_share,
    }
    common_values |= verdict._asdict()
    rows = [
        {
            **common_values,
            "name": get_row_name(name),
            "different_rows": count,
            "share": skew.different_shares.get(name),
        }
        for name, count in skew.different_rows.items()
    ]
    schema = pa.schema([(DATE_COLUMN, pa.date32()), *((name, pa.int32()) for name in hours), *FIELDS])
    table = pa.Table.from_pylist(rows, schema=schema)
    origin_values = origin._asdict()
    return lake.write_partition(
        name_table(dataset), partition, table, (DATE_COLUMN, *hours, *KEY), part_values=origin_values
    ).changed


def get_row_name(name: str) -> str:
    """Return how the table and the results name a feature, or the score (`SCORE_TEXT`)."""
    return "score" if name == SCORE_TEXT else name


def read_history(
    lake: Lake, dataset: Dataset, model: str, first: dt.date | None = None, last: dt.date | None = None
) -> list[StoredSkew]:
    """Return the stored comparisons of a model, sorted by partition, version and endpoint.

    Args:
        lake: lake with the table.
        dataset: dataset of the model.
        model: registered model.
        first: first day of the partitions; None: the oldest.
        last: last day of the partitions, included; None: the newest.
    """
    conditions: list[BooleanExpression] = [EqualTo("model_name", model)]
    conditions += [GreaterThanOrEqual(DATE_COLUMN, first.isoformat())] if first else []
    conditions += [LessThanOrEqual(DATE_COLUMN, last.isoformat())] if last else []
    table = lake.read_rows(name_table(dataset), reduce(And, conditions))
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in table.to_pylist() if table else ():
        row["partition"] = make_partition(row, dataset.partition).isoformat()
        groups.setdefault(tuple(row[name] for name in SORT_COLUMNS), []).append(row)
    return [_build_stored_skew(groups[key]) for key in sorted(groups)]


def _build_stored_skew(rows: Iterable[Mapping[str, Any]]) -> StoredSkew:
    sorted_rows = sorted(rows, key=lambda row: str(row["name"]))
    different_shares = {row["name"]: row["share"] for row in sorted_rows if row["different_rows"]}
    fields = [name for name in StoredSkew._fields if name != "different_shares"]
    return StoredSkew(**{name: sorted_rows[0][name] for name in fields}, different_shares=different_shares)
