"""Setting rows aside: the table NAME_quarantine has them whole, with what was wrong with each.

A partition's rows are split by their places in it, so that what is published keeps its order, and equal rows its
digest.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from pipelines.lake import Lake
from pipelines.system.duckdb_session import quote_identifier, quote_text
from pipelines.validation.suites import Judgement, Rows, Verdict
from pipelines.validation.suites.rows import POSITION

REASONS = "quarantine"
"""Column that the table has beside those of the rows."""
MAX_VALUE_CHARS = 200


@dataclass(frozen=True)
class Split:
    """Which rows of a partition are set aside."""

    rows: Rows
    verdicts: Sequence[Verdict]
    """Why."""
    aside: np.ndarray
    """A flag for each row, in order; empty where none is set aside."""

    @property
    def count(self) -> int:
        """How many are set aside."""
        return int(self.aside.sum())

    def kept(self) -> pa.RecordBatchReader:
        """The others, in their order."""
        found = self.rows.batches(self.rows.columns(), "TRUE")
        if not self.count:
            return found
        return pa.RecordBatchReader.from_batches(found.schema, self._unmarked(found))

    def set_aside(self) -> pa.RecordBatchReader:
        """Those that are set aside, in their order, with what was wrong with each."""
        reasons = ", ".join(self._reason(one) for one in self.verdicts)
        # CASE leaves out nothing: a reason that does not hold is null, and goes.
        column = f"list_filter([{reasons}], lambda one: one IS NOT NULL) AS {quote_identifier(REASONS)}"
        where = f"{_any(self.verdicts)} ORDER BY r.{quote_identifier(POSITION)}"
        return self.rows.batches(f"{self.rows.columns()}, {column}", where)

    def _unmarked(self, found: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        place = 0
        for batch in found:
            marked = self.aside[place : place + batch.num_rows]
            place += batch.num_rows
            yield batch.filter(pa.array(~marked)) if marked.any() else batch

    def _reason(self, verdict: Verdict) -> str:
        one = verdict.expectation
        columns = [name for name in one.column.split(", ") if name in self.rows.schema.names]
        values = ", ".join(f"coalesce(r.{quote_identifier(name)}::VARCHAR, 'null')" for name in columns) or "''"
        value = f"left(concat_ws(', ', {values}), {MAX_VALUE_CHARS})"
        struct = f"{{'expectation': {quote_text(one.type)}, 'column': {quote_text(one.column)}, 'value': {value}}}"
        return f"CASE WHEN {verdict.wrong} THEN {struct} END"


@dataclass(frozen=True)
class Outcome:
    """What becomes of a judged partition, and its rows."""

    verdict: Literal["passed", "warned", "quarantined", "blocked"]
    rows: int
    bad: int
    """Rows that failed warnings mark: set aside, unless the partition is blocked."""
    allowed: float
    """Largest share of them with which the partition is published."""


def split(rows: Rows, verdicts: Sequence[Verdict]) -> Split:
    """The partition, split by the verdicts that say which rows are wrong.

    Args:
        rows: the partition, judged.
        verdicts: of its judgement, each with `wrong`.
    """
    if not verdicts:
        return Split(rows, verdicts, np.zeros(0, dtype=bool))
    rows.number()
    aside = np.zeros(rows.count, dtype=bool)
    for batch in rows.batches(f"r.{quote_identifier(POSITION)} AS place", _any(verdicts)):
        aside[batch["place"].to_numpy()] = True
    return Split(rows, verdicts, aside)


def outcome(judgement: Judgement, bad: int, rows: int, allowed: float) -> Outcome:
    """What becomes of a partition.

    Args:
        judgement: of its rows.
        bad: rows that would be set aside.
        rows: of the partition, at least one.
        allowed: largest share of the rows that may be set aside. All of them may never be.
    """
    if judgement.of("critical") or bad == rows or bad > allowed * rows:
        return Outcome("blocked", rows, bad, allowed)
    if bad:
        return Outcome("quarantined", rows, bad, allowed)
    return Outcome("warned" if judgement.of("warning") else "passed", rows, bad, allowed)


def put(lake: Lake, table: str, day: dt.date, parts: Split, key: Sequence[str]) -> None:
    """The quarantine's partition holds exactly what is set aside. Idempotent."""
    if parts.count:
        lake.write_partition(table, day, parts.set_aside(), key)
    else:
        lake.clear_partition(table, day)


def _any(verdicts: Sequence[Verdict]) -> str:
    return "(" + " OR ".join(one.wrong for one in verdicts) + ")"
