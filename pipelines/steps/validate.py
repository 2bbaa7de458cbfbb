"""Judge one staged partition by its suite, then quarantine its bad rows and publish the others, or refuse it.

If a critical expectation fails, the partition is refused. Rows that fail a warning go to NAME_quarantine with the
reasons, and the others are published; if more than `max_quarantined_fraction` of the rows are bad, the partition is
refused. Failed warnings that are not about single rows, and failed expectations of severity info, are only logged. When
a partition is refused, the rows that were published before stay (unless `withdraw` is set), and the new rows stay in
the staging table. The evidence is written before anything else. Idempotent.

By default DuckDB judges; Great Expectations judges what only that library can judge. A share of the partitions is
judged by both engines. If their answers differ, nothing is published.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from pipelines.contract import Changes, Result, Spec
from pipelines.dataset import load_dataset
from pipelines.errors import DataError, ValidationError
from pipelines.partitions import PartitionKey, check_partition
from pipelines.settings import settings
from pipelines.steps.withdraw import remove_published_rows
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.lake import Commit, Lake
    from pipelines.validation.quarantine import Split
    from pipelines.validation.suites import Judgement

MAX_FAILURES = 10
"""Largest number of failed expectations that a result or an error names. The evidence names all of them."""


class ValidateSpec(Spec):
    """One staged partition to judge and publish."""

    dataset: str
    """Dataset whose staging table holds the partition."""
    partition: PartitionKey
    """Partition to judge: a day (YYYY-MM-DD), an hour (YYYY-MM-DDTHH) or a month (YYYY-MM), depending on the
    dataset."""
    suite: str = ""
    """Suite in expectations/; empty: the suite with the dataset's name."""
    max_quarantined_fraction: float = Field(default=0.1, ge=0, le=1)
    """Largest share of the rows that may be quarantined, 0 to 1. If more rows are bad, nothing is published."""
    engine: Literal["duckdb", "gx"] = "duckdb"
    """What judges the rows: `duckdb` (Leeway's SQL, which gives the same verdicts as Great Expectations), or `gx`
    (Great Expectations itself, with its pandas engine: slower, and in memory)."""
    verify_share: float = Field(default=0.02, ge=0, le=1)
    """Share of the partitions that both engines judge, 0 to 1; always the same partitions. If their answers differ,
    nothing is published."""
    withdraw: bool = False
    """Whether to remove the rows that were published before, and the outcomes of their labels, when a day is refused.
    Older snapshots still have both. If the day is only incomplete, nothing is removed."""
    allow_shrink: bool = False
    """Whether a day may be published that has fewer rows than its published version, or that ends earlier than the
    published days around it."""


class ValidateResult(Result):
    """A published partition."""

    table: str
    """Published table."""
    partition: PartitionKey
    """Partition that was judged."""
    rows: int
    """Rows published."""
    quarantined: int = 0
    """Rows quarantined, in the table NAME_quarantine."""
    evaluated: int
    """Number of expectations evaluated."""
    warnings: list[dict[str, Any]]
    """Failed expectations that do not block publication: at most ten, with three examples each."""
    evidence: Path
    """File of the complete result, in the JSON of Great Expectations."""
    engine: Literal["duckdb", "gx"]
    """The requested engine. The other one judged the expectations that this one cannot judge."""
    verified: bool
    """Whether both engines judged the rows; their answers were the same."""
    docs: str
    """Address of the partition's page in the data docs."""
    snapshot_id: int
    """Iceberg snapshot of the published table that wrote the partition."""
    changed: bool
    """False if the same rows were published before."""
    changes: Changes
    """Difference from the rows that were published before."""
    columns: list[str]
    """Changes of the table's columns (added, widened), one line each."""


def run(spec: ValidateSpec) -> ValidateResult:
    """Publish the good rows of the staged partition and quarantine the others, or refuse the partition.

    Raises:
        DataError: the partition is not staged, there is no such suite, or the type of the label does not fit the task.
            A retry cannot help.
        ValidationError: a critical expectation failed, or too many rows are bad. A retry cannot help.
        SpecError: the partition is not of the dataset's unit. A retry cannot help.
        EnginesDifferError: DuckDB and Great Expectations judge the rows differently. A retry cannot help.
        ConflictError: other processes kept the catalog busy. A retry can help.
    """
    from pipelines.lake import Lake

    return validate_partition(spec, Lake.open())


