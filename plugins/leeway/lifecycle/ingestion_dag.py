"""Create the DAG that ingests, validates and publishes the days of a dataset."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from airflow.sdk import DAG, Asset, CronPartitionTimetable, Param

from leeway.default_args import build_default_args
from leeway.operators.ingest import HOUR, MONTH, PARTITION, IngestOperator
from leeway.operators.validate import ValidateOperator
from pipelines.errors import SpecError

DOC = """
### Ingest, validate and publish {dataset}, one {unit} per run

`ingest` reads the rows of the run's {unit}: for a scheduled run, the {unit} before. `validate` checks them against
`expectations/{dataset}.json` and publishes them. After a critical failure they are not published: they stay in
`{dataset}_raw`, and the task's button *Data docs* (tab Details) opens the results.

* **Backfill**: any range of {unit}s. They run in parallel. A second run of the same {unit} changes nothing if the
source has the same rows.
* **Late data**: if the source of one {unit} changed, run that {unit} again. If its rows changed, it is published again,
and the asset `{dataset}` gets an event with the numbers of added, removed and changed rows.
* **Validation refused the rows**: correct the source, then clear the run.
* **There are fewer rows than before, or they end early**: the {unit} is refused, since its file may have been
truncated. If the {unit} is complete, run it again with the param `allow_shrink`.
"""
ALLOW_SHRINK = "Publish partitions that shrink or end early. Null: params.yaml decides."
KEYS = {"hour": ("%Y-%m-%dT%H", HOUR), "day": ("%Y-%m-%d", PARTITION), "month": ("%Y-%m", MONTH)}
"""For each unit of partitions: the format of a run's partition key, and the template of the operators' partition."""
Unit = Literal["hour", "day", "month"]
PREVIOUS = -1
"""Offset of a scheduled run's partition key from the run's time, in intervals of the schedule: -1 is the partition
before. A backfill sets the keys of its runs itself."""


def create_ingestion_dag(
    *,
    dataset: str,
    start: dt.datetime,
    end: dt.datetime | None = None,
    schedule: str,
    partition: Unit = "day",
) -> DAG:
    """Create the DAG DATASET_ingest, whose asset DATASET gets an event for each published partition.

    Args:
        dataset: name of the dataset.
        start: first day.
        end: last day; None: without end.
        schedule: cron expression, in UTC, of the time at which the rows of the hour, day or month before are complete:
            a scheduled run ingests them. The schedule must start one run for each partition.
        partition: unit of the dataset's partitions.

    Raises:
        SpecError: `partition` is unknown. A retry cannot help.
    """
    require_unit(partition)
    template = KEYS[partition][1]
    with _create_empty_dag(dataset, start, end, schedule, partition) as dag:
        ingest = IngestOperator(task_id="ingest", dataset=dataset, partition=template)
        ingest >> ValidateOperator(
            task_id="validate",
            dataset=dataset,
            partition=template,
            allow_shrink="{{ params.allow_shrink }}",
            asset=Asset(name=dataset, uri=f"x-leeway://lake/{dataset}"),
        )
    return dag


def require_unit(partition: str) -> None:
    """Raise a SpecError if there are no partitions of this unit. A retry cannot help."""
    if partition not in KEYS:
        raise SpecError(f"unknown partition {partition!r}.", f"Use one of: {', '.join(KEYS)}.")


def _create_empty_dag(dataset: str, start: dt.datetime, end: dt.datetime | None, schedule: str, partition: Unit) -> DAG:
    return DAG(
        dag_id=f"{dataset}_ingest",
        doc_md=DOC.format(dataset=dataset, unit=partition),
        description=f"Ingests, validates and publishes each {partition} of {dataset}.",
        schedule=CronPartitionTimetable(schedule, timezone="UTC", run_offset=PREVIOUS, key_format=KEYS[partition][0]),
        start_date=start,
        end_date=end,
        catchup=False,
        max_active_runs=8,
        tags=["leeway", dataset, "data"],
        params={"allow_shrink": Param(None, type=["null", "boolean"], description=ALLOW_SHRINK)},
        default_args=build_default_args("data"),
    )
