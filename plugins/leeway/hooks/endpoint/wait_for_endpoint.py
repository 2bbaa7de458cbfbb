"""Begin a deployment and wait until it ends. The triggerer and workers use the same code.

A deployment cannot be cancelled: if the task is cleared or killed, the deployment continues, and the next try waits for
it. If the triggerer restarts, it runs the same stored wait again. So the wait finds out from the endpoint whether the
deployment has begun already.
"""

from __future__ import annotations

import asyncio
from typing import Any

from botocore.exceptions import ClientError

from leeway.hooks.endpoint.deployment_tag import DEPLOYMENT_TAG, build_announcement, get_modification_time
from leeway.hooks.endpoint.wait import CHANGING_STATES, DeploymentEvent, DeploymentWait, get_pending_config
from leeway.hooks.sagemaker.aws_errors import Outage, format_error_line, is_permanent, is_transient
from leeway.hooks.step.hook import Logger
from pipelines.serving.endpoint_resources import NOT_FOUND_TEXT

CONFLICT_TEXTS = ("already existing", "Cannot update", "in-progress")
"""Texts in SageMaker's errors about an endpoint that exists already, or that is being changed."""


async def start_and_wait_for_endpoint(wait: DeploymentWait, log: Logger) -> DeploymentEvent:
    """Begin the deployment unless it has begun, wait for its end, and return how the wait ended. Idempotent.

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
        """Return the event that says that the change of the endpoint has ended.

        If another process changed the endpoint first, `config_name` is empty: the task has to decide again.
        """
        event = self.wait.build_event("ended")
        return {**event, "config_name": ""} if self._has_conflict else event

    async def check(self) -> bool:
        """Begin the deployment unless it has begun. Return whether the endpoint is being changed."""
        async with self.wait.open_client() as sagemaker:
            if not self._has_begun:
                await self._begin_once(sagemaker)
                self._has_begun = True
            endpoint = await self._describe(sagemaker)
            if endpoint is None:
                return False
            if not self._is_tagged:
                await self._tag(sagemaker, endpoint)
                self._is_tagged = True
            self._log_status(endpoint["EndpointStatus"])
            return endpoint["EndpointStatus"] in CHANGING_STATES

    async def _begin_once(self, sagemaker: Any) -> None:
        """Begin the deployment, unless the endpoint was changed since the task decided to deploy.

        SageMaker itself refuses to create an endpoint that exists, and to update one that does not.
        """
        endpoint = await self._describe(sagemaker) if self.wait.verb == "update" else None
        if endpoint is None:
            return await self._begin(sagemaker, announced_arn="")
        wait, tag = self.wait, await self._read_tag(sagemaker, endpoint)
        has_own_tag = bool(wait.tag) and tag == wait.tag
        if get_modification_time(endpoint) == wait.modification and not has_own_tag:
            return await self._announce_and_begin(sagemaker, endpoint)
        is_announced = bool(wait.tag) and tag == build_announcement(wait.tag, wait.modification)
        has_own_config = wait.config_name in (get_pending_config(endpoint), endpoint["EndpointConfigName"])
        is_own = has_own_tag or is_announced or has_own_config
        self._has_conflict = not is_own
        self.log.info(
            "endpoint %s: %s, so no update begins", wait.endpoint,
            "this deployment has begun already" if is_own else "it was changed after this task decided to update it",
        )  # fmt: skip

    async def _announce_and_begin(self, sagemaker: Any, endpoint: dict[str, Any]) -> None:
        """Name the deployment in the endpoint's tag, if it has a name, then begin it. A later try finds the tag."""
        arn = endpoint["EndpointArn"]
        if self.wait.tag:
            tag = {"Key": DEPLOYMENT_TAG, "Value": build_announcement(self.wait.tag, self.wait.modification)}
            await sagemaker.add_tags(ResourceArn=arn, Tags=[tag])
        await self._begin(sagemaker, arn if self.wait.tag else "")

    async def _begin(self, sagemaker: Any, announced_arn: str) -> None:
        """Send the request. If SageMaker refuses it, remove the announcement from the endpoint's tags.

        Args:
            sagemaker: client of SageMaker.
            announced_arn: ARN of the endpoint whose tag announces the deployment; empty if none does.
        """
        wait = self.wait
        try:
            await getattr(sagemaker, f"{wait.verb}_endpoint")(**(wait.request or {}))
        except ClientError as error:
            if is_transient(error):
                raise
            if announced_arn:
                await sagemaker.delete_tags(ResourceArn=announced_arn, TagKeys=[DEPLOYMENT_TAG])
            if not any(text in str(error) for text in CONFLICT_TEXTS):
                raise
            self._has_conflict = True
            self.log.info("another process changed endpoint %s first: waiting until that change ends", wait.endpoint)
            return
        self.log.info("endpoint %s: %s with configuration %s", wait.endpoint, f"{wait.verb} began", wait.config_name)

    async def _tag(self, sagemaker: Any, endpoint: dict[str, Any]) -> None:
        """Name the deployment in the endpoint's tag, if the endpoint has or gets the deployment's configuration."""
        if self.wait.config_name in (get_pending_config(endpoint), endpoint["EndpointConfigName"]):
            tags = [{"Key": DEPLOYMENT_TAG, "Value": self.wait.tag}]
            await sagemaker.add_tags(ResourceArn=endpoint["EndpointArn"], Tags=tags)

    async def _read_tag(self, sagemaker: Any, endpoint: dict[str, Any]) -> str:
        """Return the value of the endpoint's tag `DEPLOYMENT_TAG`; empty if it has none."""
        response = await sagemaker.list_tags(ResourceArn=endpoint["EndpointArn"], MaxResults=100)  # at most 50 exist
        return next((str(tag["Value"]) for tag in response["Tags"] if tag["Key"] == DEPLOYMENT_TAG), "")

    async def _describe(self, sagemaker: Any) -> dict[str, Any] | None:
        try:
            return dict(await sagemaker.describe_endpoint(EndpointName=self.wait.endpoint))
        except ClientError as error:
            if NOT_FOUND_TEXT in str(error):
                return None
            raise

    def _log_status(self, status: str) -> None:
        if status != self._last_status:
            self._last_status = status
            self.log.info("endpoint %s: %s", self.wait.endpoint, status)
