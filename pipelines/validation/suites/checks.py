"""The two kinds of checks: of the table or an aggregate (`TableCheck`), and of each row (`RowCheck`).

One query computes the aggregates (`shared`) of all checks, in one pass over the rows.
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
from pipelines.validation.suites.rows import POSITION, Rows

EXAMPLES = 20
"""Unexpected values that a result lists, as Great Expectations' results do."""

Answer = tuple[bool, dict[str, Any]]
"""Whether the expectation holds, and its `result` as Great Expectations writes it."""


class Check(Protocol):
    """One expectation, ready to be evaluated on rows."""

    @property
    def shared(self) -> Sequence[str]:
        """SQL aggregates over `r` that the check needs."""

    def answer(self, rows: Rows, values: Sequence[Any]) -> Answer:
        """Evaluate the check; `values` are the values of `shared`."""


@dataclass(frozen=True)
class TableCheck:
    """A check of the table, or of an aggregate of a column."""

    shared: Sequence[str]
    finish: Callable[[Rows, Sequence[Any]], Answer]

    def answer(self, rows: Rows, values: Sequence[Any]) -> Answer:
        """Evaluate the check."""
        return self.finish(rows, values)


@dataclass(frozen=True)
class RowCheck:
    """A check of each row."""

    columns: Sequence[str]
    judged: str
    """SQL, true where the row is judged: its value is not missing."""
    unexpected: str
    """SQL, true where the row is judged and wrong; false, and never null, elsewhere."""
    mostly: float = 1.0
    of_missing: bool = False
    """Whether the check is about missing values."""
    as_mapping: bool = False
    """Whether an example maps column to value."""
    counting: Callable[[Rows], int] | None = None
    """Counts the unexpected rows, where an aggregate cannot."""

    @property
    def shared(self) -> Sequence[str]:
        """The number of judged rows, and of wrong rows among them."""
        judged = f"count(*) FILTER ({self.judged})"
        return [judged] if self.counting else [judged, f"count(*) FILTER ({self.unexpected})"]

    def answer(self, rows: Rows, values: Sequence[Any]) -> Answer:
        """Evaluate the check, with examples of unexpected values."""
        judged = values[0]
        wrong = self.counting(rows) if self.counting else values[1]
        success = not judged or (judged - wrong) / judged >= self.mostly
        return success, self._build_result(rows.count, judged, wrong, self._query_examples(rows) if wrong else [])

    def _query_examples(self, rows: Rows) -> list[Any]:
        """Query the first unexpected values, as JSON values."""
        selected = ", ".join(rows.value(column) for column in self.columns)
        first = f"LIMIT {EXAMPLES}"
        if self.counting:  # the query has a join, and a join keeps no order
            rows.add_positions()
            first = f"ORDER BY r.{quote_identifier(POSITION)} {first}"
        unexpected = rows.query(selected, where=self.unexpected, tail=first)
        return [self._format_example([to_json_value(value) for value in row]) for row in unexpected]

    def _format_example(self, values: list[Any]) -> Any:
        if self.as_mapping:
            return dict(zip(self.columns, values, strict=True))
        return values[0] if len(values) == 1 else values

    def _build_result(self, count: int, judged: int, wrong: int, examples: list[Any]) -> dict[str, Any]:
        """Build the result as Great Expectations 1.24 does in `_format_map_output` for SUMMARY."""
        of_all = _percent(wrong, count)
        of_judged = of_all if self.of_missing else _percent(wrong, judged)
        result = {
            "element_count": count,
            "unexpected_count": wrong,
            "unexpected_percent": of_judged,
            "partial_unexpected_list": examples,
            "partial_unexpected_counts": _count_examples(examples),
        }
        if not self.of_missing:
            result |= {
                "missing_count": count - judged,
                "missing_percent": _percent(count - judged, count),
                "unexpected_percent_total": of_all,
                "unexpected_percent_nonmissing": of_judged,
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


def _percent(part: int, whole: int) -> float | None:
    return part / whole * 100 if whole else None


def _count_examples(examples: list[Any]) -> list[dict[str, Any]]:
    """Count how often each value is among the examples."""
    counts = Counter(repr(example) for example in examples)
    values = {repr(example): example for example in examples}
    return [{"value": values[key], "count": number} for key, number in counts.most_common()]
