"""What runs the ibis expressions of features: DuckDB in this process, or Spark. Both give the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Literal, Protocol

import ibis
import pyarrow as pa

from pipelines.window import Days

EngineName = Literal["duckdb", "spark"]


class RunExpression(Protocol):
    """What an opened engine does."""

    def __call__(self, expression: Callable[[ibis.Table], ibis.Table], days: Days | None) -> Iterator[pa.RecordBatch]:
        """The rows, in its order, of an expression over the files' rows of the days; of all days where it is None."""


MODULES = {"duckdb": "duck", "spark": "spark"}


def open_engine(
    engine: EngineName, paths: Sequence[str], schema: pa.Schema, *, with_nan: bool = False
) -> AbstractContextManager[RunExpression]:
    """The engine over the rows of Parquet files, for as long as the block lasts.

    Args:
        engine: which one.
        paths: of the files, on this machine.
        schema: of the rows; what a file lacks is null, what it has narrower is widened.
        with_nan: whether numbers may be NaN, and expressions ask for it.

    Raises:
        SpecError: the engine is not installed here.
    """
    module: Any = import_module(f"pipelines.features.engines.{MODULES[engine]}")
    return module.open_engine(paths, schema, with_nan)  # type: ignore[no-any-return]


def filter_days(rows: ibis.Table, days: Days | None) -> ibis.Table:
    """The rows of the days, or all of them."""
    return rows.filter(rows.date.between(days.first, days.last)) if days else rows
