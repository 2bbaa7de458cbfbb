"""Evaluate the expectations that DuckDB cannot evaluate, with Great Expectations' pandas engine.

The import takes 2 s. Only the columns that the expectations name are loaded into memory; but all columns are loaded if
an expectation is about the table or has a `row_condition`.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

import great_expectations as gx
import pandas as pd
import pyarrow as pa
from great_expectations.data_context.types.base import ProgressBarsConfig

from pipelines.errors import DataError
from pipelines.system.duckdb_session import quote_identifier
from pipelines.validation.suites.expectation import Expectation
from pipelines.validation.suites.rows import POSITION, Rows

# Great Expectations sets its logger to INFO at import. Its log is not needed: `require_valid` raises an error for
# what Great Expectations only logs.
logging.getLogger("great_expectations").setLevel(logging.CRITICAL)

_NULLABLE = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
_INDEX = "leeway_index"
"""Key in the meta of an expectation. Its value is the index of the expectation in the suite."""
_LONG_FIELDS = ("unexpected_list", "unexpected_index_list", "unexpected_index_query")


@dataclass(frozen=True)
class GxResult:
    """The result of one expectation, from Great Expectations."""

    success: bool
    result: dict[str, Any]
    exception_info: dict[str, Any]
    unexpected_sql: str
    """SQL condition that is true for the unexpected rows; empty if Great Expectations lists no unexpected rows."""


def require_valid(expectation: Expectation, origin: str) -> None:
    """Raise an error if Great Expectations cannot read the expectation.

    Args:
        expectation: expectation to check.
        origin: where the expectation is, for the error message.

    Raises:
        DataError: the type or the kwargs are not valid. A retry cannot help.
    """
    # GX 1.24 drops an expectation that it cannot read, and only logs this: the data would pass unchecked.
    try:
        expectations = _build_suite([expectation]).expectations
    except Exception as error:  # GX raises its own, pydantic's and marshmallow's errors here
        raise DataError(f"{origin} is not valid: {error}.") from None
    if len(expectations) != 1:
        raise DataError(f"{origin}, {expectation.type}, is not valid.", "Check its type, kwargs and severity.")


def evaluate_expectations(rows: Rows, expectations: Sequence[Expectation]) -> list[GxResult]:
    """Evaluate the expectations, in their order, with the pandas engine.

    If Great Expectations lists unexpected rows, `rows` gets the column `POSITION`.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("rows").add_dataframe_asset("rows")
    batch = asset.add_batch_definition_whole_dataframe("rows").get_batch(
        {"dataframe": build_frame(rows.read_batches(_select_columns(rows, expectations), "TRUE").read_all())}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of pandas and scipy about the data
        results = batch.validate(_build_suite(expectations), result_format="COMPLETE").to_json_dict()["results"]
    results_by_index = {result["expectation_config"]["meta"][_INDEX]: result for result in results}
    return [_convert_result(rows, results_by_index[index]) for index in range(len(expectations))]


def build_frame(table: pa.Table) -> pd.DataFrame:
    """Convert rows to a frame. Integers stay integers, also in a column with missing values."""
    frame: pd.DataFrame = table.to_pandas(types_mapper=_NULLABLE.get)
    return frame


def _build_suite(expectations: Sequence[Expectation]) -> gx.ExpectationSuite:
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
                for index, expectation in enumerate(expectations)
            ],
        )


def _select_columns(rows: Rows, expectations: Sequence[Expectation]) -> str:
    """Return the SQL of the columns that the expectations need."""
    needed_names: set[str] = set()
    for expectation in expectations:
        needs_all = not expectation.column or expectation.kwargs.get("row_condition")
        needed_names |= set(rows.schema.names if needs_all else expectation.column.split(", "))
    columns = [name for name in rows.schema.names if name in needed_names] or rows.schema.names[:1]
    return ", ".join(f"r.{quote_identifier(name)}" for name in columns)


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
