"""Build the next event of a model's loop from its history. No function reads or writes data."""

from __future__ import annotations

from typing import Any

from pipelines.loop.events import Event, History, Kind, Outcome
from pipelines.loop.guards import ALERT_GUARDS, HoldBack, Request, combine_hold_backs
from pipelines.loop.policy import Policy
from pipelines.window import DAY


def build_decision(request: Request, history: History, policy: Policy) -> Event | None:
    """Build the event that says that a training starts, or that a guard holds it back.

    Return None if the run already has such an event, and its training has not ended since.
    """
    if history.find_last_decision(request.run):
        return None
    fields: dict[str, Any] = {
        name: getattr(request, name) for name in ("as_of", "trigger", "reason", "drifted_columns", "data")
    }
    hold_back = combine_hold_backs(request, history, policy)
    if hold_back is None:
        # If the run was cleared in Airflow, its training can start and end again: the key tells these events apart.
        key = str(history.count_ends(request.run))
        return Event.create(Kind.STARTED, request.model, request.run, key=key, **fields)
    alert = _needs_alert(hold_back, request, history)
    fields |= {"guard": hold_back.guard, "why": hold_back.why, "until": hold_back.until, "alert": alert}
    return Event.create(Kind.HELD_BACK, request.model, request.run, **fields)


def build_end(model: str, run: str, outcome: Outcome, version: str, history: History) -> Event | None:
    """Build the event that says that the training of a run has ended.

    Return None if the training was not started, or was held back, or has already ended.
    """
    last_decision = history.find_last_decision(run)
    if last_decision is None or last_decision.kind is not Kind.STARTED:
        return None
    fields: dict[str, Any] = {
        "as_of": last_decision.as_of,
        "trigger": last_decision.trigger,
        "data": last_decision.data,
    }
    key = str(history.count_ends(run))
    return Event.create(Kind.ENDED, model, run, key=key, outcome=outcome, version=version, **fields)


def build_reset(model: str, why: str, history: History, run: str = "") -> Event:
    """Build the event that resets the breaker, the guard that pauses retrainings after several did not pass the gate.

    The breaker then counts only the trainings that end after this event.
    """
    return Event.create(Kind.RESET, model, run, key=str(len(history.events)), why=why)


def _needs_alert(hold_back: HoldBack, request: Request, history: History) -> bool:
    """Return whether a person is alerted that a guard holds a training back.

    Only the guards in `ALERT_GUARDS` alert. If the same guard holds trainings back on consecutive days, a person is
    alerted on the first day only.
    """
    last_event = history.events[-1] if history.events else None
    if hold_back.guard not in ALERT_GUARDS or last_event is None:
        return hold_back.guard in ALERT_GUARDS
    is_next_day = last_event.as_of is not None and request.as_of - last_event.as_of <= DAY
    return not (is_next_day and last_event.kind is Kind.HELD_BACK and last_event.guard == hold_back.guard)
