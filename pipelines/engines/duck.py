"""DuckDB: in this process, bounded memory, spilling to LEEWAY_HOME; by parts of days where that gives the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import ibis
import pyarrow as pa

from pipelines.duck import connected, replace_view, view_of
from pipelines.engines import Run, of_days
from pipelines.engines.parts import by_day, files, parts
from pipelines.features import GROUP_ROWS
from pipelines.window import Days

ROWS = "window_rows"


@contextmanager
def opened(paths: Sequence[str], schema: pa.Schema) -> Iterator[Run]:
    """See `pipelines.engines.opened`."""
    with connected() as connection, view_of(connection, ROWS, paths, schema):
        rows = ibis.duckdb.from_connection(connection).table(ROWS)
        known = files(paths)

        def run(expression: Callable[[ibis.Table], ibis.Table], days: Days) -> Iterator[pa.RecordBatch]:
            made = expression(of_days(rows, days))
            query = ibis.to_sql(made, dialect="duckdb")
            for part in parts(known, days) if by_day(made) else [paths]:
                replace_view(connection, ROWS, part, schema)
                yield from connection.sql(query).to_arrow_reader(GROUP_ROWS)

        yield run
