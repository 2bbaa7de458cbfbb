"""Make a version the champion, if its verdict allows this and its as_of is not before the champion's. Idempotent.

A verdict allows it if the version passed. An approval by a person replaces an undecided verdict, if the gate permits
this, and a passed verdict may need an approval, too.

A backfill moves no alias unless `promote_in_backfill` is set: it only tags the version with the champion that it would
have replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    """The version to promote, and the verdict that allows it."""

    model: str
    """Registered model."""
    version: str
    """Version to promote."""
    verdict: Path
    """The verdict's file, as `gate` wrote it; its digest must equal the one in the version's tags."""
    backfill: bool = False
    """Whether a backfill runs the step."""
    promote_in_backfill: bool = False
    """Whether a backfill may promote a version whose as_of is not before the champion's."""
    force: bool = False
    """Whether to promote the version even if its as_of is before the champion's, or if it was judged against another
    champion, rejected, rolled back or retired. The verdict must allow the promotion nevertheless. Needs `why`."""
    why: str = ""
    """The reason, for the event."""
    moved_by_hand: Literal["keep", "put_back"] = "put_back"
    """What to do first if a person moved alias `champion` in MLflow by hand. keep: the version that the alias names
    becomes the recorded champion. put_back: the alias is set to the recorded champion again."""

    @model_validator(mode="after")
    def _check_reason(self) -> Self:
        if self.force and not self.why.strip():
            raise ValueError("force needs why")
        return self


class PromoteResult(Result):
    """Whether the version was promoted, and why."""

    model_name: str
    """Registered model."""
    version: str
    """Version to promote."""
    previous: str
    """Version that was champion before this call; empty if there was none."""
    changed: bool
    """Whether the champion changed; false if this version was champion already."""
    promoted: bool
    """Whether this version is champion now."""
    reason: str
    """The reason, in one line."""


def run(spec: PromoteSpec) -> PromoteResult:
    """Make the version champion, by an event and then by alias `champion`. Idempotent.

    If several promotions run at the same time, with verdicts against the same champion, only one succeeds.

    Raises:
        PromotionError: the verdict does not allow a promotion, is about another version, or the verdict or the model's
            files were changed after the judgement. Also, unless a backfill runs the step: the version lacks the
            approval that it needs, or was rejected, rolled back or retired; the champion is newer; or the verdict is
            against another champion. In a backfill, a verdict against another champion is no obstacle, and each of the
            other reasons prevents the promotion without an error. A retry cannot help.
        DataError: there is no such version, or no verdict; or the champion was deleted in MLflow. A retry cannot help.
        ServiceError: MLflow does not answer. A retry is safe, and completes the promotion.
        ConflictError: other writers kept adding events. A retry can help.
    """
    from pipelines.registry.lifecycle import Journal, reconcile, sync_aliases
    from pipelines.registry.versions import Registry

    registry, journal = Registry.open(), Journal.open()
    version = registry.get_version(spec.model, spec.version)
    verdict = _read_passing_verdict(spec, version)
    _check_files(version, verdict)
    if spec.backfill and not spec.promote_in_backfill:
        reason = "a backfill moves no alias unless promote_in_backfill is set"
        return _tag_without_promoting(spec, registry, verdict, reason)
    status = reconcile(registry, journal, spec.model, keeps_alias=spec.moved_by_hand == "keep")
    log.info("%s: %s", spec.model, status)
    promotion = _Promotion(spec, registry, version, verdict)
    try:
        event = journal.append_event(spec.model, promotion.decide)
    except PromotionError as error:
        if not spec.backfill:
            raise
        return _tag_without_promoting(spec, registry, verdict, error.message)
    sync_aliases(registry, journal, spec.model)
    if event is None:
        return _make_result(spec, spec.version, changed=False, reason="it was champion already")
    cause = "forced" if event.evidence["forced"] else "it passed" if verdict["passed"] else "a person approved it"
    reason = f"{cause}; it replaces {_describe_champion(event.from_version)}"
    return _make_result(spec, event.from_version, changed=True, reason=reason)


