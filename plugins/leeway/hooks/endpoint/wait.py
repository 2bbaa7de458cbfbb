"""Describe a wait for the deployment of an endpoint: the request that begins it, and how the wait ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook

from leeway.hooks.sagemaker.connection import AwsWait

CHANGING_STATES = ("Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting")
"""States of an endpoint that is being changed."""


class DeploymentEvent(TypedDict):
    """The end of a wait for a deployment: its cause, and the configuration that was deployed."""

    cause: Literal["ended", "deadline", "no_answer", "error", "refused"]
    """ended: the endpoint is not being changed any more, or does not exist; deadline: it is still being changed after
    `max_duration_s`; no_answer: SageMaker did not answer; refused: the request is wrong, so nothing was changed; error:
    SageMaker refused a request for another reason, such as a missing permission."""
    config_name: str
    """Configuration whose deployment was waited for; empty if it was another change of the endpoint."""
    message: str
    """A sentence about the cause; empty if the deployment ended."""


@dataclass(frozen=True)
class DeploymentWait(AwsWait):
    """A deployment to begin and to wait for. All fields can be written as JSON.

    Args:
        endpoint: name of the endpoint.
        config_name: configuration that is deployed; empty to wait for the end of another change of the endpoint.
        check_interval_s: seconds between two requests for the endpoint's state.
        max_duration_s: longest wait, seconds.
        verb: operation that begins the deployment; empty if it is in progress already.
        request: parameters of this operation; None without an operation.
        tag: value of `DEPLOYMENT_TAG` once the deployment is in progress; empty: the tag is not set.
        modification: `get_modification_time` of the endpoint when the task decided to update it. If the endpoint was
            modified since then, the update does not begin: it has begun already, or the task has to decide again.
    """

    endpoint: str
    config_name: str
    check_interval_s: int
    max_duration_s: int
    verb: Literal["create", "update", ""] = ""
    request: dict[str, Any] | None = None
    tag: str = ""
    modification: str = ""

    def build_event(
        self, cause: Literal["ended", "deadline", "no_answer", "error", "refused"], message: str = ""
    ) -> DeploymentEvent:
        """Return the event that ends this wait."""
        return {"cause": cause, "config_name": self.config_name, "message": message}

    @asynccontextmanager
    async def open_client(self) -> AsyncIterator[Any]:
        """Open a client of SageMaker."""
        async with await self.connection.create_hook(SageMakerHook).get_async_conn() as sagemaker:
            yield sagemaker


def get_pending_config(endpoint: Mapping[str, Any]) -> str:
    """Return the configuration that an endpoint is being changed to; empty if it is not being changed."""
    if endpoint["EndpointStatus"] == "Creating":
        return str(endpoint["EndpointConfigName"])
    return str(endpoint.get("PendingDeploymentSummary", {}).get("EndpointConfigName", ""))
