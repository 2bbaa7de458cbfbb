"""Evaluate expectations with Great Expectations and its pandas engine.

Other modules import this module only when they need it, because the import takes 2 s. Expectations that need the same
columns and the same format of the result are evaluated together. Only these columns are in memory at that time. An
expectation needs all columns if its `row_condition` is a string, if the project defines its class, or if it reads
values but names no column.
"""

from __future__ import annotations

import functools
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

import great_expectations as gx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.data_context.types.base import ProgressBarsConfig

from pipelines.errors import DataError
from pipelines.settings import settings
from pipelines.system.duckdb_session import quote_identifier
from pipelines.validation.evaluators.row_checks import MAX_EXACT_INTEGER
from pipelines.validation.evaluators.rows import POSITION, Rows
from pipelines.validation.suites import own_classes
from pipelines.validation.suites.expectation import Expectation

# Great Expectations sets its logger to INFO at import. Its log is not needed: `require_valid` raises an error for
# what Great Expectations only logs.
logging.getLogger("great_expectations").setLevel(logging.CRITICAL)

VERSION: str = gx.__version__
_NULLABLE = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
"""Types of pandas that can hold missing values, by Arrow type."""
_INDEX = "leeway_index"
"""Key in the meta of an expectation. Its value is the index of the expectation in the suite."""
_LONG_FIELDS = ("unexpected_list", "unexpected_index_list", "unexpected_index_query")
"""Fields of a result that grow with the number of unexpected rows."""
_PREFIXES_WITHOUT_VALUES = ("expect_table_row_count_to_", "expect_table_column", "expect_column_to_exist")
"""Prefixes of the types of expectations that read no values of the rows."""


@dataclass(frozen=True)
class GxResult:
    """The result of one expectation, from Great Expectations."""

    success: bool
    result: dict[str, Any]
    exception_info: dict[str, Any]
    unexpected_sql: str
    """SQL condition that is true for the unexpected rows; empty if Great Expectations lists no unexpected rows."""


def require_valid(expectation: Expectation, origin: str) -> None:
    """Raise an error if Great Expectations cannot read the expectation, with the project's own classes loaded.

    Args:
        expectation: expectation to check.
        origin: where the expectation is, for the error message.

    Raises:
        DataError: the type or the kwargs are not valid, or a class of the project's own cannot be loaded. A retry
            cannot help.
    """
    own_classes.require_class(expectation.type, settings().project / "expectations", origin)
    # GX 1.24 drops an expectation that it cannot read, and only logs this: the data would pass unchecked.
    try:
        expectations = _build_suite([(0, expectation)]).expectations
    except Exception as error:  # GX raises its own, pydantic's and marshmallow's errors here
        raise DataError(f"{origin} is not valid: {error}.") from None
    if len(expectations) != 1:
        raise DataError(f"{origin}, {expectation.type}, is not valid.", "Check its type, kwargs and severity.")


def evaluate_expectations(rows: Rows, expectations: Sequence[Expectation]) -> list[GxResult]:
    """Evaluate the expectations, in their order, with the pandas engine.

    If Great Expectations lists unexpected rows, `rows` gets the column `POSITION`.
    """
    groups: dict[tuple[Sequence[str] | None, str], list[tuple[int, Expectation]]] = {}
    for index, expectation in enumerate(expectations):
        # The positions of unexpected rows take much memory. Only a warning needs them, to quarantine its rows.
        result_format = "COMPLETE" if expectation.severity == "warning" else "SUMMARY"
        groups.setdefault((_list_columns(rows, expectation), result_format), []).append((index, expectation))
    results = {
        index: result
        for (columns, result_format), group in groups.items()
        for index, result in _evaluate_group(rows, columns, result_format, group)
    }
    return [results[index] for index in range(len(expectations))]


def build_frame(table: pa.Table) -> pd.DataFrame:
    """Convert rows to a frame of pandas. As usual in pandas, integers with missing values become floats.

    If a float cannot hold one of the integers exactly, the column stays an integer column, with NA.
    """
    names = table.column_names
    return pd.DataFrame({name: _build_series(column) for name, column in zip(names, table.columns, strict=True)})


def _build_series(column: pa.ChunkedArray) -> pd.Series[Any]:
    is_nullable = pa.types.is_boolean(column.type) or (pa.types.is_integer(column.type) and _has_large_integer(column))
    series: pd.Series[Any] = column.to_pandas(types_mapper=_NULLABLE.get if column.null_count and is_nullable else None)
    return series


def _has_large_integer(column: pa.ChunkedArray) -> bool:
    bounds = pc.min_max(column).as_py()
    return bounds["min"] is not None and (bounds["max"] > MAX_EXACT_INTEGER or bounds["min"] < -MAX_EXACT_INTEGER)


