"""Write the running SageMaker jobs of Leeway's operators, with the utilization of their instances, for Leeway's page.

Their document, jobs.json, is the only one of the page that needs AWS. If SageMaker does not answer, the document has
the reason, and the next attempt is a minute later.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipelines.costs.job_records import KINDS, get_instance_fields
from pipelines.costs.uncharged_jobs import DAG_TAG
from pipelines.costs.usage.job_metrics import read_usage
from pipelines.errors import SpecError
from pipelines.serving.endpoint_resources import read_tags
from pipelines.settings import settings
from pipelines.status.documents.jobs import RunningJob, RunningJobs
from pipelines.status.jobs.use import describe_use
from pipelines.status.texts import shorten
from pipelines.system.error_translation import translate_error
from pipelines.system.files import replace_file
from pipelines.system.log import log

FILE = "jobs.json"
INTERVAL_S, RETRY_S = 15.0, 60.0
"""Seconds until the jobs are read again: after a success, and after an error."""
MAX_JOBS = 50
"""Largest number of jobs that are listed for each kind: the newest that run in the AWS account. The jobs among them
that Leeway's operators did not start are left out afterwards."""
CLIENT_CONFIG = {"connect_timeout": 3, "read_timeout": 10, "retries": {"total_max_attempts": 1}}
"""boto3's settings: short timeouts, and no retries, because the next attempt follows within a minute anyway."""


class RunningJobsWriter:
    """Writes the document of the running jobs that Leeway's operators started.

    Args:
        create_client: creates a client of an AWS service; None: boto3 creates it.
    """

    def __init__(self, create_client: Callable[[str], Any] | None = None) -> None:
        self._create_client = create_client or _create_client
        self._tags: dict[str, Mapping[str, str]] = {}
        """Maps the ARN of each running job to its tags."""
        self._due_at, self._problem = 0.0, ""

    def write_if_due(self) -> bool:
        """Read the jobs and write the document if the time since the last write is long enough.

        This time is `INTERVAL_S`, or `RETRY_S` if the jobs could not be read.

        Returns:
            Whether the document was written.
        """
        if time.monotonic() < self._due_at:
            return False
        jobs, problem = self._read()
        if problem and problem != self._problem:
            log.warning("status: the running jobs cannot be read: %s", problem)
        self._problem = problem
        self._due_at = time.monotonic() + (RETRY_S if problem else INTERVAL_S)
        document = RunningJobs(written_at=dt.datetime.now(dt.UTC), jobs=jobs, problem=shorten(problem))
        with replace_file(settings().home / "status" / FILE) as temporary:
            temporary.write_text(document.model_dump_json(), encoding="utf-8")
        return True

    def _read(self) -> tuple[list[RunningJob], str]:
        """Return the jobs, newest first, and an empty text; or no jobs and the reason why they cannot be read."""
        try:
            clients = [self._create_client(name) for name in ("sagemaker", "cloudwatch")]
            jobs = list(self._iterate_jobs(*clients))
        except Exception as error:  # AWS does not answer, denies the request, or is not configured
            return [], translate_error(error).message
        return sorted(jobs, key=lambda job: job.created, reverse=True), ""

    def _iterate_jobs(self, sagemaker: Any, cloudwatch: Any) -> Iterator[RunningJob]:
        live_tags: dict[str, Mapping[str, str]] = {}
        for kind in KINDS:
            request = {"StatusEquals": "InProgress", "MaxResults": MAX_JOBS, "SortBy": "CreationTime"}
            response = getattr(sagemaker, f"list_{kind.lower()}_jobs")(**request, SortOrder="Descending")
            for summary in response[f"{kind}JobSummaries"]:
                arn = summary[f"{kind}JobArn"]
                tags = live_tags[arn] = self._tags[arn] if arn in self._tags else read_tags(sagemaker, arn)
                if DAG_TAG in tags:
                    job_name = {f"{kind}JobName": summary[f"{kind}JobName"]}
                    job = getattr(sagemaker, f"describe_{kind.lower()}_job")(**job_name)
                    yield _describe(kind, job, tags, cloudwatch)
        self._tags = live_tags


def _describe(kind: str, job: Mapping[str, Any], tags: Mapping[str, str], cloudwatch: Any) -> RunningJob:
    instances = job["ResourceConfig"] if kind == "Training" else get_instance_fields(job)
    instance_type = instances.get("InstanceType", "")
    transitions = job.get("SecondaryStatusTransitions", [])
    return RunningJob(
        name=job[f"{kind}JobName"],
        kind=kind.lower(),
        model=tags.get("leeway:model", ""),
        run="/".join(filter(None, (tags[DAG_TAG], tags.get("leeway:run", "")))),
        instance_type=instance_type,
        instance_count=instances.get("InstanceCount", 1),
        spot=job.get("EnableManagedSpotTraining", False),
        status=job.get("SecondaryStatus", job[f"{kind}JobStatus"]),
        created=job["CreationTime"].astimezone(dt.UTC),
        started=(started := job.get(f"{kind}StartTime")) and started.astimezone(dt.UTC),
        interruptions=sum(entry["Status"] == "Interrupted" for entry in transitions),
        use=describe_use(instance_type, read_usage(cloudwatch, job)),
    )


def _create_client(service: str) -> Any:
    import boto3
    from botocore.config import Config

    if not boto3.Session().region_name:
        raise SpecError("no AWS region is configured.", "Set AWS_DEFAULT_REGION.")
    return boto3.client(service, config=Config(**CLIENT_CONFIG))
