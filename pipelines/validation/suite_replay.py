"""Judge past partitions by a changed suite, and compare the results with their last validations. Writes nothing."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.partitions import Partition, get_date
from pipelines.settings import settings
from pipelines.system.files import read_json
from pipelines.validation import quarantine, suites
from pipelines.validation.datadocs.evidence import ValidationRun, read_run
from pipelines.validation.quarantine import Outcome

VERDICTS = ("passed", "warned", "quarantined", "blocked")


@dataclass(frozen=True)
class ReplayedPartition:
    """The judgement of a partition by the changed suite, and the partition's last validation."""

    partition: Partition
    outcome: Outcome
    failures: Sequence[dict[str, Any]]
    """Summaries of the failed expectations."""
    last_run: ValidationRun | None
    """The last validation; None if there was none, or if its evidence was deleted."""

    @property
    def verdict(self) -> str:
        """Verdict of the changed suite."""
        return self.outcome.verdict

    @property
    def quarantined(self) -> int:
        """Number of rows that would be quarantined."""
        return self.outcome.bad_rows if self.verdict == "quarantined" else 0

    @property
    def is_different(self) -> bool:
        """Whether the verdict or the number of quarantined rows differs from the last validation, or there is none."""
        last_run = self.last_run
        return last_run is None or (last_run.verdict, last_run.quarantined) != (self.verdict, self.quarantined)

    def to_json_values(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        last_run = self.last_run
        return {
            "partition": str(self.partition),
            "rows": self.outcome.rows,
            "verdict": self.verdict,
            "quarantined": self.quarantined,
            "bad_rows": self.outcome.bad_rows,
            "failures": list(self.failures),
            "before": {"verdict": last_run.verdict, "quarantined": last_run.quarantined} if last_run else None,
        }


def load_changed_suite(name: str) -> suites.Suite:
    """Load the suite expectations/NAME.json or, if the name ends in .json, the suite in the file with this path.

    Raises:
        DataError: the suite does not exist or is not valid. A retry cannot help.
    """
    path = Path(name)
    if path.suffix == ".json":
        hint = "give the path of a suite in the JSON format of Great Expectations"
        return suites.parse_suite(path.stem, read_json(path, hint), path.name)
    return suites.load_suite(settings().project / "expectations", name)


def list_partitions(table: str, dataset: str, first: dt.date, last: dt.date) -> list[Partition]:
    """List the partitions of a dataset's table that have rows and whose `date` is in `first`..`last`.

    Raises:
        DataError: there is no such partition. A retry can help once they are ingested.
    """
    row_counts = Lake.open().count_rows_by_partition(table, _load_dataset(dataset).partition)
    partitions = sorted(partition for partition in row_counts if first <= get_date(partition) <= last)
    if not partitions:
        raise DataError(f"the lake's table {table} has no partition from {first} to {last}.", "Ingest them first.")
    return partitions


def replay(
    suite: suites.Suite, table: str, dataset: str, partitions: Iterable[Partition], max_quarantined_fraction: float
) -> Iterator[ReplayedPartition]:
    """Judge each partition by the suite; write nothing.

    Args:
        suite: the changed suite.
        table: table whose rows are judged.
        dataset: dataset whose last validations are compared, and whose published days serve as history.
        partitions: partitions of the table.
        max_quarantined_fraction: largest share of a partition's rows that may be quarantined, 0 to 1.
    """
    lake = Lake.open()
    suite = suites.add_completeness_expectations(suite, _load_dataset(dataset))
    for partition in partitions:
        with suites.open_rows(lake, table, partition, dataset) as rows:
            judgement = suites.judge(suite, rows)
            split = quarantine.split_rows(rows, judgement.rejecting_results)
            outcome = quarantine.decide_outcome(judgement, split.bad_count, rows.count, max_quarantined_fraction)
        yield ReplayedPartition(partition, outcome, judgement.failures, _read_last_run(dataset, partition))


def summarize(partitions: Sequence[ReplayedPartition]) -> dict[str, Any]:
    """Count the partitions by new and by last verdict, and the rows to quarantine.

    `differ` counts the partitions whose result differs from their last validation, or that have no last validation.
    """
    last_runs = [partition.last_run for partition in partitions if partition.last_run]
    return {
        "partitions": len(partitions),
        "now": dict.fromkeys(VERDICTS, 0) | Counter(partition.verdict for partition in partitions),
        "before": dict.fromkeys(VERDICTS, 0) | Counter(run.verdict for run in last_runs),
        "never_validated": sum(partition.last_run is None for partition in partitions),
        "quarantined": sum(partition.quarantined for partition in partitions),
        "differ": sum(partition.is_different for partition in partitions),
    }


def _load_dataset(name: str) -> Dataset:
    """Load the dataset. If it cannot be loaded, return one without key columns and without a time column."""
    try:
        return load_dataset(name)
    except SpecError:
        return Dataset(name, key=())


def _read_last_run(dataset: str, partition: Partition) -> ValidationRun | None:
    """Read the last validation of a partition; None if its evidence does not exist or cannot be read."""
    try:
        return read_run(settings().home / "validation" / dataset / f"{partition}.json")
    except DataError:
        return None
