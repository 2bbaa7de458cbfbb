"""Read why a DAG run trains a model, and as of which date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException

TRIGGERS = {"asset_triggered": "drift", "backfill": "backfill", "manual": "manual"}
"""What started the training, by the type of the DAG run. A run of any other type was started by the schedule."""


class TrainingRequest(TypedDict):
    """One request for a training."""

    as_of: str
    """Moment of the training, YYYY-MM-DD: it sees only rows whose label was known before this day."""
    trigger: str
    """What started the DAG run: drift (any event of the asset MODEL_drift), schedule, manual or backfill."""
    reason: str
    """Why the training is requested: text of the drift event, or a person's reason for a tuning; else empty."""
    drifted_columns: list[str] | str
    """Columns that drifted, the worst first: a list, or a text with commas between the names."""


def read_training_request(context: Context) -> TrainingRequest:
    """Read from a DAG run why it trains a model, and as of which date.

    The DAG's param `as_of` has precedence, then the drift event with the latest as_of, then the run's logical date.

    Raises:
        AirflowFailException: the run has none of these. A retry cannot help.
    """
    dag_run, events = context["dag_run"], context["triggering_asset_events"]
    extra = _find_latest_extra(events)
    trigger = TRIGGERS.get(str(getattr(dag_run.run_type, "value", dag_run.run_type)), "schedule")
    as_of = context["params"].get("as_of")
    if extra and not as_of:
        reason, drifted_columns = str(extra.get("reason") or ""), extra.get("drifted_columns") or []
        return {"as_of": str(extra["as_of"]), "trigger": "drift", "reason": reason, "drifted_columns": drifted_columns}
    if not as_of and dag_run.logical_date:
        as_of = dag_run.logical_date.date()
    if not as_of:
        cause = "the asset event names no as_of, and " if events else ""
        raise AirflowFailException(
            f"{cause}this run has no logical date: trigger the DAG with the param as_of (YYYY-MM-DD)."
        )
    return {"as_of": str(as_of), "trigger": trigger, "reason": "", "drifted_columns": []}


def _find_latest_extra(triggering_asset_events: Any) -> Mapping[str, Any] | None:
    """Return the extra of the asset event with the latest `as_of`; None if no event has an `as_of`."""
    extras = [event.extra or {} for events in triggering_asset_events.values() for event in events]
    # An event that a person created may have no as_of.
    extras_with_as_of = [extra for extra in extras if extra.get("as_of")]
    return max(extras_with_as_of, key=lambda extra: str(extra["as_of"]), default=None)
