"""The trigger that starts a SageMaker job and waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any, ClassVar
from uuid import uuid4

from airflow.triggers.base import BaseTrigger, TriggerEvent

from leeway.hooks.sagemaker.aws_errors import format_error_line
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.sagemaker.wait_for_job import read_waiter, start_job, stop_job, tag_waiter, wait_for_job
from leeway.triggers.cancellation import run_in_task, run_to_the_end


class JobTrigger(BaseTrigger):
    """Start a SageMaker job of any kind, wait for it, and show its states and its log in the task's log meanwhile.

    If a person clears the waiting task, or marks it as success or failed, the job is stopped. If this trigger has not
    run yet, the job is never started. The job is not stopped if the triggerer stops or restarts.

    Args:
        wait: fields of `wait_class`: the request that starts the job, and the limits at which it is stopped.
    """

    wait_class: ClassVar[type[JobWait]] = JobWait

    def __init__(self, **wait: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.wait = self.wait_class(**wait)
        self._waiter_id = uuid4().hex[:12]
        """Random id of this trigger in this triggerer; if another triggerer runs the trigger, it has another id."""
        self._start_task: asyncio.Task[JobWait | WaitEvent] | None = None
        """The asyncio task that starts the job; None before `run`."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which the triggerer recreates this trigger."""
        return f"{type(self).__module__}.{type(self).__qualname__}", asdict(self.wait)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: how the wait ended."""
        # A cancellation does not interrupt the request that starts the job: `_kill` has to know whether there is a job.
        self._start_task = asyncio.create_task(self.start_job())
        event = await run_in_task(self._wait(self._start_task))
        yield TriggerEvent(dict(event))  # type: ignore[no-untyped-call]

    async def _wait(self, start_task: asyncio.Task[JobWait | WaitEvent]) -> WaitEvent:
        wait_or_event = await asyncio.shield(start_task)
        if not isinstance(wait_or_event, JobWait):
            return wait_or_event
        try:
            await self.tag_waiter(f"{self._try_id}/{self._waiter_id}")
        except Exception as error:
            self.log.info("cannot tag the job with the trigger that waits for it: %s", format_error_line(error))
        return await self.wait_for_job(wait_or_event)

    async def on_kill(self) -> None:
        """Stop the job, and log that. Airflow allows 30 s for this."""
        await run_to_the_end(self._kill())

    async def _kill(self) -> None:
        if self._start_task and not isinstance(await self._start_task, JobWait):
            return  # the job could not be started
        # This line comes before the requests to AWS: Airflow 3.3.2 closes the trigger's log two seconds after a clear.
        line = "the task was cleared, or a person set its state: stopping %s job %s unless another trigger waits for it"
        self.log.warning(line, self.wait.kind, self.wait.job_name)
        if await self._is_taken_over():
            line = "%s job %s continues: another triggerer waits for it now"
            self.log.info(line, self.wait.kind, self.wait.job_name)
            return
        await self.request_stop()

    async def _is_taken_over(self) -> bool:
        """Return whether another triggerer waits for the job now, because this triggerer was slow.

        Airflow 3.3.2 calls `on_kill` in this case too, although nobody cleared the task. The job's tag then
        names the same try of the task, but another trigger. After a clear, the tag names another try. The result is
        False if the tag cannot be read: then the job is stopped, because a job that nobody needs costs money.
        """
        try:
            waiter = await self.read_waiter()
        except Exception as error:
            self.log.warning("cannot read which trigger waits for the job: %s", format_error_line(error))
            return False
        try_id, _, waiter_id = waiter.partition("/")
        return try_id == self._try_id and waiter_id != self._waiter_id

    async def start_job(self) -> JobWait | WaitEvent:
        """Start the job unless it exists; see `wait_for_job.start_job`."""
        return await start_job(self.wait, self.log)

    async def wait_for_job(self, wait: Any) -> WaitEvent:
        """Wait for the job's end; see `wait_for_job.wait_for_job`."""
        return await wait_for_job(wait, self.log)

    async def request_stop(self) -> None:
        """Request that the job stops; see `wait_for_job.stop_job`."""
        await stop_job(self.wait, self.log)

    async def tag_waiter(self, waiter: str) -> None:
        """Store in the job which trigger waits for it; see `wait_for_job.tag_waiter`."""
        await tag_waiter(self.wait, waiter)

    async def read_waiter(self) -> str:
        """Return which trigger waits for the job; see `wait_for_job.read_waiter`."""
        return await read_waiter(self.wait)

    @property
    def _try_id(self) -> str:
        """Airflow's id of the task's try; a clear or a retry gives the task a new id."""
        return str(self.task_instance.id) if self.task_instance else ""
