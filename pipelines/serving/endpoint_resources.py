"""Find and delete what Leeway created for a SageMaker endpoint: configurations, models, alarms, and the endpoint.

Leeway's endpoints, configurations and models have the tag `leeway:endpoint`; its alarms have the names that
`build_alarm_names` returns. Nothing else is deleted. The module uses only the standard library, because Airflow's
operators import it. The arguments `sagemaker` and `cloudwatch` are clients of boto3.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterator, Mapping
from math import ceil
from typing import Any

ENDPOINT_TAG = "leeway:endpoint"
"""Tag of each endpoint, configuration and model that Leeway created; its value is the endpoint's name."""
MODEL_TAG = "leeway:model"
"""Tag with the name of the model that an endpoint serves. Leeway meters an endpoint that has only this tag, but never
changes it."""
VERSION_TAG = "leeway:version"
"""Tag with the version that an endpoint serves or, while it is being created, will serve."""
VARIANT = "AllTraffic"
"""Name of the only production variant. No deployment changes the name, so the alarms of the variant stay valid."""
VARIANT_MEMBERS = ("ProductionVariants", "ShadowProductionVariants")
"""Members that list variants in SageMaker's descriptions of an endpoint and of its configuration."""
MAX_RELEASE_S = 28_800
"""SageMaker's largest MaximumExecutionTimeoutInSeconds: a release that takes longer is rolled back."""
ALARM_KINDS = ("errors", "error-count", "latency")
"""Last parts of the names of an endpoint's alarms."""
RESOURCE_LISTS = {
    "endpoint_config": ("EndpointConfigs", "EndpointConfigName", "EndpointConfigArn"),
    "model": ("Models", "ModelName", "ModelArn"),
}
"""Maps each kind of resource to three members of SageMaker's response that lists it: the entries, and the name and the
ARN of an entry."""
NOT_FOUND_TEXT = "Could not find"
"""Part of SageMaker's error about an endpoint, a configuration or a model that does not exist."""


def build_endpoint_name(model: str) -> str:
    """Return the name of the endpoint that serves a registered model by default."""
    return re.sub(r"[^a-zA-Z0-9]+", "-", model).strip("-")


def build_capture_uri(bucket: str, prefix: str, version: str) -> str:
    """Return the s3:// prefix of the requests that an endpoint captures while it serves a version.

    Each version has its own prefix, because during a release two versions answer under one variant name.
    """
    return f"s3://{bucket}/{prefix}/capture/{version}"


def build_alarm_names(endpoint: str) -> dict[str, str]:
    """Return the name of each alarm that an endpoint may have, by `ALARM_KINDS`."""
    return {kind: f"leeway-{endpoint}-{kind}" for kind in ALARM_KINDS}


def compute_waits_s(policy: Mapping[str, Any]) -> int:
    """Compute the shortest time for which the old and the new instances of a release run together, seconds.

    Args:
        policy: the fields of section `serving`: traffic, step_percent, wait_s, bake_s.
    """
    steps = {"all_at_once": 1, "canary": 2, "linear": ceil(100 / policy["step_percent"])}[policy["traffic"]]
    return int(steps * policy["wait_s"] + policy["bake_s"])


def describe_endpoint(sagemaker: Any, endpoint: str) -> dict[str, Any] | None:
    """Return SageMaker's description of an endpoint; None if it does not exist."""
    try:
        return dict(sagemaker.describe_endpoint(EndpointName=endpoint))
    except sagemaker.exceptions.ClientError as error:
        if NOT_FOUND_TEXT in str(error):
            return None
        raise


def describe_config(sagemaker: Any, config: str) -> dict[str, Any] | None:
    """Return SageMaker's description of an endpoint configuration; None if it does not exist."""
    try:
        return dict(sagemaker.describe_endpoint_config(EndpointConfigName=config))
    except sagemaker.exceptions.ClientError as error:
        if NOT_FOUND_TEXT in str(error):
            return None
        raise


def read_tags(sagemaker: Any, arn: str) -> dict[str, str]:
    """Return the values of a resource's tags, by key."""
    pages = sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn)
    return {str(tag["Key"]): str(tag["Value"]) for page in pages for tag in page["Tags"]}


def delete_endpoint(sagemaker: Any, endpoint: str) -> None:
    """Begin to delete an endpoint. Idempotent."""
    _delete(sagemaker, "endpoint", EndpointName=endpoint)


def delete_unused_resources(
    sagemaker: Any, endpoint: str, keep: Collection[str] = (), before: dt.datetime | None = None
) -> int:
    """Delete the configurations and models that Leeway created for an endpoint. Idempotent.

    Args:
        sagemaker: client of SageMaker.
        endpoint: name of the endpoint.
        keep: names of resources that are in use, so that they are not deleted.
        before: only resources that were created before this moment are deleted, because a deployment that has just
            begun may need newer ones; None: resources of any age are deleted.

    Returns:
        Number of deleted configurations and models.
    """
    count = 0
    for kind, (_, name_member, _) in RESOURCE_LISTS.items():
        for summary in _list_resources(sagemaker, kind, endpoint):
            if summary[name_member] not in keep and (before is None or summary["CreationTime"] < before):
                _delete(sagemaker, kind, **{name_member: summary[name_member]})
                count += 1
    return count


def delete_alarms(cloudwatch: Any, endpoint: str) -> int:
    """Delete the alarms of an endpoint; return how many there were. Idempotent."""
    names = list(build_alarm_names(endpoint).values())
    existing_names = [alarm["AlarmName"] for alarm in cloudwatch.describe_alarms(AlarmNames=names)["MetricAlarms"]]
    if existing_names:
        cloudwatch.delete_alarms(AlarmNames=existing_names)
    return len(existing_names)


def _list_resources(sagemaker: Any, kind: str, endpoint: str) -> Iterator[dict[str, Any]]:
    """Yield the summaries of the configurations or models that have the endpoint's tag."""
    entries_member, name_member, arn_member = RESOURCE_LISTS[kind]
    pages = sagemaker.get_paginator(f"list_{kind}s").paginate(NameContains=endpoint)
    # `NameContains` also finds the text inside a name. Reading a resource's tags takes a request, so tags are read only
    # for names that begin with the text.
    summaries = [item for page in pages for item in page[entries_member] if item[name_member].startswith(endpoint)]
    return (item for item in summaries if read_tags(sagemaker, item[arn_member]).get(ENDPOINT_TAG) == endpoint)


def _delete(sagemaker: Any, kind: str, **name: str) -> None:
    try:
        getattr(sagemaker, f"delete_{kind}")(**name)
    except sagemaker.exceptions.ClientError as error:
        if NOT_FOUND_TEXT not in str(error):
            raise
