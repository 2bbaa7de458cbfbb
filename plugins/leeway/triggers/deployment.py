"""The trigger that begins the deployment of a SageMaker endpoint, and waits for its end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from leeway.hooks.endpoint.wait import DeploymentWait
from leeway.hooks.endpoint.wait_for_endpoint import start_and_wait_for_endpoint
from leeway.triggers.cancellation import run_in_task


class DeploymentTrigger(BaseTrigger):
    """Begin the deployment of an endpoint, wait until it ends, and show the endpoint's states in the task's log.

    SageMaker cannot cancel a deployment. If a person clears the waiting task or marks it as success or failed, or the
    triggerer restarts, the deployment continues.

    Args:
        wait: fields of `DeploymentWait`.
    """

    def __init__(self, **wait: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.wait = DeploymentWait(**wait)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which the triggerer recreates this trigger."""
        return f"{type(self).__module__}.{type(self).__qualname__}", asdict(self.wait)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: how the wait ended."""
        event = await run_in_task(start_and_wait_for_endpoint(self.wait, self.log))
        yield TriggerEvent(dict(event))  # type: ignore[no-untyped-call]
