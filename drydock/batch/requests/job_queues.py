"""Job queues of the type SAGEMAKER_TRAINING: Create, Describe, Update and Delete."""

from dataclasses import replace
from typing import Any

from drydock.batch.errors import refuse
from drydock.batch.queues import BatchQueues
from drydock.batch.records import DELETING, DISABLED, ENABLED, Queue
from drydock.batch.requests.environments import SAGEMAKER_TRAINING
from drydock.batch.requests.policies import find_policy
from drydock.batch.requests.rules import build_arn, build_page, check_name, check_range, check_state
from drydock.batch.scheduling.plans import NUM_INSTANCES
from drydock.resources import Owner

MAX_PRIORITY = 1_000
"""Largest priority of a queue."""
MIN_LIMIT_S, MAX_LIMIT_S = 600, 86_400
"""Bounds of maxTimeSeconds in jobStateTimeLimitActions."""
MISCONFIGURATION = "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE"
"""Beginning of the status reason of a waiting job that is larger than each service environment of its queue."""


def create_job_queue(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer CreateJobQueue: create a queue for service jobs. Its status is VALID at once."""
    name = request["jobQueueName"]
    check_name(name, "jobQueueName")
    if request.get("computeEnvironmentOrder"):
        refuse("A job queue can't have both a serviceEnvironmentOrder and a computeEnvironmentOrder.")
    if request.get("jobQueueType", SAGEMAKER_TRAINING) != SAGEMAKER_TRAINING:
        refuse(f"A job queue with a serviceEnvironmentOrder must have the jobQueueType {SAGEMAKER_TRAINING}.")
    if batch.tables.queues.find(owner, name):
        refuse("Object already exists")
    queue = Queue(
        name,
        build_arn(owner, f"job-queue/{name}"),
        request["priority"],
        _read_order(batch, owner, request.get("serviceEnvironmentOrder", [])),
        state=check_state(request.get("state", ENABLED)),
        tags=request.get("tags", {}),
    )
    if policy_arn := request.get("schedulingPolicyArn"):
        queue.policy_arn = find_policy(batch, owner, policy_arn).arn
    _check_units(batch, owner, queue)
    _set_priority_and_time_limits(queue, request)
    batch.tables.queues.save(owner, queue)
    return {"jobQueueName": queue.name, "jobQueueArn": queue.arn}


def describe_job_queues(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer DescribeJobQueues: describe all queues, or those that the request names. Unknown names are ignored."""
    names = request.get("jobQueues") or []
    queues = [item for item in batch.tables.queues.list_all(owner) if not names or {item.name, item.arn} & set(names)]
    page, token = build_page(queues, request)
    return {"jobQueues": [_describe(queue) for queue in page], **token}


def update_job_queue(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer UpdateJobQueue. A scheduling policy can be replaced by another of the same kind, not added or removed."""
    queue = batch.find_queue(owner, request["jobQueue"])
    if queue.status == DELETING:
        refuse("Cannot update, resource is being deleted.")
    if "computeEnvironmentOrder" in request:
        refuse("A job queue can't have both a serviceEnvironmentOrder and a computeEnvironmentOrder.")
    policy_arn = _choose_policy(batch, owner, queue, request.get("schedulingPolicyArn"))
    order = queue.order
    if "serviceEnvironmentOrder" in request:
        order = _read_order(batch, owner, request["serviceEnvironmentOrder"])
    state = check_state(request.get("state", queue.state))
    _check_units(batch, owner, replace(queue, policy_arn=policy_arn, order=order))
    _set_priority_and_time_limits(queue, request)
    queue.policy_arn, queue.order, queue.state = policy_arn, order, state
    batch.tables.queues.save(owner, queue)
    batch.change_event.set()
    return {"jobQueueName": queue.name, "jobQueueArn": queue.arn}


def delete_job_queue(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer DeleteJobQueue: mark a queue as DELETING.

    The scheduler terminates its jobs, then deletes the queue and its quota shares.
    """
    queue = batch.find_queue(owner, request["jobQueue"])
    if queue.state != DISABLED:
        refuse("Cannot delete, job queue must be disabled first: set its state to DISABLED by UpdateJobQueue.")
    queue.status = DELETING
    batch.tables.queues.save(owner, queue)
    batch.change_event.set()
    return {}


def _choose_policy(batch: BatchQueues, owner: Owner, queue: Queue, arn: str | None) -> str | None:
    if arn is None or arn == queue.policy_arn:
        return queue.policy_arn
    if queue.policy_arn is None:
        refuse("A job queue without a scheduling policy is a FIFO job queue and can't have a scheduling policy added.")
    policy, current_policy = find_policy(batch, owner, arn), find_policy(batch, owner, queue.policy_arn)
    if (policy.quota_share is None) != (current_policy.quota_share is None):
        refuse("The scheduling policy of a job queue can only be replaced by a policy of the same kind.")
    return policy.arn


def _check_units(batch: BatchQueues, owner: Owner, queue: Queue) -> None:
    """Refuse a queue whose service environments limit their capacity in a unit that its scheduling policy excludes.

    If the queue has quota shares, all units must be instance types. Otherwise, each environment must have the unit
    NUM_INSTANCES.
    """
    policy = batch.tables.find_policy(owner, queue)
    is_quota = policy is not None and policy.quota_share is not None
    for arn in queue.environments:
        environment = batch.tables.environments.get(owner, arn)
        units = {limit["capacityUnit"] for limit in environment.limits} if environment else set()
        if is_quota == (NUM_INSTANCES in units):
            expected = "instance types, such as ml.m5.large" if is_quota else NUM_INSTANCES
            refuse(f"The capacityUnit of {arn} must be {expected} in a job queue with this scheduling policy.")


def _set_priority_and_time_limits(queue: Queue, request: dict[str, Any]) -> None:
    check_range(request.get("priority", queue.priority), 0, MAX_PRIORITY, "priority")
    for action in request.get("jobStateTimeLimitActions", []):
        check_range(action["maxTimeSeconds"], MIN_LIMIT_S, MAX_LIMIT_S, "maxTimeSeconds")
        if (action["state"], action["action"]) != ("RUNNABLE", "TERMINATE"):
            refuse(
                "jobStateTimeLimitActions of a SAGEMAKER_TRAINING queue support only the state RUNNABLE and the action "
                "TERMINATE."
            )
    queue.priority = request.get("priority", queue.priority)
    queue.limit_actions = request.get("jobStateTimeLimitActions", queue.limit_actions)


def _read_order(batch: BatchQueues, owner: Owner, order: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not order:
        refuse("serviceEnvironmentOrder must have at least one service environment.")
    result: list[dict[str, Any]] = []
    for item in order:
        environment = batch.tables.environments.find(owner, item["serviceEnvironment"])
        if environment is None:
            refuse(f"ServiceEnvironment {item['serviceEnvironment']} not found.")
        result.append({"order": item["order"], "serviceEnvironment": environment.arn})
    for member in ("order", "serviceEnvironment"):
        if len({item[member] for item in result}) != len(result):
            refuse(f"serviceEnvironmentOrder has the same {member} twice.")
    return result


def _describe(queue: Queue) -> dict[str, Any]:
    description = {
        "jobQueueName": queue.name,
        "jobQueueArn": queue.arn,
        "state": queue.state,
        "schedulingPolicyArn": queue.policy_arn,
        "status": queue.status,
        "priority": queue.priority,
        "computeEnvironmentOrder": [],
        "serviceEnvironmentOrder": queue.order,
        "jobQueueType": SAGEMAKER_TRAINING,
        "tags": queue.tags,
        "jobStateTimeLimitActions": queue.limit_actions,
    }
    return {key: value for key, value in description.items() if value is not None}
