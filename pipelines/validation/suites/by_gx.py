"""Evaluate expectations with Great Expectations' pandas engine: the types that are not in `duckdb_expectations`.

The import takes 2 s. The columns that the expectations name are loaded into memory; all columns for an expectation that
is about the table or has a `row_condition`.
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

# Great Expectations sets its level to INFO at import, and logs a dropped expectation; `require_valid` raises instead.
logging.getLogger("great_expectations").setLevel(logging.CRITICAL)

_NULLABLE = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
_PLACE = "leeway_place"
_LONG = ("unexpected_list", "unexpected_index_list", "unexpected_index_query")


@dataclass(frozen=True)
class GxResult:
    """The result of one expectation, from Great Expectations."""

    success: bool
    result: dict[str, Any]
    exception_info: dict[str, Any]
    wrong: str
    """SQL that is true for the wrong rows, by column `POSITION`; empty if Great Expectations lists no wrong rows."""


def require_valid(expectation: Expectation, origin: str) -> None:
    """Refuse an expectation that Great Expectations cannot read.

    Raises:
        DataError: the type or the kwargs are not valid. A retry cannot help.
    """
    # GX 1.24 drops an expectation that it cannot read and only logs that: the data would pass unchecked.
    try:
        expectations = _build_suite([expectation]).expectations
    except Exception as error:  # GX raises its own, pydantic's and marshmallow's errors here
        raise DataError(f"{origin} is not valid: {error}.") from None
    if len(expectations) != 1:
        raise DataError(f"{origin}, {expectation.type}, is not valid.", "Check its type, kwargs and severity.")


def judge(rows: Rows, expectations: Sequence[Expectation]) -> list[GxResult]:
    """Evaluate the expectations, in their order, with the pandas engine.

    If Great Expectations lists wrong rows, `rows` gets the column `POSITION`.
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
    by_place = {result["expectation_config"]["meta"][_PLACE]: result for result in results}
    return [_convert_result(rows, by_place[place]) for place in range(len(expectations))]


def build_frame(table: pa.Table) -> pd.DataFrame:
    """Convert rows to a frame; integers stay integers where values are missing."""
    converted: pd.DataFrame = table.to_pandas(types_mapper=_NULLABLE.get)
    return converted


def _build_suite(expectations: Sequence[Expectation]) -> gx.ExpectationSuite:
    """Build the suite; each expectation's place is in its meta, because the results come in another order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecation of row_condition in Great Expectations' own JSON
        return gx.ExpectationSuite(
            name="rows",
            expectations=[
                {
                    "type": expectation.type,
                    "kwargs": expectation.kwargs,
                    "severity": expectation.severity,
                    "meta": {_PLACE: place},
                }
                for place, expectation in enumerate(expectations)
            ],
        )


def _select_columns(rows: Rows, expectations: Sequence[Expectation]) -> str:
    """Return the SQL of the columns that the expectations need."""
    named: set[str] = set()
    for expectation in expectations:
        needs_all = not expectation.column or expectation.kwargs.get("row_condition")
        named |= set(rows.schema.names if needs_all else expectation.column.split(", "))
    chosen = [name for name in rows.schema.names if name in named] or rows.schema.names[:1]
    return ", ".join(f"r.{quote_identifier(name)}" for name in chosen)


def _convert_result(rows: Rows, response: dict[str, Any]) -> GxResult:
    result = response.get("result") or {}
    positions = result.get("unexpected_index_list")
    wrong = (
        _build_position_sql(rows, positions) if positions and all(isinstance(place, int) for place in positions) else ""
    )
    short = {name: value for name, value in result.items() if name not in _LONG}
    return GxResult(bool(response["success"]), short, response.get("exception_info") or {}, wrong)


def _build_position_sql(rows: Rows, positions: list[int]) -> str:
    """Return SQL that is true for the rows at these positions."""
    rows.add_positions()
    name, view = rows.make_table_name(), f"{rows.make_table_name()}_positions"
    rows.connection.register(view, pa.table({"place": pa.array(positions, pa.int64())}))
    rows.connection.execute(f"CREATE TEMP TABLE {name} AS SELECT place FROM {view}")  # noqa: S608
    rows.connection.unregister(view)
    return f"EXISTS (SELECT 1 FROM {name} AS o WHERE o.place = r.{quote_identifier(POSITION)})"  # noqa: S608
