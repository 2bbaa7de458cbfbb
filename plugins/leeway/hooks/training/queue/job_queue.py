"""Find a queue of AWS Batch, and build the request that submits a training job to it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.training.queue.service_job import SERVICE_JOB_TYPE

Policy = Literal["first come, first served", "fair share", "quota shares"]
"""How a queue orders its jobs."""
PRIORITIES = {"low": 0, "": 500, "normal": 500, "high": 1_000}
"""Batch's scheduling priority for each priority of an operator. Within a share, the job with the largest number starts
first."""
SHARE_PATTERN = re.compile("[a-zA-Z0-9]{1,255}")
"""AWS's rule for share identifiers. A share is the part of a queue's capacity that one team gets."""
HOW_TO = "docs/how-to/training-queues.md says how."


@dataclass(frozen=True)
class JobQueue:
    """A queue of AWS Batch for training jobs.

    Args:
        name: name or ARN, as the task names it.
        is_enabled: whether it accepts jobs.
        policy: how it orders its jobs.
    """

    name: str
    is_enabled: bool
    policy: Policy

    def build_share_fields(self, share: str) -> dict[str, str]:
        """Check that the queue's policy allows the share. Return the fields of SubmitServiceJob that name the share.

        Raises:
            AirflowFailException: the share is missing, not allowed or not valid. A retry cannot help.
        """
        queue = f"job queue {self.name}"
        if self.policy == "first come, first served":
            if share:
                raise AirflowFailException(
                    f"{queue} has no fair share: leave out share={share!r}, or name a queue with a scheduling policy."
                )
            return {}
        if not share:
            kind = "a share identifier, such as teamA" if self.policy == "fair share" else "the name of a quota share"
            raise AirflowFailException(f"{queue} has {self.policy}: give share=, {kind}.")
        if self.policy == "quota shares":
            return {"quotaShareName": share}
        if not SHARE_PATTERN.fullmatch(share):
            raise AirflowFailException(f"share {share[:80]!r} must be 1 to 255 letters and digits, such as teamA.")
        return {"shareIdentifier": share}

    def check_is_enabled(self) -> None:
        """Check that the queue accepts jobs.

        Raises:
            AirflowFailException: the queue is disabled, or is being deleted. A retry cannot help.
        """
        if not self.is_enabled:
            raise AirflowFailException(f"job queue {self.name} is disabled: enable it, or name another queue.")


@dataclass(frozen=True)
class QueueTarget:
    """Where the jobs of a task are submitted: a queue, a share of it, and the priority within the share."""

    queue: JobQueue
    share_fields: Mapping[str, str]
    priority: str

    def build_submission(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request to SubmitServiceJob.

        Args:
            name: name of the service job. It is the client token, too, so that Batch refuses a second job
                with the same name.
            request: the request to CreateTrainingJob, without a name.
        """
        return {
            "jobName": name,
            "clientToken": name,
            "jobQueue": self.queue.name,
            "serviceJobType": SERVICE_JOB_TYPE,
            "serviceRequestPayload": json.dumps({"TrainingJobName": name, **request}),
            "schedulingPriority": PRIORITIES[self.priority],
            "tags": {tag["Key"]: tag["Value"] for tag in request.get("Tags", [])},
            **self.share_fields,
        }


def find_queue(batch: Any, name: str) -> JobQueue:
    """Read a queue and its scheduling policy from AWS Batch.

    Args:
        batch: boto3 client of AWS Batch.
        name: name or ARN of the queue.

    Raises:
        AirflowFailException: the queue does not exist, or does not take training jobs. A retry cannot help.
    """
    queues = batch.describe_job_queues(jobQueues=[name])["jobQueues"]
    if not queues:
        raise AirflowFailException(f"job queue {name} does not exist in this account and region: create it. {HOW_TO}")
    queue = queues[0]
    if queue.get("jobQueueType") != SERVICE_JOB_TYPE:
        raise AirflowFailException(f"job queue {name} takes no training jobs: its type must be {SERVICE_JOB_TYPE}.")
    is_enabled = queue["state"] == "ENABLED" and queue["status"] not in ("DELETING", "DELETED")
    return JobQueue(name, is_enabled, _find_policy(batch, queue.get("schedulingPolicyArn", "")))


def _find_policy(batch: Any, arn: str) -> Policy:
    if not arn:
        return "first come, first served"
    policies = batch.describe_scheduling_policies(arns=[arn])["schedulingPolicies"]
    return "quota shares" if policies and "quotaSharePolicy" in policies[0] else "fair share"
