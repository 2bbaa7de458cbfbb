"""Store the results of validations: as evidence files, and as rows of the table `validation_results`.

A partition has one file, which each validation replaces. Each validation adds rows to the table, one for each
expectation. Rows of the table are never changed.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThanOrEqual

from pipelines.lake import DATE_COLUMN, Lake
from pipelines.partitions import HOUR_COLUMN, Hour, Partition, get_date
from pipelines.settings import settings
from pipelines.system.files import write_json
from pipelines.validation.quarantine import Outcome
from pipelines.validation.suites import ExpectationResult, Judgement
from pipelines.validation.verification import Verification

TABLE = "validation_results"
_TEXT = pa.string()
SCHEMA = pa.schema(
    [
        (DATE_COLUMN, pa.date32()),  # the `date` of the partition that was judged
        *((name, _TEXT) for name in ("dataset", "suite", "suite_digest", "run")),
        ("validated_at", pa.timestamp("us", tz="UTC")),
        ("place", pa.int32()),  # position of the expectation in the suite, from 0
        *((name, _TEXT) for name in ("expectation", "column", "severity")),
        ("success", pa.bool_()),
        *((name, pa.int64()) for name in ("element_count", "unexpected_count", "missing_count")),
        *((name, _TEXT) for name in ("observed", "examples", "error", "result")),
    ]
)
HOUR_FIELD = pa.field(HOUR_COLUMN, pa.int32())
"""Column of the hour that was judged. The table has this column if a partition by hour was ever judged."""


class ResultsTable:
    """The table `validation_results` of the lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def add(self, rows: Iterable[dict[str, Any]], partition: Partition) -> None:
        """Append rows in one commit. Other processes may write at the same time.

        Raises:
            ConflictError: other writers kept changing the table. A retry can help.
        """
        schema = SCHEMA.append(HOUR_FIELD) if isinstance(partition, Hour) else SCHEMA
        self._lake.append_rows(TABLE, get_date(partition), pa.Table.from_pylist(list(rows), schema=schema))

    def read_newest(self, dataset: str, first: dt.date, last: dt.date) -> list[dict[str, Any]]:
        """Read the rows of the last validation of each partition with a `date` in `first`..`last`, oldest first."""
        range_filter = And(
            GreaterThanOrEqual(DATE_COLUMN, first.isoformat()), LessThanOrEqual(DATE_COLUMN, last.isoformat())
        )
        table = self._lake.read_rows(TABLE, And(range_filter, EqualTo("dataset", dataset)))
        if table is None:
            return []
        rows = table.sort_by([("validated_at", "ascending"), ("place", "ascending")]).to_pylist()
        newest_runs = {(row[DATE_COLUMN], row.get(HOUR_COLUMN)): row["run"] for row in rows}
        return [row for row in rows if newest_runs[row[DATE_COLUMN], row.get(HOUR_COLUMN)] == row["run"]]


def get_evidence_path(dataset: str, partition: Partition) -> Path:
    """Return the path of the evidence file of a partition's last validation."""
    return settings().home / "validation" / dataset / f"{partition}.json"


def store_results(
    lake: Lake,
    dataset: str,
    partition: Partition,
    judgement: Judgement,
    outcome: Outcome,
    verification: Verification | None = None,
) -> Path:
    """Store a judgement in the evidence file and in the table; return the path of the file.

    Args:
        lake: lake with the table.
        dataset: dataset that was judged.
        partition: partition that was judged.
        judgement: its results.
        outcome: the decision about the partition.
        verification: comparison with the judgement of the other engine; it is stored only in the file.

    Raises:
        ConflictError: other writers kept changing the table. A retry can help.
    """
    run, validated_at = uuid.uuid4().hex, dt.datetime.now(dt.UTC)
    meta: dict[str, Any] = {
        "dataset": dataset,
        "partition": str(partition),
        "run": run,
        "validated_at": validated_at.isoformat(),
    }
    numbers = {"rows": outcome.rows, "bad_rows": outcome.bad_rows, "allowed": outcome.max_quarantined_fraction}
    if verification:
        meta |= {"verification": verification.to_json_values()}
    evidence = judgement.evidence
    path = get_evidence_path(dataset, partition)
    write_json(path, evidence | {"meta": evidence["meta"] | meta | {"verdict": outcome.verdict} | numbers})
    common_columns = {DATE_COLUMN: get_date(partition), "dataset": dataset, "run": run, "validated_at": validated_at}
    common_columns |= {HOUR_COLUMN: partition.hour} if isinstance(partition, Hour) else {}
    common_columns |= {"suite": judgement.suite.name, "suite_digest": judgement.suite.digest}
    rows = (common_columns | {"place": place} | _build_row(result) for place, result in enumerate(judgement.results))
    ResultsTable(lake).add(rows, partition)
    return path


def _build_row(result: ExpectationResult) -> dict[str, Any]:
    """Build the columns of one expectation's row that describe the expectation and its result."""
    expectation = result.expectation
    return {
        "expectation": expectation.type,
        "column": expectation.column,
        "severity": expectation.severity,
        "success": result.success,
        **{name: result.result.get(name) for name in ("element_count", "unexpected_count", "missing_count")},
        "observed": result.observed,
        "examples": json.dumps(result.examples, ensure_ascii=False),
        "error": result.error,
        "result": json.dumps(result.to_json_values(), ensure_ascii=False),
    }
