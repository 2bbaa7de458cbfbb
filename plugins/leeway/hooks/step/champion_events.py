"""Emit an asset event when a model gets another champion, and none if the champion stays the same.

As in `leeway.hooks.step.asset_events`, the champion is written to the asset's state store after Airflow has stored the
event. If a task dies after it changed the champion, its next try changes nothing, but emits the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.definitions.context import Context

CHAMPION = "champion"
"""Key in an event's extra and in the asset's state store. Its value is the version that became champion."""


def build_champion_asset(model: str) -> Asset:
    """Return the asset of a model's champion. It gets an event each time that another version becomes champion."""
    return Asset(name=f"{model}_champion", uri=f"x-leeway://champion/{model}")


def register_champion_asset(task: BaseOperator, asset: Asset) -> None:
    """Add the asset to the task's outlets, and make Airflow call `store_champion` when the task has succeeded."""
    if asset not in task.outlets:
        task.outlets = [*task.outlets, asset]
    task.on_success_callback = [*task.on_success_callback, store_champion]


def prepare_champion_event(context: Context, asset: Asset, champion: str, result: Mapping[str, Any]) -> None:
    """Prepare the event that Airflow emits when the task succeeds; none if the last event was for this champion.

    If the step changed the champion, there is always an event, even for the version of the last event: in between, a
    command, which emits no events, may have made another version the champion.

    Args:
        context: context of the task.
        asset: asset of the model's champion, as `build_champion_asset` returns it.
        champion: version that is champion now; empty if the task did not make a version the champion.
        result: Result of the step `promote` or `rollback`.
    """
    task = context["ti"].task
    is_new = result["changed"] or champion != context["asset_state_store"][asset].get(CHAMPION)
    if not champion or not is_new:
        task.outlets = [outlet for outlet in task.outlets if outlet != asset]
        return
    fields = {name: result[name] for name in ("previous", "reason")}
    context["outlet_events"][asset].extra = {CHAMPION: champion, **fields}


def store_champion(context: Context) -> None:
    """Write the champion of an emitted event to the asset's state store. Airflow calls this after a success."""
    for asset in context["ti"].task.outlets:
        if isinstance(asset, Asset):
            extra = context["outlet_events"][asset].extra
            if CHAMPION in extra:
                context["asset_state_store"][asset].set(CHAMPION, extra[CHAMPION])
