"""Emit an asset event when a model has another champion, and none if it has the same one.

As in `leeway.hooks.step.asset_events`, the champion is written to the asset's state store when Airflow has its event.
If a task dies after it changed the champion, its next try changes nothing, but emits the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.definitions.context import Context

CHAMPION = "champion"
"""Key in an event's extra, and in the asset's state store: the version that became champion."""


def build_champion_asset(model: str) -> Asset:
    """Return the asset of a model's champion: it gets an event for each change."""
    return Asset(name=f"{model}_champion", uri=f"x-leeway://champion/{model}")


def register_champion_asset(task: BaseOperator, asset: Asset) -> None:
    """Add the asset to the task's outlets, and make the task call `remember_champion` when it has succeeded."""
    if asset not in task.outlets:
        task.outlets = [*task.outlets, asset]
    task.on_success_callback = [*task.on_success_callback, remember_champion]


def prepare_champion_event(context: Context, asset: Asset, champion: str, result: Mapping[str, Any]) -> None:
    """Prepare the event about the champion that Airflow emits when the task succeeds; none if it had an event already.

    If this call changed the champion, there is always an event: a command may have changed it since the last event.

    Args:
        context: context of the task.
        asset: the model's `build_champion_asset`.
        champion: version that is champion now; empty: the task did not make a version the champion.
        result: result of the step `promote` or `rollback`.
    """
    task = context["ti"].task
    is_new = result["changed"] or champion != context["asset_state_store"][asset].get(CHAMPION)
    if not champion or not is_new:
        task.outlets = [outlet for outlet in task.outlets if outlet != asset]
        return
    fields = {name: result[name] for name in ("previous", "reason")}
    context["outlet_events"][asset].extra = {CHAMPION: champion, **fields}


def remember_champion(context: Context) -> None:
    """Write the champion that had an event to the asset's state store. Call it when Airflow has the task's events."""
    for asset in context["ti"].task.outlets:
        if isinstance(asset, Asset):
            extra = context["outlet_events"][asset].extra
            if CHAMPION in extra:
                context["asset_state_store"][asset].set(CHAMPION, extra[CHAMPION])
