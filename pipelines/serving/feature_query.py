"""Compute the features of a request's rows with DuckDB, by the expression of training, which is compiled once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import ibis
import pyarrow as pa

from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.features.building import build_feature_schema, build_features
from pipelines.features.dependencies import find_source_columns
from pipelines.system.duckdb_session import quote_identifier, quote_text

ROWS = "request_rows"
POSITION = "leeway.position"
"""Column with the number of a row in its request: the features have the order of the request."""
ONE_ROW = "one_row"
"""Name of the prepared statement for a request with one row."""


class FeatureQuery:
    """The compiled expression of a dataset's features. Only one thread may use it.

    A request with one row runs a prepared statement: DuckDB takes twice as long to plan the expression as to run it.

    Args:
        dataset: dataset whose features are computed.
        row_schema: schema of the published rows.
        connection: connection of this object's own.

    Raises:
        DataError: the features cannot be built from such rows. A retry cannot help.
    """

    def __init__(self, dataset: Dataset, row_schema: pa.Schema, connection: duckdb.DuckDBPyConnection) -> None:
        self._dataset, self._connection = dataset, connection
        self._schema = pa.schema([pa.field(POSITION, pa.int32()), *row_schema])
        feature_schema = build_feature_schema(dataset, row_schema)
        self._feature_schema = pa.schema([feature_schema.field(name) for name in dataset.features])
        columns = frozenset[str]().union(*find_source_columns(dataset, row_schema).values())
        self.columns: Sequence[str] = [name for name in row_schema.names if name in columns]
        """Columns that the features are computed from."""
        keyed = replace(dataset, key=(POSITION, *dataset.key))
        rows = ibis.table(ibis.Schema.from_pyarrow(self._schema), name=ROWS)
        features = build_features(keyed, rows).select(POSITION, *dataset.features)
        self._sql = _compile(features.order_by(POSITION))
        self._types = dict(zip(self._schema.names, self._find_duckdb_types(), strict=True))
        self._prepare(_compile(features))

    def compute(self, values: Mapping[str, Sequence[Any]], count: int) -> pa.Table:
        """Return the features of rows, in their order; the columns are those of the dataset's features.

        Args:
            values: the values of each of `columns`, one for each row.
            count: number of rows, at least 1.

        Raises:
            DataError: the expression drops or repeats rows. A retry cannot help.
        """
        is_one = count == 1 and self._has_literals(values)
        features = self._compute_one(values) if is_one else self._compute_all(values, count)
        if features.num_rows != count:
            raise DataError(f"the features of {self._dataset.name} have {features.num_rows} rows for {count} rows.")
        return features

    def _compute_one(self, values: Mapping[str, Sequence[Any]]) -> pa.Table:
        # With arguments of other types than the parameters, DuckDB 2.0 would plan the statement again at each call.
        arguments = ", ".join(f"CAST({_format(values[name][0])} AS {self._types[name]})" for name in self.columns)
        rows = self._connection.execute(f"EXECUTE {ONE_ROW}({arguments})").fetchall()
        columns = list(zip(*rows, strict=True))[1:] if rows else [()] * len(self._feature_schema)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._feature_schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self._feature_schema)

    def _compute_all(self, values: Mapping[str, Sequence[Any]], count: int) -> pa.Table:
        arrays = [
            pa.array(values[field.name], field.type) if field.name in values else pa.nulls(count, field.type)
            for field in self._schema
        ]
        arrays[0] = pa.array(range(count), pa.int32())
        rows = pa.Table.from_arrays(arrays, schema=self._schema)
        self._connection.register(ROWS, rows)
        try:
            features = self._connection.sql(self._sql).to_arrow_table()
        finally:
            self._connection.unregister(ROWS)
        return features.select(self._feature_schema.names).cast(self._feature_schema)

    def _has_literals(self, values: Mapping[str, Sequence[Any]]) -> bool:
        """Return whether SQL can express the values of one row. It has no text with a null character."""
        return all(_is_literal(self._schema.field(name).type) for name in self.columns) and not any(
            isinstance(value, str) and "\0" in value for (value,) in values.values()
        )

    def _find_duckdb_types(self) -> Sequence[Any]:
        return self._connection.from_arrow(pa.Table.from_batches([], schema=self._schema)).types  # type: ignore[no-any-return]

    def _prepare(self, sql: str) -> None:
        """Prepare the statement for one row. Columns that no feature reads are null in it."""
        parameters = {name: f"${number}" for number, name in enumerate(self.columns, 1)} | {POSITION: "0"}
        row = ", ".join(
            f"CAST({parameters.get(name, 'NULL')} AS {kind}) AS {quote_identifier(name)}"
            for name, kind in self._types.items()
        )
        # MATERIALIZED keeps each parameter in one place of the plan. Where DuckDB 2.0 copies a parameter, as its
        # rewriting of a window function to a join does, it forgets the value of the copy, and returns no rows.
        rows = f"WITH {quote_identifier(ROWS)} AS MATERIALIZED (SELECT {row})"
        self._connection.execute(f"PREPARE {ONE_ROW} AS {rows} SELECT * FROM ({sql})")  # noqa: S608


def _compile(table: ibis.Table) -> str:
    return str(ibis.to_sql(table, dialect="duckdb", pretty=False))


def _is_literal(kind: pa.DataType) -> bool:
    """Return whether text expresses each value of the type exactly."""
    tests = (pa.types.is_integer, pa.types.is_float64, pa.types.is_boolean, pa.types.is_string, pa.types.is_date32)
    return any(test(kind) for test in tests) or (pa.types.is_timestamp(kind) and kind.unit == "us")


def _format(value: Any) -> str:
    """Format a value as SQL text. A number is text, too: DuckDB reads the number 0.1 as a decimal, which it rounds."""
    return "NULL" if value is None else quote_text(str(value))
