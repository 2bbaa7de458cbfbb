"""Build and read the values of the endpoint's tag that names a deployment: announced, begun, or failed.

The tag outlives workers and triggerers. So a later process finds in it how far a deployment came:

- `NAME@TIME`: the deployment is about to begin, on an endpoint that was modified last at TIME;
- `NAME`: the deployment has begun;
- `NAME=failed/N`: the deployment has failed, and its task, with Airflow's `max_tries` N, has recorded that.

NAME is the value of `requests.build_deployment_tag`: the configuration, and a digest of the task.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.endpoint.client import EndpointClient

DEPLOYMENT_TAG = "leeway:deployment"
"""Key of the endpoint's tag that names a deployment, and says how far it came."""


def get_modification_time(endpoint: Mapping[str, Any]) -> str:
    """Return when an endpoint was modified last, ISO format, UTC. An update changes this time when it begins and ends.

    Args:
        endpoint: SageMaker's description of the endpoint.
    """
    modified_at: dt.datetime = endpoint["LastModifiedTime"]
    return modified_at.astimezone(dt.UTC).isoformat()


def build_announcement(name: str, modification_time: str) -> str:
    """Return the value that announces a deployment.

    Args:
        name: name of the deployment.
        modification_time: `get_modification_time` of the endpoint before the deployment.
    """
    return f"{name}@{modification_time}"


def build_failure(name: str, max_tries: int) -> str:
    """Return the value that says that a deployment has failed.

    Args:
        name: name of the deployment.
        max_tries: Airflow's `max_tries` of the task: clearing the task changes it, a retry does not.
    """
    return f"{name}=failed/{max_tries}"


def get_deployment_name(value: str) -> str:
    """Return the name of the deployment in a value of the tag; empty for an empty value."""
    return value.partition("=")[0].partition("@")[0]


def has_begun(value: str, name: str, max_tries: int, endpoint: Mapping[str, Any]) -> bool:
    """Return whether the tag says that a deployment has begun, also if it has failed since then.

    A failure before the task's last clear is ignored.

    An announced deployment has begun if the endpoint was modified since the announcement. That conclusion is wrong if,
    just after the announcement, something else modified the endpoint and the process was killed: then a failure is
    reported, and nothing is deployed.

    Args:
        value: value of the tag; empty if the endpoint has none.
        name: name of the deployment.
        max_tries: Airflow's `max_tries` of the task.
        endpoint: SageMaker's description of the endpoint.
    """
    if value.startswith(f"{name}@"):
        return value != build_announcement(name, get_modification_time(endpoint))
    return value in (name, build_failure(name, max_tries))


def record_failure(
    client: EndpointClient, endpoint: Mapping[str, Any], name: str, max_tries: int, error: AirflowException
) -> None:
    """Write into the tag that a deployment has failed, or remove the tag if a retry may deploy again. Idempotent.

    Args:
        client: calls AWS for the endpoint.
        endpoint: SageMaker's description of the endpoint.
        name: name of the deployment.
        max_tries: Airflow's `max_tries` of the task.
        error: the task's error. Only an AirflowFailException is recorded in the tag, as a failure without its text: if
            the task runs again because its worker was killed before Airflow stored the failure, the task reports the
            failure and deploys nothing.
    """
    if isinstance(error, AirflowFailException):
        client.set_tags(endpoint, {DEPLOYMENT_TAG: build_failure(name, max_tries)})
    else:
        client.remove_tag(endpoint, DEPLOYMENT_TAG)
