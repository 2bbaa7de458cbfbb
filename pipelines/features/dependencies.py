"""Find what the features of a dataset are computed from: columns of their own row, and other rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import ibis
import ibis.expr.operations as ops
import pyarrow as pa

from pipelines.dataset import Dataset
from pipelines.errors import SpecError
from pipelines.features.building import build_features
from pipelines.features.columns import compute_columns
from pipelines.lookups import Lookup

OTHER_ROWS = (ops.WindowFunction, ops.Reduction, ops.Analytic, ops.Subquery)
"""Operations of ibis whose value for a row depends on other rows."""
KEY_TYPES = (pa.types.is_integer, pa.types.is_string, pa.types.is_boolean, pa.types.is_date, pa.types.is_timestamp)
"""Types that the columns of a lookup's key may have. The online store gets the key as text, and programs write a number
with a fraction in different ways, so such a number cannot be a key."""


def find_source_columns(dataset: Dataset, row_schema: pa.Schema) -> dict[str, frozenset[str]]:
    """Return, for each feature, the names of the columns that it is computed from.

    Args:
        dataset: dataset whose features are built.
        row_schema: schema of the rows that the features are computed from.
    """
    features = _build(dataset, row_schema)
    return {name: find_columns(features[name]) for name in dataset.features}


def find_columns(column: ibis.Column) -> frozenset[str]:
    """Return the names of the columns, all of an unbound table, from which an expression's column is computed."""
    return frozenset(_find_columns(column.op()))


def list_features_of_other_rows(dataset: Dataset, row_schema: pa.Schema) -> list[str]:
    """List the features that depend on other rows, such as a count of the flights of the same hour.

    If the other rows are missing, as in a request with one row, such a feature has another value.
    """
    features = _build(dataset, row_schema)
    return [name for name in dataset.features if _reads_other_rows(features[name].op())]


def list_redefined_columns(dataset: Dataset, row_schema: pa.Schema, looked_up: Collection[str] = ()) -> list[str]:
    """List the columns of the rows for which a feature of the same name may have another value or type.

    Args:
        dataset: dataset whose features are compared with the columns.
        row_schema: schema of the rows that the features are computed from.
        looked_up: features that the model server reads from the online store.
    """
    features = _build(dataset, row_schema)
    return [
        name
        for name, kind in dataset.features.items()
        if name in row_schema.names
        and (
            name in looked_up
            or not _is_unchanged(features[name].op(), name)
            or (kind == "category" and not pa.types.is_string(row_schema.field(name).type))
        )
    ]


def find_key_types(dataset: Dataset, lookup: Lookup, row_schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the types of the columns of a lookup's key.

    Raises:
        SpecError: there is no such column, it depends on other rows than its own, or it has a type that no key may
            have. A retry cannot help.
    """
    columns = compute_columns(dataset, ibis.table(ibis.Schema.from_pyarrow(row_schema), name="rows"))
    types = {}
    for name in lookup.key:
        problem = ""
        if name not in columns.columns:
            problem = "that is neither a column of the rows nor added by `features`"
        elif _reads_other_rows(columns[name].op()):
            problem = "that depends on other rows"
        elif not any(is_type(columns[name].type().to_pyarrow()) for is_type in KEY_TYPES):
            problem = (
                f"of the type {columns[name].type()}: it must be a whole number, a text, a day, a time or a boolean"
            )
        if problem:
            raise SpecError(f"the lookup {lookup.name!r} of {dataset.name} has a key column {name} {problem}.")
        types[name] = columns[name].type().to_pyarrow()
    return types


def _build(dataset: Dataset, row_schema: pa.Schema) -> ibis.Table:
    return build_features(dataset, ibis.table(ibis.Schema.from_pyarrow(row_schema), name="rows"))


def _find_columns(value: ops.Value) -> Iterator[str]:
    """Yield the names of the unbound table's columns that an expression uses, directly or by way of other columns."""
    for column in value.find(ops.Field, filter=ops.Value):
        if _is_own_column(column):
            yield column.name
        else:
            yield from _find_columns(column.rel.values[column.name])


def _reads_other_rows(value: ops.Value) -> bool:
    """Return whether the value of an expression depends on other rows than its own."""
    if value.find(OTHER_ROWS, filter=ops.Value):
        return True
    columns = [column for column in value.find(ops.Field, filter=ops.Value) if not _is_own_column(column)]
    return any(_reads_other_rows(column.rel.values[column.name]) for column in columns)


def _is_own_column(column: ops.Field) -> bool:
    """Return whether a column is one of the unbound table, not one that an expression computes."""
    return isinstance(column.rel, ops.UnboundTable)


def _is_unchanged(value: ops.Value, name: str) -> bool:
    """Return whether an expression is the column of this name, apart from its type."""
    while isinstance(value, ops.Cast):
        value = value.arg
    if not isinstance(value, ops.Field):
        return False
    return value.name == name if _is_own_column(value) else _is_unchanged(value.rel.values[value.name], name)
