"""From what is asked and what happened to the next event."""

from __future__ import annotations

from typing import Any

from pipelines.loop.events import Event, History, Kind, Outcome
from pipelines.loop.guards import ALERTING, Held, Request, held
from pipelines.loop.policy import Policy
from pipelines.window import DAY


def answered(request: Request, history: History, policy: Policy) -> Event | None:
    """The request is started or held back; None where its run was told already."""
    if history.answer(request.run):
        return None
    told: dict[str, Any] = {name: getattr(request, name) for name in ("as_of", "trigger", "reason", "worst", "data")}
    no = held(request, history, policy)
    if no is None:
        key = str(history.ends(request.run))
        return Event.of(Kind.STARTED, request.model, request.run, key=key, **told)
    told |= {"guard": no.guard, "why": no.why, "until": no.until, "alert": _alerts(no, request, history)}
    return Event.of(Kind.HELD_BACK, request.model, request.run, **told)


def ended(model: str, run: str, outcome: Outcome, version: str, history: History) -> Event | None:
    """The run's training has ended; None where that is known, or it was never started."""
    told = history.answer(run)
    if told is None or told.kind is not Kind.STARTED:
        return None
    kept: dict[str, Any] = {"as_of": told.as_of, "trigger": told.trigger, "data": told.data}
    return Event.of(Kind.ENDED, model, run, key=str(history.ends(run)), outcome=outcome, version=version, **kept)


def reset(model: str, why: str, history: History) -> Event:
    """What drift started before does not count for the breaker any more."""
    return Event.of(Kind.RESET, model, key=str(len(history.events)), why=why)


def _alerts(no: Held, request: Request, history: History) -> bool:
    """Once: while the same guard goes on holding, drift of each further day is not news."""
    last = history.events[-1] if history.events else None
    going_on = last and last.as_of and request.as_of - last.as_of <= DAY
    return no.guard in ALERTING and not (last and going_on and last.kind is Kind.HELD_BACK and last.guard == no.guard)
