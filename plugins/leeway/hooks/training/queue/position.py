"""Read the position of a service job among the jobs that wait in its queue, for the log of the task."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from leeway.hooks.sagemaker.aws_errors import format_error_line, is_transient
from leeway.hooks.step.hook import Logger

INTERVAL_S = 60.0
"""Shortest time between two requests for the position, seconds. The position is only shown in the log."""


class PositionReader:
    """Read the position of one service job, at most once a minute. Without permission to read it, the position is None.

    Args:
        queue: name or ARN of the queue.
        log: log of the task.
    """

    def __init__(self, queue: str, log: Logger) -> None:
        self.queue, self.log = queue, log
        self._position: int | None = None
        self._next_at = 0.0
        """Time of the next request, of the monotonic clock."""

    async def read(self, batch: Any, arn: str) -> int | None:
        """Return the position, 1 for the job that is next; None if it is not among the first 100, or not known.

        Args:
            batch: client of AWS Batch.
            arn: ARN of the service job.
        """
        if time.monotonic() < self._next_at:
            return self._position
        self._next_at = time.monotonic() + INTERVAL_S
        try:
            self._position = find_position(await batch.get_job_queue_snapshot(jobQueue=self.queue), arn)
        except (ClientError, BotoCoreError) as error:
            self._position = None
            if not is_transient(error):
                self._next_at = float("inf")
                self.log.info("the position in the queue is not known: %s", format_error_line(error))
        return self._position


def find_position(snapshot: Mapping[str, Any], arn: str) -> int | None:
    """Return the position of a service job, from 1 on, in a response to GetJobQueueSnapshot; None if it is not there.

    Args:
        snapshot: the response, with the first 100 jobs that wait.
        arn: ARN of the service job.
    """
    arns = [str(job["jobArn"]) for job in snapshot.get("frontOfQueue", {}).get("jobs", [])]
    return 1 + arns.index(arn) if arn in arns else None
