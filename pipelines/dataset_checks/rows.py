"""Read the newest rows of a dataset's source, for the checks of the dataset."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import DataError
from pipelines.features.label_column import compute_labels, load_label_function
from pipelines.source import Source
from pipelines.window import Days

FIRST_DAY = dt.date(2000, 1, 1)
"""First day to look for in a source without `find_day_range`, or whose `find_day_range` returns None."""
MAX_PARTITIONS = 60
"""Largest number of partitions that are read."""


def read_last_partitions(dataset: Dataset, min_rows: int = 1_000) -> pa.Table:
    """Read the last two partitions with rows, and earlier ones until `min_rows` rows have a label, oldest first.

    Only the last `MAX_PARTITIONS` partitions of the source are read.

    Raises:
        DataError: the source has no rows, or the label cannot be computed. A retry cannot help.
        ServiceError: the source does not answer. A retry can help.
    """
    source = open_source(dataset)
    tables: list[pa.Table] = []
    labelled_rows = 0
    for partition in reversed(_list_partitions(source, dataset)[-MAX_PARTITIONS:]):
        if labelled_rows >= min_rows and len(tables) >= 2:
            break
        rows = source.read(partition).read_all()
        if rows.num_rows:
            tables.insert(0, rows)
            labelled_rows += _count_labels(dataset, rows)
    if not tables:
        raise DataError(f"the source of {dataset.name} has no rows.", "Correct its source.py.")
    return pa.concat_tables(tables, promote_options="permissive")


def open_source(dataset: Dataset) -> Source:
    """Open the source of the dataset's rows, which may be that of another dataset (`rows_from`)."""
    return load_dataset(dataset.table).open_source()


def _count_labels(dataset: Dataset, rows: pa.Table) -> int:
    """Count the rows with a label; all rows if the label's column is missing, because `check` reports that."""
    if dataset.label not in rows.column_names and not load_label_function(dataset):
        return int(rows.num_rows)
    return int(compute_labels(dataset, rows).drop_null().length())


def _list_partitions(source: Source, dataset: Dataset) -> Sequence[Any]:
    """Return the partitions of the source; of an API, which does not say which it has, the published partitions."""
    from pipelines.lake import Lake

    if source.describe().kind == "API":
        return sorted(Lake.open().count_rows_by_partition(dataset.table, dataset.partition))
    find_day_range = getattr(source, "find_day_range", None)
    days = find_day_range() if find_day_range else None
    return source.list_partitions(days or Days(FIRST_DAY, dt.datetime.now(dt.UTC).date()))
