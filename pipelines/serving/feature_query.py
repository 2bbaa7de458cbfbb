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
from pipelines.features.building import KEY_PREFIX, build_feature_schema, compute_columns, select_feature, select_keys
from pipelines.features.dependencies import find_columns, find_key_types
from pipelines.lookups import Lookup
from pipelines.partitions import HOUR_COLUMN
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
        lookups: lookups of the dataset, whose features are not computed: the keys of their values are.

    Raises:
        DataError: the features cannot be built from such rows. A retry cannot help.
        SpecError: the key of a lookup cannot be computed from one row. A retry cannot help.
    """

    def __init__(
        self,
        dataset: Dataset,
        row_schema: pa.Schema,
        connection: duckdb.DuckDBPyConnection,
        lookups: Sequence[Lookup] = (),
    ) -> None:
        self._dataset, self._connection = dataset, connection
        self._schema = pa.schema([pa.field(POSITION, pa.int32()), *row_schema])
        looked_up = {name for lookup in lookups for name in lookup.features}
        computed = [name for name in dataset.features if name not in looked_up]
        keys = {name: kind for lookup in lookups for name, kind in find_key_types(dataset, lookup, row_schema).items()}
        feature_schema = build_feature_schema(dataset, row_schema)
        key_fields = [pa.field(f"{KEY_PREFIX}{name}", kind) for name, kind in keys.items()]
        self._feature_schema = pa.schema([*(feature_schema.field(name) for name in computed), *key_fields])
        keyed = replace(dataset, key=(POSITION, *dataset.key))
        rows = ibis.table(ibis.Schema.from_pyarrow(self._schema), name=ROWS)
        table = compute_columns(keyed, rows)
        selected = [select_feature(dataset, table, name) for name in computed]
        features = table.select(POSITION, *selected, *select_keys(table, keys))
        needed_columns = frozenset[str]().union(*(find_columns(features[name]) for name in features.columns))
        if lookups:
            needed_columns |= {"date", HOUR_COLUMN} if dataset.partition == "hour" else {"date"}
        self.columns: Sequence[str] = [name for name in row_schema.names if name in needed_columns]
        """Columns that the features and the keys of the lookups are computed from. With lookups, also the partition's,
        from which the age of a value counts."""
        self._sql = _compile(features.order_by(POSITION))
        self._types = dict(zip(self._schema.names, self._find_duckdb_types(), strict=True))
        self._prepare(_compile(features))

    def compute(self, values: Mapping[str, Sequence[Any]], count: int) -> pa.Table:
        """Return the features of rows, in their order, and the keys of the lookups, with the prefix `KEY_PREFIX`.

        Features that are looked up are left out.

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
