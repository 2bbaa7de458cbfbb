"""Makes a version the champion, where its verdict is a yes and it is not older than the champion. Idempotent.

A backfill moves no alias unless it is told to: it only notes on the version what it would have done.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from pipelines.contract import Result, Spec
from pipelines.errors import PromotionError
from pipelines.system.log import log

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

    from pipelines.registry.lifecycle import Event, State
    from pipelines.registry.versions import Registry


class PromoteSpec(Spec):
    """What to promote, on which verdict."""

    model_name: str
    """Registered model."""
    version: str
    """Version to promote."""
    verdict: Path
    """The verdict's file, as `gate` wrote it; its digest must be the one on the version."""
    backfill: bool = False
    """Whether a backfill asks."""
    in_backfill: bool = False
    """Whether a backfill may promote, where the version is not older than the champion."""
    force: bool = False
    """Whether to promote a version that is older than the champion, was judged against another one, was rejected,
    rolled back or retired. Never one whose verdict is a no. Needs `why`."""
    why: str = ""
    """Why, for the event."""
    moved_by_hand: Literal["keep", "put_back"] = "put_back"
    """What to do with an alias `champion` that somebody moved by hand, before anything is promoted."""

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if self.force and not self.why.strip():
            raise ValueError("force needs why")
        return self


class PromoteResult(Result):
    """What became of the version."""

    model_name: str
    """Registered model."""
    version: str
    """Version that was to be promoted."""
    previous: str
    """Version that was champion before; empty where there was none."""
    changed: bool
    """Whether the champion changed: not where this version was champion already."""
    promoted: bool
    """Whether this version is champion now."""
    reason: str
    """Why, in a line."""


def run(spec: PromoteSpec) -> PromoteResult:
    """Alias `champion` names the version; after a backfill that may not promote, the version says what it would be.

    Of several at once that were judged against the same champion, exactly one is promoted.

    Raises:
        PromotionError: the verdict is a no, is about another version, or it or the model's files were changed since; or
            it was given against another champion than today's, the champion is newer, or the version was rejected,
            rolled back or retired: no error in a backfill, which does not promote then.
        DataError: there is no such version, or no verdict; or the champion was deleted in MLflow.
        ServiceError: MLflow does not answer. A retry is safe, and completes what was begun.
    """
    from pipelines.registry.lifecycle import Journal, reconcile, settle
    from pipelines.registry.versions import Registry

    registry, journal = Registry.open(), Journal.open()
    version = registry.version(spec.model_name, spec.version)
    given = _demand_yes(spec, version)
    _demand_same_files(registry, version, given)
    if spec.backfill and not spec.in_backfill:
        return _would(spec, registry, given, "a backfill moves no alias unless promote_in_backfill is set")
    found = reconcile(registry, journal, spec.model_name, keep=spec.moved_by_hand == "keep")
    log.info("%s: %s", spec.model_name, found)
    try:
        event = journal.change(spec.model_name, lambda state: _decided(spec, registry, version, given, state))
    except PromotionError as refused:
        if not spec.backfill:
            raise
        return _would(spec, registry, given, refused.message)
    settle(registry, journal, spec.model_name)
    if event is None:
        return _told(spec, spec.version, False, "it was champion already")
    how = "forced" if event.evidence["forced"] else "it passed"
    return _told(spec, event.from_version, True, f"{how}, after {event.from_version or 'none'}")


def _decided(
    spec: PromoteSpec, registry: Registry, version: ModelVersion, given: dict[str, Any], state: State
) -> Event | None:
    """The event of the promotion, where the model's state allows it; None where the version is champion already."""
    from pipelines.registry.lifecycle import Event, Kind, crowned

    if state.champion == spec.version:
        return None
    _demand_agreement(given, version, state)
    against = list(_objections(spec, version, given, state, crowned(registry, spec.model_name, state)))
    if against and not spec.force:
        raise PromotionError(f"version {spec.version} of {spec.model_name} is not promoted: {'; '.join(against)}.")
    return Event.of(
        Kind.PROMOTED,
        spec.model_name,
        spec.version,
        moved=(state.champion, spec.version),
        why=spec.why or str(given.get("reason", "")),
        evidence={
            "verdict_digest": version.tags["leeway.verdict_digest"],
            "judged_against": given.get("champion", ""),
            "forced": against,
            "backfill": spec.backfill,
        },
        key=str(len(state.events)),
    )


