"""MLflow's aliases follow the events; where somebody moved one by hand, that is recorded first."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mlflow.entities.model_registry import ModelVersion

from pipelines.errors import ConflictError, DataError, ServiceError
from pipelines.registry.lifecycle.events import Event, Kind, State
from pipelines.registry.lifecycle.journal import Journal
from pipelines.registry.lifecycle.pointers import mark, point, standing, there
from pipelines.registry.versions import CHALLENGER, CHAMPION, PROMOTED_TAG, Registry
from pipelines.system.log import log

SETTLED_TAG = "leeway.settled"
"""Tag of the registered model: the event that its alias champion followed last. One that did not get so far was
interrupted; where it did, and the alias is another, somebody moved it by hand."""
LOOK_AGAIN_S = 2.0
"""Seconds until what looks like an alias moved by hand is believed: a promoter that was overtaken corrects itself."""


def settle(registry: Registry, journal: Journal, model: str, aliases: Sequence[str] = (CHAMPION, CHALLENGER)) -> State:
    """The aliases name what the events say, and did so after the last event was read. Idempotent.

    Whoever sets an alias reads the events again afterwards: one that was overtaken in between finds the newer event,
    and sets the alias to that. So the last to set it has seen the last event.

    Raises:
        DataError: the champion by the events is not in MLflow any more.
        ServiceError: MLflow does not answer; the events have it, and a retry completes it.
    """
    state = journal.state(model)
    try:
        while True:
            _point(registry, model, state, aliases)
            seen, state = state, journal.state(model)
            if (seen.champion, seen.challenger) == (state.champion, state.challenger):
                break
        if CHAMPION in aliases and state.move:
            mark(registry, model, SETTLED_TAG, state.move.id)
    except ServiceError as error:
        raise ServiceError(
            f"{model}: by the events champion is {state.champion or 'none'}, but its alias could not be set: "
            f"{error.message}",
            "A retry is safe, and completes it; so does `python -m pipelines registry check`.",
        ) from None
    return state


def reconcile(registry: Registry, journal: Journal, model: str, *, keep: bool) -> str:
    """The aliases and the events agree; returns what was found, and done about it, in words. Idempotent.

    An alias that is older than the events is where they begin. A change that was interrupted is completed. An alias
    that was moved by hand is recorded as `alias_moved`, and kept or put back.

    Raises:
        DataError: there is no such model, or its champion by the events is not in MLflow any more.
        ConflictError: the alias is being moved at this moment. A retry can help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    begin(registry, journal, model)
    state = journal.state(model)
    (named, pending), champion = standing_of(registry, model, state), state.champion
    if named == champion:
        settle(registry, journal, model)
        return f"champion is {champion or 'none'}, as the events say"
    if pending and state.move:
        settle(registry, journal, model)
        return f"an interrupted change is complete: {state.move.kind} {state.move.version}, champion is {champion}"
    _look_again(registry, journal, model, state, named)
    if keep:
        return _taken(registry, journal, model, named, f"moved by hand, after {champion or 'none'}")
    return _put_back(registry, journal, model, state, named)


def begin(registry: Registry, journal: Journal, model: str) -> str:
    """An alias that is older than the events is where they begin. Idempotent.

    Raises:
        DataError: there is no such model.
        ServiceError: MLflow does not answer. A retry can help.
    """
    aliases, _ = standing(registry, model)
    named = aliases.get(CHAMPION, "")
    if journal.state(model).move or not named:
        return f"champion is {named or 'none'}"

    def decide(state: State) -> Event | None:
        return None if state.move else _by_hand(model, state, named, "champion before there were events", kept=True)

    journal.change(model, decide)
    settle(registry, journal, model)
    return f"champion is {named}, which it was before there were events"


def standing_of(registry: Registry, model: str, state: State) -> tuple[str, bool]:
    """The version that alias champion names, and whether the last change of the champion has not reached MLflow."""
    aliases, tags = standing(registry, model)
    return aliases.get(CHAMPION, ""), state.move is not None and tags.get(SETTLED_TAG) != state.move.id


def crowned(registry: Registry, model: str, state: State) -> ModelVersion | None:
    """The champion by the events; None where there is none.

    Raises:
        DataError: it is not in MLflow any more.
    """
    if not state.champion:
        return None
    try:
        return registry.version(model, state.champion)
    except DataError:
        raise DataError(
            f"version {state.champion} of {model} is champion by the events, but was deleted in MLflow.",
            f"`python -m pipelines rollback`, or `registry check {model} --keep` to have none.",
        ) from None


def _point(registry: Registry, model: str, state: State, aliases: Sequence[str]) -> None:
    """Each alias, where it is another."""
    now, _ = standing(registry, model)
    challenger = state.challenger if there(registry, model, state.challenger) else ""
    wanted = {CHAMPION: state.champion, CHALLENGER: challenger}
    if CHAMPION in aliases:
        _note(registry, state, crowned(registry, model, state))
    for alias in aliases:
        if now.get(alias, "") != wanted[alias]:
            point(registry, model, alias, wanted[alias])
            log.info("%s: alias %s names %s", model, alias, wanted[alias] or "nothing")


def _note(registry: Registry, state: State, champion: ModelVersion | None) -> None:
    """A promoted champion says on itself when it became one, and after whom."""
    move = state.move
    if champion is None or move is None or move.kind is not Kind.PROMOTED:
        return
    note = {"leeway.promoted_at": move.at.isoformat(timespec="seconds"), PROMOTED_TAG: move.from_version or "none"}
    if not note.items() <= champion.tags.items():
        registry.tag(champion.name, str(champion.version), note)


def _look_again(registry: Registry, journal: Journal, model: str, state: State, named: str) -> None:
    time.sleep(LOOK_AGAIN_S)
    now, (aliases, _) = journal.state(model), standing(registry, model)
    if now.move != state.move or aliases.get(CHAMPION, "") != named:
        raise ConflictError(f"alias {CHAMPION} of {model} is being moved at this moment.", "Try again.")


def _taken(registry: Registry, journal: Journal, model: str, named: str, why: str) -> str:
    """What the alias names is champion by the events, too."""

    def decide(state: State) -> Event | None:
        return _by_hand(model, state, named, why, kept=True) if named != state.champion else None

    journal.change(model, decide)
    settle(registry, journal, model)
    return f"alias champion names {named or 'nothing'} ({why}): recorded, and kept"


def _put_back(registry: Registry, journal: Journal, model: str, seen: State, named: str) -> str:
    crowned(registry, model, seen)
    why = f"moved by hand, from {seen.champion or 'none'} to {named or 'none'}"

    def decide(state: State) -> Event | None:
        return _by_hand(model, state, named, why, kept=False) if state.champion == seen.champion else None

    journal.change(model, decide)
    settle(registry, journal, model)
    return f"alias champion named {named or 'nothing'} ({why}): recorded, and put back"


def _by_hand(model: str, state: State, named: str, why: str, *, kept: bool) -> Event:
    moved, key = (state.champion, named), str(len(state.events))
    version = named or state.champion
    return Event.of(Kind.ALIAS_MOVED, model, version, moved=moved, why=why, evidence={"kept": kept}, key=key)
