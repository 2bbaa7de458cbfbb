"""Build the requests to AWS for an endpoint: its model, configuration, update and alarms.

The names of models and configurations are derived from their content: equal contents have equal names. The argument
`policy` comes from the result of the step `serving`: section `serving` of the parameters
(`pipelines.serving.release_policy`), with `traffic` all_at_once for a rollback.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.serving.endpoint_resources import (
    ENDPOINT_TAG,
    MAX_RELEASE_S,
    VARIANT,
    build_alarm_names,
    compute_waits_s,
)

Policy = Mapping[str, Any]
Tags = Sequence[Mapping[str, str]]
MARGIN_S = 3_600
"""Seconds that SageMaker may need to start and stop instances, in addition to the waits of a release."""
EXECUTION_TIMEOUT_S = (600, MAX_RELEASE_S)
"""SageMaker's limits of MaximumExecutionTimeoutInSeconds."""
ROUTING_TYPES = {"all_at_once": "ALL_AT_ONCE", "canary": "CANARY", "linear": "LINEAR"}
"""Maps the policy's `traffic` to the Type of TrafficRoutingConfiguration."""
SIZE_MEMBERS = {"canary": "CanarySize", "linear": "LinearStepSize"}
"""Maps the policy's `traffic` to the member of TrafficRoutingConfiguration that has the size of a step."""
TEXT_TYPES = {"JsonContentTypes": ["application/json", "application/jsonlines"], "CsvContentTypes": ["text/csv"]}
"""Data capture stores bodies of these content types as text, and all other bodies as base64."""


def build_model_request(
    endpoint: str, version: str, role: str, container: Mapping[str, Any], tags: Tags
) -> dict[str, Any]:
    """Build the request to CreateModel.

    Args:
        endpoint: name of the endpoint. An endpoint has models of its own, which no job uses, so they can be deleted.
        version: registered version.
        role: ARN of the execution role.
        container: PrimaryContainer of the request.
        tags: tags of the task.
    """
    return {
        "ModelName": build_name(endpoint, version, [role, container]),
        "ExecutionRoleArn": role,
        "PrimaryContainer": dict(container),
        "Tags": build_endpoint_tags(endpoint, tags),
    }


def build_config_request(
    endpoint: str, version: str, model_name: str, policy: Policy, capture_uri: str, tags: Tags
) -> dict[str, Any]:
    """Build the request to CreateEndpointConfig.

    Args:
        endpoint: name of the endpoint.
        version: registered version.
        model_name: name of SageMaker's model.
        policy: section `serving` of the parameters; see the module.
        capture_uri: s3:// prefix of captured requests.
        tags: tags of the task.
    """
    variant = {
        "VariantName": VARIANT,
        "ModelName": model_name,
        **_build_machine(policy),
        "InitialVariantWeight": 1.0,
    }
    content = {"ProductionVariants": [variant], **build_capture(policy["capture_percent"], capture_uri)}
    name = build_name(endpoint, version, content)
    return {"EndpointConfigName": name, **content, "Tags": build_endpoint_tags(endpoint, tags)}


def _build_machine(policy: Policy) -> dict[str, Any]:
    """Build the part of a variant that says what runs it: instances, or the memory of a serverless variant."""
    if is_serverless(policy):
        memory_mb, concurrency = policy["serverless_memory_mb"], policy["serverless_max_concurrency"]
        return {"ServerlessConfig": {"MemorySizeInMB": memory_mb, "MaxConcurrency": concurrency}}
    return {"InstanceType": policy["instance_type"], "InitialInstanceCount": policy["instance_count"]}


def is_serverless(policy: Policy) -> bool:
    """Return whether the endpoint of a policy is serverless."""
    return policy["serverless_memory_mb"] is not None


def build_endpoint_tags(endpoint: str, tags: Tags) -> list[dict[str, str]]:
    """Return the tags of the task, and the tag by which Leeway finds the resources of the endpoint."""
    return [{"Key": ENDPOINT_TAG, "Value": endpoint}, *map(dict, tags)]


