"""Tags of the queues for training jobs, and of their jobs, environments, policies and shares."""

from typing import Any

from drydock.batch.errors import refuse
from drydock.batch.queues import BatchQueues
from drydock.batch.records import StoredRecord
from drydock.resources import Owner

MAX_TAGS = 50


def has_resource(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> bool:
    """Return whether the ARN in a request belongs to a queue for training jobs, or to a resource of such queues.

    If not, moto answers the request.
    """
    return batch.tables.find_resource(owner, request["resourceArn"]) is not None


def tag_resource(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer TagResource."""
    record = _find(batch, owner, request)
    tags = record.tags | request["tags"]
    if len(tags) > MAX_TAGS:
        refuse(f"A resource can have at most {MAX_TAGS} tags.")
    record.tags = tags
    batch.tables.save_resource(owner, record)
    return {}


def untag_resource(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer UntagResource."""
    record = _find(batch, owner, request)
    record.tags = {key: value for key, value in record.tags.items() if key not in request["tagKeys"]}
    batch.tables.save_resource(owner, record)
    return {}


def list_tags_for_resource(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer ListTagsForResource."""
    return {"tags": _find(batch, owner, request).tags}


def _find(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> StoredRecord:
    arn = request["resourceArn"]
    return batch.tables.find_resource(owner, arn) or refuse(f"Resource {arn} not found.")
