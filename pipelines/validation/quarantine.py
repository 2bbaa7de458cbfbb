"""Quarantine rows: write them to the table NAME_quarantine, with all columns and the reasons of each row.

Rows are split by their positions in the partition, so published rows keep their order: an unchanged partition has the
same digest when it is published again. The positions of the bad rows are in a file, so memory does not grow with their
number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from pipelines.lake import Lake
from pipelines.partitions import Partition
from pipelines.system.duckdb_session import quote_identifier, quote_text
from pipelines.validation.evaluators.rows import BATCH_ROWS, POSITION
from pipelines.validation.suites import ExpectationResult, Judgement, Rows

REASONS = "quarantine"
"""Column that holds the reasons. The other columns are those of the rows."""
MAX_VALUE_CHARS = 200
"""Maximum number of characters of the value in a reason."""
_POSITION_TYPE = np.dtype("i8")
"""Type of a position in the file of positions: a whole number of 8 bytes."""


@dataclass(frozen=True)
class Split:
    """The split of a partition into rows to publish and rows to quarantine."""

    rows: Rows
    rejecting_results: Sequence[ExpectationResult]
    """Failed expectations that reject single rows: these rows are quarantined."""
    bad_count: int = 0
    """Number of rows to quarantine."""
    positions_file: Path | None = None
    """File with the positions of the rows to quarantine, ascending, 8 bytes each; None if there are none."""

    def read_good_rows(self) -> pa.RecordBatchReader:
        """Read the rows to publish, in their order."""
        reader = self.rows.read_batches(self.rows.build_columns_sql(), "TRUE")
        if not self.positions_file:
            return reader
        return pa.RecordBatchReader.from_batches(reader.schema, _drop_rows(reader, self.positions_file))

    def read_bad_rows(self) -> pa.RecordBatchReader:
        """Read the rows to quarantine, in their order, with the reasons of each."""
        reasons = ", ".join(self._build_reason_sql(result) for result in self.rejecting_results)
        # A reason that does not apply is null; list_filter removes it.
        column = f"list_filter([{reasons}], lambda reason: reason IS NOT NULL) AS {quote_identifier(REASONS)}"
        condition = f"{_build_any_sql(self.rejecting_results)} ORDER BY r.{quote_identifier(POSITION)}"
        return self.rows.read_batches(f"{self.rows.build_columns_sql()}, {column}", condition)

    def _build_reason_sql(self, result: ExpectationResult) -> str:
        """Build the SQL of the reason for which an expectation rejects a row; null for other rows."""
        expectation = result.expectation
        columns = [name for name in expectation.column.split(", ") if name in self.rows.schema.names]
        values = ", ".join(f"coalesce(r.{quote_identifier(name)}::VARCHAR, 'null')" for name in columns) or "''"
        value = f"left(concat_ws(', ', {values}), {MAX_VALUE_CHARS})"
        kind, column = quote_text(expectation.type), quote_text(expectation.column)
        struct = f"{{'expectation': {kind}, 'column': {column}, 'value': {value}}}"
        return f"CASE WHEN {result.unexpected_sql} THEN {struct} END"


@dataclass(frozen=True)
class Outcome:
    """The decision about a judged partition, with its numbers."""

    verdict: Literal["passed", "warned", "quarantined", "blocked"]
    rows: int
    bad_rows: int
    """Number of bad rows. They are quarantined, unless the partition is blocked."""
    max_quarantined_fraction: float
    """Largest share of bad rows that a published partition may have, 0 to 1."""


def split_rows(rows: Rows, rejecting_results: Sequence[ExpectationResult]) -> Split:
    """Split a judged partition into rows to publish and rows to quarantine.

    Args:
        rows: rows of the partition.
        rejecting_results: failed expectations, each with `unexpected_sql`; the rows that it selects are quarantined.
    """
    if not rejecting_results:
        return Split(rows, rejecting_results)
    rows.add_positions()
    count, path, position = 0, rows.folder / "positions", f"r.{quote_identifier(POSITION)}"
    bad_rows = rows.read_batches(f"{position} AS position", f"{_build_any_sql(rejecting_results)} ORDER BY {position}")
    with path.open("wb") as file:
        for batch in bad_rows:
            batch["position"].to_numpy().astype(_POSITION_TYPE).tofile(file)
            count += batch.num_rows
    return Split(rows, rejecting_results, count, path if count else None)


def decide_outcome(judgement: Judgement, bad_rows: int, rows: int, max_quarantined_fraction: float) -> Outcome:
    """Decide what happens to a partition.

    Args:
        judgement: judgement of its rows.
        bad_rows: number of bad rows.
        rows: number of all rows, at least 1.
        max_quarantined_fraction: largest share of bad rows, 0 to 1. A partition with only bad rows is always blocked.
    """
    if judgement.list_failures("critical") or bad_rows == rows or bad_rows > max_quarantined_fraction * rows:
        return Outcome("blocked", rows, bad_rows, max_quarantined_fraction)
    if bad_rows:
        return Outcome("quarantined", rows, bad_rows, max_quarantined_fraction)
    return Outcome(
        "warned" if judgement.list_failures("warning") else "passed", rows, bad_rows, max_quarantined_fraction
    )


def write_quarantine(lake: Lake, table: str, partition: Partition, split: Split, key: Sequence[str]) -> None:
    """Replace a partition of the quarantine table by the bad rows; clear it if there are none. Idempotent."""
    if split.bad_count:
        lake.write_partition(table, partition, split.read_bad_rows(), key)
    else:
        lake.clear_partition(table, partition)


def _drop_rows(batches: Iterable[pa.RecordBatch], path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches without the rows at the positions in the file."""
    start, pending_positions = 0, np.zeros(0, _POSITION_TYPE)
    with path.open("rb") as file:
        for batch in batches:
            end = start + batch.num_rows
            while (not len(pending_positions) or pending_positions[-1] < end) and len(
                next_positions := np.fromfile(file, _POSITION_TYPE, BATCH_ROWS)
            ):
                pending_positions = np.concatenate([pending_positions, next_positions])
            bad_count = np.searchsorted(pending_positions, end)
            is_good = np.ones(batch.num_rows, dtype=bool)
            is_good[pending_positions[:bad_count] - start] = False
            yield batch.filter(pa.array(is_good)) if bad_count else batch
            start, pending_positions = end, pending_positions[bad_count:]


def _build_any_sql(rejecting_results: Sequence[ExpectationResult]) -> str:
    """Return the SQL condition that at least one of the expectations rejects the row."""
    return "(" + " OR ".join(result.unexpected_sql for result in rejecting_results) + ")"
