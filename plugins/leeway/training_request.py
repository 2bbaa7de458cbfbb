"""Read why a DAG run trains a model, and as of which date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException

TRIGGERS = {"asset_triggered": "drift", "backfill": "backfill", "manual": "manual"}
"""Type of a DAG run, to what started the training; all other types stand for the schedule."""


class TrainingRequest(TypedDict):
    """One request for a training."""

    as_of: str
    """Moment of the training, YYYY-MM-DD: labels that became known later are not seen."""
    trigger: str
    """What starts it: drift, schedule, manual or backfill."""
    reason: str
    """Why, in words; empty where it is not drift."""
    worst: list[str] | str
    """Columns that drifted, the worst first; a string has commas between them."""


def read_training_request(context: Context) -> TrainingRequest:
    """Read from a DAG run why it trains a model, and as of which date.

    The DAG's param `as_of` has precedence, then the drift event with the latest as_of, then the run's logical date.

    Raises:
        AirflowFailException: the run has none of these. A retry cannot help.
    """
    run, events = context["dag_run"], context["triggering_asset_events"]
    event = _find_latest_event(events)
    trigger = TRIGGERS.get(str(getattr(run.run_type, "value", run.run_type)), "schedule")
    moment = context["params"].get("as_of")
    if event and not moment:
        reason, worst = str(event.get("reason") or ""), event.get("worst") or []
        return {"as_of": str(event["as_of"]), "trigger": "drift", "reason": reason, "worst": worst}
    if not moment and run.logical_date:
        moment = run.logical_date.date()
    if not moment:
        cause = "its event names no as_of, and " if events else ""
        raise AirflowFailException(
            f"{cause}this run has no logical date: trigger it with the param as_of (YYYY-MM-DD)."
        )
    return {"as_of": str(moment), "trigger": trigger, "reason": "", "worst": []}


def _find_latest_event(triggering_asset_events: Any) -> Mapping[str, Any] | None:
    """Return the extra of the event with the latest `as_of`; None if no event has one: a person may have created it."""
    extras = [event.extra or {} for events in triggering_asset_events.values() for event in events]
    dated = [extra for extra in extras if extra.get("as_of")]
    return max(dated, key=lambda extra: str(extra["as_of"]), default=None)
