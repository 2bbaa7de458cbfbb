"""Makes the champion before the champion again, and keeps the one that is taken out from being promoted again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.errors import PromotionError
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.registry.lifecycle import Event, State
    from pipelines.registry.versions import Registry


class RollbackSpec(Spec):
    """What to take back, and why."""

    model_name: str
    """Registered model."""
    why: str = Field(min_length=1)
    """Why, for the event, and for who wants to promote the version again."""
    to: str = ""
    """Version that is to be champion; the champion before where it is empty."""
    force: bool = False
    """Whether `to` may be a version that was never champion, was rolled back itself, or retired."""


class RollbackResult(Result):
    """What became of the champion."""

    model_name: str
    """Registered model."""
    version: str
    """Version that is champion now."""
    previous: str
    """Version that was rolled back: it is blocked from being promoted, unless that is forced."""
    changed: bool
    """Whether this call did it: not where its run did so before, or `to` is champion already."""
    reason: str
    """Why, in a line."""


def run(spec: RollbackSpec) -> RollbackResult:
    """Alias `champion` names the earlier version. Idempotent: one run of a DAG rolls back once.

    So does a person who asks again after an error: a rollback whose alias is not set yet is completed, and none added.

    Raises:
        PromotionError: there is no champion, or none before it; another became champion meanwhile; `to` was never
            champion, or is blocked, and it is not forced.
        DataError: there is no such model or version.
        ServiceError: MLflow does not answer. A retry is safe, and completes what was begun.
    """
    from pipelines.registry.lifecycle import Journal, begin, settle
    from pipelines.registry.versions import Registry

    registry, journal = Registry.open(), Journal.open()
    if spec.to:
        registry.version(spec.model_name, spec.to)
    begin(registry, journal, spec.model_name)
    asked = _Rollback(spec, registry, journal.state(spec.model_name))
    event = journal.change(spec.model_name, asked.decided)
    state = settle(registry, journal, spec.model_name)
    done = event or _told_by_us(state) or _last(state)
    reason = f"version {done.version} was rolled back: {done.why}" if done else "it was champion already"
    log.info("%s: version %s is champion: %s", spec.model_name, state.champion, reason)
    return RollbackResult(
        model_name=spec.model_name,
        version=state.champion,
        previous=done.version if done else "",
        changed=event is not None,
        reason=reason,
    )


@dataclass(frozen=True)
class _Rollback:
    """A rollback that is asked for, of the champion that was seen then."""

    spec: RollbackSpec
    registry: Registry
    seen: State

    def decided(self, state: State) -> Event | None:
        """The event; None where it has happened already."""
        from pipelines.registry.lifecycle import Event, Kind, standing_of

        spec = self.spec
        alias, pending = standing_of(self.registry, spec.model_name, self.seen)
        if _told_by_us(state) or (pending and _last(state)) or (spec.to and spec.to == state.champion):
            return None
        if state.champion != self.seen.champion:
            raise PromotionError(
                f"version {state.champion} of {spec.model_name} became champion meanwhile: nothing was rolled back.",
                "Look at `python -m pipelines registry events`, and ask again.",
            )
        target = self._target(state)
        return Event.of(
            Kind.ROLLED_BACK,
            spec.model_name,
            state.champion,
            moved=(state.champion, target),
            why=spec.why,
            evidence={"forced": spec.force, "alias": alias},
            key=str(len(state.events)),
        )

    def _target(self, state: State) -> str:
        from pipelines.registry.lifecycle.pointers import there

        spec, name = self.spec, self.spec.model_name
        if not state.champion:
            raise PromotionError(f"{name} has no champion: there is nothing to roll back.")
        if spec.to:
            self._demand_allowed(state)
            return spec.to
        able = [one for one in state.previous if one not in state.blocked and there(self.registry, name, one)]
        if not able:
            raise PromotionError(
                f"version {state.champion} of {name} has no champion before it that could serve: nothing to roll back "
                "to.",
                "Name a version with --to, and --force.",
            )
        return able[-1]

    def _demand_allowed(self, state: State) -> None:
        to = self.spec.to
        why = state.blocked.get(to) or ("" if to in state.previous else "it was never champion")
        if why and not self.spec.force:
            raise PromotionError(f"{self.spec.model_name} is not rolled back to version {to}: {why}.", "Or --force.")


def _told_by_us(state: State) -> Event | None:
    """The rollback that this run of a DAG has done already."""
    from pipelines.registry.lifecycle import Kind
    from pipelines.settings import settings

    asking = settings().run
    ours = (one for one in state.events if one.kind is Kind.ROLLED_BACK and one.evidence.get("run") == asking)
    return next(ours, None) if asking else None


def _last(state: State) -> Event | None:
    """The last change of the champion, where that was a rollback."""
    from pipelines.registry.lifecycle import Kind

    return state.move if state.move and state.move.kind is Kind.ROLLED_BACK else None
