"""Replay a changed suite on past partitions, without writing anything."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import DataError
from pipelines.lake import Lake
from pipelines.settings import settings
from pipelines.system.files import read_json
from pipelines.validation import quarantine, suites
from pipelines.validation.datadocs.evidence import Run, read_run
from pipelines.validation.quarantine import Outcome

VERDICTS = ("passed", "warned", "quarantined", "blocked")


@dataclass(frozen=True)
class ReplayedPartition:
    """One partition judged by the changed suite, beside the result of its last validation."""

    day: dt.date
    outcome: Outcome
    failing: Sequence[dict[str, Any]]
    """Summaries of the failed expectations."""
    before: Run | None
    """The last validation; None where there was none, or its evidence is gone."""

    @property
    def verdict(self) -> str:
        """The verdict by the changed suite."""
        return self.outcome.verdict

    @property
    def quarantined(self) -> int:
        """Number of rows that would be quarantined."""
        return self.outcome.bad if self.verdict == "quarantined" else 0

    @property
    def differs(self) -> bool:
        """Whether the verdict or the number of quarantined rows would change."""
        before = self.before
        return before is None or (before.verdict, before.quarantined) != (self.verdict, self.quarantined)

    def record(self) -> dict[str, Any]:
        """Return the partition as JSON values."""
        before = self.before
        return {
            "partition": str(self.day),
            "rows": self.outcome.rows,
            "verdict": self.verdict,
            "quarantined": self.quarantined,
            "bad_rows": self.outcome.bad,
            "failing": list(self.failing),
            "before": {"verdict": before.verdict, "quarantined": before.quarantined} if before else None,
        }


def load_changed_suite(name: str) -> suites.Suite:
    """Load a suite from a JSON file, or by its name from expectations/.

    Raises:
        DataError: the suite does not exist or is not valid. A retry cannot help.
    """
    path = Path(name)
    if path.suffix == ".json":
        return suites.parse_suite(path.stem, read_json(path, "a suite of Great Expectations"), path.name)
    return suites.load_suite(settings().project / "expectations", name)


def list_days(table: str, first: dt.date, last: dt.date) -> list[dt.date]:
    """List the partitions of a table that have rows, from `first` to `last`.

    Raises:
        DataError: there are none. A retry can help once they are ingested.
    """
    days = sorted(day for day in Lake.open().count_rows_by_day(table) if first <= day <= last)
    if not days:
        raise DataError(f"the lake's table {table} has no partition from {first} to {last}.", "Ingest them first.")
    return days


def replay(
    suite: suites.Suite, table: str, dataset: str, days: Iterable[dt.date], allowed: float
) -> Iterator[ReplayedPartition]:
    """Judge each day by the suite, without writing anything.

    Args:
        suite: the changed suite.
        table: table whose rows are judged.
        dataset: dataset whose last validations are compared, and whose published days serve as history.
        days: partitions of the table.
        allowed: largest share of a partition's rows that may be quarantined, 0 to 1.
    """
    lake = Lake.open()
    for day in days:
        with suites.open_rows(lake, table, day, dataset) as rows:
            judgement = suites.judge(suite, rows)
            bad = quarantine.split_rows(rows, judgement.to_quarantine).count
            outcome = quarantine.decide_outcome(judgement, bad, rows.count, allowed)
        yield ReplayedPartition(day, outcome, judgement.failures, _read_last_run(dataset, day))


def summarize(partitions: Sequence[ReplayedPartition]) -> dict[str, Any]:
    """Count the partitions by verdict (now and before), the rows to quarantine, and the partitions that change."""
    before = [partition.before for partition in partitions if partition.before]
    return {
        "partitions": len(partitions),
        "now": dict.fromkeys(VERDICTS, 0) | Counter(partition.verdict for partition in partitions),
        "before": dict.fromkeys(VERDICTS, 0) | Counter(run.verdict for run in before),
        "never_validated": sum(partition.before is None for partition in partitions),
        "quarantined": sum(partition.quarantined for partition in partitions),
        "differ": sum(partition.differs for partition in partitions),
    }


def _read_last_run(dataset: str, day: dt.date) -> Run | None:
    try:
        return read_run(settings().home / "validation" / dataset / f"{day}.json")
    except DataError:
        return None
