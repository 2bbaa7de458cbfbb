"""Charging the jobs that no task charged: those of a task that was marked, or never ran again after its job ended."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from pipelines.costs import job_records
from pipelines.costs.charges import ENDED, Charge, Job
from pipelines.costs.ledger import Ledger
from pipelines.errors import DataError, ServiceError, SpecError
from pipelines.steps import charge
from pipelines.system.log import log

MARK = "leeway:dag"
"""Tag of every job that one of our operators started."""


def sweep(since: dt.datetime) -> list[Charge]:
    """Every job of Leeway's that was created since a moment, and has ended, is in the ledger. Idempotent.

    Args:
        since: moment, with its zone.

    Returns:
        The charges of the jobs that were not there.

    Raises:
        SpecError: no AWS region is configured.
        DataError: some jobs have no known price; the others are charged.
        ServiceError: SageMaker does not answer. A retry can help.
    """
    if not boto3.Session().region_name:  # "" of an .env file too, of which botocore makes half an address
        raise SpecError("no AWS region is configured.", "Set AWS_DEFAULT_REGION.")
    try:
        sagemaker, logs = boto3.client("sagemaker"), boto3.client("logs")
        known = {row["arn"] for row in Ledger.open().rows() if row["created"] >= since}
        jobs = [(kind, job) for kind in job_records.KINDS for job in _ended(sagemaker, kind, since)]
        fresh = [(kind, job) for kind, job in jobs if job[f"{kind}JobArn"] not in known]
        told = [(kind, job, tags) for kind, job in fresh if MARK in (tags := _tags(sagemaker, job[f"{kind}JobArn"]))]
        specs = [_spec(sagemaker, _record(sagemaker, logs, kind, job), tags) for kind, job, tags in told]
    except (ClientError, BotoCoreError) as error:
        raise ServiceError(f"SageMaker does not answer: {error}.", "Is AWS_ENDPOINT_URL right?") from None
    return _charged(specs)


def _charged(specs: list[charge.ChargeSpec]) -> list[Charge]:
    charged, refused = [], []
    for spec in specs:
        try:
            charged += charge.run(spec).jobs
        except DataError as error:
            refused.append(f"{spec.jobs[0].name}: {error.message}")
            log.error("%s", error)
    if refused:
        raise DataError(f"{len(refused)} of {len(specs)} jobs were not charged: {refused[0]}", "The others are.")
    return charged


def _ended(sagemaker: Any, kind: str, since: dt.datetime) -> Iterator[Mapping[str, Any]]:
    pages = sagemaker.get_paginator(f"list_{kind.lower()}_jobs")
    for status in ENDED:
        for page in pages.paginate(CreationTimeAfter=since, StatusEquals=status):
            yield from page[f"{kind}JobSummaries"]


def _tags(sagemaker: Any, arn: str) -> dict[str, str]:
    pages = sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn)
    return {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}


def _record(sagemaker: Any, logs: Any, kind: str, summary: Mapping[str, Any]) -> Job:
    name = summary[f"{kind}JobName"]
    job = getattr(sagemaker, f"describe_{kind.lower()}_job")(**{f"{kind}JobName": name})
    if kind != "Training":
        return Job(**job_records.on_demand_record(job))
    return Job(**job_records.record(job, job_records.restored(logs, name)))


def _spec(sagemaker: Any, record: Job, tags: Mapping[str, str]) -> charge.ChargeSpec:
    whose: dict[str, Any] = {
        "project": tags.get("leeway:project", ""),
        "model": tags.get("leeway:model", ""),
        "dag_id": tags[MARK],
        "run_id": tags.get("leeway:run", ""),
        "task_id": tags.get("leeway:task", ""),
        "map_index": int(tags.get("leeway:map-index", "-1")),
    }
    return charge.ChargeSpec(jobs=[record], region=sagemaker.meta.region_name, **whose)
