"""Run the ibis expressions of features with an engine: DuckDB in this process, or Spark. Both give the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Literal, Protocol

import ibis
import pyarrow as pa

from pipelines.window import Days

EngineName = Literal["duckdb", "spark"]
"""Name of an engine."""


class RunExpression(Protocol):
    """Runs an expression on an open engine."""

    def __call__(self, expression: Callable[[ibis.Table], ibis.Table], days: Days | None) -> Iterator[pa.RecordBatch]:
        """Run the expression on the rows of `days`, or on all rows if `days` is None; yield its result in batches."""


GROUP_ROWS = 128 * 1024
"""Rows of a row group in feature files. The number is fixed, so that equal rows give equal bytes, although the batches
of the engines have different sizes."""
MODULES = {"duckdb": "duck", "spark": "spark"}
"""Maps each engine to the module of this package that runs it."""


def open_engine(engine: EngineName, paths: Sequence[str], schema: pa.Schema) -> AbstractContextManager[RunExpression]:
    """Start an engine that reads the rows of Parquet files; stop it when the block ends.

    Args:
        engine: name of the engine.
        paths: paths of the files, on this machine.
        schema: schema of the rows. A column that a file lacks is null; a column of a narrower type is widened.

    Raises:
        SpecError: the engine is not installed here. A retry cannot help.
    """
    module: Any = import_module(f"pipelines.features.engines.{MODULES[engine]}")
    return module.open_engine(paths, schema)  # type: ignore[no-any-return]


def filter_days(rows: ibis.Table, days: Days | None) -> ibis.Table:
    """Return the rows of the days; all rows if `days` is None."""
    return rows.filter(rows.date.between(days.first, days.last)) if days else rows
