"""Evidence of validations: the whole result as a file, and a row an expectation in the lake's `validation_results`.

The table keeps its history: each validation adds its rows, and none is changed.
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

from pipelines.lake import PARTITION, Lake
from pipelines.settings import settings
from pipelines.system.files import write_json
from pipelines.validation.quarantine import Outcome
from pipelines.validation.suites import Judgement, Verdict

TABLE = "validation_results"
_TEXT = pa.string()
SCHEMA = pa.schema(
    [
        (PARTITION, pa.date32()),  # the partition that was judged
        *((name, _TEXT) for name in ("dataset", "suite", "suite_digest", "run")),
        ("validated_at", pa.timestamp("us", tz="UTC")),
        ("place", pa.int32()),  # in the suite, from 0
        *((name, _TEXT) for name in ("expectation", "column", "severity")),
        ("success", pa.bool_()),
        *((name, pa.int64()) for name in ("element_count", "unexpected_count", "missing_count")),
        *((name, _TEXT) for name in ("observed", "examples", "error", "result")),
    ]
)


class Evidence:
    """The table `validation_results` of the lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def add(self, rows: Iterable[dict[str, Any]], day: dt.date) -> None:
        """Append rows in one commit, also while other processes write.

        Raises:
            ConflictError: other writers kept changing the table. A retry can help.
        """
        self._lake.append_rows(TABLE, day, pa.Table.from_pylist(list(rows), schema=SCHEMA))

    def read_newest(self, dataset: str, first: dt.date, last: dt.date) -> list[dict[str, Any]]:
        """Read the rows of the last validation of each day in `first`..`last`, oldest validation first."""
        between = And(GreaterThanOrEqual(PARTITION, first.isoformat()), LessThanOrEqual(PARTITION, last.isoformat()))
        table = self._lake.read_rows(TABLE, And(between, EqualTo("dataset", dataset)))
        if table is None:
            return []
        rows = table.sort_by([("validated_at", "ascending"), ("place", "ascending")]).to_pylist()
        of_day = {row[PARTITION]: row["run"] for row in rows}
        return [row for row in rows if of_day[row[PARTITION]] == row["run"]]


def get_evidence_path(dataset: str, day: dt.date) -> Path:
    """Return the path of the evidence of a partition's last validation."""
    return settings().home / "validation" / dataset / f"{day}.json"


def store_results(lake: Lake, dataset: str, day: dt.date, judgement: Judgement, outcome: Outcome) -> Path:
    """Store a judgement in the evidence file and in the table; return the path of the file."""
    run, moment = uuid.uuid4().hex, dt.datetime.now(dt.UTC)
    about: dict[str, Any] = {"dataset": dataset, "partition": str(day), "run": run, "validated_at": moment.isoformat()}
    about |= {"verdict": outcome.verdict, "rows": outcome.rows, "bad_rows": outcome.bad, "allowed": outcome.allowed}
    evidence = judgement.evidence
    path = get_evidence_path(dataset, day)
    write_json(path, evidence | {"meta": evidence["meta"] | about})
    common = {PARTITION: day, "dataset": dataset, "run": run, "validated_at": moment}
    common |= {"suite": judgement.suite.name, "suite_digest": judgement.suite.digest}
    rows = (common | {"place": place} | _build_row(verdict) for place, verdict in enumerate(judgement.verdicts))
    Evidence(lake).add(rows, day)
    return path


def _build_row(verdict: Verdict) -> dict[str, Any]:
    expectation, result = verdict.expectation, verdict.result
    return {
        "expectation": expectation.type,
        "column": expectation.column,
        "severity": expectation.severity,
        "success": verdict.success,
        **{name: result.get(name) for name in ("element_count", "unexpected_count", "missing_count")},
        "observed": verdict.observed,
        "examples": json.dumps(verdict.examples, ensure_ascii=False),
        "error": verdict.error,
        "result": json.dumps(verdict.record(), ensure_ascii=False),
    }
