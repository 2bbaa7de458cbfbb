"""Wait, in the triggerer or a worker, until a shadow has run for its time or has answered enough requests."""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypedDict

from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook
from botocore.exceptions import ClientError

from leeway.hooks.endpoint.shadow_requests import build_update_request
from leeway.hooks.sagemaker.aws_errors import Outage, format_error_line, is_transient
from leeway.hooks.sagemaker.connection import AwsWait
from leeway.hooks.step.hook import Logger
from pipelines.serving.endpoint_resources import NOT_FOUND_TEXT

MINUTE = dt.timedelta(minutes=1)
MAX_PERIOD_S = 86_400
"""Longest period that one value of CloudWatch's statistic covers here, seconds. For a shadow that runs longer, several
values are added."""


class ShadowEvent(TypedDict):
    """The end of a wait for a shadow: its cause, and the configuration of the shadow."""

    cause: Literal["over", "changed", "error"]
    """over: the time has passed, or there were enough requests; changed: the endpoint does not serve the shadow's
    configuration any more; error: SageMaker or CloudWatch refused a request."""
    config_name: str
    """Configuration of the shadow."""
    message: str
    """A sentence about the cause; empty if the shadow is over."""


@dataclass(frozen=True)
class ShadowWait(AwsWait):
    """A shadow to wait for. All fields can be written as JSON.

    Args:
        endpoint: name of the endpoint.
        config_name: configuration with the shadow variant.
        base_name: configuration without the shadow variant, to which the endpoint is changed if a person clears the
            task or sets its state.
        variant: name of the shadow variant.
        since: begin, ISO format, UTC.
        until: latest end, ISO format, UTC.
        requests: number of requests after which the shadow ends early; 0: it ends only after its time.
        check_interval_s: seconds between two requests for the endpoint's state.
    """

    endpoint: str
    config_name: str
    base_name: str
    variant: str
    since: str
    until: str
    requests: int
    check_interval_s: float

    @property
    def max_duration_s(self) -> int:
        """Longest time that the wait may take, seconds."""
        return max(0, int(self.compute_remaining_time().total_seconds())) + 1

    def compute_remaining_time(self) -> dt.timedelta:
        """Return the time until the shadow's latest end; negative after that end."""
        return dt.datetime.fromisoformat(self.until) - dt.datetime.now(dt.UTC)

    def build_event(self, cause: Literal["over", "changed", "error"], message: str = "") -> ShadowEvent:
        """Return the event that ends this wait."""
        return {"cause": cause, "config_name": self.config_name, "message": message}


async def wait_for_shadow(wait: ShadowWait, log: Logger) -> ShadowEvent:
    """Wait until the shadow's time has passed, it has answered enough requests, or the endpoint was changed.

    While AWS throttles requests or does not answer, they are retried. The shadow's time continues meanwhile.
    """
    outage = Outage(log, "SageMaker or CloudWatch")
    log.info("endpoint %s: %s gets copies of the requests until %s", wait.endpoint, wait.variant, wait.until)
    while (remaining_s := wait.compute_remaining_time().total_seconds()) > 0:
        try:
            if event := await _check(wait, log):
                return event
            outage.record_response()
            delay_s = wait.check_interval_s
        except Exception as error:
            if not is_transient(error):
                return wait.build_event("error", format_error_line(error))
            delay_s = outage.record_failure(error)
        await asyncio.sleep(min(delay_s, remaining_s))
    return wait.build_event("over")


async def remove_shadow(wait: ShadowWait, log: Logger) -> None:
    """Begin to change the endpoint to its configuration without the shadow, if it has the shadow. Idempotent.

    While the endpoint changes, SageMaker refuses this, and the log says that the shadow may stay.
    """
    async with await wait.connection.create_hook(SageMakerHook).get_async_conn() as sagemaker:
        endpoint = await sagemaker.describe_endpoint(EndpointName=wait.endpoint)
        if endpoint["EndpointConfigName"] != wait.config_name:
            return
        if endpoint["EndpointStatus"] != "InService":
            text = "endpoint %s is %s: %s may stay in it. To remove it, run the task again or deploy a version"
            log.warning(text, wait.endpoint, endpoint["EndpointStatus"], wait.variant)
            return
        reason = "the task was cleared, or a person set its state"
        log.warning("%s: removing %s from endpoint %s", reason, wait.variant, wait.endpoint)
        await sagemaker.update_endpoint(**build_update_request(wait.endpoint, wait.base_name))


async def _check(wait: ShadowWait, log: Logger) -> ShadowEvent | None:
    """Return the event if the wait ends before the shadow's latest end; None otherwise."""
    async with await wait.connection.create_hook(SageMakerHook).get_async_conn() as sagemaker:
        try:
            endpoint = await sagemaker.describe_endpoint(EndpointName=wait.endpoint)
        except ClientError as error:
            if NOT_FOUND_TEXT not in str(error):
                raise
            return wait.build_event("changed", "the endpoint was deleted")
    if endpoint["EndpointConfigName"] != wait.config_name or endpoint["EndpointStatus"] not in (
        "InService",
        "SystemUpdating",
    ):
        return wait.build_event("changed", f"the endpoint is {endpoint['EndpointStatus']}")
    if wait.requests and (count := await _count_requests(wait)) >= wait.requests:
        log.info("endpoint %s: %s has answered %d requests", wait.endpoint, wait.variant, count)
        return wait.build_event("over")
    return None


async def _count_requests(wait: ShadowWait) -> int:
    """Return how many requests the shadow variant has answered, as CloudWatch counts them."""
    begin = dt.datetime.fromisoformat(wait.since).replace(second=0, microsecond=0)
    end = dt.datetime.now(dt.UTC).replace(second=0, microsecond=0) + MINUTE
    hook = wait.connection.create_hook(partial(AwsBaseHook, client_type="cloudwatch"))
    async with await hook.get_async_conn() as cloudwatch:
        statistics = await cloudwatch.get_metric_statistics(
            Namespace="AWS/SageMaker",
            MetricName="Invocations",
            Dimensions=[
                {"Name": "EndpointName", "Value": wait.endpoint},
                {"Name": "VariantName", "Value": wait.variant},
            ],
            StartTime=begin,
            EndTime=end,
            Period=min(int((end - begin).total_seconds()), MAX_PERIOD_S),
            Statistics=["Sum"],
        )
    return int(sum(point["Sum"] for point in statistics["Datapoints"]))
