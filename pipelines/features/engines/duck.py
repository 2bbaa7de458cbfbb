"""DuckDB: in this process, bounded memory, spilling to LEEWAY_HOME; by parts of days where that gives the same."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import ibis
import pyarrow as pa

from pipelines.features.building import GROUP_ROWS
from pipelines.features.engines import Run, of_days
from pipelines.features.engines.parts import by_day, files, parts
from pipelines.system.duckdb_session import connected, replace_view, view_of
from pipelines.window import Days

ROWS = "window_rows"


@contextmanager
def opened(paths: Sequence[str], schema: pa.Schema, with_nan: bool = False) -> Iterator[Run]:
    """See `pipelines.features.engines.opened`."""
    with connected() as connection, view_of(connection, ROWS, paths, schema), ExitStack() as running:
        if with_nan:
            # Parquet's statistics leave NaN out, and DuckDB 2.0 believes them: isnan(x) is false, x <= 5 true for NaN.
            connection.execute("SET disabled_optimizers = 'statistics_propagation'")
        rows = ibis.duckdb.from_connection(connection).table(ROWS)
        known = files(paths)

        def run(expression: Callable[[ibis.Table], ibis.Table], days: Days | None) -> Iterator[pa.RecordBatch]:
            # Where an error ends the block amid the rows, DuckDB 2.0 would not drop the view under an open result.
            batches = batches_of(expression, days)
            running.callback(batches.close)
            return batches

        def batches_of(
            expression: Callable[[ibis.Table], ibis.Table], days: Days | None
        ) -> Generator[pa.RecordBatch, None, None]:
            made = expression(of_days(rows, days))
            query = ibis.to_sql(made, dialect="duckdb", pretty=False)
            for part in parts(known, days) if days and by_day(made) else [paths]:
                replace_view(connection, ROWS, part, schema)
                yield from connection.sql(query).to_arrow_reader(GROUP_ROWS)

        yield run
