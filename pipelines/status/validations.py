"""Read the last validation of each partition of all datasets, in one query each for validations and failures."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from pipelines.lake import DATE_COLUMN, connect
from pipelines.lake.catalog import find_table
from pipelines.lake.partitions import make_partition
from pipelines.lake.remembering import RememberingLake
from pipelines.partitions import HOUR_COLUMN, Partition
from pipelines.system.files import read_json_object
from pipelines.validation.results_table import TABLE, get_evidence_path
from pipelines.window import Unit

LAST_DAY = dt.date(9999, 12, 31)
NEWEST = """
CREATE TEMP TABLE newest AS
SELECT dataset, date, {hour} AS hour, max(validated_at) AS validated_at, arg_max(run, validated_at) AS run
FROM results GROUP BY ALL
"""
VALIDATIONS = "SELECT * FROM newest"
FAILURES = """
SELECT results.dataset, results.date, newest.hour, expectation, "column", severity,
    coalesce(nullif(error, ''), observed) AS observed
FROM results JOIN newest ON newest.run = results.run AND newest.dataset = results.dataset
WHERE NOT success ORDER BY ALL
"""


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
        """Whether it refused the partition: a critical expectation failed, or too many rows failed a warning.

        The latter is read from the evidence file of the validation; without the file, the partition counts as
        published.
        """
        severities = {failure.severity for failure in self.failures}
        if "critical" in severities or "warning" not in severities:
            return "critical" in severities
        meta = read_json_object(get_evidence_path(self.dataset, self.partition)).get("meta", {})
        return (meta.get("run"), meta.get("verdict")) == (self.run, "blocked")


def read_validations(lake: RememberingLake, dataset: str, unit: Unit, first: dt.date) -> dict[Partition, Validation]:
    """Read the last validation of each partition of a dataset from a day on.

    The table is read once for all datasets.

    Args:
        lake: lake with the table of validations.
        dataset: dataset that was validated.
        unit: unit of its partitions.
        first: first day for which the table is read; the same for all datasets.
    """
    rows, failures = lake.remember(TABLE, ("newest", first), lambda: _read(lake, first))
    validations = {
        partition: Validation(dataset, partition, row["run"], row["validated_at"])
        for row in rows
        if row["dataset"] == dataset and (partition := _make_partition(row, unit))
    }
    for row in failures:
        if row["dataset"] == dataset and (validation := validations.get(_make_partition(row, unit))):
            texts = (row[name] or "" for name in ("expectation", "column", "severity", "observed"))
            validation.failures.append(Failure(*texts))
    return validations


def _make_partition(row: dict[str, Any], unit: Unit) -> Partition:
    return make_partition({DATE_COLUMN: row["date"], HOUR_COLUMN: row["hour"]}, unit)


def _read(lake: RememberingLake, first: dt.date) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    table = find_table(lake.catalog, TABLE)
    if table is None:
        return [], []
    hour = "hour" if HOUR_COLUMN in table.schema().column_names else "NULL"
    with connect() as connection, lake.create_view(connection, "results", TABLE, first, LAST_DAY):
        connection.execute(NEWEST.format(hour=hour))
        validations, failures = (
            connection.sql(query).arrow().read_all().to_pylist() for query in (VALIDATIONS, FAILURES)
        )
    return validations, failures
