"""DuckDB: in this process, bounded memory, spilling to LEEWAY_HOME."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import ibis
import pyarrow as pa

from pipelines.engines import Run
from pipelines.features import GROUP_ROWS
from pipelines.lake import connected
from pipelines.lake.views import view_of

ROWS = "window_rows"


@contextmanager
def opened(paths: Sequence[str], schema: pa.Schema) -> Iterator[Run]:
    """See `pipelines.engines.opened`."""
    with connected() as connection, view_of(connection, ROWS, paths, schema):
        rows = ibis.duckdb.from_connection(connection).table(ROWS)

        def run(expression: Callable[[ibis.Table], ibis.Table]) -> Iterator[pa.RecordBatch]:
            query = ibis.to_sql(expression(rows), dialect="duckdb")
            return iter(connection.sql(query).to_arrow_reader(GROUP_ROWS))

        yield run
