"""Quarantine rows: the table NAME_quarantine has them with all columns, and the expectations that each row failed.

Rows are split by their positions in the partition: published rows keep their order, and equal rows their digest.
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
"""Column of the reasons, beside the columns of the rows."""
MAX_VALUE_CHARS = 200


@dataclass(frozen=True)
class Split:
    """The split of a partition into rows to publish and rows to quarantine."""

    rows: Rows
    verdicts: Sequence[Verdict]
    """Failed expectations for which rows are quarantined."""
    is_bad: np.ndarray
    """A flag for each row, in order; empty where no row is quarantined."""

    @property
    def count(self) -> int:
        """Number of rows to quarantine."""
        return int(self.is_bad.sum())

    def read_good_rows(self) -> pa.RecordBatchReader:
        """Read the rows to publish, in their order."""
        reader = self.rows.read_batches(self.rows.list_columns(), "TRUE")
        if not self.count:
            return reader
        return pa.RecordBatchReader.from_batches(reader.schema, self._drop_bad_rows(reader))

    def read_bad_rows(self) -> pa.RecordBatchReader:
        """Read the rows to quarantine, in their order, with the reasons of each."""
        reasons = ", ".join(self._build_reason_sql(verdict) for verdict in self.verdicts)
        # CASE is null for a reason that does not apply; list_filter removes it.
        column = f"list_filter([{reasons}], lambda reason: reason IS NOT NULL) AS {quote_identifier(REASONS)}"
        where = f"{_match_any(self.verdicts)} ORDER BY r.{quote_identifier(POSITION)}"
        return self.rows.read_batches(f"{self.rows.list_columns()}, {column}", where)

    def _drop_bad_rows(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        place = 0
        for batch in reader:
            bad = self.is_bad[place : place + batch.num_rows]
            place += batch.num_rows
            yield batch.filter(pa.array(~bad)) if bad.any() else batch

    def _build_reason_sql(self, verdict: Verdict) -> str:
        expectation = verdict.expectation
        columns = [name for name in expectation.column.split(", ") if name in self.rows.schema.names]
        values = ", ".join(f"coalesce(r.{quote_identifier(name)}::VARCHAR, 'null')" for name in columns) or "''"
        value = f"left(concat_ws(', ', {values}), {MAX_VALUE_CHARS})"
        kind, column = quote_text(expectation.type), quote_text(expectation.column)
        struct = f"{{'expectation': {kind}, 'column': {column}, 'value': {value}}}"
        return f"CASE WHEN {verdict.wrong} THEN {struct} END"


@dataclass(frozen=True)
class Outcome:
    """The decision on a judged partition."""

    verdict: Literal["passed", "warned", "quarantined", "blocked"]
    rows: int
    bad: int
    """Bad rows: quarantined, unless the partition is blocked."""
    allowed: float
    """Largest share of bad rows with which the partition is published, 0 to 1."""


def split_rows(rows: Rows, verdicts: Sequence[Verdict]) -> Split:
    """Split a judged partition by the verdicts that say which rows are wrong.

    Args:
        rows: rows of the partition.
        verdicts: failed verdicts, each with `wrong`.
    """
    if not verdicts:
        return Split(rows, verdicts, np.zeros(0, dtype=bool))
    rows.add_positions()
    is_bad = np.zeros(rows.count, dtype=bool)
    for batch in rows.read_batches(f"r.{quote_identifier(POSITION)} AS place", _match_any(verdicts)):
        is_bad[batch["place"].to_numpy()] = True
    return Split(rows, verdicts, is_bad)


def decide_outcome(judgement: Judgement, bad: int, rows: int, allowed: float) -> Outcome:
    """Decide what happens to a partition.

    Args:
        judgement: judgement of its rows.
        bad: number of bad rows.
        rows: number of all rows, at least 1.
        allowed: largest share of bad rows, 0 to 1. A partition with only bad rows is always blocked.
    """
    if judgement.list_failures("critical") or bad == rows or bad > allowed * rows:
        return Outcome("blocked", rows, bad, allowed)
    if bad:
        return Outcome("quarantined", rows, bad, allowed)
    return Outcome("warned" if judgement.list_failures("warning") else "passed", rows, bad, allowed)


def write_quarantine(lake: Lake, table: str, day: dt.date, parts: Split, key: Sequence[str]) -> None:
    """Replace a partition of the quarantine table with the bad rows. Idempotent."""
    if parts.count:
        lake.write_partition(table, day, parts.read_bad_rows(), key)
    else:
        lake.clear_partition(table, day)


def _match_any(verdicts: Sequence[Verdict]) -> str:
    return "(" + " OR ".join(verdict.wrong for verdict in verdicts) + ")"
