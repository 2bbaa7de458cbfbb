"""What others tell the journal, a line each: evaluate, gate, and who retires a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.errors import PromotionError
from pipelines.registry.lifecycle.aliases import settle
from pipelines.registry.lifecycle.events import Event, Kind, State
from pipelines.registry.lifecycle.journal import Journal
from pipelines.registry.versions import CHALLENGER, Registry

if TYPE_CHECKING:
    from pipelines.steps.decide import DecideSpec
    from pipelines.steps.gate import GateResult


def registered(model: str, version: str) -> None:
    """The journal knows the version. Idempotent."""
    Journal.open().change(model, lambda _: Event.of(Kind.REGISTERED, model, version))


def judged(registry: Registry, verdict: GateResult, word: str, digest: str, *, backfill: bool) -> None:
    """The journal has the verdict, unless it is the version's last already; alias `challenger` is up to date.

    Args:
        registry: the one that the version is in.
        verdict: as it was given.
        word: it in a word; "passed" makes a challenger.
        digest: of the verdict's file.
        backfill: whether a backfill asked: that moves no alias.
    """
    journal, model, version = Journal.open(), verdict.model_name, verdict.version
    evidence = {"verdict": word, "verdict_digest": digest, "champion": verdict.champion, "backfill": backfill}

    def decide(state: State) -> Event | None:
        told = [one for one in state.events if one.kind is Kind.JUDGED and one.version == version]
        if told and evidence.items() <= told[-1].evidence.items():
            return None  # said again, it does not undo what a person decided on it
        key = str(len(state.events))
        return Event.of(Kind.JUDGED, model, version, why=verdict.reason, evidence=evidence, key=key)

    journal.change(model, decide)
    if not backfill:
        settle(registry, journal, model, (CHALLENGER,))


def decided(registry: Registry, asked: DecideSpec, digest: str) -> tuple[Event, bool]:
    """The journal has what a person decided on a verdict; the event, and whether it is new.

    Args:
        registry: the one that the version is in.
        asked: the decision.
        digest: of the verdict's file: another verdict asks anew.
    """
    journal, model, version = Journal.open(), asked.model_name, asked.version
    kind = Kind.APPROVED if asked.decision == "approve" else Kind.REJECTED

    def decide(state: State) -> Event | None:
        last = state.standing.get(version)
        if last and last.kind is kind and last.evidence.get("verdict_digest") == digest:
            return None
        evidence, key = {"verdict_digest": digest}, str(len(state.events))
        return Event.of(kind, model, version, why=asked.why, evidence=evidence, key=key)

    event = journal.change(model, decide)
    state = settle(registry, journal, model, (CHALLENGER,))
    return event or state.standing[version], event is not None


def retired(registry: Registry, model: str, version: str, why: str) -> bool:
    """The version may not be promoted any more, unless it is forced. Idempotent; returns whether it was not so before.

    Raises:
        DataError: there is no such version.
        PromotionError: it is the champion.
    """
    journal = Journal.open()
    registry.version(model, version)

    def decide(state: State) -> Event | None:
        if version == state.champion:
            raise PromotionError(
                f"version {version} of {model} is champion: it cannot be retired.", "Promote another, or roll back."
            )
        if version in state.blocked:
            return None
        return Event.of(Kind.RETIRED, model, version, why=why, key=str(len(state.events)))

    event = journal.change(model, decide)
    settle(registry, journal, model, (CHALLENGER,))
    return event is not None
