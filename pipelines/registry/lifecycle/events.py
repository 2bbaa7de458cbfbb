"""Events of a model, and their fold: its state."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from pipelines.settings import actor, settings


class Kind(StrEnum):
    """What can happen to a version."""

    REGISTERED = "registered"
    JUDGED = "judged"
    APPROVED = "approved"
    REJECTED = "rejected"
    PROMOTED = "promoted"
    ROLLED_BACK = "rolled_back"
    RETIRED = "retired"
    ALIAS_MOVED = "alias_moved"


@dataclass(frozen=True)
class Event:
    """Something that happened, once."""

    id: str
    """Digest of what makes it this event: the same event has the same id, whoever tells it again."""
    model: str
    kind: Kind
    version: str
    """Version that it is about; of `rolled_back`, the one that was taken out of service."""
    from_version: str
    """Champion before; empty where there was none, or it is not about the champion."""
    to_version: str
    """Champion after."""
    at: dt.datetime
    who: str
    why: str
    evidence: Mapping[str, Any]
    """What it was decided on."""

    @classmethod
    def of(
        cls,
        kind: Kind,
        model: str,
        version: str,
        *,
        moved: tuple[str, str] = ("", ""),
        why: str = "",
        evidence: Mapping[str, Any] | None = None,
        key: str = "",
    ) -> Self:
        """The event as of now, told by whom this process works for.

        Args:
            kind: what happened.
            model: registered model.
            version: its version.
            moved: champion before and after.
            why: in words.
            evidence: what it was decided on; the DAG run is added.
            key: what else makes it another event than one of the same kind, version and champions.
        """
        named = json.dumps([model, kind, version, *moved, key])
        told = {**(evidence or {}), **({"run": settings().run} if settings().run else {})}
        return cls(
            id=hashlib.sha256(named.encode()).hexdigest()[:32],
            model=model,
            kind=kind,
            version=version,
            from_version=moved[0],
            to_version=moved[1],
            at=dt.datetime.now(dt.UTC),
            who=actor(),
            why=why,
            evidence=told,
        )

    @property
    def moves(self) -> bool:
        """Whether the champion changed. An alias that was put back changed nothing."""
        kept = self.kind is Kind.ALIAS_MOVED and self.evidence.get("kept", False)
        return kept or self.kind in (Kind.PROMOTED, Kind.ROLLED_BACK)

    @property
    def favours(self) -> bool:
        """Whether it lets a version be the challenger. What a backfill judged is of the past: it moves no alias."""
        passed = self.evidence.get("verdict") == "passed" and not self.evidence.get("backfill")
        return self.kind is Kind.APPROVED or (self.kind is Kind.JUDGED and passed)


@dataclass(frozen=True)
class State:
    """What is so after some events."""

    events: tuple[Event, ...] = field(default=(), repr=False)
    """They, oldest first."""
    champion: str = ""
    """Version; empty where there is none."""
    previous: tuple[str, ...] = ()
    """Champions before, the last one last; not those that were rolled back."""
    blocked: Mapping[str, str] = field(default_factory=dict)
    """Version that may not be promoted, to why."""
    standing: Mapping[str, Event] = field(default_factory=dict)
    """Version to its last verdict, approval or rejection."""
    move: Event | None = None
    """The last that changed the champion."""

    @property
    def challenger(self) -> str:
        """The newest version that passed or was approved, registered after the champion, and never was one itself.

        Only after the champion: what it has beaten, or what was passed over, challenges nobody. Empty where there is
        none.
        """
        out = {*self.blocked, *self.previous}
        able = [version for version, event in self.standing.items() if event.favours and version not in out]
        return max((one for one in able if int(one) > int(self.champion or 0)), key=int, default="")

    def after(self, event: Event) -> State:
        """What is so when this event has happened, too."""
        state = replace(self, events=(*self.events, event))
        if event.moves:
            return _moved(state, event)
        if event.kind is Kind.RETIRED:
            return replace(state, blocked={**state.blocked, event.version: f"it was retired: {event.why}"})
        if event.kind in (Kind.JUDGED, Kind.APPROVED, Kind.REJECTED):
            return replace(state, standing={**state.standing, event.version: event})
        return state


def fold(events: Iterable[Event]) -> State:
    """The state after all of them, oldest first."""
    state = State()
    for event in events:
        state = state.after(event)
    return state


def _moved(state: State, event: Event) -> State:
    to, before = event.to_version, state.previous
    blocked = {version: why for version, why in state.blocked.items() if version != to}
    if event.kind is Kind.ROLLED_BACK:
        before = before[: before.index(to)] if to in before else before
        blocked[event.version] = f"it was rolled back: {event.why}"
    else:
        before = (*(one for one in before if one != to), *filter(None, [state.champion]))
    return replace(state, champion=to, previous=before, blocked=blocked, move=event)