def _evaluate_group(
    rows: Rows, columns: Sequence[str] | None, result_format: str, group: Sequence[tuple[int, Expectation]]
) -> Iterator[tuple[int, GxResult]]:
    """Evaluate expectations that need the same columns and result format; yield the index and the result of each."""
    definition = _define_batch()
    batch = definition.get_batch({"dataframe": _read_frame(rows, columns)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of pandas and scipy about the data
        results = batch.validate(_build_suite(group), result_format=result_format).to_json_dict()["results"]
    definition.get_batch({"dataframe": pd.DataFrame()})  # the context keeps the newest frame in memory: replace it
    for result in results:
        yield result["expectation_config"]["meta"][_INDEX], _convert_result(rows, result)


@functools.cache
def _define_batch() -> BatchDefinition:
    """Define the batch of a frame, in one context for the whole process, because creating a context takes 0.15 s."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("rows").add_dataframe_asset("rows")
    return asset.add_batch_definition_whole_dataframe("rows")


def _read_frame(rows: Rows, columns: Sequence[str] | None) -> pd.DataFrame:
    """Read columns of the rows. If `columns` is None, return a frame with all columns and rows, and 0 as each value."""
    if columns is None:
        values = np.broadcast_to(np.int8(0), (rows.query("count(*)")[0][0], len(rows.schema.names)))
        return pd.DataFrame(values, columns=rows.schema.names)
    selection = ", ".join(f"r.{quote_identifier(name)}" for name in columns)
    return build_frame(rows.read_batches(selection, "TRUE").read_all())


def _build_suite(group: Sequence[tuple[int, Expectation]]) -> gx.ExpectationSuite:
    """Build the suite. The meta of each expectation has its index, because the results come in another order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecation of row_condition in Great Expectations' own JSON
        return gx.ExpectationSuite(
            name="rows",
            expectations=[
                {
                    "type": expectation.type,
                    "kwargs": expectation.kwargs,
                    "severity": expectation.severity,
                    "meta": {_INDEX: index},
                }
                for index, expectation in group
            ],
        )


def _list_columns(rows: Rows, expectation: Expectation) -> tuple[str, ...] | None:
    """List the columns that an expectation needs; None if it reads no values."""
    names, condition = tuple(rows.schema.names), expectation.kwargs.get("row_condition")
    if own_classes.is_own_class(expectation.type):
        return names
    if condition is None and expectation.type.startswith(_PREFIXES_WITHOUT_VALUES):
        return None
    condition_columns = _list_condition_columns(condition)
    if condition_columns is None or not expectation.column:
        return names
    needed_columns = {*expectation.column.split(", "), *condition_columns}
    return tuple(name for name in names if name in needed_columns) or names[:1]


def _list_condition_columns(condition: Any) -> list[str] | None:
    """List the columns of a row condition; None if it is a string, which only pandas can read."""
    if condition is None:
        return []
    if not isinstance(condition, dict) or not isinstance(condition.get("conditions", []), list):
        return None
    parts = [_list_condition_columns(part) for part in condition.get("conditions", [])]
    column = condition.get("column")
    if None in parts or (not parts and not isinstance(column, dict)):
        return None
    return [name for part in parts for name in part or []] + ([column["name"]] if isinstance(column, dict) else [])


def _convert_result(rows: Rows, gx_result: dict[str, Any]) -> GxResult:
    """Convert the JSON result of one expectation; leave out its long lists."""
    result = gx_result.get("result") or {}
    positions = result.get("unexpected_index_list") or []
    has_positions = bool(positions) and all(isinstance(position, int) for position in positions)
    unexpected_sql = _build_position_sql(rows, positions) if has_positions else ""
    short_result = {name: value for name, value in result.items() if name not in _LONG_FIELDS}
    exception_info = gx_result.get("exception_info") or {}
    return GxResult(bool(gx_result["success"]), short_result, exception_info, unexpected_sql)


def _build_position_sql(rows: Rows, positions: list[int]) -> str:
    """Write the positions to a temporary table. Return the SQL condition that a row is at one of them."""
    rows.add_positions()
    name, view = rows.make_table_name(), f"{rows.make_table_name()}_positions"
    rows.connection.register(view, pa.table({"position": pa.array(positions, pa.int64())}))
    rows.connection.execute(f"CREATE TEMP TABLE {name} AS SELECT position FROM {view}")  # noqa: S608
    rows.connection.unregister(view)
    return f"EXISTS (SELECT 1 FROM {name} AS o WHERE o.position = r.{quote_identifier(POSITION)})"  # noqa: S608
