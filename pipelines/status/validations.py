"""Read the validations of each partition of all datasets."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any, Literal

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
    """What was observed, or why the expectation could not be checked."""

    def __str__(self) -> str:
        """Describe the failure in a line."""
        column = f" of {self.column}" if self.column else ""
        return f"{self.severity} {self.expectation}{column}: {self.observed}"


@dataclass(frozen=True)
class EarlierValidation:
    """A validation of a partition that was validated again later."""

    at: dt.datetime
    failures: list[Failure]

    @property
    def outcome(self) -> Literal["passed", "warned", "refused"]:
        """The outcome by the most severe failure.

        refused: a critical expectation failed, or a person withdrew the partition. warned: a `warning` expectation
        failed; either the bad rows went to quarantine, or the partition was refused because they were too many.
        passed: nothing worse than an `info` expectation failed.
        """
        severities = {failure.severity for failure in self.failures}
        return "refused" if "critical" in severities else "warned" if "warning" in severities else "passed"

    @property
    def failed_expectations(self) -> set[tuple[str, str, str]]:
        """The expectations that failed, without what was observed."""
        return {(failure.expectation, failure.column, failure.severity) for failure in self.failures}


@dataclass(frozen=True)
class Validation:
    """The last validation of a partition."""

    dataset: str
    partition: Partition
    run: str
    """Identifier of the validation."""
    at: dt.datetime
    failures: list[Failure] = field(default_factory=list)
    earlier_validations: list[EarlierValidation] = field(default_factory=list)
    """Validations of the partition before this one, oldest first."""

    @property
    def is_refused(self) -> bool:
        """Whether it refused the partition: a critical expectation failed, or too many rows failed `warning` ones.

        Whether too many rows failed is read from the evidence file of the validation. Without the file, only
        a critical failure makes the result True.
        """
        severities = {failure.severity for failure in self.failures}
        if "critical" in severities or "warning" not in severities:
            return "critical" in severities
        meta = read_json_object(get_evidence_path(self.dataset, self.partition)).get("meta", {})
        return (meta.get("run"), meta.get("verdict")) == (self.run, "blocked")


def read_validations(lake: CachedLake, dataset: str, unit: Unit, first: dt.date) -> dict[Partition, Validation]:
    """Read the last validation of each partition of a dataset, with those before it.

    The lake's table is read once for all datasets.

    Args:
        lake: lake with the table of validations.
        dataset: dataset that was validated.
        unit: unit of its partitions.
        first: first day that is read. Pass the same day for all datasets, or the table is read again.
    """
    all_histories = lake.get_or_read(TABLE, ("histories", first), lambda: _group_by_partition(lake, first))
    validations: dict[Partition, Validation] = {}
    for *earlier_records, last in all_histories.get(dataset, ()):
        partition = make_partition({DATE_COLUMN: last["date"], HOUR_COLUMN: last["hour"]}, unit)
        earlier = [EarlierValidation(record["validated_at"], _list_failures(record)) for record in earlier_records]
        failures = _list_failures(last)
        validations[partition] = Validation(dataset, partition, last["run"], last["validated_at"], failures, earlier)
    return validations


def _list_failures(record: Record) -> list[Failure]:
    return [Failure(**{name: text or "" for name, text in item.items()}) for item in record["failures"] or ()]


def _group_by_partition(lake: CachedLake, first: dt.date) -> dict[str, list[list[Record]]]:
    """Map each dataset to a list with an item for each partition: the validations of the partition, oldest first."""
    histories: dict[tuple[Any, ...], list[Record]] = {}
    for record in lake.read_file_records(TABLE, QUERY, first):
        histories.setdefault((record["dataset"], record["date"], record["hour"]), []).append(record)
    histories_by_dataset: dict[str, list[list[Record]]] = {}
    for (dataset, *_), records in histories.items():
        sorted_records = sorted(records, key=lambda record: record["validated_at"])
        histories_by_dataset.setdefault(dataset, []).append(sorted_records)
    return histories_by_dataset
