"""The trigger that submits a training job to a queue of AWS Batch and waits for it."""

from __future__ import annotations

from typing import Any, ClassVar

from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.training.queue.wait import QueuedJobWait
from leeway.hooks.training.queue.wait_in_queue import (
    read_queue_waiter,
    stop_queued_job,
    submit_job,
    tag_queue_waiter,
    wait_for_queued_job,
)
from leeway.triggers.job import JobTrigger


class QueuedJobTrigger(JobTrigger):
    """Submit a service job, wait in the queue, and then wait for its training job, as `JobTrigger` does.

    Args:
        wait: fields of `QueuedJobWait`.
    """

    wait_class: ClassVar[type[JobWait]] = QueuedJobWait
    wait: QueuedJobWait

    async def start_job(self) -> JobWait | WaitEvent:
        """Submit the service job unless it exists."""
        return await submit_job(self.wait, self.log)

    async def wait_for_job(self, wait: Any) -> WaitEvent:
        """Wait in the queue, and then for the training job."""
        return await wait_for_queued_job(wait, self.log)

    async def request_stop(self) -> None:
        """Terminate the service job, and stop its training job."""
        await stop_queued_job(self.wait, self.log)

    async def tag_waiter(self, waiter: str) -> None:
        """Store in the service job which trigger waits for it."""
        await tag_queue_waiter(self.wait, waiter)

    async def read_waiter(self) -> str:
        """Return which trigger waits for the service job."""
        return await read_queue_waiter(self.wait)
