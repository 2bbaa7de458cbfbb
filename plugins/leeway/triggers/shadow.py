"""The trigger that waits for the end of a shadow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from leeway.hooks.endpoint.shadow_wait import ShadowWait, remove_shadow, wait_for_shadow
from leeway.triggers.cancellation import run_in_task, run_to_the_end


class ShadowTrigger(BaseTrigger):
    """Wait until a shadow has run for its time, or has answered enough requests.

    If a person clears the waiting task, or marks it as success or failed, the shadow variant is removed. It is not
    removed if the triggerer stops or restarts.

    Args:
        wait: fields of `ShadowWait`.
    """

    def __init__(self, **wait: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.wait = ShadowWait(**wait)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which the triggerer recreates this trigger."""
        return f"{type(self).__module__}.{type(self).__qualname__}", asdict(self.wait)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: how the wait ended."""
        event = await run_in_task(wait_for_shadow(self.wait, self.log))
        yield TriggerEvent(dict(event))  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        """Remove the shadow variant, and log that. Airflow allows 30 s for this."""
        await run_to_the_end(remove_shadow(self.wait, self.log))
