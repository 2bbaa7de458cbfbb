"""The two kinds of checks: of the table or of an aggregate (`TableCheck`), and of each row (`RowCheck`).

One query computes the aggregates of all checks, in one pass over the rows.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

from pipelines.system.duckdb_session import quote_identifier
from pipelines.validation.evaluators.rows import POSITION, Rows

MAX_EXAMPLES = 20
"""Maximum number of unexpected values that a result lists, as in Great Expectations' results."""

CheckResult = tuple[bool, dict[str, Any]]
"""Whether the expectation holds, and the dictionary `result` that Great Expectations would write."""


class NeedsGxError(Exception):
    """Only Great Expectations can evaluate the expectation on these values. `suites.judging` catches the error."""


class Check(Protocol):
    """One expectation, ready to be evaluated on rows."""

    @property
    def aggregates(self) -> Sequence[str]:
        """The SQL aggregates that the check needs. The query names the rows `r`."""

    def evaluate(self, rows: Rows, values: Sequence[Any]) -> CheckResult:
        """Evaluate the check; `values` are the values of `aggregates`, in their order."""


@dataclass(frozen=True)
class TableCheck:
    """A check of the table, or of an aggregate of a column."""

    aggregates: Sequence[str]
    compute_result: Callable[[Rows, Sequence[Any]], CheckResult]
    """Takes the rows and the values of `aggregates`."""

    def evaluate(self, rows: Rows, values: Sequence[Any]) -> CheckResult:
        """Evaluate the check."""
        return self.compute_result(rows, values)


@dataclass(frozen=True)
class RowCheck:
    """A check of each row."""

    columns: Sequence[str]
    """Columns whose values are shown as examples of unexpected rows."""
    judged_sql: str
    """SQL condition that is true if the row is judged. Most checks do not judge a row whose value is missing."""
    unexpected_sql: str
    """SQL condition that is true if the row is judged and is wrong. Otherwise it is false, never null."""
    mostly: float = 1.0
    """Smallest share of the judged rows that must not be unexpected, 0 to 1."""
    is_about_missing: bool = False
    """Whether the check is about missing values. Then all rows are judged, also those with missing values."""
    has_mapping_examples: bool = False
    """Whether each example is a mapping of column to value, not only the value."""
    count_unexpected: Callable[[Rows], int] | None = None
    """Counts the unexpected rows by a query of its own; None if an aggregate counts them. It is called before
    `unexpected_sql` is used, and may create a temporary table that this SQL needs."""
    needs_gx_sql: str = ""
    """SQL aggregate that is true if only Great Expectations can evaluate the check; empty if DuckDB always can."""

    @property
    def aggregates(self) -> Sequence[str]:
        """SQL of the number of judged rows, of the number of unexpected rows (if needed), and `needs_gx_sql`."""
        unexpected_aggregates = [] if self.count_unexpected else [f"count(*) FILTER ({self.unexpected_sql})"]
        needs_gx = [self.needs_gx_sql] if self.needs_gx_sql else []
        return [f"count(*) FILTER ({self.judged_sql})", *unexpected_aggregates, *needs_gx]

    def evaluate(self, rows: Rows, values: Sequence[Any]) -> CheckResult:
        """Evaluate the check, with examples of unexpected values."""
        if self.needs_gx_sql and values[-1]:
            raise NeedsGxError
        judged_count = values[0]
        unexpected_count = self.count_unexpected(rows) if self.count_unexpected else values[1]
        success = not judged_count or (judged_count - unexpected_count) / judged_count >= self.mostly
        examples = self._query_examples(rows) if unexpected_count else []
        return success, self._build_result(rows.count, judged_count, unexpected_count, examples)

    def _query_examples(self, rows: Rows) -> list[Any]:
        """Query the first unexpected values, as JSON values."""
        columns = ", ".join(rows.build_value_sql(column) for column in self.columns)
        tail = f"LIMIT {MAX_EXAMPLES}"
        if self.count_unexpected:  # the condition has a join, and a join keeps no order
            rows.add_positions()
            tail = f"ORDER BY r.{quote_identifier(POSITION)} {tail}"
        unexpected_rows = rows.query(columns, where=self.unexpected_sql, tail=tail)
        return [self._format_example([to_json_value(value) for value in row]) for row in unexpected_rows]

    def _format_example(self, values: list[Any]) -> Any:
        if self.has_mapping_examples:
            return dict(zip(self.columns, values, strict=True))
        return values[0] if len(values) == 1 else values

    def _build_result(
        self, count: int, judged_count: int, unexpected_count: int, examples: list[Any]
    ) -> dict[str, Any]:
        """Build the result as Great Expectations 1.24 does in `_format_map_output` for SUMMARY."""
        percent_of_all = _compute_percent(unexpected_count, count)
        percent_of_values = (
            percent_of_all if self.is_about_missing else _compute_percent(unexpected_count, judged_count)
        )
        result = {
            "element_count": count,
            "unexpected_count": unexpected_count,
            "unexpected_percent": percent_of_values,
            "partial_unexpected_list": examples,
            "partial_unexpected_counts": _count_examples(examples),
        }
        if not self.is_about_missing:
            result |= {
                "missing_count": count - judged_count,
                "missing_percent": _compute_percent(count - judged_count, count),
                "unexpected_percent_total": percent_of_all,
                "unexpected_percent_nonmissing": percent_of_values,
            }
        return result


def to_json_value(value: Any) -> Any:
    """Convert a value of DuckDB to a JSON value."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, Decimal)):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    return value.isoformat() if isinstance(value, (dt.date, dt.datetime, dt.time)) else str(value)


def _compute_percent(part: int, total: int) -> float | None:
    return part / total * 100 if total else None


def _count_examples(examples: list[Any]) -> list[dict[str, Any]]:
    """Count how often each value is among the examples."""
    counts = Counter(repr(example) for example in examples)
    values = {repr(example): example for example in examples}
    return [{"value": values[key], "count": number} for key, number in counts.most_common()]
