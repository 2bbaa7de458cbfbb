"""Emit asset events for what changed in the lake, and none for what did not.

A task that succeeds emits an event of each asset among its outlets, so a task that changed nothing removes the asset
from them before its end. (An asset alias would not do: on Airflow 3.3.2 two tasks that are the first to add events of
one alias at the same moment fail in the API server, and retries do not help.) The asset's state store remembers which
version had an event, once Airflow has the event. So a task that dies between the lake's commit and its own end emits
the event on its next try, although it then finds nothing changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.definitions.context import Context

VERSION = "snapshot_id"
"""Field of a result, and of the event's extra, that names the version of what was published."""
EXTRA_FIELDS = ("snapshot_id", "rows", "changed", "changes", "columns")
"""Fields of a result that go into the event's extra, if the result has them."""


def register_asset(task: BaseOperator, asset: Asset) -> None:
    """Let the task emit events of the asset, and remember them once Airflow has them."""
    if asset not in task.outlets:
        task.outlets = [*task.outlets, asset]
    task.on_success_callback = [*task.on_success_callback, remember_versions]


def emit_event(context: Context, asset: Asset, partition: str, result: Mapping[str, Any], key: str = "") -> bool:
    """Let the task's success emit an event for this version of the partition, unless the version had one before.

    Args:
        context: context of the task.
        asset: the asset that was published.
        partition: the part of it.
        result: result of the step that published it.
        key: the event's partition key; empty: the run's.

    Returns:
        Whether there is an event: False if this version had one before, or if nothing is published.
    """
    task = context["ti"].task
    if result[VERSION] in (0, context["asset_state_store"][asset].get(_build_key(partition))):
        task.outlets = [outlet for outlet in task.outlets if outlet != asset]
        return False
    event = context["outlet_events"][asset]
    event.extra = {"partition": partition, **{name: result[name] for name in EXTRA_FIELDS if name in result}}
    if key and key != context["dag_run"].partition_key:
        event.add_partitions(key)
    return True


def remember_versions(context: Context) -> None:
    """Remember the versions that had events, so that they get no others. Call it when Airflow has the task's events."""
    for asset in context["ti"].task.outlets:
        if isinstance(asset, Asset):
            extra = context["outlet_events"][asset].extra
            if VERSION in extra:
                context["asset_state_store"][asset].set(_build_key(str(extra["partition"])), extra[VERSION])


def _build_key(partition: str) -> str:
    return f"announced {partition}"
