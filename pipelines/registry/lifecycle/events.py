"""Define the events of a model, and compute the state of the model from them."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from pipelines.settings import get_actor, settings

PACKAGE_DIGEST = "package_digest"
"""Key in the evidence of a verdict: SHA-256 of the judged package (the version's files in MLflow). Later, only
files with this digest are loaded."""
ORIGIN = "origin"
"""Key in the evidence of a registration: what the version was made from; see `registry.lineage.ORIGIN_KEYS`."""
CHECKS = "checks"
"""Key in the evidence of a verdict: the measured values, each with name, value, low, high and outcome."""


class Kind(StrEnum):
    """The kinds of events of a version."""

    REGISTERED = "registered"
    JUDGED = "judged"
    APPROVED = "approved"
    REJECTED = "rejected"
    PROMOTED = "promoted"
    ROLLED_BACK = "rolled_back"
    RETIRED = "retired"
    ALIAS_MOVED = "alias_moved"
    DEPLOYED = "deployed"
    DEPLOYMENT_FAILED = "deployment_failed"
    UNDEPLOYED = "undeployed"
    SHADOW_PASSED = "shadow_passed"
    SHADOW_FAILED = "shadow_failed"
    SHADOW_UNDECIDED = "shadow_undecided"


DEPLOYMENT_KINDS = (Kind.DEPLOYED, Kind.DEPLOYMENT_FAILED, Kind.UNDEPLOYED)
"""The kinds of events about an endpoint, whose name is in their evidence."""
SHADOW_KINDS = (Kind.SHADOW_PASSED, Kind.SHADOW_FAILED, Kind.SHADOW_UNDECIDED)
"""The kinds of events about a version that ran as the shadow variant of an endpoint. They do not change the state."""


@dataclass(frozen=True)
class Event:
    """One event in the life of a model version."""

    id: str
    """Digest of the fields that identify the event. An event whose id is in the table already is not added again."""
    model: str
    """Registered model."""
    kind: Kind
    """What happened."""
    version: str
    """Version that the event is about; for `rolled_back`, the version that was champion before."""
    from_version: str
    """Champion before the event; empty if there was none, or if the event does not concern the champion."""
    to_version: str
    """Champion after the event; empty if there is none, or if the event does not concern the champion."""
    at: dt.datetime
    """Time at which the event was recorded, UTC."""
    who: str
    """Person or process that caused the event."""
    why: str
    """The reason, in words."""
    evidence: Mapping[str, Any]
    """What the decision was based on."""

    @classmethod
    def create(
        cls,
        kind: Kind,
        model: str,
        version: str,
        *,
        champions: tuple[str, str] = ("", ""),
        why: str = "",
        evidence: Mapping[str, Any] | None = None,
        key: str = "",
    ) -> Self:
        """Make an event with the current time, the actor (see `pipelines.settings.get_actor`) and the DAG run.

        Args:
            kind: what happened.
            model: registered model.
            version: its version.
            champions: champion before and after; two empty texts if the event does not concern the champion.
            why: the reason, in words.
            evidence: what the decision was based on; the DAG run is added.
            key: distinguishes the event from others of the same kind, version and champions.
        """
        identity = json.dumps([model, kind, version, *champions, key])
        run = {"run": settings().run} if settings().run else {}
        return cls(
            id=hashlib.sha256(identity.encode()).hexdigest()[:32],
            model=model,
            kind=kind,
            version=version,
            from_version=champions[0],
            to_version=champions[1],
            at=dt.datetime.now(dt.UTC),
            who=get_actor(),
            why=why,
            evidence={**(evidence or {}), **run},
        )

    @property
    def changes_champion(self) -> bool:
        """Whether the event changed the champion. If a moved alias was put back, the champion did not change."""
        has_kept_alias = self.kind is Kind.ALIAS_MOVED and self.evidence.get("kept", False)
        return has_kept_alias or self.kind in (Kind.PROMOTED, Kind.ROLLED_BACK)

    @property
    def allows_challenger(self) -> bool:
        """Whether this event makes its version a possible challenger. A verdict of a backfill does not."""
        is_pass = self.evidence.get("verdict") == "passed" and not self.evidence.get("backfill")
        return self.kind is Kind.APPROVED or (self.kind is Kind.JUDGED and is_pass)


@dataclass(frozen=True)
class State:
    """The state of a model after some events."""

    events: tuple[Event, ...] = field(default=(), repr=False)
    """The events, oldest first."""
    champion: str = ""
    """Version that is champion; empty if there is none."""
    earlier_champions: tuple[str, ...] = ()
    """Versions that were champion before, oldest first, without `rolled_back_versions`."""
    rolled_back_versions: frozenset[str] = frozenset()
    """Versions that a rollback replaced as champion, and that were not champion again since. Earlier champions that the
    rollback skipped are in this set, too, although the rollback does not block them."""
    blocked_versions: Mapping[str, str] = field(default_factory=dict)
    """Maps each version that was retired or rolled back to the reason. These can be promoted only with `force`."""
    judgements: Mapping[str, Event] = field(default_factory=dict)
    """Maps each version to its last verdict, approval or rejection."""
    last_change: Event | None = None
    """The last event that changed the champion."""
    served_versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Maps each endpoint that exists to the versions that it served, oldest first; the last one is served now. If a
    version is served again, the versions that followed it are removed."""

    @property
    def challenger(self) -> str:
        """The newest version that passed or was approved, and that is newer than the champion; empty if there is none.

        An older version cannot be the challenger, because the champion was promoted instead of it. Versions that are
        blocked, or that were champion, are left out.
        """
        excluded_versions = {*self.blocked_versions, *self.earlier_champions, *self.rolled_back_versions}
        possible_versions = [
            version
            for version, event in self.judgements.items()
            if event.allows_challenger and version not in excluded_versions and int(version) > int(self.champion or 0)
        ]
        return max(possible_versions, key=int, default="")

    @property
    def rollback_targets(self) -> list[str]:
        """Earlier champions that a rollback may make champion again, the preferred one first.

        Empty if there is no champion now.
        """
        versions = reversed(self.earlier_champions) if self.champion else ()
        return [version for version in versions if version not in self.blocked_versions]

    def apply(self, event: Event) -> State:
        """Return the state after one more event."""
        state = replace(self, events=(*self.events, event))
        if event.changes_champion:
            return _change_champion(state, event)
        if event.kind is Kind.RETIRED:
            return replace(
                state, blocked_versions={**state.blocked_versions, event.version: f"it was retired: {event.why}"}
            )
        if event.kind in (Kind.JUDGED, Kind.APPROVED, Kind.REJECTED):
            return replace(state, judgements={**state.judgements, event.version: event})
        if event.kind in (Kind.DEPLOYED, Kind.UNDEPLOYED):
            return replace(state, served_versions=_change_endpoint(state.served_versions, event))
        return state


def compute_state(events: Iterable[Event]) -> State:
    """Return the state after all events, which are given oldest first."""
    state = State()
    for event in events:
        state = state.apply(event)
    return state


def _change_endpoint(versions_by_endpoint: Mapping[str, tuple[str, ...]], event: Event) -> dict[str, tuple[str, ...]]:
    """Return the versions that each endpoint served, after a version was deployed or an endpoint was deleted."""
    name = str(event.evidence.get("endpoint", ""))
    other_endpoints = {endpoint: versions for endpoint, versions in versions_by_endpoint.items() if endpoint != name}
    if event.kind is Kind.UNDEPLOYED:
        return other_endpoints
    versions = versions_by_endpoint.get(name, ())
    earlier_versions = versions[: versions.index(event.version)] if event.version in versions else versions
    return {**other_endpoints, name: (*earlier_versions, event.version)}


def _change_champion(state: State, event: Event) -> State:
    """Return the state after an event that changed the champion."""
    champion, earlier_champions = event.to_version, state.earlier_champions
    blocked_versions = {version: why for version, why in state.blocked_versions.items() if version != champion}
    rolled_back_versions = state.rolled_back_versions - {champion}
    if event.kind is Kind.ROLLED_BACK:
        rolled_back_versions |= {event.version}
        if champion in earlier_champions:
            index = earlier_champions.index(champion)
            rolled_back_versions |= set(earlier_champions[index + 1 :])
            earlier_champions = earlier_champions[:index]
        blocked_versions[event.version] = f"it was rolled back: {event.why}"
    else:
        other_champions = (version for version in earlier_champions if version != champion)
        earlier_champions = (*other_champions, *filter(None, [state.champion]))
    return replace(
        state,
        champion=champion,
        earlier_champions=earlier_champions,
        rolled_back_versions=rolled_back_versions,
        blocked_versions=blocked_versions,
        last_change=event,
    )