def build_deployment_tag(config_name: str, task: Mapping[str, Any]) -> str:
    """Build the value of the tag that names a deployment in progress: its configuration, and a digest of the task.

    Args:
        config_name: name of the configuration, or of a shadow variant.
        task: dag_id, run_id, task_id and map_index.
    """
    return f"{config_name}/{hashlib.sha256(repr(sorted(task.items())).encode()).hexdigest()[:12]}"


def build_traffic_fields(endpoint: str, policy: Policy) -> dict[str, Any]:
    """Build the part of the request to UpdateEndpoint that says how traffic moves.

    It is empty for a serverless endpoint: SageMaker has deployment guardrails only for instances.
    """
    return {} if is_serverless(policy) else {"DeploymentConfig": build_deployment_config(endpoint, policy)}


def build_deployment_config(endpoint: str, policy: Policy) -> dict[str, Any]:
    """Build the DeploymentConfig of an endpoint with instances."""
    routing: dict[str, Any] = {
        "Type": ROUTING_TYPES[policy["traffic"]],
        "WaitIntervalInSeconds": policy["wait_s"],
    }
    if member := SIZE_MEMBERS.get(policy["traffic"]):
        routing[member] = {"Type": "CAPACITY_PERCENT", "Value": policy["step_percent"]}
    minimum, maximum = EXECUTION_TIMEOUT_S
    update = {
        "TrafficRoutingConfiguration": routing,
        "TerminationWaitInSeconds": policy["bake_s"],
        "MaximumExecutionTimeoutInSeconds": min(max(compute_duration_s(policy), minimum), maximum),
    }
    alarms = [{"AlarmName": alarm["AlarmName"]} for alarm in build_alarm_requests(endpoint, policy)]
    rollback = {"AutoRollbackConfiguration": {"Alarms": alarms}} if policy["rollback"] and alarms else {}
    return {"BlueGreenUpdatePolicy": update, **rollback}


def compute_duration_s(policy: Policy) -> int:
    """Return how long a release may take, seconds: its waits, and `MARGIN_S`."""
    return compute_waits_s(policy) + MARGIN_S


def build_alarm_requests(endpoint: str, policy: Policy) -> list[dict[str, Any]]:
    """Build a request to PutMetricAlarm for each alarm that the policy sets."""
    names = build_alarm_names(endpoint)
    common_fields = {
        "Namespace": "AWS/SageMaker",
        "Dimensions": [{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": VARIANT}],
        "Period": policy["alarm_period_s"],
        "EvaluationPeriods": policy["alarm_periods"],
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "TreatMissingData": "notBreaching",
    }
    return [{"AlarmName": names[kind], **common_fields, **fields} for kind, fields in _list_alarm_fields(policy)]


def _list_alarm_fields(policy: Policy) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the kind of each alarm, and its metric, statistic and threshold."""
    errors = {"MetricName": "Invocation5XXErrors"}
    if policy["error_percent"] is not None:  # an error counts 1 and any other answer 0, so the average is the share
        yield "errors", {**errors, "Statistic": "Average", "Threshold": policy["error_percent"] / 100}
    if policy["error_count"] is not None:
        yield "error-count", {**errors, "Statistic": "Sum", "Threshold": float(policy["error_count"])}
    if policy["latency_ms"] is not None:
        name = policy["latency_statistic"]
        statistic = {"Statistic": name} if name == "Average" else {"ExtendedStatistic": name}
        yield "latency", {"MetricName": "ModelLatency", **statistic, "Threshold": 1_000.0 * policy["latency_ms"]}


def build_capture(percent: int, uri: str) -> dict[str, Any]:
    """Build the part of a configuration that captures a share of the requests with their answers; empty for 0 %."""
    if not percent:
        return {}
    capture = {
        "EnableCapture": True,
        "InitialSamplingPercentage": percent,
        "DestinationS3Uri": uri,
        "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
        "CaptureContentTypeHeader": TEXT_TYPES,
    }
    return {"DataCaptureConfig": capture}


def build_name(endpoint: str, version: str, content: Any) -> str:
    """Build the name of a model or a configuration from its content: equal contents have equal names."""
    digest = hashlib.sha256(json.dumps([endpoint, content], sort_keys=True).encode()).hexdigest()[:16]
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", f"{endpoint}-{version}").strip("-")
    return f"{slug[:46].strip('-')}-{digest}"  # SageMaker's limit is 63 characters
