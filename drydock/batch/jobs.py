"""Define the stored record of a service job: a job of a queue of AWS Batch that SageMaker runs as a training job."""

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from hashlib import md5
from typing import Any, Self

from drydock.batch.records import StoredRecord

SUBMITTED, RUNNABLE, SCHEDULED, STARTING, RUNNING, SUCCEEDED, FAILED = (
    "SUBMITTED",
    "RUNNABLE",
    "SCHEDULED",
    "STARTING",
    "RUNNING",
    "SUCCEEDED",
    "FAILED",
)
FINAL_STATUSES = (SUCCEEDED, FAILED)
WAITING_STATUSES = (SUBMITTED, RUNNABLE)
TRAINING_JOB_PREFIX = "AWSBatch"
"""How the names of AWS Batch's training jobs begin."""
NAME_MAX_CHARS = 63
"""SageMaker's limit for the name of a training job."""
ATTEMPT_KEYS = {"current_attempt": "current", "latest_attempt": "last"}
"""Maps each field of `ServiceJob` with an attempt to its key in the stored JSON."""
ATTEMPT_LIST_KEYS = {"ended_attempts": "attempts", "preempted_attempts": "preempted"}
"""Maps each field of `ServiceJob` with several attempts to its key in the stored JSON."""


class StopCause(StrEnum):
    """Why an attempt is stopped. The cause is stored before the training job is stopped."""

    TERMINATED = "terminated"
    TIMEOUT = "timeout"
    PREEMPTED = "preempted"


@dataclass
class Attempt:
    """One training job of a service job of AWS Batch. The attempt is stored before the training job is created.

    Attributes:
        training_job: Name of the training job.
        training_job_arn: ARN of the training job.
        environment: ARN of the service environment whose instances the training job uses.
        scheduled_ms: When the training job got its instances, in milliseconds since 1970.
        started_ms: When the training job began to download, in milliseconds since 1970; None before.
        stopped_ms: When the training job ended, in milliseconds since 1970; None before.
        reason: statusReason of the attempt; "" before its end.
        stop_cause: Why the training job is stopped; None if no stop was requested, or if the training job failed before
            a timeout or a preemption stopped it.
        stop_reason: Why the training job is stopped, as a text of the client or of drydock; "" if `stop_cause` is None.
    """

    training_job: str
    training_job_arn: str
    environment: str
    scheduled_ms: int
    started_ms: int | None = None
    stopped_ms: int | None = None
    reason: str = ""
    stop_cause: StopCause | None = None
    stop_reason: str = ""

    @classmethod
    def load(cls, content: dict[str, Any] | None) -> "Attempt | None":
        """Return the attempt from its JSON content; None if there is no attempt."""
        if content is None:
            return None
        cause = content["stop_cause"]
        return cls(**{**content, "stop_cause": cause and StopCause(cause)})


@dataclass
class ServiceJob(StoredRecord):
    """A service job of AWS Batch. Times are in milliseconds since 1970.

    Attributes:
        id: The job's id.
        number: Position in the order of the submissions.
        request: The request of SubmitServiceJob, without the tags.
        queue_arn: ARN of the queue.
        instance_type: Instance type of the training job.
        instances: Number of instances of the training job.
        created_ms: When the job was submitted.
        priority: schedulingPriority.
        status: SUBMITTED, RUNNABLE, SCHEDULED, STARTING, RUNNING, SUCCEEDED or FAILED.
        status_reason: statusReason; "" without one.
        is_terminated: Whether it was terminated: by a client, by jobStateTimeLimitActions, or because its queue or its
            quota share was deleted. False if only an attempt took longer than attemptDurationSeconds.
        current_attempt: The attempt that has instances now; None while the job waits, and after the job's end.
        latest_attempt: The latest attempt, running or ended; None before the first. After `load` it is a copy, which
            does not get the changes of `current_attempt`.
        ended_attempts: The attempts that ended, except for those in `preempted_attempts`.
        preempted_attempts: The attempts that were preempted.
        started_ms: When the first attempt started; None before.
        stopped_ms: When the job ended; None before.
    """

    id: str
    number: int
    request: dict[str, Any]
    queue_arn: str
    instance_type: str
    instances: int
    created_ms: int
    priority: int = 0
    status: str = SUBMITTED
    status_reason: str = ""
    is_terminated: bool = False
    current_attempt: Attempt | None = None
    latest_attempt: Attempt | None = None
    ended_attempts: list[Attempt] = field(default_factory=list)
    preempted_attempts: list[Attempt] = field(default_factory=list)
    started_ms: int | None = None
    stopped_ms: int | None = None

    @classmethod
    def load(cls, text: str) -> Self:
        """Return the job that `dump` wrote as JSON."""
        content = json.loads(text)
        for name, key in ATTEMPT_KEYS.items():
            content[name] = Attempt.load(content.pop(key))
        for name, key in ATTEMPT_LIST_KEYS.items():
            content[name] = [Attempt.load(item) for item in content.pop(key)]
        return cls(**content)

    def dump(self) -> str:
        """Return the job as JSON."""
        keys = {**ATTEMPT_KEYS, **ATTEMPT_LIST_KEYS}
        return json.dumps({keys.get(name, name): value for name, value in asdict(self).items()})

    @property
    def key(self) -> str:
        """The key in the store: the id."""
        return self.id

    @property
    def share(self) -> str:
        """The share identifier, or the name of the quota share; "" if the job has neither."""
        return str(self.request.get("shareIdentifier") or self.request.get("quotaShareName") or "")

    @property
    def is_final(self) -> bool:
        """Whether the job has ended."""
        return self.status in FINAL_STATUSES

    def build_training_job_name(self, base_name: str) -> str:
        """Return the name of the next attempt's training job: AWSBatch, the base name, and 32 hex digits.

        The base name is cut if the whole name would be too long. An attempt always gets the same name. So if the server
        is killed, the next server does not create a second training job for the attempt.
        """
        earlier_attempts = len(self.ended_attempts) + len(self.preempted_attempts)
        digits = md5(f"{self.id}/{earlier_attempts}".encode(), usedforsecurity=False).hexdigest()
        return f"{TRAINING_JOB_PREFIX}{base_name[: NAME_MAX_CHARS - len(TRAINING_JOB_PREFIX) - len(digits)]}{digits}"
