"""Functions for templates: hand them to a DAG as `user_defined_macros`."""

from __future__ import annotations

import calendar
import json
from typing import Any

from airflow.sdk.exceptions import AirflowFailException


def as_of(params: Any, dag_run: Any, triggering_asset_events: Any) -> str:
    """The moment of training, YYYY-MM-DD: the DAG's param, else what the drift event says, else the logical date.

    Raises:
        AirflowFailException: none of the three is there: a run started by hand, without a logical date and without the
            param, or by an event that was made by hand. A retry cannot help.
    """
    if params.get("as_of"):
        return str(params["as_of"])
    told = _told(triggering_asset_events)
    if told:
        return str(told["as_of"])
    if dag_run.logical_date is None:
        event = "its event names no as_of, and " if triggering_asset_events else ""
        raise AirflowFailException(f"{event}this run has no logical date: trigger it with the param as_of (YYYY-MM-DD)")
    return str(dag_run.logical_date.date())


def asked(params: Any, dag_run: Any, triggering_asset_events: Any) -> dict[str, str]:
    """Who asks for this training, and why: trigger (drift, schedule, manual, backfill), reason and worst.

    The latter two are the drift event's; of several events those of the latest moment, as of which the run trains.
    """
    kind = str(getattr(dag_run.run_type, "value", dag_run.run_type))
    trigger = {"asset_triggered": "drift", "backfill": "backfill", "manual": "manual"}.get(kind, "schedule")
    told = _told(triggering_asset_events)
    if not told or params.get("as_of"):
        return {"trigger": trigger, "reason": "", "worst": ""}
    worst = told.get("worst") or ""
    names = worst if isinstance(worst, str) else json.dumps(worst)  # a name may hold a comma
    return {"trigger": "drift", "reason": str(told.get("reason") or ""), "worst": names}


def _told(triggering_asset_events: Any) -> dict[str, Any]:
    """What the drift event of the latest moment says; nothing where there is none that names its moment."""
    extras = [event.extra or {} for events in triggering_asset_events.values() for event in events]
    told = [extra for extra in extras if extra.get("as_of")]
    return max(told, key=lambda extra: str(extra["as_of"]), default={})


def month_end(month: str) -> str:
    """The last day, YYYY-MM-DD, of the month of YYYY-MM or YYYY-MM-DD; empty, so refused, where there is none."""
    try:
        year, number = map(int, month.split("-")[:2])
        return f"{month[:7]}-{calendar.monthrange(year, number)[1]}"
    except ValueError:
        return ""
