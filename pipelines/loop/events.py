"""Define the events of the loop, and build the history of trainings from them."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, Self

from pipelines.settings import get_actor

Trigger = Literal["drift", "schedule", "manual", "backfill"]
"""What requests a training. `drift`: the step `drift`, because of drift or because the last training is too old."""
Outcome = Literal["passed", "not_passed", "failed"]
"""How a training ended. `not_passed`: its version did not pass the gate, or a person rejected the version. `failed`:
the run ended before the gate judged a version."""


class Kind(StrEnum):
    """Kinds of events: a training was started, was held back or ended; or a person reset the breaker."""

    STARTED = "started"
    HELD_BACK = "held_back"
    ENDED = "ended"
    RESET = "reset"


@dataclass(frozen=True)
class Event:
    """One event of a model's loop."""

    id: str
    """Digest that identifies the event: an event that is recorded twice has the same id both times."""
    model: str
    kind: Kind
    at: dt.datetime
    """Wall-clock time of the event, with time zone."""
    who: str
    """User or service that caused the event."""
    run: str = ""
    """Run of a DAG, DAG/RUN; empty outside of Airflow."""
    as_of: dt.date | None = None
    """As_of of the training; None for a reset."""
    trigger: str = ""
    """What requested the training: see `Trigger`."""
    reason: str = ""
    """Why the training was requested."""
    drifted_columns: tuple[str, ...] = ()
    """Columns that drifted, the one furthest over its bound first."""
    guard: str = ""
    """Guard that held the training back; the most serious of several."""
    why: str = ""
    """Why the training was held back, or the breaker was reset."""
    until: dt.date | None = None
    """First as_of at which the guards would allow the training; None if waiting is not enough."""
    alert: bool = False
    """Whether to alert a person."""
    data: str = ""
    """Digest of the data of the training's window."""
    outcome: str = ""
    """How the training ended: see `Outcome`; empty for other events."""
    version: str = ""
    """Version that the gate of an ended training judged; empty if no version was registered."""

    @classmethod
    def create(cls, kind: Kind, model: str, run: str = "", *, key: str = "", **fields: Any) -> Self:
        """Create an event with the current time and the current user.

        Args:
            kind: kind of the event.
            model: registered model.
            run: run of a DAG, DAG/RUN.
            key: text that distinguishes the event from others of the same kind and run, such as a number.
            fields: the other fields.
        """
        event_id = hashlib.sha256(json.dumps([model, kind, run, key]).encode()).hexdigest()[:32]
        return cls(event_id, model, kind, dt.datetime.now(dt.UTC), get_actor(), run, **fields)


@dataclass(frozen=True)
class Training:
    """A training that was started."""

    run: str
    """Run of a DAG, DAG/RUN."""
    as_of: dt.date
    trigger: str
    """What requested the training: see `Trigger`."""
    data: str
    """Digest of the data of the training's window."""
    at: dt.datetime
    """Wall-clock time at which the training was last started."""
    outcome: str = ""
    """How the training ended: see `Outcome`; empty until its end is recorded."""
    version: str = ""
    """Version that the gate judged; two runs that trained the same model share one version. Empty if there is none."""

    @property
    def is_counted_by_guards(self) -> bool:
        """Whether the guards count the training. They do not count backfills, which normally promote nothing."""
        return self.trigger != "backfill"


@dataclass(frozen=True)
class History:
    """The state of a model's loop after its events."""

    events: tuple[Event, ...] = field(default=(), repr=False)
    """The events, oldest first."""
    trainings: Mapping[str, Training] = field(default_factory=dict)
    """Maps each run to its training. A run that runs again, because a person cleared it in Airflow, has one
    training."""
    breaker_runs: tuple[str, ...] = ()
    """Runs with the trigger `drift` whose training ended since the last reset, newest last."""

    def find_last_decision(self, run: str) -> Event | None:
        """Return the event by which the run's training was last started or held back.

        Return None if there is no such event, or if the training has ended since.
        """
        events = [event for event in self.events if event.run == run and event.kind is not Kind.RESET]
        return events[-1] if events and events[-1].kind is not Kind.ENDED else None

    def count_ends(self, run: str) -> int:
        """Count how often the run's training ended; if the run was cleared in Airflow, it can end more than once."""
        return sum(event.run == run and event.kind is Kind.ENDED for event in self.events)

    def add(self, event: Event) -> History:
        """Return the history with this event as its last."""
        history = replace(self, events=(*self.events, event))
        if event.kind is Kind.STARTED and event.as_of:
            training = Training(event.run, event.as_of, event.trigger, event.data, event.at)
            return replace(history, trainings={**self.trainings, event.run: training})
        if event.kind is Kind.ENDED and event.run in self.trainings:
            return _add_end(history, event)
        return replace(history, breaker_runs=()) if event.kind is Kind.RESET else history


def build_history(events: Iterable[Event]) -> History:
    """Build the history from the events, oldest first."""
    history = History()
    for event in events:
        history = history.add(event)
    return history


def _add_end(history: History, event: Event) -> History:
    training = replace(history.trainings[event.run], outcome=event.outcome, version=event.version)
    drift_run = (event.run,) if training.trigger == "drift" else ()
    breaker_runs = (*(run for run in history.breaker_runs if run != event.run), *drift_run)
    return replace(history, trainings={**history.trainings, event.run: training}, breaker_runs=breaker_runs)
