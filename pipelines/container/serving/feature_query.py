"""Run compiled SQL on the rows of a request with DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from pipelines.container.serving.compiled_features import Query
from pipelines.container.serving.tables import BadRequest

ROWS = "request_rows"
"""View of the rows, which the SQL reads."""
POSITION = "leeway.position"
"""Column with the position of a row in its request. The SQL sorts the features by it."""
ONE_ROW, MANY_ROWS, INDEPENDENT_ROWS = "one_row", "many_rows", "independent_rows"
"""Names of the prepared statements: for one row, for many rows of one request, and for rows of several requests."""
MEMORY_LIMIT = "1GiB"
"""Largest memory of DuckDB. A query that needs more fails, because `connect` forbids temporary files."""


class FeatureError(RuntimeError):
    """The features cannot be computed, and the request is not the cause. A retry cannot help."""


def connect() -> duckdb.DuckDBPyConnection:
    """Open a connection to an empty database in memory, which reads and writes no file and uses no network."""
    config = {
        "memory_limit": MEMORY_LIMIT,
        "threads": "1",  # for few rows, more threads would only wait for each other
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    connection = duckdb.connect(config=config)
    # The next two settings are those of `pipelines.system.duckdb_session`: features are byte-identical to training's.
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET disabled_optimizers = 'statistics_propagation'")
    connection.execute("SET enable_progress_bar_print = false")
    connection.execute("SET temp_directory = ''")
    connection.execute("SET enable_external_access = false")  # the last one: it forbids some of the settings above
    return connection


class FeatureQuery:
    """A compiled query on a connection. Only one thread may use the object.

    All statements are prepared, because DuckDB takes longer to plan the SQL than to run it on a few rows. The values of
    a single row are passed as arguments, if they can be written as SQL literals. Other rows are passed as an Arrow
    table, which the statement reads at each execution.

    Args:
        query: the compiled query.
        row_schema: schema of the published rows.
        connection: a connection that `connect` opened, and that only this object uses.

    Raises:
        duckdb.Error: DuckDB cannot run the SQL. A retry cannot help.
    """

    def __init__(self, query: Query, row_schema: pa.Schema, connection: duckdb.DuckDBPyConnection) -> None:
        self._query, self._connection = query, connection
        self.columns = query.columns
        """Columns of the rows that the query reads."""
        self._schema = pa.schema([pa.field(POSITION, pa.int32()), *row_schema])
        self._has_only_literals = all(_is_literal(row_schema.field(name).type) for name in query.columns)
        self._rows = _Rows(self._schema)
        connection.register(ROWS, self._rows)
        connection.execute(f"PREPARE {ONE_ROW} AS {query.one_row_sql}")
        connection.execute(f"PREPARE {MANY_ROWS} AS {query.sql}")
        if query.separate_sql:
            connection.execute(f"PREPARE {INDEPENDENT_ROWS} AS {query.separate_sql}")

    def compute(self, values: Mapping[str, Sequence[Any]], count: int) -> pa.Table:
        """Return the outputs of the query for the rows of a request, in the order of the rows.

        Args:
            values: the values of each of the query's columns, one for each row.
            count: number of rows, at least 1.

        Raises:
            BadRequest: the features cannot be computed from these values, such as a number that is too large.
            FeatureError: the query drops or repeats rows. A retry cannot help.
        """
        if count == 1 and self._has_literals(values):
            return self._run(lambda: self._compute_one_row(values), count)
        return self._run(lambda: self._compute_many_rows(MANY_ROWS, values, count), count)

    def compute_independently(self, values: Mapping[str, Sequence[Any]], count: int) -> pa.Table:
        """Return the outputs of the query for rows of several requests.

        The outputs of each row are byte-identical to the outputs of this row alone. The query must have
        `separate_sql`. Args and errors: see `compute`.
        """
        return self._run(lambda: self._compute_many_rows(INDEPENDENT_ROWS, values, count), count)

    def _run(self, execute: Callable[[], pa.Table], count: int) -> pa.Table:
        """Return the result of `execute`, after a check that it has `count` rows. Errors: see `compute`."""
        try:
            features = execute()
        except duckdb.DataError as error:  # for example, a difference of years that does not fit into 32 bits
            raise BadRequest(f"the features cannot be computed from these rows: {error}") from None
        if features.num_rows != count:
            raise FeatureError(f"the features have {features.num_rows} rows for {count} rows")
        return features

    def check(self) -> None:
        """Run the query on no rows.

        Raises:
            duckdb.Error: DuckDB cannot run the SQL. A retry cannot help.
        """
        for statement in (MANY_ROWS, INDEPENDENT_ROWS) if self._query.separate_sql else (MANY_ROWS,):
            self._compute_many_rows(statement, {name: [] for name in self.columns}, 0)

    def _compute_one_row(self, values: Mapping[str, Sequence[Any]]) -> pa.Table:
        # With arguments of other types than the parameters, DuckDB 2.0 would plan the statement again at each call.
        columns_and_types = zip(self.columns, self._query.column_types, strict=True)
        arguments = ", ".join(_format(values[name][0], duckdb_type) for name, duckdb_type in columns_and_types)
        rows = self._connection.execute(f"EXECUTE {ONE_ROW}({arguments})").fetchall()
        outputs = self._query.outputs
        columns = list(zip(*rows, strict=True))[1:] if rows else [()] * len(outputs)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, outputs, strict=True)]
        return pa.Table.from_arrays(arrays, schema=outputs)

    def _compute_many_rows(self, statement: str, values: Mapping[str, Sequence[Any]], count: int) -> pa.Table:
        arrays = [
            pa.array(values[field.name], field.type) if field.name in values else pa.nulls(count, field.type)
            for field in self._schema
        ]
        arrays[0] = pa.array(range(count), pa.int32())
        self._rows.table = pa.Table.from_arrays(arrays, schema=self._schema)
        try:
            features = self._connection.sql(f"EXECUTE {statement}").to_arrow_table()
        finally:
            self._rows.table = self._schema.empty_table()
        return features.select(self._query.outputs.names).cast(self._query.outputs)

    def _has_literals(self, values: Mapping[str, Sequence[Any]]) -> bool:
        """Return whether the values of one row can be written as SQL literals. A text with a null character cannot."""
        return self._has_only_literals and not any(
            isinstance(value, str) and "\0" in value for (value,) in values.values()
        )


class _Rows:
    """The rows that a prepared statement reads. DuckDB reads `table` at each execution, without planning again.

    It has Arrow's interface, because DuckDB reads a pyarrow table through pyarrow's data sets, which take some ten
    times as long for a few rows.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.table = schema.empty_table()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def _is_literal(arrow_type: pa.DataType) -> bool:
    """Return whether each value of the type can be written as text without a loss."""
    tests = (pa.types.is_integer, pa.types.is_float64, pa.types.is_boolean, pa.types.is_string, pa.types.is_date32)
    return any(test(arrow_type) for test in tests) or (pa.types.is_timestamp(arrow_type) and arrow_type.unit == "us")


def _format(value: Any, duckdb_type: str) -> str:
    """Format a value as SQL of one of DuckDB's types, without a loss. A literal is faster than a CAST."""
    if value is None:
        return f"CAST(NULL AS {duckdb_type})"
    if duckdb_type == "DOUBLE":
        text = repr(float(value))
        return text if "e" in text else f"{text}e0"  # without an exponent, DuckDB reads a decimal, which it rounds
    if duckdb_type == "INTEGER":
        return str(value)
    text = "'" + str(value).replace("'", "''") + "'"
    return text if duckdb_type == "VARCHAR" else f"CAST({text} AS {duckdb_type})"
