"""Emit an asset event if a task changed the lake, and no event if it changed nothing.

A task that succeeds emits an event for each asset among its outlets. A task that changed nothing therefore removes the
asset from its outlets before it ends. (An asset alias cannot replace this: if two tasks add the first events of an
alias at the same moment, they fail in the API server of Airflow 3.3.2, and retries do not help.)

A version is the id of the lake's snapshot that wrote a partition. When Airflow has the event of a version, the version
is written to the asset's state store. If a task dies between the lake's commit and its own end, the store does not have
the version yet. The next try changes nothing in the lake, but emits the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.definitions.context import Context

VERSION_FIELD = "snapshot_id"
"""Field with the version of the published rows, in a step's Result and in an event's extra."""
EXTRA_FIELDS = ("snapshot_id", "rows", "changed", "changes", "columns")
"""Fields of a step's Result that are copied to the event's extra, if the Result has them."""


def register_asset(task: BaseOperator, asset: Asset) -> None:
    """Add the asset to the task's outlets, and make Airflow call `store_versions` when the task has succeeded."""
    if asset not in task.outlets:
        task.outlets = [*task.outlets, asset]
    task.on_success_callback = [*task.on_success_callback, store_versions]


def prepare_event(
    context: Context, asset: Asset, partition: str, result: Mapping[str, Any], partition_key: str = ""
) -> bool:
    """Prepare the asset event that Airflow emits when the task succeeds. Each version has at most one event.

    Args:
        context: context of the task.
        asset: asset of the published table.
        partition: the published partition, or the published partitions as FIRST..LAST.
        result: Result of the step that published them.
        partition_key: partition key of the event; if empty, the key of the DAG run.

    Returns:
        Whether there will be an event. False if this version already had an event, or if nothing is published.
    """
    task = context["ti"].task
    if result[VERSION_FIELD] in (0, context["asset_state_store"][asset].get(_build_state_key(partition))):
        task.outlets = [outlet for outlet in task.outlets if outlet != asset]
        return False
    event = context["outlet_events"][asset]
    event.extra = {"partition": partition, **{name: result[name] for name in EXTRA_FIELDS if name in result}}
    if partition_key and partition_key != context["dag_run"].partition_key:
        event.add_partitions(partition_key)
    return True


def store_versions(context: Context) -> None:
    """Store for each asset the version whose event Airflow has received. Airflow calls this after a success."""
    for asset in context["ti"].task.outlets:
        if isinstance(asset, Asset):
            extra = context["outlet_events"][asset].extra
            if VERSION_FIELD in extra:
                key = _build_state_key(str(extra["partition"]))
                context["asset_state_store"][asset].set(key, extra[VERSION_FIELD])


def _build_state_key(partition: str) -> str:
    return f"announced {partition}"
