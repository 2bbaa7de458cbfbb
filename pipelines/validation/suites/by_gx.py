"""What Great Expectations judges itself, on its pandas engine: the expectations and types that are not in `known`.

It costs the import (2 s), and the columns that the expectations name in memory; all of them for one that is about
the table or has a `row_condition`.
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

# It sets its own level to INFO when it is imported, and tells a dropped expectation as an error: we say it ourselves.
logging.getLogger("great_expectations").setLevel(logging.CRITICAL)

_NULLABLE = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
_PLACE = "leeway_place"
_LONG = ("unexpected_list", "unexpected_index_list", "unexpected_index_query")


@dataclass(frozen=True)
class Told:
    """What Great Expectations said of one expectation."""

    success: bool
    result: dict[str, Any]
    exception_info: dict[str, Any]
    wrong: str
    """SQL, true where a numbered row is wrong; empty where that is not known row by row."""


def demand(expectation: Expectation, origin: str) -> None:
    """Refuses an expectation that Great Expectations does not read.

    Raises:
        DataError: its type or its kwargs are not valid.
    """
    # GX 1.24 leaves an expectation out that it cannot read, and only logs that: the data would pass unchecked.
    try:
        read = _suite([expectation]).expectations
    except Exception as error:  # GX raises its own, pydantic's and marshmallow's errors here
        raise DataError(f"{origin} is not valid: {error}.") from None
    if len(read) != 1:
        raise DataError(f"{origin}, {expectation.type}, is not valid.", "Look at its type, kwargs and severity.")


def judge(rows: Rows, expectations: Sequence[Expectation]) -> list[Told]:
    """Every expectation, evaluated by the pandas engine on the columns that they name.

    From here on `rows` are numbered, where a row was found wrong.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("rows").add_dataframe_asset("rows")
    batch = asset.add_batch_definition_whole_dataframe("rows").get_batch(
        {"dataframe": frame(rows.batches(_columns(rows, expectations), "TRUE").read_all())}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas and scipy, about the data
        found = batch.validate(_suite(expectations), result_format="COMPLETE").to_json_dict()["results"]
    by_place = {one["expectation_config"]["meta"][_PLACE]: one for one in found}
    return [_told(rows, by_place[place]) for place in range(len(expectations))]


def frame(table: pa.Table) -> pd.DataFrame:
    """The rows for Great Expectations: integers stay integers where values are missing."""
    made: pd.DataFrame = table.to_pandas(types_mapper=_NULLABLE.get)
    return made


def _suite(expectations: Sequence[Expectation]) -> gx.ExpectationSuite:
    """The suite, with each expectation's place in its meta: results come in another order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it deprecates its own JSON's row_condition
        return gx.ExpectationSuite(
            name="rows",
            expectations=[
                {"type": one.type, "kwargs": one.kwargs, "severity": one.severity, "meta": {_PLACE: place}}
                for place, one in enumerate(expectations)
            ],
        )


def _columns(rows: Rows, expectations: Sequence[Expectation]) -> str:
    """SQL of the columns that the expectations need."""
    named: set[str] = set()
    for one in expectations:
        columns = one.column.split(", ") if one.column and not one.kwargs.get("row_condition") else rows.schema.names
        named |= set(columns)
    chosen = [name for name in rows.schema.names if name in named] or rows.schema.names[:1]
    return ", ".join(f"r.{quote_identifier(name)}" for name in chosen)


def _told(rows: Rows, found: dict[str, Any]) -> Told:
    result = found.get("result") or {}
    positions = result.get("unexpected_index_list")
    wrong = _at(rows, positions) if positions and all(isinstance(one, int) for one in positions) else ""
    kept = {name: value for name, value in result.items() if name not in _LONG}
    return Told(bool(found["success"]), kept, found.get("exception_info") or {}, wrong)


def _at(rows: Rows, positions: list[int]) -> str:
    """SQL, true for the rows at these positions."""
    rows.number()
    name, given = rows.new_name(), f"{rows.new_name()}_given"
    rows.connection.register(given, pa.table({"place": pa.array(positions, pa.int64())}))
    rows.connection.execute(f"CREATE TEMP TABLE {name} AS SELECT place FROM {given}")  # noqa: S608
    rows.connection.unregister(given)
    return f"EXISTS (SELECT 1 FROM {name} AS o WHERE o.place = r.{quote_identifier(POSITION)})"  # noqa: S608
