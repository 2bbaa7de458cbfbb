"""What a check is: what it asks of the rows, and what it makes of the answer.

Checks are answered together: `shared` of all of them are columns of one query, one pass over the rows.
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
"""Whether it holds, and Great Expectations' `result`."""


class Check(Protocol):
    """One expectation, ready to be asked of some rows."""

    @property
    def shared(self) -> Sequence[str]:
        """SQL aggregates over `r` that one pass answers for all checks."""

    def answer(self, rows: Rows, told: Sequence[Any]) -> Answer:
        """What came of it; `told` are the answers to `shared`."""


@dataclass(frozen=True)
class Whole:
    """A check of the table, or of a column's aggregate."""

    shared: Sequence[str]
    finish: Callable[[Rows, Sequence[Any]], Answer]

    def answer(self, rows: Rows, told: Sequence[Any]) -> Answer:
        """What came of it."""
        return self.finish(rows, told)


@dataclass(frozen=True)
class EachRow:
    """A check of each row."""

    columns: Sequence[str]
    judged: str
    """SQL, true where the row is judged: it has the value."""
    unexpected: str
    """SQL, true where the row is judged and wrong; false, and never null, elsewhere."""
    mostly: float = 1.0
    of_missing: bool = False
    """Whether it is about the missing values themselves."""
    as_mapping: bool = False
    """Whether an example is column to value."""
    counting: Callable[[Rows], int] | None = None
    """Counts the unexpected, where that needs queries of its own."""

    @property
    def shared(self) -> Sequence[str]:
        """How many rows are judged, and how many of them are wrong."""
        judged = f"count(*) FILTER ({self.judged})"
        return [judged] if self.counting else [judged, f"count(*) FILTER ({self.unexpected})"]

    def answer(self, rows: Rows, told: Sequence[Any]) -> Answer:
        """What came of it, with examples."""
        judged = told[0]
        wrong = self.counting(rows) if self.counting else told[1]
        success = not judged or (judged - wrong) / judged >= self.mostly
        return success, self._result(rows.count, judged, wrong, self.examples(rows) if wrong else [])

    def examples(self, rows: Rows) -> list[Any]:
        """The first unexpected values, as JSON has them."""
        picked = ", ".join(rows.value(one) for one in self.columns)
        first = f"LIMIT {EXAMPLES}"
        if self.counting:  # it joins, and a join keeps no order
            rows.number()
            first = f"ORDER BY r.{quote_identifier(POSITION)} {first}"
        found = rows.ask(picked, where=self.unexpected, tail=first)
        return [self._shaped([plain(value) for value in row]) for row in found]

    def _shaped(self, values: list[Any]) -> Any:
        if self.as_mapping:
            return dict(zip(self.columns, values, strict=True))
        return values[0] if len(values) == 1 else values

    def _result(self, count: int, judged: int, wrong: int, examples: list[Any]) -> dict[str, Any]:
        """As Great Expectations 1.24 does in `_format_map_output`, SUMMARY."""
        of_all = _percent(wrong, count)
        of_judged = of_all if self.of_missing else _percent(wrong, judged)
        found = {
            "element_count": count,
            "unexpected_count": wrong,
            "unexpected_percent": of_judged,
            "partial_unexpected_list": examples,
            "partial_unexpected_counts": _counted(examples),
        }
        if not self.of_missing:
            found |= {
                "missing_count": count - judged,
                "missing_percent": _percent(count - judged, count),
                "unexpected_percent_total": of_all,
                "unexpected_percent_nonmissing": of_judged,
            }
        return found


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, Decimal)):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    return value.isoformat() if isinstance(value, (dt.date, dt.datetime, dt.time)) else str(value)


def _percent(part: int, whole: int) -> float | None:
    return part / whole * 100 if whole else None


def _counted(examples: list[Any]) -> list[dict[str, Any]]:
    """How often each of the examples is among them."""
    counts = Counter(repr(one) for one in examples)
    known = {repr(one): one for one in examples}
    return [{"value": known[key], "count": number} for key, number in counts.most_common()]
