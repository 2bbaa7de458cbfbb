"""Build the document of a dataset: for each partition, its last validation, its published and its quarantined rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Literal

from pipelines.dataset import Dataset
from pipelines.partitions import Partition, get_date
from pipelines.settings import settings
from pipelines.status.documents import data as documents
from pipelines.status.documents.data import DatasetDetails, ExpectationFailures, PartitionState
from pipelines.status.inputs import StatusInputs
from pipelines.status.model_status import find_newest_partition, find_publication_time
from pipelines.status.texts import shorten
from pipelines.status.validations import EarlierValidation, Failure, Validation, read_validations

HISTORY_DAYS = 3 * 365 + 1
"""Days of data in the document: three years."""
MAX_PARTITIONS = 3_000
"""Largest number of partitions in the document. For partitions by hour, these are the last four months."""
MAX_FAILURES = 20
"""Largest number of failures that a partition lists."""
MAX_EARLIER_VALIDATIONS = 5
"""Largest number of validations before the last one that a partition lists."""
MAX_EARLIER_FAILURES = 3
"""Largest number of failures that each of these validations lists."""
State = Literal["published", "quarantined", "refused", "stale", "not_validated"]
"""State of a partition; `PartitionState.state` explains each."""


def build_dataset_details(inputs: StatusInputs, dataset: Dataset, models: Sequence[str]) -> DatasetDetails:
    """Build the document of a dataset. With `rows_from`, its partitions are those of the dataset that has the rows.

    Args:
        inputs: what the documents or the metrics of all models are built from.
        dataset: the dataset.
        models: models that are trained on it.

    Raises:
        DataError: a table of the lake is damaged. A retry cannot help.
        ConflictError, ServiceError: the lake does not answer. A retry can help.
    """
    first = inputs.common_last_day - dt.timedelta(HISTORY_DAYS)
    published_rows = inputs.lake.count_rows_by_partition(dataset.table, dataset.partition)
    quarantined_rows = inputs.lake.count_rows_by_partition(dataset.quarantine, dataset.partition)
    validations = read_validations(inputs.lake, dataset.table, dataset.partition, first)
    partitions = _select_newest_partitions({*published_rows, *quarantined_rows, *validations})
    states = [
        _describe_partition(
            dataset.table,
            partition,
            published_rows.get(partition, 0),
            quarantined_rows.get(partition, 0),
            validations.get(partition),
        )
        for partition in partitions
    ]
    return DatasetDetails(
        written_at=inputs.now,
        dataset=dataset.name,
        rows_from=dataset.rows_from,
        models=sorted(models),
        newest_partition=find_newest_partition(inputs.lake, dataset),
        published_at=find_publication_time(inputs.lake, dataset),
        unit=dataset.partition,
        partitions=states,
        failures=_sum_failures(validations[partition] for partition in partitions if partition in validations),
        docs_url=settings().build_dataset_url(dataset.table),
    )


def _select_newest_partitions(partitions: Iterable[Partition]) -> list[Partition]:
    """Select the newest partitions: those of `HISTORY_DAYS` days, at most `MAX_PARTITIONS`; oldest first."""
    sorted_partitions = sorted(partitions, key=lambda partition: partition.isoformat())
    if not sorted_partitions:
        return []
    begin = get_date(sorted_partitions[-1]) - dt.timedelta(HISTORY_DAYS)
    return [partition for partition in sorted_partitions if get_date(partition) > begin][-MAX_PARTITIONS:]


def judge_partition(rows: int, quarantined_rows: int, validation: Validation | None) -> State:
    """Return the state of a partition; `PartitionState.state` explains the states.

    Args:
        rows: number of published rows.
        quarantined_rows: number of rows in quarantine.
        validation: the last validation; None if there was none.
    """
    if not rows:
        return "refused"
    if validation is None:
        return "not_validated"
    if validation.is_refused:
        return "stale"
    return "quarantined" if quarantined_rows else "published"


def _describe_partition(
    table: str, partition: Partition, rows: int, quarantined_rows: int, validation: Validation | None
) -> PartitionState:
    failures = validation.failures[:MAX_FAILURES] if validation else []
    return PartitionState(
        partition=str(partition),
        day=get_date(partition),
        state=judge_partition(rows, quarantined_rows, validation),
        rows=rows,
        quarantined_rows=quarantined_rows,
        failures=[shorten(str(failure)) for failure in failures],
        validated_at=validation.at if validation else None,
        url=settings().build_docs_url(table, str(partition)) if validation else "",
        earlier_validations=_describe_earlier(validation.earlier_validations) if validation else [],
    )


def _describe_earlier(validations: Sequence[EarlierValidation]) -> list[documents.EarlierValidation]:
    """Describe the oldest validation, and each in which other expectations failed than in the one before it.

    If these are more than `MAX_EARLIER_VALIDATIONS`, only the oldest are described.

    Args:
        validations: validations of a partition before the last one, oldest first.
    """
    changes = [
        validation
        for earlier_validation, validation in zip([None, *validations], validations, strict=False)
        if earlier_validation is None or earlier_validation.failed_expectations != validation.failed_expectations
    ]
    return [
        documents.EarlierValidation(
            at=validation.at, outcome=validation.outcome, failures=_shorten_failures(validation.failures)
        )
        for validation in changes[:MAX_EARLIER_VALIDATIONS]
    ]


def _shorten_failures(failures: Sequence[Failure]) -> list[str]:
    others_count = len(failures) - MAX_EARLIER_FAILURES
    others = [f"and {others_count} more"] if others_count > 0 else []
    return [*(shorten(str(failure)) for failure in failures[:MAX_EARLIER_FAILURES]), *others]


def _sum_failures(validations: Iterable[Validation]) -> list[ExpectationFailures]:
    """Count the partitions that failed each expectation; the most frequent first.

    Args:
        validations: last validations of the partitions, oldest partition first.
    """
    failures: dict[tuple[str, str, str], dict[Partition, Failure]] = {}
    for validation in validations:
        for failure in validation.failures:
            key = failure.expectation, failure.column, failure.severity
            failures.setdefault(key, {})[validation.partition] = failure
    sums = [_describe_failures(key, failures_of_key) for key, failures_of_key in failures.items()]
    return sorted(sums, key=lambda item: (-item.partitions, item.expectation, item.column))


def _describe_failures(key: tuple[str, str, str], failures: dict[Partition, Failure]) -> ExpectationFailures:
    newest_partition = next(reversed(failures))
    return ExpectationFailures(
        **dict(zip(("expectation", "column", "severity"), key, strict=True)),
        partitions=len(failures),
        newest_partition=str(newest_partition),
        example=shorten(failures[newest_partition].observed),
    )
