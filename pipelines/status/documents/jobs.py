"""Define the jobs that run: file jobs.json."""

from __future__ import annotations

import datetime as dt

from pipelines.status.documents.costs import JobUse
from pipelines.status.documents.json_object import Document, JsonObject


class RunningJob(JsonObject):
    """A job in SageMaker that has not ended, and that an operator of Leeway started."""

    name: str
    """Name of the job in SageMaker."""
    kind: str
    """training, processing or transform."""
    model: str
    """Model; empty if there is none."""
    run: str
    """DAG run, DAG/RUN."""
    instance_type: str
    """Instance type."""
    instance_count: int
    """Number of instances."""
    spot: bool
    """Whether it runs on spot instances."""
    status: str
    """SageMaker's more precise status, such as Training or Interrupted."""
    created: dt.datetime
    """When it was created, UTC."""
    started: dt.datetime | None
    """When it got its first instance, UTC; null while it waits."""
    interruptions: int
    """Number of interruptions by spot so far."""
    use: JobUse
    """How much of its instances the job used so far."""


class RunningJobs(Document):
    """File jobs.json: jobs that run."""

    jobs: list[RunningJob]
    """The jobs, newest first."""
    problem: str
    """Why SageMaker's list of jobs could not be read; then `jobs` is empty, too. Empty if the list was read."""
