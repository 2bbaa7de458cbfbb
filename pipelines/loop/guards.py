"""Decide whether to hold back a request for a training.

Each guard is a function of the request, the history and the policy. It returns a `HoldBack`, or None if it allows the
request.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipelines.loop.events import History, Training
from pipelines.loop.policy import Policy

WEEK_DAYS = 7


@dataclass(frozen=True)
class Request:
    """A request for a training, with the facts that the guards need."""

    model: str
    """Registered model."""
    run: str
    """Run of a DAG that makes the request, DAG/RUN."""
    as_of: dt.date
    """As_of of the training: it sees only rows whose label was known before this day."""
    trigger: str
    """What makes the request: `drift` (by drift, or by the age of the last training), `schedule`, `manual` or
    `backfill`."""
    now: dt.datetime
    """Wall-clock time of the request."""
    reason: str = ""
    """Why the training is requested."""
    drifted_columns: tuple[str, ...] = ()
    """Columns that drifted, the one furthest over its bound first."""
    data: str = ""
    """Digest of the data of the training's window."""
    failed_validations: tuple[str, ...] = ()
    """Failures in the validations of the days before `as_of`, one text each."""
    budget_refusal: str = ""
    """Why the budget does not allow the training; empty if the budget allows it."""


@dataclass(frozen=True)
class HoldBack:
    """The decision of a guard that holds a request back."""

    guard: str
    """Name of the guard."""
    why: str
    """Why the guard holds the request back."""
    until: dt.date | None = None
    """First as_of at which the guard would allow the request; None if waiting is not enough."""


def check_data_quality(request: Request, history: History, policy: Policy) -> HoldBack | None:
    """Hold back if validation failed: the data must be corrected first, because a model would learn from bad data."""
    failures = request.failed_validations
    if not failures:
        return None
    remainder = f"; and {len(failures) - 3} more" if len(failures) > 3 else ""
    return HoldBack(
        "data_quality", f"validation failed on days before the training: {'; '.join(failures[:3])}{remainder}"
    )


def check_breaker(request: Request, history: History, policy: Policy) -> HoldBack | None:
    """Hold back if the last trainings did not pass the gate: retraining does not help, so a person has to find out why.

    A training counts only if its trigger is `drift`, and if it ended after the last reset of the breaker. After
    `policy.breaker_days` days the guard allows one training, because its holdout has new days. If that training does
    not pass either, the guard holds back for the same time again.
    """
    trainings = {training.run: training for training in _list_earlier_trainings(request, history)}
    last_trainings = [trainings[run] for run in history.breaker_runs if run in trainings][-policy.breaker_after :]
    if len(last_trainings) < policy.breaker_after or any(training.outcome == "passed" for training in last_trainings):
        return None
    last_date = max(training.as_of for training in last_trainings)
    end = last_date + dt.timedelta(policy.breaker_days) if policy.breaker_days else None
    if end and request.as_of >= end:
        return None
    return HoldBack("breaker", _explain_breaker(request.model, last_trainings, end), end)


def check_same_data(request: Request, history: History, policy: Policy) -> HoldBack | None:
    """Hold back if another training used the same data, even if it failed: the same data give the same model."""
    trainings = _list_other_trainings(request, history)
    match = next((training for training in trainings if request.data and training.data == request.data), None)
    return HoldBack("same_data", f"{match.run} trained on the same data, as of {match.as_of}") if match else None


def check_in_flight(request: Request, history: History, policy: Policy) -> HoldBack | None:
    """Hold back while another training runs: its result decides whether the next one is needed.

    A training without a recorded end counts as running for `policy.in_flight_h` hours.
    """
    limit = dt.timedelta(hours=policy.in_flight_h)
    trainings = _list_other_trainings(request, history)
    running_trainings = [
        training for training in trainings if not training.outcome and request.now - training.at < limit
    ]
    if not running_trainings:
        return None
    start_text = f"{running_trainings[-1].at:%Y-%m-%d %H:%M} UTC"
    return HoldBack(
        "in_flight", f"{running_trainings[-1].run} trains as of {running_trainings[-1].as_of}, since {start_text}"
    )


def check_cooldown(request: Request, history: History, policy: Policy) -> HoldBack | None:
    """Hold back if the as_of of another training is too close: drift is measured over days after a training."""
    trainings = _list_other_trainings(request, history)
    near_dates = [
        training.as_of for training in trainings if _count_days_between(training, request) < policy.cooldown_days
    ]
    if not near_dates:
        return None
    last_date = max(near_dates)
    days = (request.as_of - last_date).days
    distance = f"{abs(days)} day(s) {'before' if days >= 0 else 'after'} {request.as_of}"
    reason = f"the last training was as of {last_date}, {distance}: the policy demands {policy.cooldown_days} days"
    return HoldBack("cooldown", reason, last_date + dt.timedelta(policy.cooldown_days))


