"""Run what a trigger does when its task is cleared or marked, although Airflow cancels it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

_KILL_TASKS: set[asyncio.Task[None]] = set()
"""asyncio tasks that stop a job and have not ended. They are stored here because the event loop itself has only weak
references to its tasks."""


async def run_to_the_end(coroutine: Coroutine[None, None, None]) -> None:
    """Run a coroutine in a task of its own, and wait for its end.

    Airflow 3.3.2 cancels a trigger's `on_kill` again every second until the trigger has ended. The task of the
    coroutine is not cancelled, so that a call to AWS is not interrupted.
    """
    kill_task = asyncio.create_task(coroutine)
    _KILL_TASKS.add(kill_task)
    kill_task.add_done_callback(_KILL_TASKS.discard)
    while not kill_task.done():
        try:
            await asyncio.shield(kill_task)
        except asyncio.CancelledError:
            continue
