"""Judges one staged partition by its suite, sets bad rows aside, and publishes the rest, or nothing.

Write, audit, publish: a critical failure publishes nothing. A failed warning about rows moves those to
NAME_quarantine, with what was wrong with each, and the others are published; of more than `max_quarantined_fraction`,
nothing is. Other warnings, and info, are told. What was published before stays as it was when a partition is refused,
unless `withdraw` is asked for; its rows stay in the staging table, and the evidence is kept before anything else.
Idempotent.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from pipelines.contract import Changes, Result, Spec
from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import DataError, ValidationError
from pipelines.settings import settings
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.lake import Lake
    from pipelines.validation.quarantine import Split

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
    max_quarantined_fraction: float = Field(default=0.1, ge=0, le=1)
    """Largest share of the rows that may be set aside, 0 to 1; beyond it nothing is published."""
    withdraw: bool = False
    """Whether what was published of the day before goes where the day is refused, with the outcomes of its labels;
    older snapshots still have both."""


class ValidateResult(Result):
    """A published partition."""

    table: str
    """Published table."""
    partition: dt.date
    """Day that was judged."""
    rows: int
    """Rows published."""
    quarantined: int = 0
    """Rows set aside, in the table NAME_quarantine."""
    evaluated: int
    """Expectations evaluated."""
    warnings: list[dict[str, Any]]
    """Failed expectations that do not block: at most ten, three examples each."""
    evidence: Path
    """The whole result, JSON as Great Expectations writes it."""
    docs: str
    """Address of the page that shows it."""
    snapshot_id: int
    """Iceberg snapshot of the published table that wrote the partition: its version."""
    changed: bool
    """False where the same rows were published already."""
    changes: Changes
    """What differs from the rows that were published before."""
    columns: list[str]
    """What the rows did to the table's columns (added, widened), a line each."""


def run(spec: ValidateSpec) -> ValidateResult:
    """The staged partition is published but for the rows set aside, or refused with its evidence kept.

    Raises:
        DataError: the partition was not ingested, or there is no such suite. A retry cannot help.
        ValidationError: a critical expectation failed, or too many rows are bad. A retry cannot help.
        ConflictError: the catalog stayed busy. A retry can help.
    """
    from pipelines.lake import Lake
    from pipelines.validation import datadocs, quarantine, suites
    from pipelines.validation import results_table as evidence

    chosen, lake = load_dataset(spec.dataset), Lake.open()
    suite = suites.load(settings().project / "expectations", spec.suite or spec.dataset)
    with suites.rows_of(lake, chosen.staging, spec.partition, chosen.published) as rows:
        judgement = suites.judge(suite, rows)
        if not rows.count:
            raise DataError(f"{chosen.staging} has no partition {spec.partition}.", "Ingest it first.")
        parts = quarantine.split(rows, judgement.to_quarantine)
        outcome = quarantine.outcome(judgement, parts.count, rows.count, spec.max_quarantined_fraction)
        kept = evidence.keep(lake, spec.dataset, spec.partition, judgement, outcome)
        datadocs.add_run(kept)
        if outcome.verdict == "blocked":
            raise _refusal(spec, judgement.of("critical"), parts, _withdrawn(lake, chosen, spec))
        quarantine.put(lake, chosen.quarantine, spec.partition, parts, chosen.key)
        commit = lake.write_partition(chosen.published, spec.partition, parts.kept(), chosen.key)
    mild = judgement.of("warning", "info")
    for one in mild:
        say = log.warning if one["severity"] == "warning" else log.info
        say("%s %s: %s", spec.dataset, spec.partition, words(one))
    log.info("%s %s: %d rows published, %d set aside", chosen.published, spec.partition, commit.rows, parts.count)
    return ValidateResult(
        table=chosen.published,
        partition=spec.partition,
        rows=commit.rows,
        quarantined=parts.count,
        evaluated=judgement.evaluated,
        warnings=mild[:MAX_FAILURES],
        evidence=kept,
        docs=settings().docs_page(spec.dataset, str(spec.partition)),
        snapshot_id=commit.snapshot_id,
        changed=commit.changed,
        changes=Changes(**asdict(commit.changes)),
        columns=list(commit.columns),
    )


def words(failure: dict[str, Any]) -> str:
    """A failure on a line."""
    column = f" of {failure['column']}" if failure["column"] else ""
    seen = failure["error"] or failure["observed"]
    examples = f", e.g. {', '.join(failure['examples'])}" if failure["examples"] else ""
    return f"{failure['severity']} {failure['expectation']}{column}: {seen}{examples}"


def _withdrawn(lake: Lake, chosen: Dataset, spec: ValidateSpec) -> int:
    """How many rows of the day are not published any more; their labels have no outcomes."""
    if not spec.withdraw:
        return 0
    rows = lake.count_rows_of_days(chosen.published, [spec.partition]).get(spec.partition, 0)
    if rows:
        lake.clear_partition(chosen.published, spec.partition)
        log.warning("%s %s: %d rows withdrawn", chosen.published, spec.partition, rows)
    # Whether or not there were rows, and after them: one may have been killed before, or `outcomes` be at work.
    lake.clear_partition(chosen.outcomes, spec.partition)
    return rows


def _refusal(spec: ValidateSpec, critical: list[dict[str, Any]], parts: Split, withdrawn: int) -> ValidationError:
    """Why nothing is published: critical expectations that failed, else too many bad rows."""
    if critical:
        failed = "; ".join(words(one) for one in critical[:MAX_FAILURES])
        why = f"{len(critical)} critical expectation(s) failed: {failed}."
    else:
        failed = "; ".join(words(one.summary()) for one in parts.verdicts[:MAX_FAILURES])
        why = (
            f"{parts.count} of {parts.rows.count} rows are bad, more than the "
            f"{spec.max_quarantined_fraction:.0%} of max_quarantined_fraction: {failed}."
        )
    if withdrawn:
        why = f"{why} Its {withdrawn} rows of before were withdrawn."
    page = settings().docs_page(spec.dataset, str(spec.partition))
    return ValidationError(
        f"{spec.dataset} {spec.partition} was not published: {why}", f"Mend the source and ingest again. See {page}"
    )
