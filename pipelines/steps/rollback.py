"""Take the champion out of service: the previous champion becomes champion again. Idempotent.

The version that is taken out is blocked: it can be promoted again only with `force`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.errors import PromotionError
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.registry.lifecycle import Event, State
    from pipelines.registry.versions import Registry


class RollbackSpec(Spec):
    """The version that becomes champion again, and why."""

    prerequisites: ClassVar[Mapping[str, str]] = {"force": "to"}

    model: str
    """Registered model."""
    why: str = Field(min_length=1)
    """The reason, for the event, and for a person who wants to promote the version again."""
    to: str = ""
    """Version that becomes champion; empty: the previous champion."""
    champion: str = ""
    """Version that the caller expects to be the champion; empty: any. If another version is champion now, nothing is
    rolled back, so that nobody undoes a promotion that they have not seen."""
    force: bool = False
    """Whether `to` may be a version that was never champion, or was rolled back or retired."""


class RollbackResult(Result):
    """The champion after the rollback."""

    model_name: str
    """Registered model."""
    version: str
    """Version that is champion now."""
    previous: str
    """Version that was rolled back; empty if none was. It can be promoted again only with `force`."""
    changed: bool
    """Whether this call rolled back; false if its DAG run did so before, or `to` was champion already."""
    reason: str
    """Why `version` is champion now, in one line."""


def run(spec: RollbackSpec) -> RollbackResult:
    """Make the earlier version champion, by an event and then by alias `champion`.

    Idempotent: one DAG run rolls back once. If a person repeats the command after an error, the rollback whose alias
    was not set is completed, and no second rollback is started.

    Raises:
        PromotionError: there is no champion, or no earlier one; another version became champion meanwhile; the
            champion is not the version in `spec.champion`; or `to` was never champion or is blocked, and `force` is
            not set. A retry cannot help.
        DataError: there is no such model or version. A retry cannot help.
        ServiceError: MLflow does not answer. A retry is safe, and completes the rollback.
        ConflictError: other writers kept adding events. A retry can help.
    """
    from pipelines.registry.lifecycle import Journal, adopt_alias, sync_aliases
    from pipelines.registry.versions import Registry

    registry, journal = Registry.open(), Journal.open()
    if spec.to:
        registry.get_version(spec.model, spec.to)
    adopt_alias(registry, journal, spec.model)
    rollback = _Rollback(spec, registry, journal.read_state(spec.model))
    event = journal.append_event(spec.model, rollback.decide)
    state = sync_aliases(registry, journal, spec.model)
    rollback_event = event or _find_rollback_of_run(state) or _find_last_rollback(state)
    reason = "it was champion already"
    if rollback_event:
        reason = f"version {rollback_event.version} was rolled back: {rollback_event.why}"
    log.info("%s: version %s is champion: %s", spec.model, state.champion, reason)
    return RollbackResult(
        model_name=spec.model,
        version=state.champion,
        previous=rollback_event.version if rollback_event else "",
        changed=event is not None,
        reason=reason,
    )


@dataclass(frozen=True)
class _Rollback:
    """A requested rollback. `decide` is called with the model's state at the moment of the commit."""

    spec: RollbackSpec
    registry: Registry
    initial_state: State
    """The state when the rollback was requested."""

    def decide(self, state: State) -> Event | None:
        """Return the event of the rollback; None if it has happened already.

        Raises:
            PromotionError: the state forbids the rollback. A retry cannot help.
        """
        from pipelines.registry.lifecycle import Event, Kind, read_champion_alias

        spec = self.spec
        alias = read_champion_alias(self.registry, spec.model, self.initial_state)
        is_unfinished = alias.is_pending and _find_last_rollback(state)
        if _find_rollback_of_run(state) or is_unfinished or (spec.to and spec.to == state.champion):
            return None
        self._check_champion(state)
        return Event.create(
            Kind.ROLLED_BACK,
            spec.model,
            state.champion,
            champions=(state.champion, self._choose_target(state)),
            why=spec.why,
            evidence={"forced": spec.force, "alias": alias.version},
            key=str(len(state.events)),
        )

    def _check_champion(self, state: State) -> None:
        """Refuse if the champion is not the one that the person saw."""
        name, champion, expected_champion = self.spec.model, state.champion, self.spec.champion
        advice = f"See `python -m pipelines registry events {name}`, then run it again."
        if expected_champion and champion != expected_champion:
            text = f"version {champion} of {name} is champion" if champion else f"{name} has no champion"
            raise PromotionError(f"{text}, not version {expected_champion}: nothing was rolled back.", advice)
        if champion != self.initial_state.champion:
            message = f"version {champion} of {name} became champion meanwhile: nothing was rolled back."
            raise PromotionError(message, advice)

    def _choose_target(self, state: State) -> str:
        """Return `to`; if it is empty, the last earlier champion that is not blocked and that MLflow still has."""
        from pipelines.registry.lifecycle.mlflow_model import has_version

        spec, name = self.spec, self.spec.model
        if not state.champion:
            raise PromotionError(f"{name} has no champion: there is nothing to roll back.")
        if spec.to:
            self._check_target(state)
            return spec.to
        for version in state.rollback_targets:
            if has_version(self.registry, name, version):
                return version
        raise PromotionError(
            f"version {state.champion} of {name} has no earlier champion that can become champion again.",
            "Name a version with --to, and --force.",
        )

    def _check_target(self, state: State) -> None:
        target = self.spec.to
        if target in state.blocked_versions:
            reason = state.blocked_versions[target]
        elif target in state.rolled_back_versions:
            reason = "a rollback to an older version skipped it"
        else:
            reason = "" if target in state.earlier_champions else "it was never champion"
        if reason and not self.spec.force:
            raise PromotionError(
                f"{self.spec.model} is not rolled back to version {target}: {reason}.",
                "To roll back nevertheless, give --force.",
            )


def _find_rollback_of_run(state: State) -> Event | None:
    """Return the rollback that this DAG run has done already; None outside of Airflow."""
    from pipelines.registry.lifecycle import Kind
    from pipelines.settings import settings

    run_id = settings().run
    if not run_id:
        return None
    rollbacks = (event for event in state.events if event.kind is Kind.ROLLED_BACK)
    return next((event for event in rollbacks if event.evidence.get("run") == run_id), None)


def _find_last_rollback(state: State) -> Event | None:
    """Return the last change of the champion if it was a rollback."""
    from pipelines.registry.lifecycle import Kind

    return state.last_change if state.last_change and state.last_change.kind is Kind.ROLLED_BACK else None
