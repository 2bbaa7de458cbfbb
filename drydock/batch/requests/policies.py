"""Scheduling policies: Create, Describe, List, Update and Delete."""

import re
from typing import Any

from drydock.batch.errors import refuse
from drydock.batch.queues import BatchQueues
from drydock.batch.records import SchedulingPolicy
from drydock.batch.requests.rules import MAX_PAGE, build_arn, build_page, check_name, check_range
from drydock.resources import Owner

# The limits that AWS documents for shareDecaySeconds, computeReservation (percent) and weightFactor.
MAX_DECAY_S = 604_800
MAX_RESERVATION = 99
MIN_WEIGHT, MAX_WEIGHT = 0.0001, 999.9999
SHARE_PATTERN = "[a-zA-Z0-9]{1,255}"
"""Pattern of a share identifier. AWS's description of ShareAttributes: 255 alphanumeric characters at most."""
MAX_SHARES = 500
"""Largest number of share identifiers in a policy, and of active ones in a queue."""


def create_scheduling_policy(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer CreateSchedulingPolicy.

    Without fairsharePolicy and quotaSharePolicy, the policy is a fair-share policy with the defaults.
    """
    name = request["name"]
    check_name(name, "name")
    fair_share, quota_share = _read_configurations(request)
    if batch.tables.policies.find(owner, name):
        refuse("Object already exists")
    if fair_share is None and quota_share is None:
        fair_share = {}
    arn = build_arn(owner, f"scheduling-policy/{name}")
    policy = SchedulingPolicy(name, arn, fair_share, quota_share, tags=request.get("tags", {}))
    batch.tables.policies.save(owner, policy)
    return {"name": policy.name, "arn": policy.arn}


def describe_scheduling_policies(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer DescribeSchedulingPolicies. Unknown ARNs are left out."""
    if len(request["arns"]) > MAX_PAGE:
        refuse(f"arns can have at most {MAX_PAGE} entries, not {len(request['arns'])}.")
    policies = [item for item in batch.tables.policies.list_all(owner) if item.arn in request["arns"]]
    return {"schedulingPolicies": [_describe(policy) for policy in policies]}


def list_scheduling_policies(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer ListSchedulingPolicies."""
    page, token = build_page(batch.tables.policies.list_all(owner), request)
    return {"schedulingPolicies": [{"arn": policy.arn} for policy in page], **token}


def update_scheduling_policy(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer UpdateSchedulingPolicy. The kind of the policy cannot be changed."""
    policy = find_policy(batch, owner, request["arn"])
    fair_share, quota_share = _read_configurations(request)
    if (fair_share is not None and policy.fair_share is None) or (quota_share and policy.quota_share is None):
        refuse(
            "A fairsharePolicy cannot be changed to a quotaSharePolicy, nor a quotaSharePolicy to a fairsharePolicy."
        )
    policy.fair_share = policy.fair_share if fair_share is None else fair_share
    policy.quota_share = quota_share or policy.quota_share
    batch.tables.policies.save(owner, policy)
    batch.change_event.set()
    return {}


def delete_scheduling_policy(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer DeleteSchedulingPolicy. No queue may use the policy."""
    policy = find_policy(batch, owner, request["arn"])
    users = [queue.name for queue in batch.tables.queues.list_all(owner) if queue.policy_arn == policy.arn]
    if users:
        refuse(f"Cannot delete, found existing JobQueue relationship: {', '.join(users)}.")
    batch.tables.policies.delete(owner, policy)
    return {}


def find_policy(batch: BatchQueues, owner: Owner, arn: str) -> SchedulingPolicy:
    """Return a scheduling policy by its ARN.

    Raises:
        ClientException: It does not exist.
    """
    return batch.tables.policies.get(owner, arn) or refuse(f"SchedulingPolicy {arn} not found.")


def _read_configurations(request: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    fair_share, quota_share = request.get("fairsharePolicy"), request.get("quotaSharePolicy")
    if fair_share is not None and quota_share is not None:
        refuse("Only one of fairsharePolicy or quotaSharePolicy can be set.")
    if fair_share is not None:
        check_range(fair_share.get("shareDecaySeconds", 0), 0, MAX_DECAY_S, "shareDecaySeconds")
        check_range(fair_share.get("computeReservation", 0), 0, MAX_RESERVATION, "computeReservation")
        _check_distribution(fair_share.get("shareDistribution", []))
    return fair_share, quota_share


def _check_distribution(distribution: list[dict[str, Any]]) -> None:
    if len(distribution) > MAX_SHARES:
        refuse(f"shareDistribution can have at most {MAX_SHARES} entries, not {len(distribution)}.")
    for item in distribution:
        name, weight = item["shareIdentifier"], item.get("weightFactor", 1.0)
        if not re.fullmatch(SHARE_PATTERN + r"\*?", name):
            refuse(
                f"shareIdentifier {name[:300]!r} is not valid. It must have 1 to 255 alphanumeric characters, and can "
                "end with an asterisk (*)."
            )
        if not MIN_WEIGHT <= weight <= MAX_WEIGHT:
            refuse(f"weightFactor of {name} must be between {MIN_WEIGHT} and {MAX_WEIGHT}, not {weight}.")
    names = [item["shareIdentifier"] for item in distribution]
    for index, name in enumerate(names):
        for other in names[index + 1 :]:
            if _is_overlapping(name, other):
                refuse(f"The share identifiers {name} and {other} overlap.")


def _is_overlapping(name: str, other: str) -> bool:
    if name.endswith("*") and other.startswith(name[:-1]):
        return True
    return name == other or (other.endswith("*") and name.startswith(other[:-1]))


def _describe(policy: SchedulingPolicy) -> dict[str, Any]:
    description: dict[str, Any] = {"name": policy.name, "arn": policy.arn, "tags": policy.tags}
    if policy.quota_share is not None:
        return {**description, "quotaSharePolicy": policy.quota_share}
    defaults = {"shareDecaySeconds": 0, "computeReservation": 0, "shareDistribution": []}
    return {**description, "fairsharePolicy": {**defaults, **(policy.fair_share or {})}}
