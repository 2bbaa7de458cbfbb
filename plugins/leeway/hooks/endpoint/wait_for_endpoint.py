"""Begin a deployment and wait until it ends. The triggerer and workers use the same code.

A deployment cannot be cancelled: if the task is cleared or killed, it continues, and the next try waits for it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from botocore.exceptions import ClientError

from leeway.hooks.endpoint.wait import (
    CHANGING_STATES,
    DEPLOYMENT_TAG,
    DeploymentEvent,
    DeploymentWait,
    get_pending_config,
)
from leeway.hooks.sagemaker.aws_errors import Outage, format_error_line, is_permanent, is_transient
from leeway.hooks.step.hook import Logger

CONFLICT_TEXTS = ("already existing", "Cannot update", "in-progress")
"""Texts in SageMaker's errors about an endpoint that exists already, or that is being changed."""


async def start_and_wait_for_endpoint(wait: DeploymentWait, log: Logger) -> DeploymentEvent:
    """Begin the deployment unless it is in progress, wait for its end, and return how the wait ended.

    While SageMaker throttles requests or does not answer, they are retried for at most `max_duration_s` seconds.
    """
    monitor, outage = _EndpointMonitor(wait, log), Outage(log, "SageMaker")
    deadline = asyncio.get_running_loop().time() + wait.max_duration_s
    while True:
        try:
            is_changing = await monitor.check()
            outage.record_response()
        except Exception as error:
            if not is_transient(error):
                return wait.build_event("refused" if is_permanent(error) else "error", format_error_line(error))
            is_changing, delay_s = True, min(outage.record_failure(error), 2 * wait.check_interval_s)
            late_event = wait.build_event("no_answer", format_error_line(error))
        else:
            delay_s = wait.check_interval_s
            late_event = wait.build_event("deadline", f"it did not end within {wait.max_duration_s} s")
        if not is_changing:
            return monitor.build_end_event()
        if asyncio.get_running_loop().time() > deadline:
            return late_event
        await asyncio.sleep(delay_s)


class _EndpointMonitor:
    """Begin a deployment once, and log each state of the endpoint once."""

    def __init__(self, wait: DeploymentWait, log: Logger) -> None:
        self.wait, self.log = wait, log
        self._has_begun, self._is_tagged = not wait.verb, not wait.tag
        self._last_status, self._has_conflict = "", False

    def build_end_event(self) -> DeploymentEvent:
        """Return the event of the end.

        If another process changed the endpoint first, `config_name` is empty: it is not known what was deployed.
        """
        event = self.wait.build_event("ended")
        return {**event, "config_name": ""} if self._has_conflict else event

    async def check(self) -> bool:
        """Begin the deployment unless it has begun. Return whether the endpoint is being changed."""
        async with self.wait.open_client() as sagemaker:
            if not self._has_begun:
                await self._begin(sagemaker)
                self._has_begun = True
            endpoint = await self._describe(sagemaker)
            if endpoint is None:
                return False
            if not self._is_tagged:
                await self._tag(sagemaker, endpoint)
                self._is_tagged = True
            self._log_status(endpoint["EndpointStatus"])
            return endpoint["EndpointStatus"] in CHANGING_STATES

    async def _begin(self, sagemaker: Any) -> None:
        wait = self.wait
        try:
            await getattr(sagemaker, f"{wait.verb}_endpoint")(**(wait.request or {}))
        except ClientError as error:
            if not any(text in str(error) for text in CONFLICT_TEXTS):
                raise
            self._has_conflict = True
            self.log.info("another try began a deployment of endpoint %s: waiting for it", wait.endpoint)
            return
        self.log.info("endpoint %s: %s with configuration %s", wait.endpoint, f"{wait.verb} began", wait.config_name)

    async def _tag(self, sagemaker: Any, endpoint: dict[str, Any]) -> None:
        """Name the deployment in the endpoint's tag, if the endpoint has or gets its configuration."""
        if self.wait.config_name in (get_pending_config(endpoint), endpoint["EndpointConfigName"]):
            tags = [{"Key": DEPLOYMENT_TAG, "Value": self.wait.tag}]
            await sagemaker.add_tags(ResourceArn=endpoint["EndpointArn"], Tags=tags)

    async def _describe(self, sagemaker: Any) -> dict[str, Any] | None:
        try:
            return dict(await sagemaker.describe_endpoint(EndpointName=self.wait.endpoint))
        except ClientError as error:
            if "Could not find" in str(error):
                return None
            raise

    def _log_status(self, status: str) -> None:
        if status != self._last_status:
            self._last_status = status
            self.log.info("endpoint %s: %s", self.wait.endpoint, status)
