"""Events of an asset for what changed in the lake, and none for what did not.

A task emits an event of each asset that is among its outlets when it ends well: so one that changed nothing takes the
asset out of them before. (Not by an alias: on Airflow 3.3.2 two tasks that are the first to add events of one alias at
the same moment fail for good, in the API server.) What was announced is remembered in the asset's state store once
Airflow has the event: a task that dies between the lake's commit and its own end announces on its next try what it
then finds unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.definitions.context import Context

VERSION = "snapshot_id"
"""Field of a result, and of the event's extra, that names the version of what was published."""
TOLD = ("snapshot_id", "rows", "changed", "changes", "columns")
"""Fields of a result that go into the event's extra, where the result has them."""


def register_asset(task: BaseOperator, asset: Asset) -> None:
    """The task emits events of the asset, and remembers what it announced."""
    if asset not in task.outlets:
        task.outlets = [*task.outlets, asset]
    task.on_success_callback = [*task.on_success_callback, remember]


def emit_event(context: Context, asset: Asset, partition: str, result: Mapping[str, Any], key: str = "") -> bool:
    """The asset has an event for this version of the partition once the task has ended well; none where it had it.

    Args:
        context: of the task.
        asset: what was published.
        partition: which part of it.
        result: of the step that published it.
        key: the event's partition key; the run's where it is empty.

    Returns:
        Whether there is an event: False where this very version was announced before, or nothing is there.
    """
    task = context["ti"].task
    if result[VERSION] in (0, context["asset_state_store"][asset].get(_key(partition))):
        task.outlets = [one for one in task.outlets if one != asset]
        return False
    event = context["outlet_events"][asset]
    event.extra = {"partition": partition, **{name: result[name] for name in TOLD if name in result}}
    if key and key != context["dag_run"].partition_key:
        event.add_partitions(key)
    return True


def remember(context: Context) -> None:
    """What was announced is not announced again. To be called when Airflow has the task's events."""
    for asset in context["ti"].task.outlets:
        if isinstance(asset, Asset):
            told = context["outlet_events"][asset].extra
            if VERSION in told:
                context["asset_state_store"][asset].set(_key(str(told["partition"])), told[VERSION])


def _key(partition: str) -> str:
    return f"announced {partition}"
