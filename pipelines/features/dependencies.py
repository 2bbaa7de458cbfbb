"""Find what the features of a dataset are computed from: columns of their own row, and other rows."""

from __future__ import annotations

from collections.abc import Iterator

import ibis
import ibis.expr.operations as ops
import pyarrow as pa

from pipelines.dataset import Dataset
from pipelines.features.building import build_features

OTHER_ROWS = (ops.WindowFunction, ops.Reduction, ops.Analytic, ops.Subquery)
"""Values that depend on other rows than their own."""


def find_source_columns(dataset: Dataset, row_schema: pa.Schema) -> dict[str, frozenset[str]]:
    """Return, for each feature, the names of the columns that it is computed from.

    Args:
        dataset: dataset whose features are built.
        row_schema: schema of the rows that the features are computed from.
    """
    features = _build(dataset, row_schema)
    return {name: frozenset(_find_columns(features[name].op())) for name in dataset.features}


def list_features_of_other_rows(dataset: Dataset, row_schema: pa.Schema) -> list[str]:
    """List the features that depend on other rows, such as a count of the flights of the same hour.

    Where their neighbours are missing, as in a request with one row, such a feature has another value.
    """
    features = _build(dataset, row_schema)
    return [name for name in dataset.features if _reads_other_rows(features[name].op())]


def _build(dataset: Dataset, row_schema: pa.Schema) -> ibis.Table:
    return build_features(dataset, ibis.table(ibis.Schema.from_pyarrow(row_schema), name="rows"))


def _find_columns(value: ops.Value) -> Iterator[str]:
    """Yield the names of the table's own columns that an expression uses."""
    for column in value.find(ops.Field, filter=ops.Value):
        if _is_own_column(column):
            yield column.name
        else:
            yield from _find_columns(column.rel.values[column.name])


def _reads_other_rows(value: ops.Value) -> bool:
    if value.find(OTHER_ROWS, filter=ops.Value):
        return True
    columns = [column for column in value.find(ops.Field, filter=ops.Value) if not _is_own_column(column)]
    return any(_reads_other_rows(column.rel.values[column.name]) for column in columns)


def _is_own_column(column: ops.Field) -> bool:
    return isinstance(column.rel, ops.UnboundTable)
