"""Judges one staged partition by its suite, and publishes it where no critical expectation failed.

Write, audit, publish: what was published before stays as it was when a partition is refused, its rows stay in the
staging table and the evidence under LEEWAY_HOME/validation. Idempotent.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from pipelines.contract import Result, Spec
from pipelines.dataset import dataset
from pipelines.errors import DataError, ValidationError
from pipelines.log import log
from pipelines.settings import settings

MAX_FAILURES = 10
"""Failed expectations that a result names; the evidence has them all."""


class ValidateSpec(Spec):
    """One staged partition to judge and publish."""

    dataset: str = "flights"
    """Dataset whose staging table holds the partition."""
    partition: dt.date
    """Day to judge (YYYY-MM-DD)."""
    suite: str = ""
    """Suite in expectations/; named as the dataset where it is not given."""


class ValidateResult(Result):
    """A published partition."""

    table: str
    """Published table."""
    partition: dt.date
    """Day that was judged."""
    rows: int
    """Rows published."""
    evaluated: int
    """Expectations evaluated."""
    warnings: list[dict[str, Any]]
    """Failed expectations that do not block: at most ten, three examples each."""
    evidence: Path
    """Great Expectations' whole result, JSON."""
    snapshot_id: int
    """Iceberg snapshot of the published table that holds the partition."""
    changed: bool
    """False where the same rows were published already."""


def run(spec: ValidateSpec) -> ValidateResult:
    """The staged partition is published, or refused with its evidence kept.

    Raises:
        DataError: the partition was not ingested, or there is no such suite. A retry cannot help.
        ValidationError: a critical expectation failed. A retry cannot help.
    """
    from pipelines import suites
    from pipelines.files import write_json
    from pipelines.lake import Lake

    chosen, lake = dataset(spec.dataset), Lake.open()
    suite = suites.load(settings().project / "expectations", spec.suite or spec.dataset)
    rows = lake.read(chosen.staging, spec.partition)
    if not rows.num_rows:
        raise DataError(f"{chosen.staging} has no partition {spec.partition}.", "Ingest it first.")
    judgement = suites.judge(suite, rows)
    evidence = settings().home / "validation" / spec.dataset / f"{spec.partition}.json"
    write_json(evidence, judgement.evidence)
    _refuse(spec, judgement.of("critical"), evidence)
    commit = lake.write(chosen.published, spec.partition, rows)
    mild = [one for one in judgement.failures if one["severity"] != "critical"]
    for one in mild:
        log.warning("%s %s: %s", spec.dataset, spec.partition, _words(one))
    log.info("%s %s: %d rows published, %d warnings", chosen.published, spec.partition, rows.num_rows, len(mild))
    return ValidateResult(
        table=chosen.published,
        partition=spec.partition,
        rows=rows.num_rows,
        evaluated=judgement.evaluated,
        warnings=mild[:MAX_FAILURES],
        evidence=evidence,
        snapshot_id=commit.snapshot_id,
        changed=commit.changed,
    )


def _refuse(spec: ValidateSpec, critical: list[dict[str, Any]], evidence: Path) -> None:
    if not critical:
        return
    failed = "; ".join(_words(one) for one in critical[:MAX_FAILURES])
    raise ValidationError(
        f"{spec.dataset} {spec.partition} was not published: {len(critical)} critical expectation(s) failed: {failed}.",
        f"Mend the source and ingest again. Evidence: {evidence}",
    )


def _words(failure: dict[str, Any]) -> str:
    column = f" of {failure['column']}" if failure["column"] else ""
    seen = failure["error"] or failure["observed"]
    examples = f", e.g. {', '.join(failure['examples'])}" if failure["examples"] else ""
    return f"{failure['severity']} {failure['expectation']}{column}: {seen}{examples}"
