"""What runs the ibis expressions of features: DuckDB in this process, or Spark. Both give the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Literal

import ibis
import pyarrow as pa

from pipelines.window import Days

Name = Literal["duckdb", "spark"]
Run = Callable[[Callable[[ibis.Table], ibis.Table], Days], Iterator[pa.RecordBatch]]
"""The rows, in its order, of an expression over the files' rows of the days."""
MODULES = {"duckdb": "duck", "spark": "spark"}


def opened(engine: Name, paths: Sequence[str], schema: pa.Schema) -> AbstractContextManager[Run]:
    """The engine over the rows of Parquet files, for as long as the block lasts.

    Args:
        engine: which one.
        paths: of the files, on this machine.
        schema: of the rows; what a file lacks is null, what it has narrower is widened.

    Raises:
        SpecError: the engine is not installed here.
    """
    module: Any = import_module(f"pipelines.engines.{MODULES[engine]}")
    return module.opened(paths, schema)  # type: ignore[no-any-return]


def of_days(rows: ibis.Table, days: Days) -> ibis.Table:
    """The rows of the days."""
    return rows.filter(rows.date.between(days.first, days.last))
