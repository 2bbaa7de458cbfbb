"""Compute all columns of rows by the dataset's `features`, and select features and the keys of lookups among them."""

from __future__ import annotations

from collections.abc import Iterable

import ibis

from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.features.label_column import build_label
from pipelines.lookups import Lookup

KEY_PREFIX = "leeway.key."
"""Prefix of the columns of a lookup's key, beside the features."""
HIDDEN_LABEL = "leeway.label"
"""Name of the label's column while the features are built, so that no feature can use the label by its own name."""


def select_keys(columns: ibis.Table, names: Iterable[str]) -> list[ibis.Column]:
    """Return the columns of a key, with the prefix `KEY_PREFIX`, because a feature may have the same name."""
    return [columns[name].name(f"{KEY_PREFIX}{name}") for name in names]


def compute_columns(dataset: Dataset, rows: ibis.Table) -> ibis.Table:
    """Return the rows with all columns that the dataset's `features` adds, and the label as `HIDDEN_LABEL`.

    The columns of `dataset.known_later` are removed first, so that a feature that uses one of them raises an error.

    Raises:
        DataError: the result of the dataset's `features` lacks a feature, a key column or the label; or the label
            cannot be computed. A retry cannot help.
    """
    label = build_label(dataset, rows)
    hidden_columns = set(dataset.known_later) | ({dataset.label} & set(rows.columns))
    visible_rows = rows.mutate(**{HIDDEN_LABEL: label}).drop(*sorted(hidden_columns))
    columns = dataset.load_feature_function()(visible_rows)
    required_columns = (*dataset.key, *dataset.features, HIDDEN_LABEL)
    missing_columns = [name for name in required_columns if name not in columns.columns]
    if missing_columns:
        raise DataError(
            f"the features of {dataset.name} lack {', '.join(missing_columns)}.",
            "Its `features` must return all columns of `rows`, and the features.",
        )
    return columns


def select_feature(dataset: Dataset, columns: ibis.Table, name: str) -> ibis.Column:
    """Return the column of a feature: a number as float64, a category unchanged."""
    column: ibis.Column = columns[name]
    return column.cast("float64").name(name) if dataset.features[name] == "number" else column


def build_default(dataset: Dataset, lookup: Lookup, name: str) -> ibis.Value:
    """Return the default of a looked-up feature: that of a number as float64, that of a category as text."""
    kind = "float64" if dataset.features[name] == "number" else "string"
    return ibis.literal(lookup.features[name], kind)


def list_lookups_of_earlier_partitions(dataset: Dataset) -> list[Lookup]:
    """List the lookups whose key does not name the partition, so that a row gets a value of an earlier partition."""
    return [lookup for lookup in dataset.lookups if lookup.is_of_earlier_partition(dataset.partition)]
