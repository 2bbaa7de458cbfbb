"""JobTrigger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from airflow.triggers.base import BaseTrigger, TriggerEvent

from leeway.hooks.sagemaker.aws_errors import line
from leeway.hooks.sagemaker.wait import JobWait
from leeway.hooks.sagemaker.wait_for_job import stopped, watched, watcher, watches

_KILLS: set[asyncio.Task[None]] = set()
"""Kills at work; the event loop itself holds its tasks weakly."""


class JobTrigger(BaseTrigger):
    """Waits for a training or processing job, and shows its states and its log in the task's log meanwhile.

    The job is stopped where a person clears or marks the waiting task; not where the triggerer stops or restarts.

    Args:
        watch: fields of `JobWait`.
    """

    def __init__(self, **watch: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.watch = JobWait(**watch)
        self._number = uuid4().hex[:12]

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What the triggerer makes this trigger of."""
        return f"{type(self).__module__}.{type(self).__qualname__}", asdict(self.watch)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: why the wait is over."""
        try:
            await watches(self.watch, f"{self._try}/{self._number}")
        except Exception as error:
            self.log.info("the job is not tagged with who waits for it: %s", line(error))
        yield TriggerEvent(dict(await watched(self.watch, self.log)))  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        """The job is told to stop, and the log says so. Airflow gives this 30 s.

        Airflow 3.3.2 cancels a trigger again every second until it has ended, and this method with it: the call to
        SageMaker must not be broken off by that.
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
        if await self._is_elsewhere():
            text = "%s job %s goes on: another triggerer waits for it now"
            self.log.info(text, self.watch.kind, self.watch.job_name)
            return
        text = "the task was cleared or marked: stopping %s job %s"
        self.log.warning(text, self.watch.kind, self.watch.job_name)
        await stopped(self.watch, self.log)

    async def _is_elsewhere(self) -> bool:
        """Whether nobody touched the task: this triggerer was slow, and another one took the trigger over.

        Airflow 3.3.2 calls `on_kill` then, too. The same try is waited for by another trigger, as the job's tag says;
        after a clear it would be another try. False where that cannot be told: what nobody wants must not cost.
        """
        try:
            told = await watcher(self.watch)
        except Exception as error:
            self.log.warning("who else waits for the job cannot be told: %s", line(error))
            return False
        by, _, number = told.partition("/")
        return by == self._try and number != self._number

    @property
    def _try(self) -> str:
        """Airflow's id of the task's try; another one after a clear or a retry."""
        return str(self.task_instance.id) if self.task_instance else ""
