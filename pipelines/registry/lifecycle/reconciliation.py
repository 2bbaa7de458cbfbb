"""Make MLflow's alias `champion` and the recorded events agree."""

from __future__ import annotations

import time

from pipelines.errors import ConflictError
from pipelines.registry.lifecycle.aliases import (
    adopt_alias,
    get_champion,
    make_alias_event,
    read_champion_alias,
    sync_aliases,
)
from pipelines.registry.lifecycle.events import Event, State
from pipelines.registry.lifecycle.journal import Journal
from pipelines.registry.versions import CHAMPION, Registry

RECHECK_DELAY_S = 2.0
"""Seconds after which the alias and the events are read again. If both are unchanged, a person moved the alias: a
process that changes the champion would have set the alias within this time."""


def reconcile(registry: Registry, journal: Journal, model: str, *, keeps_alias: bool) -> str:
    """Make the alias `champion` and the recorded events agree. Idempotent.

    If no change of the champion is recorded yet, the alias is recorded as the first change. An interrupted change of
    the champion is completed. If a person moved the alias, this is recorded as `alias_moved`, and the alias is kept or
    put back.

    Args:
        registry: registry of the model.
        journal: table of the events.
        model: registered model.
        keeps_alias: whether to keep an alias that a person moved; otherwise it is put back.

    Returns:
        A sentence that says what was found, and what was done.

    Raises:
        DataError: there is no such model, or its recorded champion was deleted in MLflow. A retry cannot help.
        ConflictError: another process is moving the alias. A retry can help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    adopt_alias(registry, journal, model)
    state = journal.read_state(model)
    alias, champion = read_champion_alias(registry, model, state), state.champion
    if alias.version == champion:
        sync_aliases(registry, journal, model)
        return f"champion is {champion or 'none'}, as the events say"
    if alias.is_pending and state.last_change:
        sync_aliases(registry, journal, model)
        change = state.last_change
        return f"an interrupted change is complete: {change.kind} {change.version}, champion is {champion}"
    _recheck_alias(registry, journal, model, state, alias.version)
    if keeps_alias:
        return _keep_alias(registry, journal, model, alias.version, f"moved by hand, from {champion or 'none'}")
    return _put_alias_back(registry, journal, model, state, alias.version)


def _recheck_alias(registry: Registry, journal: Journal, model: str, state: State, version: str) -> None:
    """Check that neither the alias nor the champion changes within the delay.

    Raises:
        ConflictError: the alias or the champion changed. A retry can help.
    """
    time.sleep(RECHECK_DELAY_S)
    current_state = journal.read_state(model)
    alias = read_champion_alias(registry, model, current_state)
    if current_state.last_change != state.last_change or alias.version != version:
        raise ConflictError(f"another process is moving alias {CHAMPION} of {model}.", "Try again.")


def _keep_alias(registry: Registry, journal: Journal, model: str, version: str, why: str) -> str:
    """Record that the alias was moved. This event makes the version that the alias names the recorded champion."""

    def decide(state: State) -> Event | None:
        return make_alias_event(model, state, version, why, keeps_alias=True) if version != state.champion else None

    journal.append_event(model, decide)
    sync_aliases(registry, journal, model)
    return f"alias champion names {version or 'nothing'} ({why}): recorded, and kept"


def _put_alias_back(registry: Registry, journal: Journal, model: str, expected_state: State, version: str) -> str:
    """Record that the alias was moved, and set it to the recorded champion, which must still exist."""
    get_champion(registry, model, expected_state)
    why = f"moved by hand, from {expected_state.champion or 'none'} to {version or 'none'}"

    def decide(state: State) -> Event | None:
        if state.champion != expected_state.champion:
            return None
        return make_alias_event(model, state, version, why, keeps_alias=False)

    journal.append_event(model, decide)
    sync_aliases(registry, journal, model)
    return f"alias champion named {version or 'nothing'} ({why}): recorded, and put back"
