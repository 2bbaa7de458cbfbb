"""Set MLflow's aliases `champion` and `challenger` to the versions that the recorded events name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mlflow.entities.model_registry import ModelVersion

from pipelines.errors import DataError, ServiceError
from pipelines.registry.lifecycle.events import Event, Kind, State
from pipelines.registry.lifecycle.journal import Journal
from pipelines.registry.lifecycle.mlflow_model import get_aliases_and_tags, has_version, set_alias, set_model_tag
from pipelines.registry.versions import CHALLENGER, CHAMPION, PROMOTED_TAG, Registry
from pipelines.system.log import log

SYNCED_TAG = "leeway.champion_event"
"""Tag of the registered model: id of the event for which the alias `champion` was last set.

If a later event changed the champion, the process that recorded the later event was interrupted before it set the
alias. If there is no later event, but the alias differs from the recorded champion, a person moved the alias.
"""


class ChampionAlias(NamedTuple):
    """The state of the alias `champion` in MLflow."""

    version: str
    """Version that the alias names; empty if there is no alias."""
    is_pending: bool
    """Whether the last change of the champion still has to be written to MLflow."""


def sync_aliases(
    registry: Registry, journal: Journal, model: str, aliases: Sequence[str] = (CHAMPION, CHALLENGER)
) -> State:
    """Set the aliases to the versions that the events name; return the state after all events. Idempotent.

    The events are read again after the aliases are set. If another process has added an event in between, the aliases
    are set once more. So the last process that sets an alias has always read the last event.

    Args:
        registry: registry of the model.
        journal: table of the events.
        model: registered model.
        aliases: which aliases to set.

    Raises:
        DataError: the recorded champion was deleted in MLflow. A retry cannot help.
        ServiceError: MLflow does not answer. The events are committed, and a retry sets the aliases.
    """
    state = journal.read_state(model)
    try:
        while True:
            _set_aliases(registry, model, state, aliases)
            previous_state, state = state, journal.read_state(model)
            if (previous_state.champion, previous_state.challenger) == (state.champion, state.challenger):
                break
        if CHAMPION in aliases and state.last_change:
            set_model_tag(registry, model, SYNCED_TAG, state.last_change.id)
    except ServiceError as error:
        raise ServiceError(
            f"{model}: the recorded champion is {state.champion or 'none'}, but its alias could not be set: "
            f"{error.message}",
            "A retry is safe, and sets the alias; so does `python -m pipelines registry check`.",
        ) from None
    return state


def adopt_alias(registry: Registry, journal: Journal, model: str) -> str:
    """Record the alias `champion` as the model's first champion, if no champion is recorded yet. Idempotent.

    Returns:
        A sentence that names the version to which the alias points.

    Raises:
        DataError: there is no such model. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    aliases, _ = get_aliases_and_tags(registry, model)
    version = aliases.get(CHAMPION, "")
    if journal.read_state(model).last_change or not version:
        return f"champion is {version or 'none'}"

    def decide(state: State) -> Event | None:
        if state.last_change:
            return None
        return make_alias_event(model, state, version, "it was champion before events were recorded", keeps_alias=True)

    journal.append_event(model, decide)
    sync_aliases(registry, journal, model)
    return f"champion is {version}, as before events were recorded"


def make_alias_event(model: str, state: State, version: str, why: str, *, keeps_alias: bool) -> Event:
    """Make the event that records that a person moved the alias `champion`.

    Args:
        model: registered model.
        state: state of the model before the event.
        version: version that the alias names now; empty if the alias was deleted.
        why: the reason.
        keeps_alias: whether `version` becomes the recorded champion. If False, the caller sets the alias to the
            recorded champion again.
    """
    champions, key = (state.champion, version), str(len(state.events))
    subject, evidence = version or state.champion, {"kept": keeps_alias}
    return Event.create(Kind.ALIAS_MOVED, model, subject, champions=champions, why=why, evidence=evidence, key=key)


def read_champion_alias(registry: Registry, model: str, state: State) -> ChampionAlias:
    """Read the alias `champion` from MLflow, and find out whether the last change in `state` has reached MLflow.

    Raises:
        DataError: there is no such model. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    aliases, tags = get_aliases_and_tags(registry, model)
    is_pending = state.last_change is not None and tags.get(SYNCED_TAG) != state.last_change.id
    return ChampionAlias(aliases.get(CHAMPION, ""), is_pending)


def get_champion(registry: Registry, model: str, state: State) -> ModelVersion | None:
    """Return the recorded champion; None if there is none.

    Raises:
        DataError: the version was deleted in MLflow. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    if not state.champion:
        return None
    try:
        return registry.get_version(model, state.champion)
    except DataError:
        raise DataError(
            f"version {state.champion} of {model} is the recorded champion, but was deleted in MLflow.",
            f"Run `python -m pipelines rollback`, or `registry check {model} --keep` to have no champion.",
        ) from None


def _set_aliases(registry: Registry, model: str, state: State, aliases: Sequence[str]) -> None:
    """Set each alias of `aliases` that names another version than the events, and tag a promoted champion."""
    current_aliases, _ = get_aliases_and_tags(registry, model)
    challenger = state.challenger if has_version(registry, model, state.challenger) else ""
    targets = {CHAMPION: state.champion, CHALLENGER: challenger}
    if CHAMPION in aliases:
        _tag_promotion(registry, state, get_champion(registry, model, state))
    for alias in aliases:
        if current_aliases.get(alias, "") != targets[alias]:
            set_alias(registry, model, alias, targets[alias])
            log.info("%s: alias %s names %s", model, alias, targets[alias] or "nothing")


def _tag_promotion(registry: Registry, state: State, champion: ModelVersion | None) -> None:
    """Tag a promoted champion with the time of its promotion and the version that it replaced. Idempotent."""
    change = state.last_change
    if champion is None or change is None or change.kind is not Kind.PROMOTED:
        return
    tags = {
        "leeway.promoted_at": change.at.isoformat(timespec="seconds"),
        PROMOTED_TAG: change.from_version or "none",
    }
    if not tags.items() <= champion.tags.items():
        registry.set_tags(champion.name, str(champion.version), tags)