def check_per_week(request: Request, history: History, policy: Policy) -> HoldBack | None:
    """Hold back if `policy.per_week` or more trainings have an as_of less than seven days from that of the request.

    Backfills are not counted.
    """
    week = dt.timedelta(WEEK_DAYS)
    trainings = _list_other_trainings(request, history)
    near_dates = sorted(training.as_of for training in trainings if _count_days_between(training, request) < WEEK_DAYS)
    if len(near_dates) < policy.per_week:
        return None
    reason = f"trainings within a week of {request.as_of}: {len(near_dates)}, the last as of {near_dates[-1]}"
    return HoldBack("per_week", f"{reason}; allowed: {policy.per_week}", near_dates[-policy.per_week] + week)


def check_age(request: Request, history: History, policy: Policy) -> HoldBack | None:
    """Hold back a run of the schedule if the last training is younger than `policy.max_age_days`."""
    last_training = find_last_training(history, request.as_of)
    if not policy.max_age_days or last_training is None:
        return None
    end = last_training.as_of + dt.timedelta(policy.max_age_days)
    if request.as_of >= end:
        return None
    days = (request.as_of - last_training.as_of).days
    return HoldBack(
        "age", f"the last training was as of {last_training.as_of}, {days} day(s) before {request.as_of}", end
    )


def check_budget(request: Request, history: History, policy: Policy) -> HoldBack | None:
    """Hold back if the budget does not allow the worst-case cost of the training."""
    return HoldBack("budget", request.budget_refusal) if request.budget_refusal else None


Guard = Callable[[Request, History, Policy], HoldBack | None]
GUARDS: Mapping[str, Guard] = {
    "data_quality": check_data_quality,
    "breaker": check_breaker,
    "same_data": check_same_data,
    "in_flight": check_in_flight,
    "cooldown": check_cooldown,
    "per_week": check_per_week,
    "budget": check_budget,
}
"""The guards of requests with the trigger `drift`, by name; the most serious is first."""
SCHEDULE_GUARDS: Mapping[str, Guard] = {"age": check_age}
"""The guards of the schedule's runs."""
ALERT_GUARDS = ("data_quality", "breaker")
"""Names of the guards that alert a person, because a person has to look at the data or at the trainings."""


def list_hold_backs(request: Request, history: History, policy: Policy) -> list[HoldBack]:
    """List the decisions of all guards that hold this request back.

    A request by a person or a backfill is never held back. A run that has already started a training is not held back
    either: it runs again because a person cleared it in Airflow.
    """
    if request.run in history.trainings:
        return []
    guards = {"drift": GUARDS, "schedule": SCHEDULE_GUARDS}.get(request.trigger, {})
    hold_backs = (guard(request, history, policy) for guard in guards.values())
    return [hold_back for hold_back in hold_backs if hold_back]


def combine_hold_backs(request: Request, history: History, policy: Policy) -> HoldBack | None:
    """Combine the decisions of all guards that hold the request back into one; None if no guard holds it back.

    The combined decision has the name of the most serious guard, the reasons of all guards, and the latest `until`; no
    `until` if one of the guards has none.
    """
    hold_backs = list_hold_backs(request, history, policy)
    if not hold_backs:
        return None
    days = [hold_back.until for hold_back in hold_backs if hold_back.until]
    reasons = "; ".join(hold_back.why for hold_back in hold_backs)
    return HoldBack(hold_backs[0].guard, reasons, max(days) if len(days) == len(hold_backs) else None)


def find_last_training(history: History, as_of: dt.date) -> Training | None:
    """Return the training with the latest as_of before this date; None if there is none.

    Backfills are left out, and so are trainings that failed, because these gave no model.
    """
    trainings = (training for training in history.trainings.values() if training.is_counted_by_guards)
    earlier_trainings = [training for training in trainings if training.as_of < as_of and training.outcome != "failed"]
    return max(earlier_trainings, key=lambda training: training.as_of, default=None)


def _list_other_trainings(request: Request, history: History) -> Iterator[Training]:
    """Yield all trainings except backfills and the training of the request's run."""
    return (
        training
        for training in history.trainings.values()
        if training.is_counted_by_guards and training.run != request.run
    )


def _count_days_between(training: Training, request: Request) -> int:
    """Return the number of days between the as_of of the training and that of the request; never below 0."""
    return abs((request.as_of - training.as_of).days)


def _list_earlier_trainings(request: Request, history: History) -> Iterator[Training]:
    """Yield the other trainings whose as_of is not later than the request's: a replay must not see later ones."""
    return (training for training in _list_other_trainings(request, history) if training.as_of <= request.as_of)


def _explain_breaker(model: str, trainings: Sequence[Training], until: dt.date | None) -> str:
    results = ", ".join(f"as of {training.as_of} {training.outcome}" for training in trainings)
    retry = f"the breaker allows the next one as of {until}; " if until else ""
    return (
        f"the last {len(trainings)} trainings that drift started did not pass the gate: {results}; {retry}"
        f"to reset the breaker: `python -m pipelines loop reset {model} --why ...`"
    )
