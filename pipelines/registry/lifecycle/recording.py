"""Record the events of a version that do not change the champion: registration, verdict, decision and retirement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipelines.errors import PromotionError
from pipelines.registry.lifecycle.aliases import sync_aliases
from pipelines.registry.lifecycle.events import CHECKS, ORIGIN, PACKAGE_DIGEST, Event, Kind, State
from pipelines.registry.lifecycle.journal import Journal
from pipelines.registry.versions import CHALLENGER, Registry

MAX_CHECKS = 100
"""Largest number of checks in the event of a verdict. The verdict's file has all checks."""


def record_registration(model: str, version: str, origin: Mapping[str, str] | None = None) -> None:
    """Record that the version was registered. Idempotent.

    Args:
        model: registered model.
        version: its version.
        origin: what it was made from; see `pipelines.registry.lineage.select_origin`. A tag in MLflow can be changed,
            an event cannot.

    Raises:
        ConflictError: other writers kept adding events. A retry can help.
    """
    evidence = {ORIGIN: dict(origin)} if origin else {}
    Journal.open().append_event(model, lambda _: Event.create(Kind.REGISTERED, model, version, evidence=evidence))


def record_verdict(
    registry: Registry,
    model: str,
    version: str,
    *,
    outcome: str,
    reason: str,
    champion: str,
    digest: str,
    package_digest: str = "",
    backfill: bool,
    checks: Sequence[Mapping[str, object]] = (),
) -> None:
    """Record the gate's verdict on a version, and update the alias `challenger`. Idempotent.

    A verdict that equals the version's last verdict is not recorded again, because a second record would cancel the
    decision of a person on the verdict.

    Args:
        registry: registry of the version.
        model: registered model.
        version: version that was judged.
        outcome: outcome of the verdict. A version with "passed" can become the challenger.
        reason: reason of the verdict, in words.
        champion: version that the candidate was compared with; empty if there was none.
        digest: SHA-256 of the verdict's file.
        package_digest: SHA-256 of the package that was judged; see `PACKAGE_DIGEST`.
        backfill: whether a backfill runs the gate; if so, no alias is updated.
        checks: the measured values, of which the first `MAX_CHECKS` are recorded; see `CHECKS`.

    Raises:
        ConflictError, ServiceError: other writers kept adding events, or MLflow does not answer. A retry can help.
    """
    journal = Journal.open()
    evidence = {"verdict": outcome, "verdict_digest": digest, "champion": champion, "backfill": backfill}
    if package_digest:
        evidence[PACKAGE_DIGEST] = package_digest
    journal.append_event(model, lambda state: _build_verdict(state, model, version, reason, evidence, checks))
    if not backfill:
        sync_aliases(registry, journal, model, (CHALLENGER,))


def _build_verdict(
    state: State,
    model: str,
    version: str,
    reason: str,
    evidence: Mapping[str, object],
    checks: Sequence[Mapping[str, object]],
) -> Event | None:
    """Make the event of a verdict; return None if it equals the version's last verdict."""
    verdicts = [event for event in state.events if event.kind is Kind.JUDGED and event.version == version]
    if verdicts and evidence.items() <= verdicts[-1].evidence.items():
        return None
    # The comparison does not need the checks: they are in the verdict's file, whose digest is compared.
    full_evidence = {**evidence, CHECKS: [dict(check) for check in checks[:MAX_CHECKS]]}
    return Event.create(Kind.JUDGED, model, version, why=reason, evidence=full_evidence, key=str(len(state.events)))


def record_decision(
    registry: Registry, model: str, version: str, *, approved: bool, why: str, digest: str
) -> tuple[Event, bool]:
    """Record a person's decision on a verdict, and update the alias `challenger`. Idempotent.

    Args:
        registry: registry of the version.
        model: registered model.
        version: version that was judged.
        approved: whether the version may be promoted.
        why: the person's reason.
        digest: SHA-256 of the verdict's file. The decision is about this verdict only.

    Returns:
        The event, and whether this call added it.

    Raises:
        ConflictError: other writers kept adding events. A retry can help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    journal, kind = Journal.open(), Kind.APPROVED if approved else Kind.REJECTED

    def decide(state: State) -> Event | None:
        last_judgement = state.judgements.get(version)
        has_same_kind = last_judgement is not None and last_judgement.kind is kind
        if last_judgement and has_same_kind and last_judgement.evidence.get("verdict_digest") == digest:
            return None
        evidence, key = {"verdict_digest": digest}, str(len(state.events))
        return Event.create(kind, model, version, why=why, evidence=evidence, key=key)

    event = journal.append_event(model, decide)
    state = sync_aliases(registry, journal, model, (CHALLENGER,))
    return event or state.judgements[version], event is not None


def record_retirement(registry: Registry, model: str, version: str, why: str) -> bool:
    """Record that a version is retired, and update the alias `challenger`. Idempotent.

    After that, the version can be promoted only with `force`.

    Returns:
        Whether this call retired the version; False if it was already retired or rolled back.

    Raises:
        DataError: there is no such version. A retry cannot help.
        PromotionError: the version is the champion. A retry cannot help.
        ConflictError: other writers kept adding events. A retry can help.
        ServiceError: MLflow failed. A retry can help.
    """
    journal = Journal.open()
    registry.get_version(model, version)

    def decide(state: State) -> Event | None:
        if version == state.champion:
            raise PromotionError(
                f"version {version} of {model} is champion and cannot be retired.",
                "Promote another version, or roll back.",
            )
        if version in state.blocked_versions:
            return None
        return Event.create(Kind.RETIRED, model, version, why=why, key=str(len(state.events)))

    event = journal.append_event(model, decide)
    sync_aliases(registry, journal, model, (CHALLENGER,))
    return event is not None
