"""Charge ended jobs that no Airflow task charged.

A job stays uncharged if a person marked its task as failed or successful, or if the task did not run again after the
end of the job.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import boto3

from pipelines.costs import job_records
from pipelines.costs.charge_jobs import JobPurpose, charge_jobs
from pipelines.costs.charges import FINAL_STATUSES, Charge, Job
from pipelines.costs.ledger import Ledger
from pipelines.costs.payers import PAYER_COLUMNS
from pipelines.costs.usage.job_metrics import read_usage
from pipelines.errors import DataError, InvalidError, SpecError
from pipelines.system.aws_errors import translate_aws_errors
from pipelines.system.log import log

DAG_TAG = "leeway:dag"
"""Tag of every job that an operator of Leeway started; its value is the DAG's ID."""


@dataclass(frozen=True)
class Clients:
    """The boto3 clients of the services that have data about a job."""

    sagemaker: Any
    logs: Any
    cloudwatch: Any


def charge_uncharged_jobs(since: dt.datetime) -> list[Charge]:
    """Charge every ended job that an operator of Leeway created since a moment and that is not charged yet.

    Idempotent.

    Args:
        since: earliest creation time, with time zone.

    Returns:
        The charges of the jobs that the ledger did not have.

    Raises:
        SpecError: no AWS region is configured. A retry cannot help.
        InvalidError: AWS denies a request. A retry cannot help.
        DataError: some jobs could not be charged, such as those without a known price; the others are charged. A retry
            cannot help.
        ServiceError: SageMaker or CloudWatch Logs does not answer. A retry can help.
        ConflictError: other writers kept changing the ledger. A retry can help.
    """
    if not boto3.Session().region_name:  # botocore builds an incomplete address if an .env file sets the region to ""
        raise SpecError("no AWS region is configured.", "Set AWS_DEFAULT_REGION.")
    with translate_aws_errors("SageMaker or CloudWatch"):
        clients = Clients(*(boto3.client(name) for name in ("sagemaker", "logs", "cloudwatch")))
        uncharged_jobs = list(_find_uncharged_jobs(clients, since))
    return _charge_each(uncharged_jobs)


def _find_uncharged_jobs(clients: Clients, since: dt.datetime) -> Iterator[tuple[Job, JobPurpose]]:
    sagemaker = clients.sagemaker
    charged_arns = {row["arn"] for row in Ledger.open().read_rows() if row["created"] >= since}
    for kind in job_records.KINDS:
        for summary in _list_ended_jobs(sagemaker, kind, since):
            arn = summary[f"{kind}JobArn"]
            if arn in charged_arns:
                continue
            tags = _read_tags(sagemaker, arn)
            if DAG_TAG in tags:
                yield _describe_job(clients, kind, summary), _build_purpose(tags, sagemaker.meta.region_name)


def _charge_each(jobs: Sequence[tuple[Job, JobPurpose]]) -> list[Charge]:
    charges, failures = [], []
    for job, purpose in jobs:
        try:
            charges += charge_jobs([job], purpose)
        except InvalidError as error:
            failures.append(f"{job.name}: {error.message}")
            log.error("%s", error)
    if failures:
        message = f"{len(failures)} of {len(jobs)} jobs were not charged: {failures[0]}"
        others_text = "The other jobs were charged. " if charges else ""
        raise DataError(message, f"{others_text}Correct the cause, and run `costs sweep` again.")
    return charges


def _list_ended_jobs(sagemaker: Any, kind: str, since: dt.datetime) -> Iterator[Mapping[str, Any]]:
    pages = sagemaker.get_paginator(f"list_{kind.lower()}_jobs")
    for status in FINAL_STATUSES:
        for page in pages.paginate(CreationTimeAfter=since, StatusEquals=status):
            yield from page[f"{kind}JobSummaries"]


def _read_tags(sagemaker: Any, arn: str) -> dict[str, str]:
    pages = sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn)
    return {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}


def _describe_job(clients: Clients, kind: str, summary: Mapping[str, Any]) -> Job:
    name = summary[f"{kind}JobName"]
    job = getattr(clients.sagemaker, f"describe_{kind.lower()}_job")(**{f"{kind}JobName": name})
    usage = _read_usage(clients.cloudwatch, job, name)
    if kind != "Training":
        return Job(**job_records.to_on_demand_record(job), **usage)
    restored_checkpoints = job_records.list_restored_checkpoints(clients.logs, name)
    data_wait_share = job_records.find_data_wait_share(clients.logs, name)
    return Job(**job_records.to_training_record(job, restored_checkpoints, data_wait_share), **usage)


def _read_usage(cloudwatch: Any, job: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the field `usage` of a job. If CloudWatch does not answer, log a warning and return no field."""
    try:
        return {"usage": read_usage(cloudwatch, job)}
    except Exception as error:  # a job must be charged whatever CloudWatch answers
        log.warning("the utilization of the instances of %s cannot be read: %s", name, " ".join(str(error).split()))
        return {}


def _build_purpose(tags: Mapping[str, str], region: str) -> JobPurpose:
    return JobPurpose(
        region=region,
        project=tags.get("leeway:project", ""),
        model=tags.get("leeway:model", ""),
        dag_id=tags[DAG_TAG],
        run_id=tags.get("leeway:run", ""),
        task_id=tags.get("leeway:task", ""),
        map_index=int(tags.get("leeway:map-index", "-1")),
        **{name: tags.get(f"leeway:{name}", "") for name in PAYER_COLUMNS},
    )
