"""Service environments: Create, Describe, Update and Delete."""

from typing import Any

from drydock.batch.errors import refuse
from drydock.batch.queues import BatchQueues
from drydock.batch.records import DISABLED, ENABLED, VALID, ServiceEnvironment
from drydock.batch.requests.rules import build_arn, build_page, check_capacity_limits, check_name, check_state
from drydock.resources import Owner

SAGEMAKER_TRAINING = "SAGEMAKER_TRAINING"


def create_service_environment(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer CreateServiceEnvironment. The environment is VALID at once."""
    name = request["serviceEnvironmentName"]
    check_name(name, "serviceEnvironmentName")
    check_capacity_limits(request["capacityLimits"], is_quota_share=False)
    if batch.tables.environments.find(owner, name):
        refuse("Object already exists")
    environment = ServiceEnvironment(
        name,
        build_arn(owner, f"service-environment/{name}"),
        request["capacityLimits"],
        check_state(request.get("state", ENABLED)),
        tags=request.get("tags", {}),
    )
    batch.tables.environments.save(owner, environment)
    return _identify(environment)


def describe_service_environments(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer DescribeServiceEnvironments: describe all, or those that the request names. Unknown names are ignored."""
    names = request.get("serviceEnvironments") or []
    environments = [
        item for item in batch.tables.environments.list_all(owner) if not names or {item.name, item.arn} & set(names)
    ]
    page, token = build_page(environments, request)
    return {"serviceEnvironments": [_describe(item) for item in page], **token}


def update_service_environment(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer UpdateServiceEnvironment. Jobs that have instances keep them."""
    environment = _find(batch, owner, request)
    if "capacityLimits" in request:
        check_capacity_limits(request["capacityLimits"], is_quota_share=False)
        environment.limits = request["capacityLimits"]
    environment.state = check_state(request.get("state", environment.state))
    batch.tables.environments.save(owner, environment)
    batch.change_event.set()
    return _identify(environment)


def delete_service_environment(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer DeleteServiceEnvironment. The environment must be DISABLED, and no queue may use it."""
    environment = _find(batch, owner, request)
    if environment.state != DISABLED:
        refuse("Cannot delete, resource must be disabled first: set its state to DISABLED by UpdateServiceEnvironment.")
    users = [queue.name for queue in batch.tables.queues.list_all(owner) if environment.arn in queue.environments]
    if users:
        refuse(f"Cannot delete, found existing JobQueue relationship: {', '.join(users)}.")
    batch.tables.environments.delete(owner, environment)
    return {}


def _find(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> ServiceEnvironment:
    name = request["serviceEnvironment"]
    return batch.tables.environments.find(owner, name) or refuse(f"ServiceEnvironment {name} not found.")


def _identify(environment: ServiceEnvironment) -> dict[str, Any]:
    return {"serviceEnvironmentName": environment.name, "serviceEnvironmentArn": environment.arn}


def _describe(environment: ServiceEnvironment) -> dict[str, Any]:
    return {
        **_identify(environment),
        "serviceEnvironmentType": SAGEMAKER_TRAINING,
        "state": environment.state,
        "status": VALID,
        "capacityLimits": environment.limits,
        "tags": environment.tags,
    }
