"""DuckDB: in this process, bounded memory, spilling to LEEWAY_HOME; by parts of days where that gives the same."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import ibis
import pyarrow as pa

from pipelines.features.building import GROUP_ROWS
from pipelines.features.engines import RunExpression, filter_days
from pipelines.features.engines.parts import is_computed_by_day, read_days_of_files, split_by_days
from pipelines.system.duckdb_session import connect, create_view, replace_view
from pipelines.window import Days

ROWS = "window_rows"


@contextmanager
def open_engine(paths: Sequence[str], schema: pa.Schema, with_nan: bool = False) -> Iterator[RunExpression]:
    """See `pipelines.features.engines.open_engine`."""
    with connect() as connection, create_view(connection, ROWS, paths, schema), ExitStack() as running:
        if with_nan:
            # Parquet's statistics leave NaN out, and DuckDB 2.0 believes them: isnan(x) is false, x <= 5 true for NaN.
            connection.execute("SET disabled_optimizers = 'statistics_propagation'")
        rows = ibis.duckdb.from_connection(connection).table(ROWS)
        known = read_days_of_files(paths)

        def run(expression: Callable[[ibis.Table], ibis.Table], days: Days | None) -> Iterator[pa.RecordBatch]:
            # Where an error ends the block amid the rows, DuckDB 2.0 would not drop the view under an open result.
            batches = batches_of(expression, days)
            running.callback(batches.close)
            return batches

        def batches_of(
            expression: Callable[[ibis.Table], ibis.Table], days: Days | None
        ) -> Generator[pa.RecordBatch, None, None]:
            made = expression(filter_days(rows, days))
            query = ibis.to_sql(made, dialect="duckdb", pretty=False)
            for part in split_by_days(known, days) if days and is_computed_by_day(made) else [paths]:
                replace_view(connection, ROWS, part, schema)
                yield from connection.sql(query).to_arrow_reader(GROUP_ROWS)

        yield run
