"""Protect the coroutines of a trigger from the ways in which Airflow cancels them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")
_KILL_TASKS: set[asyncio.Task[None]] = set()
"""asyncio tasks of `run_to_the_end` that have not ended, for example because they stop a job. They are stored here
because the event loop itself has only weak references to its tasks."""


async def run_in_task(coroutine: Coroutine[None, None, T]) -> T:
    """Run a coroutine in a task of its own, which is cancelled together with the caller.

    Airflow recognizes a kill by the text of the CancelledError. A call to AWS that is cancelled (in asgiref's
    sync_to_async) replaces this error by one without a text. In a task of its own, the call cannot replace it.
    """
    task = asyncio.create_task(coroutine)
    try:
        return await asyncio.shield(task)
    finally:
        task.cancel()


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