def _objections(
    spec: PromoteSpec, version: ModelVersion, given: dict[str, Any], state: State, champion: ModelVersion | None
) -> Iterator[str]:
    """What speaks against the promotion, though the verdict is a yes."""
    from pipelines.registry.lifecycle import Kind
    from pipelines.registry.versions import as_of

    if champion and as_of(version) < as_of(champion):
        yield (
            f"promotion only moves forward, and champion {champion.version} is as of {as_of(champion)}, later than its "
            f"{as_of(version)}"
        )
    met = str(given.get("champion", ""))
    # A backfill's verdict is against the champion of the candidate's moment, on purpose.
    if not spec.backfill and met != state.champion:
        yield (f"it was judged against {_named(met)}, but {_named(state.champion)} is champion now: run the gate again")
    last = state.standing.get(spec.version)
    if last and last.kind is Kind.REJECTED:
        yield f"{last.who} rejected it: {last.why}"
    if spec.version in state.blocked:
        yield f"{state.blocked[spec.version]} (--force and --why promote it all the same)"


def _named(version: str) -> str:
    return f"version {version}" if version else "no champion"


def _would(spec: PromoteSpec, registry: Registry, given: dict[str, Any], but: str) -> PromoteResult:
    """A backfill notes on the version that it would have been champion, unless it is."""
    from pipelines.registry.versions import WOULD_TAG

    found, met = registry.champion(spec.model_name), str(given.get("champion", ""))
    champion = str(found.version) if found else ""
    if champion == spec.version:
        return _told(spec, champion, False, "it was champion already")
    registry.tag(spec.model_name, spec.version, {WOULD_TAG: met or "none"})
    return _told(spec, champion, False, f"it passed, and would be champion after {met or 'none'}, but {but}")


def _told(spec: PromoteSpec, previous: str, changed: bool, reason: str) -> PromoteResult:
    promoted = changed or previous == spec.version
    what = "is champion" if promoted else "is not promoted"
    log.info("%s: version %s %s: %s", spec.model_name, spec.version, what, reason)
    return PromoteResult(
        model_name=spec.model_name,
        version=spec.version,
        previous=previous,
        changed=changed,
        promoted=promoted,
        reason=reason,
    )


def _demand_yes(spec: PromoteSpec, version: ModelVersion) -> dict[str, Any]:
    """The verdict: a yes, or one that a person may make one, on this very version, as it was given."""
    from pipelines.registry import verdicts

    told = verdicts.given(spec.verdict, version)
    if version.tags.get("leeway.verdict") != told.get("outcome") or not (told.get("passed") or told.get("asks")):
        what = f"{spec.model_name} version {spec.version}"
        raise PromotionError(f"{what} did not pass the gate: {told.get('reason')}.")
    return told


def _demand_same_files(registry: Registry, version: ModelVersion, given: dict[str, Any]) -> None:
    """What would be promoted is what was judged."""
    judged = given.get("model_digest")
    if judged and registry.digest(version) != judged:
        what = f"version {version.version} of {version.name}"
        raise PromotionError(f"{what} is not promoted: its files are not those that were judged.", "Train it again.")


def _demand_agreement(given: dict[str, Any], version: ModelVersion, state: State) -> None:
    """Where the verdict asks a person, one has agreed to this very verdict."""
    from pipelines.registry.lifecycle import Kind

    last, digest = state.standing.get(str(version.version)), version.tags["leeway.verdict_digest"]
    agreed = last and last.kind is Kind.APPROVED and last.evidence.get("verdict_digest") == digest
    if given.get("asks") and not agreed:
        what = f"version {version.version} of {version.name}"
        refused = f"{last.who} rejected it: {last.why}" if last and last.kind is Kind.REJECTED else "nobody has agreed"
        raise PromotionError(f"{what} is not promoted: {refused}.", "`python -m pipelines decide` records a decision.")