def validate_partition(spec: ValidateSpec, lake: Lake, *, updates_indexes: bool = True) -> ValidateResult:
    """Publish or refuse the partition, as `run` does.

    Args:
        spec: the partition.
        lake: the lake. A caller with many partitions opens it once.
        updates_indexes: whether to update the indexes of the data docs. If false, the caller must update them.
    """
    from pipelines.features import label_column
    from pipelines.validation import datadocs, quarantine, results_table, suites, verification

    dataset = load_dataset(spec.dataset)
    dataset.require_own_days()
    check_partition(dataset, spec.partition)
    suite = suites.load_suite(settings().project / "expectations", spec.suite or spec.dataset)
    suite = suites.add_completeness_expectations(suite, dataset, allow_shrink=spec.allow_shrink)
    with suites.open_rows(lake, dataset.staging, spec.partition, dataset.table) as rows:
        judgement = suites.judge(suite, rows, spec.engine)
        if not rows.count:
            raise DataError(f"{dataset.staging} has no partition {spec.partition}.", "Ingest it first.")
        label_column.check_label_type(dataset, rows.schema)
        comparison = verification.verify(judgement, rows, spec.dataset, spec.verify_share)
        split = quarantine.split_rows(rows, judgement.rejecting_results)
        outcome = quarantine.decide_outcome(judgement, split.bad_count, rows.count, spec.max_quarantined_fraction)
        if comparison and comparison.differences:
            outcome = replace(outcome, verdict="blocked")
        evidence = results_table.store_results(lake, spec.dataset, spec.partition, judgement, outcome, comparison)
        datadocs.add_run(evidence, updates_indexes=updates_indexes)
        if comparison and comparison.differences:
            raise verification.build_engines_differ_error(spec.dataset, spec.partition, comparison)
        if outcome.verdict == "blocked":
            is_incomplete = _is_only_incomplete(judgement)
            withdrawn_rows = (
                remove_published_rows(lake, dataset, spec.partition) if spec.withdraw and not is_incomplete else 0
            )
            raise _make_error(spec, judgement.list_failures("critical"), split, withdrawn_rows)
        quarantine.write_quarantine(lake, dataset.quarantine, spec.partition, split, dataset.key)
        commit = lake.write_partition(dataset.table, spec.partition, split.read_good_rows(), dataset.key)
    _log_result(spec, judgement, commit.rows, split.bad_count)
    return _make_result(spec, judgement, split, commit, evidence, is_verified=comparison is not None)


def _log_result(spec: ValidateSpec, judgement: Judgement, published_rows: int, quarantined_rows: int) -> None:
    for failure in judgement.list_failures("warning", "info"):
        log_line = log.warning if failure["severity"] == "warning" else log.info
        log_line("%s %s: %s", spec.dataset, spec.partition, describe_failure(failure))
    log.info("%s %s: %d rows published, %d quarantined", spec.dataset, spec.partition, published_rows, quarantined_rows)


def _make_result(
    spec: ValidateSpec, judgement: Judgement, split: Split, commit: Commit, evidence: Path, *, is_verified: bool
) -> ValidateResult:
    return ValidateResult(
        table=load_dataset(spec.dataset).table,
        partition=spec.partition,
        rows=commit.rows,
        quarantined=split.bad_count,
        evaluated=judgement.evaluated_count,
        warnings=judgement.list_failures("warning", "info")[:MAX_FAILURES],
        evidence=evidence,
        engine=spec.engine,
        verified=is_verified,
        docs=settings().build_docs_url(spec.dataset, str(spec.partition)),
        snapshot_id=commit.snapshot_id,
        changed=commit.changed,
        changes=Changes(**asdict(commit.changes)),
        columns=list(commit.column_changes),
    )


def describe_failure(failure: dict[str, Any]) -> str:
    """Describe a failed expectation on one line: severity, expectation, column, what was observed, examples."""
    column = f" of {failure['column']}" if failure["column"] else ""
    observed_text = failure["error"] or failure["observed"]
    examples = f", e.g. {', '.join(failure['examples'])}" if failure["examples"] else ""
    return f"{failure['severity']} {failure['expectation']}{column}: {observed_text}{examples}"


def _is_only_incomplete(judgement: Judgement) -> bool:
    """Return whether critical expectations failed, but only those about the completeness of the day."""
    from pipelines.validation.suites import COMPLETENESS

    failed_expectations = {failure["expectation"] for failure in judgement.list_failures("critical")}
    return bool(failed_expectations) and failed_expectations <= set(COMPLETENESS)


def _make_error(
    spec: ValidateSpec, critical_failures: list[dict[str, Any]], split: Split, withdrawn_rows: int
) -> ValidationError:
    """Make the error of a refused partition: the critical expectations that failed, or else too many bad rows."""
    from pipelines.validation.suites import COMPLETENESS

    if critical_failures:
        failures = "; ".join(describe_failure(failure) for failure in critical_failures[:MAX_FAILURES])
        reason = f"{len(critical_failures)} critical expectation(s) failed: {failures}."
    else:
        failures = "; ".join(describe_failure(result.summarize()) for result in split.rejecting_results[:MAX_FAILURES])
        reason = (
            f"{split.bad_count} of {split.rows.count} rows are bad, more than the "
            f"{100 * spec.max_quarantined_fraction:g}% of max_quarantined_fraction: {failures}."
        )
    if withdrawn_rows:
        reason = f"{reason} The {withdrawn_rows} rows that were published before were withdrawn."
    page = settings().build_docs_url(spec.dataset, str(spec.partition))
    message = f"{spec.dataset} {spec.partition} was not published: {reason}"
    advice = "Correct the source and ingest again"
    if any(failure["expectation"] in COMPLETENESS for failure in critical_failures):
        advice = f"{advice}, or give --allow-shrink if the day is complete"
    return ValidationError(message, f"{advice}. See {page}")
