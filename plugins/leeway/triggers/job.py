"""JobTrigger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from airflow.triggers.base import BaseTrigger, TriggerEvent

from leeway.hooks.sagemaker.aws_errors import format_error_line
from leeway.hooks.sagemaker.wait import JobWait
from leeway.hooks.sagemaker.wait_for_job import read_waiter, stop_job, tag_waiter, wait_for_job

_KILLS: set[asyncio.Task[None]] = set()
"""Kills that have not ended: the event loop itself keeps only weak references to its tasks."""


class JobTrigger(BaseTrigger):
    """Wait for a SageMaker job of any kind, and show its states and its log in the task's log meanwhile.

    The job is stopped if a person clears or marks the waiting task, and not if the triggerer stops or restarts.

    Args:
        wait: fields of `JobWait`.
    """

    def __init__(self, **wait: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.wait = JobWait(**wait)
        self._number = uuid4().hex[:12]

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which the triggerer recreates this trigger."""
        return f"{type(self).__module__}.{type(self).__qualname__}", asdict(self.wait)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: how the wait ended."""
        try:
            await tag_waiter(self.wait, f"{self._try}/{self._number}")
        except Exception as error:
            self.log.info("the job has no tag that says who waits for it: %s", format_error_line(error))
        yield TriggerEvent(dict(await wait_for_job(self.wait, self.log)))  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        """Stop the job, and log that. Airflow allows 30 s for this.

        Airflow 3.3.2 cancels a trigger again every second until it has ended, and this method with it. The call to
        SageMaker must not be interrupted by that.
        """
        kill = asyncio.create_task(self._kill())
        _KILLS.add(kill)
        kill.add_done_callback(_KILLS.discard)
        while not kill.done():
            try:
                await asyncio.shield(kill)
            except asyncio.CancelledError:
                continue

    async def _kill(self) -> None:
        if await self._is_taken_over():
            text = "%s job %s continues: another triggerer waits for it now"
            self.log.info(text, self.wait.kind, self.wait.job_name)
            return
        text = "the task was cleared or marked: stopping %s job %s"
        self.log.warning(text, self.wait.kind, self.wait.job_name)
        await stop_job(self.wait, self.log)

    async def _is_taken_over(self) -> bool:
        """Return whether another triggerer waits for the job now, because this one was slow.

        Airflow 3.3.2 calls `on_kill` then, too, although nobody cleared or marked the task. The job's tag then names
        the same try with another trigger; after a clear it names another try. False if the tag cannot be read: a job
        that nobody needs must be stopped, because it costs money.
        """
        try:
            waiter = await read_waiter(self.wait)
        except Exception as error:
            self.log.warning("it is not known who else waits for the job: %s", format_error_line(error))
            return False
        waiting_try, _, number = waiter.partition("/")
        return waiting_try == self._try and number != self._number

    @property
    def _try(self) -> str:
        """Airflow's id of the task's try; another one after a clear or a retry."""
        return str(self.task_instance.id) if self.task_instance else ""
