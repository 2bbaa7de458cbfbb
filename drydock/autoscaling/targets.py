"""Find the stored scalable targets, without an import of moto's Application Auto Scaling, which takes long."""

import json
from collections.abc import Iterator

from drydock.resources import Owner, Resources
from drydock.store import Store

DIMENSION = "sagemaker:variant:DesiredInstanceCount"
"""The only dimension that drydock scales."""


def open_targets(store: Store) -> Resources:
    """Return the stored scalable targets of all accounts and regions."""
    return Resources(store, "scalable-target")


def list_resource_ids(store: Store, owner: Owner) -> set[str]:
    """Return the resource ids, endpoint/NAME/variant/NAME, of an owner's scalable targets."""
    return {json.loads(text)["r_id"] for text in open_targets(store).list_texts(owner)}


def iterate_owners(store: Store) -> Iterator[Owner]:
    """Yield each account and region that has a scalable target."""
    yield from dict.fromkeys(owner for owner, _ in open_targets(store).iterate())
