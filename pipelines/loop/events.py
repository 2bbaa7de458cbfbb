"""Events of the loop, and their fold: what was trained, and what became of it."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, Self

from pipelines.settings import actor

Trigger = Literal["drift", "schedule", "manual", "backfill"]
Outcome = Literal["passed", "not_passed", "failed"]


class Kind(StrEnum):
    """What can happen."""

    STARTED = "started"
    HELD_BACK = "held_back"
    ENDED = "ended"
    RESET = "reset"


@dataclass(frozen=True)
class Event:
    """Something that happened, once."""

    id: str
    """Digest of what makes it this event: the same event has the same id, whoever tells it again."""
    model: str
    kind: Kind
    at: dt.datetime
    who: str
    run: str = ""
    """Run of a DAG, DAG/RUN; empty of a reset."""
    as_of: dt.date | None = None
    """Moment of the training; none of a reset."""
    trigger: str = ""
    reason: str = ""
    """Why a training was asked for."""
    worst: tuple[str, ...] = ()
    """Columns that drifted, the worst first."""
    guard: str = ""
    """Guard that held it back: the first, where several did."""
    why: str = ""
    """Why it was held back, or reset."""
    until: dt.date | None = None
    """First moment at which the guards would let it through by themselves; none: something has to happen first."""
    alert: bool = False
    """Whether somebody should look at it."""
    data: str = ""
    """Digest of what would be trained on."""
    outcome: str = ""
    """Of one that ended: passed, not_passed, failed."""
    version: str = ""
    """Of one that ended: what its gate judged; empty where it did not come so far."""

    @classmethod
    def of(cls, kind: Kind, model: str, run: str = "", *, key: str = "", **more: Any) -> Self:
        """The event as of now, told by whom this process works for.

        Args:
            kind: what happened.
            model: registered model.
            run: run of a DAG.
            key: what else makes it another event than one of the same kind and run.
            more: the other fields.
        """
        named = hashlib.sha256(json.dumps([model, kind, run, key]).encode()).hexdigest()[:32]
        return cls(named, model, kind, dt.datetime.now(dt.UTC), actor(), run, **more)


@dataclass(frozen=True)
class Training:
    """A training that was started."""

    run: str
    as_of: dt.date
    trigger: str
    data: str
    at: dt.datetime
    """When it was started, last."""
    outcome: str = ""
    """Empty while it runs."""
    version: str = ""
    """What its gate judged; two runs that made the same model share one."""

    @property
    def counts(self) -> bool:
        """Whether the guards count it: a backfill plays the past, and as a rule promotes nothing."""
        return self.trigger != "backfill"


@dataclass(frozen=True)
class History:
    """What is so after some events."""

    events: tuple[Event, ...] = field(default=(), repr=False)
    """They, oldest first."""
    trainings: Mapping[str, Training] = field(default_factory=dict)
    """By run; one that was cleared and runs again is one."""
    tried: tuple[str, ...] = ()
    """Runs that drift started and that ended since the last reset, the last one last."""

    def answer(self, run: str) -> Event | None:
        """What this run was told; None where it was told nothing yet, or has ended since."""
        told = [one for one in self.events if one.run == run]
        return told[-1] if told and told[-1].kind is not Kind.ENDED else None

    def ends(self, run: str) -> int:
        """How often the run ended: more than once where somebody cleared it."""
        return sum(one.run == run and one.kind is Kind.ENDED for one in self.events)

    def after(self, event: Event) -> History:
        """What is so when this event has happened, too."""
        history = replace(self, events=(*self.events, event))
        if event.kind is Kind.STARTED and event.as_of:
            made = Training(event.run, event.as_of, event.trigger, event.data, event.at)
            return replace(history, trainings={**self.trainings, event.run: made})
        if event.kind is Kind.ENDED and event.run in self.trainings:
            return _ended(history, event)
        return replace(history, tried=()) if event.kind is Kind.RESET else history


def fold(events: Iterable[Event]) -> History:
    """What is so after all of them, oldest first."""
    history = History()
    for event in events:
        history = history.after(event)
    return history


def _ended(history: History, event: Event) -> History:
    done = replace(history.trainings[event.run], outcome=event.outcome, version=event.version)
    ours = (event.run,) if done.trigger == "drift" else ()
    tried = (*(run for run in history.tried if run != event.run), *ours)
    return replace(history, trainings={**history.trainings, event.run: done}, tried=tried)
