"""Run expressions with DuckDB in this process, in bounded memory. DuckDB spills to LEEWAY_HOME.

A range of days is computed in parts of some days each, if this gives the same rows as computing all days together.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import ibis
import pyarrow as pa

from pipelines.features.engines import GROUP_ROWS, RunExpression, filter_days
from pipelines.features.engines.parts import is_computed_by_day, list_files_by_day, split_by_days
from pipelines.system.duckdb_session import connect, create_view, replace_view
from pipelines.window import Days

ROWS = "window_rows"
"""Name of the view of the rows: first those of all files, later those of the files of one part."""


@contextmanager
def open_engine(paths: Sequence[str], schema: pa.Schema) -> Iterator[RunExpression]:
    """Start DuckDB for the rows of Parquet files: see `pipelines.features.engines.open_engine`."""
    with connect() as connection, create_view(connection, ROWS, paths, schema), ExitStack() as open_results:
        rows = ibis.duckdb.from_connection(connection).table(ROWS)
        files = list_files_by_day(paths)

        def run(expression: Callable[[ibis.Table], ibis.Table], days: Days | None) -> Iterator[pa.RecordBatch]:
            # Close the result even if an error ends the block: DuckDB 2.0 cannot drop the view of an open result.
            batches = read_batches(expression, days)
            open_results.callback(batches.close)
            return batches

        def read_batches(
            expression: Callable[[ibis.Table], ibis.Table], days: Days | None
        ) -> Generator[pa.RecordBatch, None, None]:
            table = expression(filter_days(rows, days))
            query = ibis.to_sql(table, dialect="duckdb", pretty=False)
            for part_paths in split_by_days(files, days) if days and is_computed_by_day(table) else [paths]:
                replace_view(connection, ROWS, part_paths, schema)
                yield from connection.sql(query).to_arrow_reader(GROUP_ROWS)

        yield run