@dataclass(frozen=True)
class _Promotion:
    """A requested promotion. `decide` is called with the model's state at the moment of the commit."""

    spec: PromoteSpec
    registry: Registry
    version: ModelVersion
    verdict: Mapping[str, Any]

    def decide(self, state: State) -> Event | None:
        """Return the event of the promotion; None if the version is champion already.

        Raises:
            PromotionError: the state forbids the promotion. A retry cannot help.
        """
        from pipelines.registry.lifecycle import Event, Kind, get_champion

        spec = self.spec
        if state.champion == spec.version:
            return None
        _check_approval(self.verdict, self.version, state)
        champion = get_champion(self.registry, spec.model, state)
        objections = list(self._find_objections(state, champion))
        if objections and not spec.force:
            reasons = "; ".join(objections)
            raise PromotionError(f"version {spec.version} of {spec.model} is not promoted: {reasons}.")
        return Event.create(
            Kind.PROMOTED,
            spec.model,
            spec.version,
            champions=(state.champion, spec.version),
            why=spec.why or str(self.verdict.get("reason", "")),
            evidence={
                "verdict_digest": self.version.tags["leeway.verdict_digest"],
                "judged_against": self.verdict.get("champion", ""),
                "forced": objections,
                "backfill": spec.backfill,
            },
            key=str(len(state.events)),
        )

    def _find_objections(self, state: State, champion: ModelVersion | None) -> Iterator[str]:
        """Yield the reasons against a promotion that the verdict allows; `force` overrules them."""
        from pipelines.registry.lifecycle import Kind
        from pipelines.registry.versions import read_as_of

        spec, version = self.spec, self.version
        if champion and read_as_of(version) < read_as_of(champion):
            yield (
                f"its as_of {read_as_of(version)} is before {read_as_of(champion)}, the as_of of champion "
                f"{champion.version}: promotion only moves forward"
            )
        verdict_champion = str(self.verdict.get("champion", ""))
        # A backfill compares with the champion of the candidate's own as_of, which may not be today's champion.
        if not spec.backfill and verdict_champion != state.champion:
            yield (
                f"it was judged against {_describe_champion(verdict_champion)}, but "
                f"{_describe_champion(state.champion)} is champion now: run the gate again"
            )
        judgement = state.judgements.get(spec.version)
        if judgement and judgement.kind is Kind.REJECTED:
            yield f"{judgement.who} rejected it: {judgement.why}"
        if spec.version in state.blocked_versions:
            yield f"{state.blocked_versions[spec.version]} (to promote it nevertheless, give --force and --why)"


def _describe_champion(version: str) -> str:
    return f"version {version}" if version else "no champion"


def _tag_without_promoting(
    spec: PromoteSpec, registry: Registry, verdict: Mapping[str, Any], obstacle: str
) -> PromoteResult:
    """Tag the version with the champion that it would have replaced, unless it is champion itself."""
    from pipelines.registry.versions import WOULD_PROMOTE_TAG

    champion, replaced_version = registry.find_champion(spec.model), str(verdict.get("champion", ""))
    champion_version = str(champion.version) if champion else ""
    if champion_version == spec.version:
        return _make_result(spec, champion_version, changed=False, reason="it was champion already")
    registry.set_tags(spec.model, spec.version, {WOULD_PROMOTE_TAG: replaced_version or "none"})
    verdict_text = "it passed" if verdict["passed"] else "its verdict is undecided"
    reason = f"{verdict_text}, and it would have replaced {_describe_champion(replaced_version)}, but {obstacle}"
    return _make_result(spec, champion_version, changed=False, reason=reason)


def _make_result(spec: PromoteSpec, previous_champion: str, *, changed: bool, reason: str) -> PromoteResult:
    is_promoted = changed or previous_champion == spec.version
    outcome = "is champion" if is_promoted else "is not promoted"
    log.info("%s: version %s %s: %s", spec.model, spec.version, outcome, reason)
    return PromoteResult(
        model_name=spec.model,
        version=spec.version,
        previous=previous_champion,
        changed=changed,
        promoted=is_promoted,
        reason=reason,
    )


def _read_passing_verdict(spec: PromoteSpec, version: ModelVersion) -> dict[str, Any]:
    """Read the last verdict on the version; refuse a version that did not pass, unless a person may approve it."""
    from pipelines.registry.verdicts import read_current_verdict

    verdict = read_current_verdict(spec.verdict, version)
    can_be_promoted = verdict.get("passed") or verdict.get("needs_approval")
    if version.tags.get("leeway.verdict") != verdict.get("outcome") or not can_be_promoted:
        raise PromotionError(f"{spec.model} version {spec.version} did not pass the gate: {verdict.get('reason')}.")
    return verdict


def _check_files(version: ModelVersion, verdict: Mapping[str, Any]) -> None:
    """Refuse a version whose files are not those that were judged."""
    from pipelines.registry.artifacts import compute_stored_digest

    digest = verdict.get("package_digest")
    if digest and compute_stored_digest(version) != digest:
        raise PromotionError(
            f"version {version.version} of {version.name} is not promoted: its files are not those that were judged.",
            "Train it again.",
        )


def _check_approval(verdict: Mapping[str, Any], version: ModelVersion, state: State) -> None:
    """Refuse a version whose verdict needs approval, unless a person approved this verdict."""
    from pipelines.registry.lifecycle import Kind

    judgement, digest = state.judgements.get(str(version.version)), version.tags["leeway.verdict_digest"]
    is_approved = judgement and judgement.kind is Kind.APPROVED and judgement.evidence.get("verdict_digest") == digest
    if verdict.get("needs_approval") and not is_approved:
        reason = "nobody has approved it"
        if judgement and judgement.kind is Kind.REJECTED:
            reason = f"{judgement.who} rejected it: {judgement.why}"
        raise PromotionError(
            f"version {version.version} of {version.name} is not promoted: {reason}.",
            "`python -m pipelines decide` records a decision.",
        )
