"""Each guard: what is asked, what happened, the policy -> why it is held back, or nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pipelines.loop.events import History, Training
from pipelines.loop.policy import Policy

WEEK_DAYS = 7


@dataclass(frozen=True)
class Request:
    """A training that is asked for, and what is so while it is."""

    model: str
    run: str
    as_of: dt.date
    trigger: str
    now: dt.datetime
    """The clock on the wall."""
    reason: str = ""
    worst: tuple[str, ...] = ()
    data: str = ""
    """Digest of what would be trained on."""
    broken: tuple[str, ...] = ()
    """What validations found wrong with the drifted columns, in words."""
    over_budget: str = ""
    """Why the budget does not allow it; empty where it does."""


@dataclass(frozen=True)
class Held:
    """Why a request is held back."""

    guard: str
    why: str
    until: dt.date | None = None
    """First moment at which it would be let through; none: something has to happen first."""


def data_quality(request: Request, history: History, policy: Policy) -> Held | None:
    """Data that did not pass validation makes drift that a training would learn: the data want mending."""
    if not request.broken:
        return None
    more = f"; and {len(request.broken) - 3} more" if len(request.broken) > 3 else ""
    return Held("data_quality", f"validation failed where drift was seen: {'; '.join(request.broken[:3])}{more}")


def breaker(request: Request, history: History, policy: Policy) -> Held | None:
    """Trainings that do not pass the gate do not mend the drift: somebody has to look."""
    known = {one.run: one for one in _until_now(request, history)}
    last = [known[run] for run in history.tried if run in known][-policy.breaker_after :]
    if len(last) < policy.breaker_after or any(one.outcome == "passed" for one in last):
        return None
    told = ", ".join(f"as of {one.as_of} {one.outcome}" for one in last)
    why = f"the last {len(last)} trainings that drift started did not pass the gate: {told}"
    return Held("breaker", f"{why}; `python -m pipelines loop reset {request.model} --why ...` closes it again")


def same_data(request: Request, history: History, policy: Policy) -> Held | None:
    """The same data never train twice."""
    same = next((one for one in _others(request, history) if request.data and one.data == request.data), None)
    return Held("same_data", f"{same.run} trained on the very same data, as of {same.as_of}") if same else None


def in_flight(request: Request, history: History, policy: Policy) -> Held | None:
    """One at a time: the next is judged by what this one comes to."""
    patience = dt.timedelta(hours=policy.in_flight_h)
    running = [one for one in _others(request, history) if not one.outcome and request.now - one.at < patience]
    if not running:
        return None
    since = f"{running[-1].at:%Y-%m-%d %H:%M} UTC"
    return Held("in_flight", f"{running[-1].run} trains as of {running[-1].as_of}, since {since}")


def cooldown(request: Request, history: History, policy: Policy) -> Held | None:
    """A new model needs days of its own before it can be said to drift."""
    near = [one.as_of for one in _others(request, history) if _apart(one, request) < policy.cooldown_days]
    if not near:
        return None
    last = max(near)
    days = (request.as_of - last).days
    apart = f"{abs(days)} day(s) {'before' if days >= 0 else 'after'} {request.as_of}"
    why = f"the last training was as of {last}, {apart}: {policy.cooldown_days} are to pass"
    return Held("cooldown", why, last + dt.timedelta(policy.cooldown_days))


def per_week(request: Request, history: History, policy: Policy) -> Held | None:
    """At most so many in any seven days."""
    week = dt.timedelta(WEEK_DAYS)
    recent = sorted(one.as_of for one in _others(request, history) if _apart(one, request) < WEEK_DAYS)
    if len(recent) < policy.per_week:
        return None
    why = f"trainings in the week to {request.as_of}: {len(recent)}, the last as of {recent[-1]}"
    return Held("per_week", f"{why}; allowed: {policy.per_week}", recent[-policy.per_week] + week)


def budget(request: Request, history: History, policy: Policy) -> Held | None:
    """Its worst case has to fit what is left of the month."""
    return Held("budget", request.over_budget) if request.over_budget else None


Guard = Callable[[Request, History, Policy], Held | None]
GUARDS: Sequence[Guard] = (data_quality, breaker, same_data, in_flight, cooldown, per_week, budget)
"""The gravest first."""
ALERTING = ("data_quality", "breaker")
"""Guards that only a person can content."""


def findings(request: Request, history: History, policy: Policy) -> list[Held]:
    """What every guard that holds this request back says; only what drift asks for is ever held back.

    Nor is a run that was started before: somebody cleared it, and wants it to run again.
    """
    if request.trigger != "drift" or request.run in history.trainings:
        return []
    found = (guard(request, history, policy) for guard in GUARDS)
    return [one for one in found if one]


def held(request: Request, history: History, policy: Policy) -> Held | None:
    """Why it is held back, by all guards together; None where it may start."""
    found = findings(request, history, policy)
    if not found:
        return None
    days = [one.until for one in found if one.until]
    return Held(found[0].guard, "; ".join(one.why for one in found), max(days) if len(days) == len(found) else None)


def _others(request: Request, history: History) -> Iterator[Training]:
    return (one for one in history.trainings.values() if one.counts and one.run != request.run)


def _apart(one: Training, request: Request) -> int:
    """Days between both moments, whichever is first: days that are asked about in any order start no more."""
    return abs((request.as_of - one.as_of).days)


def _until_now(request: Request, history: History) -> Iterator[Training]:
    """Those of moments up to this one: a replay knows nothing of later ones."""
    return (one for one in _others(request, history) if one.as_of <= request.as_of)
