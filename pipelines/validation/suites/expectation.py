"""Define one expectation of a suite, in Great Expectations' JSON format."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from pipelines.contract import describe_errors
from pipelines.errors import DataError
from pipelines.validation.evaluators.arguments import Arguments
from pipelines.validation.evaluators.duckdb_expectations import (
    ADDED_EXPECTATIONS,
    CONDITIONAL_EXPECTATIONS,
    DUCKDB_EXPECTATIONS,
)
from pipelines.validation.evaluators.row_conditions import RowCondition, parse_condition

Severity = Literal["critical", "warning", "info"]


class Expectation(BaseModel):
    """One expectation of a suite."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    type: str
    kwargs: dict[str, Any]
    severity: Severity = "critical"
    meta: dict[str, Any] | None = None
    id: str | None = None
    notes: str | list[str] | None = None
    description: str | None = None
    rendered_content: Any = None

    @property
    def column(self) -> str:
        """The column or columns of the expectation, joined by commas; empty if it is about the table."""
        columns = [self.kwargs[name] for name in ("column", "column_A", "column_B") if name in self.kwargs]
        column_list = self.kwargs.get("column_list") or self.kwargs.get("columns") or []
        return ", ".join(map(str, [*columns, *column_list] if isinstance(column_list, list) else columns))

    def parse_condition(self) -> RowCondition | None:
        """Parse the `row_condition`; return None if there is none, or if only Great Expectations can read it."""
        return parse_condition(self.kwargs.get("row_condition"))

    def parse_arguments(self) -> Arguments | None:
        """Parse the kwargs; return None if Great Expectations evaluates this expectation, and not DuckDB.

        Raises:
            DataError: the kwargs are not valid, and Great Expectations does not have this expectation. A retry
                cannot help.
        """
        if self.type not in DUCKDB_EXPECTATIONS:
            return None
        kwargs = dict(self.kwargs)
        if self.type in CONDITIONAL_EXPECTATIONS and self.parse_condition():
            kwargs.pop("row_condition")
        try:
            return DUCKDB_EXPECTATIONS[self.type][0].model_validate(kwargs)
        except ValidationError as error:
            if self.type in ADDED_EXPECTATIONS:
                raise DataError(f"{self.type}: {describe_errors(error.errors())}.") from None
            return None
