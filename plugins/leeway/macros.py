"""Functions for templates: hand them to a DAG as `user_defined_macros`."""

from __future__ import annotations

import calendar
from typing import Any

from airflow.sdk.exceptions import AirflowFailException


def as_of(params: Any, dag_run: Any, triggering_asset_events: Any) -> str:
    """The moment of training, YYYY-MM-DD: the DAG's param, else what the drift event says, else the logical date.

    Raises:
        AirflowFailException: none of the three is there: a run started by hand, without a logical date and without the
            param. A retry cannot help.
    """
    if params.get("as_of"):
        return str(params["as_of"])
    told = [
        event.extra["as_of"]
        for events in triggering_asset_events.values()
        for event in events
        if "as_of" in event.extra
    ]
    if told:
        return str(max(told))
    if dag_run.logical_date is None:
        raise AirflowFailException("this run has no logical date: trigger it with the param as_of (YYYY-MM-DD)")
    return str(dag_run.logical_date.date())


def month_end(month: str) -> str:
    """The last day, YYYY-MM-DD, of the month of YYYY-MM or YYYY-MM-DD; empty, so refused, where there is none."""
    try:
        year, number = map(int, month.split("-")[:2])
        return f"{month[:7]}-{calendar.monthrange(year, number)[1]}"
    except ValueError:
        return ""
