"""Read the last validation of each partition of all datasets."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from pipelines.lake import DATE_COLUMN
from pipelines.lake.cached import CachedLake, FileQuery, Record
from pipelines.lake.partitions import make_partition
from pipelines.partitions import HOUR_COLUMN, Partition
from pipelines.system.files import read_json_object
from pipelines.validation.results_table import TABLE, get_evidence_path
from pipelines.window import Unit

QUERY = FileQuery(
    """
SELECT filename, dataset, date, hour, run, max(validated_at) AS validated_at,
    list({'expectation': expectation, 'column': "column", 'severity': severity,
        'observed': coalesce(nullif(error, ''), observed)} ORDER BY place) FILTER (NOT success) AS failures
FROM files GROUP BY ALL
""",
    (
        *("dataset", DATE_COLUMN, HOUR_COLUMN, "run", "validated_at", "expectation", "column", "severity"),
        *("error", "observed", "place", "success"),
    ),
)
"""Selects each validation with its failures."""


@dataclass(frozen=True)
class Failure:
    """An expectation that failed."""

    expectation: str
    column: str
    severity: str
    observed: str
    """What was observed, or why it could not be checked."""

    def __str__(self) -> str:
        """Describe the failure in a line."""
        column = f" of {self.column}" if self.column else ""
        return f"{self.severity} {self.expectation}{column}: {self.observed}"


@dataclass(frozen=True)
class Validation:
    """The last validation of a partition."""

    dataset: str
    partition: Partition
    run: str
    """Identifier of the validation."""
    at: dt.datetime
    failures: list[Failure] = field(default_factory=list)

    @property
    def is_refused(self) -> bool:
        """Whether it refused the partition: a critical expectation failed, or too many rows failed warnings.

        Whether too many rows failed is read from the evidence file of the validation. Without the file, the partition
        counts as published.
        """
        severities = {failure.severity for failure in self.failures}
        if "critical" in severities or "warning" not in severities:
            return "critical" in severities
        meta = read_json_object(get_evidence_path(self.dataset, self.partition)).get("meta", {})
        return (meta.get("run"), meta.get("verdict")) == (self.run, "blocked")


def read_validations(lake: CachedLake, dataset: str, unit: Unit, first: dt.date) -> dict[Partition, Validation]:
    """Read the last validation of each partition of a dataset.

    The lake's table is read once for all datasets.

    Args:
        lake: lake with the table of validations.
        dataset: dataset that was validated.
        unit: unit of its partitions.
        first: first day that is read; the same for all datasets.
    """
    newest_records = lake.get_or_read(TABLE, ("newest", first), lambda: _find_newest_validations(lake, first))
    validations: dict[Partition, Validation] = {}
    for record in newest_records.get(dataset, ()):
        partition = make_partition({DATE_COLUMN: record["date"], HOUR_COLUMN: record["hour"]}, unit)
        failures = [Failure(**{name: text or "" for name, text in item.items()}) for item in record["failures"] or ()]
        validations[partition] = Validation(dataset, partition, record["run"], record["validated_at"], failures)
    return validations


def _find_newest_validations(lake: CachedLake, first: dt.date) -> dict[str, list[Record]]:
    """Find the last validation of each partition; return them by dataset."""
    newest_records: dict[tuple[Any, ...], Record] = {}
    for record in lake.read_file_records(TABLE, QUERY, first):
        key = record["dataset"], record["date"], record["hour"]
        if key not in newest_records or newest_records[key]["validated_at"] <= record["validated_at"]:
            newest_records[key] = record
    records: dict[str, list[Record]] = {}
    for record in newest_records.values():
        records.setdefault(record["dataset"], []).append(record)
    return records
