"""The trigger that waits for the hour in which a run starts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from leeway.hooks.spot.wait import StartWait, wait_for_start
from leeway.triggers.cancellation import run_in_task


class CheapHoursTrigger(BaseTrigger):
    """Wait for the time to start a run: a low price or risk, or the latest start. The trigger changes nothing in AWS.

    If the triggerer stops or restarts, no decision is lost: each decision depends only on the arguments, the history of
    prices and the clock.

    Args:
        wait: fields of `StartWait`.
    """

    def __init__(self, **wait: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.wait = StartWait(**wait)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which the triggerer recreates this trigger."""
        return f"{type(self).__module__}.{type(self).__qualname__}", asdict(self.wait)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: how the wait ended."""
        event = await run_in_task(wait_for_start(self.wait, self.log))
        yield TriggerEvent(dict(event))  # type: ignore[no-untyped-call]
