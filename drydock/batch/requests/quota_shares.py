"""Quota shares of queues: Create, Describe, List, Update and Delete."""

from typing import Any

from drydock.batch.errors import refuse
from drydock.batch.queues import BatchQueues
from drydock.batch.records import DELETING, DISABLED, ENABLED, QuotaShare
from drydock.batch.requests.rules import build_page, check_capacity_limits, check_name, check_state
from drydock.batch.scheduling.quota import LEND_AND_BORROW, UNLIMITED
from drydock.resources import Owner

MAX_SHARES_OF_QUEUE = 20


def create_quota_share(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer CreateQuotaShare. The share is VALID at once."""
    name = request["quotaShareName"]
    check_name(name, "quotaShareName")
    queue = batch.find_queue(owner, request["jobQueue"])
    policy = batch.tables.find_policy(owner, queue)
    if policy is None or policy.quota_share is None:
        refuse(f"The job queue {queue.name} doesn't have a quota share scheduling policy.")
    shares = batch.tables.list_quota_shares(owner, queue)
    if any(share.name == name for share in shares):
        refuse("Object already exists")
    if len(shares) >= MAX_SHARES_OF_QUEUE:
        refuse(f"A job queue can have at most {MAX_SHARES_OF_QUEUE} quota shares.")
    _check_request(request)
    share = QuotaShare(
        name,
        f"{queue.arn}/quota-share/{name}",
        queue.arn,
        request["capacityLimits"],
        request["resourceSharingConfiguration"],
        request["preemptionConfiguration"],
        check_state(request.get("state", ENABLED)),
        tags=request.get("tags", {}),
    )
    batch.tables.quota_shares.save(owner, share)
    return _identify(share)


def describe_quota_share(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer DescribeQuotaShare."""
    return _describe(_find(batch, owner, request))


def list_quota_shares(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer ListQuotaShares."""
    queue = batch.find_queue(owner, request["jobQueue"])
    page, token = build_page(batch.tables.list_quota_shares(owner, queue), request)
    descriptions = [_describe(share) for share in page]
    for description in descriptions:
        description.pop("tags")
    return {"quotaShares": descriptions, **token}


def update_quota_share(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer UpdateQuotaShare. If a limit becomes lower, the jobs above it can be preempted for other shares."""
    share = _find(batch, owner, request)
    if share.status == DELETING:
        refuse("Cannot update, resource is being deleted.")
    _check_request(request)
    state = check_state(request.get("state", share.state))
    share.limits = request.get("capacityLimits", share.limits)
    share.sharing = request.get("resourceSharingConfiguration", share.sharing)
    share.preemption = request.get("preemptionConfiguration", share.preemption)
    share.state = state
    batch.tables.quota_shares.save(owner, share)
    batch.change_event.set()
    return _identify(share)


def delete_quota_share(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer DeleteQuotaShare. The scheduler terminates the jobs of the share, and then deletes the share."""
    share = _find(batch, owner, request)
    if share.state != DISABLED:
        refuse("Cannot delete, quota share must be disabled first: set its state to DISABLED by UpdateQuotaShare.")
    share.status = DELETING
    batch.tables.quota_shares.save(owner, share)
    batch.change_event.set()
    return {}


def _check_request(request: dict[str, Any]) -> None:
    if "capacityLimits" in request:
        check_capacity_limits(request["capacityLimits"], is_quota_share=True)
    sharing = request.get("resourceSharingConfiguration")
    if sharing and "borrowLimit" in sharing:
        if sharing["strategy"] != LEND_AND_BORROW:
            refuse(f"borrowLimit can only be applied to quota shares with the strategy {LEND_AND_BORROW}.")
        if sharing["borrowLimit"] < UNLIMITED:
            refuse(f"borrowLimit must be a percentage, or {UNLIMITED} for unlimited borrowing.")


def _find(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> QuotaShare:
    arn = request["quotaShareArn"]
    return batch.tables.quota_shares.get(owner, arn) or refuse(f"QuotaShare {arn} not found.")


def _identify(share: QuotaShare) -> dict[str, Any]:
    return {"quotaShareName": share.name, "quotaShareArn": share.arn}


def _describe(share: QuotaShare) -> dict[str, Any]:
    sharing = dict(share.sharing)
    if sharing["strategy"] == LEND_AND_BORROW:
        sharing.setdefault("borrowLimit", UNLIMITED)
    return {
        **_identify(share),
        "jobQueueArn": share.queue_arn,
        "capacityLimits": share.limits,
        "resourceSharingConfiguration": sharing,
        "preemptionConfiguration": share.preemption,
        "state": share.state,
        "status": share.status,
        "tags": share.tags,
    }
