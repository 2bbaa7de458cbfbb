"""What a changed suite would have made of past partitions: read, judged, and not touched."""

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
class Replayed:
    """One partition by the changed suite, beside what was said of it when it was validated."""

    day: dt.date
    outcome: Outcome
    failing: Sequence[dict[str, Any]]
    """Its failed expectations, in short."""
    before: Run | None
    """What the validation said; None where there was none, or its evidence is gone."""

    @property
    def verdict(self) -> str:
        """What would become of it."""
        return self.outcome.verdict

    @property
    def quarantined(self) -> int:
        """Rows that would be set aside."""
        return self.outcome.bad if self.verdict == "quarantined" else 0

    @property
    def differs(self) -> bool:
        """Whether the changed suite says something else."""
        was = self.before
        return was is None or (was.verdict, was.quarantined) != (self.verdict, self.quarantined)

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        was = self.before
        return {
            "partition": str(self.day),
            "rows": self.outcome.rows,
            "verdict": self.verdict,
            "quarantined": self.quarantined,
            "bad_rows": self.outcome.bad,
            "failing": list(self.failing),
            "before": {"verdict": was.verdict, "quarantined": was.quarantined} if was else None,
        }


def load_changed_suite(named: str) -> suites.Suite:
    """The suite of a JSON file, or of that name in expectations/.

    Raises:
        DataError: there is none, or it is not valid.
    """
    path = Path(named)
    if path.suffix == ".json":
        return suites.parse(path.stem, read_json(path, "a suite of Great Expectations"), path.name)
    return suites.load(settings().project / "expectations", named)


def list_days(table: str, first: dt.date, last: dt.date) -> list[dt.date]:
    """The partitions of a table that have rows, from `first` to `last`.

    Raises:
        DataError: there are none.
    """
    found = sorted(day for day in Lake.open().count_rows_by_day(table) if first <= day <= last)
    if not found:
        raise DataError(f"the lake's table {table} has no partition from {first} to {last}.", "Ingest them first.")
    return found


def replay(
    suite: suites.Suite, table: str, dataset: str, days: Iterable[dt.date], allowed: float
) -> Iterator[Replayed]:
    """Every day of `days`, judged by the suite. Nothing is written.

    Args:
        suite: the changed one.
        table: whose rows are judged.
        dataset: whose evidence says how the days fared before, and whose published days are their history.
        days: partitions of the table.
        allowed: largest fraction of a partition's rows that may be quarantined.
    """
    lake = Lake.open()
    for day in days:
        with suites.rows_of(lake, table, day, dataset) as rows:
            judgement = suites.judge(suite, rows)
            bad = quarantine.split(rows, judgement.to_quarantine).count
            outcome = quarantine.outcome(judgement, bad, rows.count, allowed)
        yield Replayed(day, outcome, judgement.failures, _before(dataset, day))


def sum_up(told: Sequence[Replayed]) -> dict[str, Any]:
    """Partitions by verdict, now and before; rows that would be set aside; partitions that change."""
    return {
        "partitions": len(told),
        "now": dict.fromkeys(VERDICTS, 0) | Counter(one.verdict for one in told),
        "before": dict.fromkeys(VERDICTS, 0) | Counter(one.before.verdict for one in told if one.before),
        "never_validated": sum(one.before is None for one in told),
        "quarantined": sum(one.quarantined for one in told),
        "differ": sum(one.differs for one in told),
    }


def _before(dataset: str, day: dt.date) -> Run | None:
    try:
        return read_run(settings().home / "validation" / dataset / f"{day}.json")
    except DataError:
        return None
