"""Makes a version the champion, where its verdict is a yes and it is not older than the champion. Idempotent.

A backfill moves no alias unless it is told to: it only notes on the version what it would have done.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.contract import Result, Spec
from pipelines.errors import DataError, PromotionError
from pipelines.log import log

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion


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


class PromoteResult(Result):
    """What became of the version."""

    model_name: str
    """Registered model."""
    version: str
    """Version that was to be promoted."""
    previous: str
    """Version that was champion before; empty where there was none."""
    changed: bool
    """Whether the alias was moved: not where this version was champion already."""
    promoted: bool
    """Whether this version is champion now."""
    reason: str
    """Why, in a line."""


def run(spec: PromoteSpec) -> PromoteResult:
    """Alias `champion` names the version; after a backfill that may not promote, the version says what it would be.

    Raises:
        PromotionError: the verdict is a no, is about another version, was changed since, or the champion is newer (to
            a backfill that is no error: it does not promote then).
        DataError: there is no such version, or no verdict.
        ServiceError: MLflow does not answer. A retry can help.
    """
    from pipelines.registry import PROMOTED_TAG, WOULD_TAG, Registry

    registry = Registry.open()
    version = registry.version(spec.model_name, spec.version)
    met = _demand_yes(spec, version)
    champion = registry.champion(spec.model_name)
    previous = str(champion.version) if champion else ""
    if previous == spec.version:
        return _told(spec, previous, False, "it was champion already")
    if spec.backfill and (refusal := _refusal(spec, version, champion)):
        registry.tag(spec.model_name, spec.version, {WOULD_TAG: met or "none"})
        return _told(spec, previous, False, f"it passed, and would be champion after {met or 'none'}, but {refusal}")
    _demand_newer(version, champion)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    registry.crown(spec.model_name, spec.version, {"leeway.promoted_at": now, PROMOTED_TAG: previous or "none"})
    return _told(spec, previous, True, f"it passed, after {previous or 'none'}")


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


def _refusal(spec: PromoteSpec, version: ModelVersion, champion: ModelVersion | None) -> str:
    """Why a backfill does not promote; empty where it does."""
    from pipelines.registry import as_of

    if not spec.in_backfill:
        return "a backfill moves no alias unless promote_in_backfill is set"
    if champion and as_of(version) < as_of(champion):
        return f"champion {champion.version} is as of {as_of(champion)}, later than its {as_of(version)}"
    return ""


def _demand_yes(spec: PromoteSpec, version: ModelVersion) -> str:
    """The champion that the verdict compares with; empty where there was none."""
    from pipelines.files import read_json, sha256

    told = read_json(spec.verdict, "the step `gate` writes it")
    what = f"{spec.model_name} version {spec.version}"
    if not isinstance(told, dict):
        raise DataError(f"{spec.verdict} is no verdict.", "The step `gate` writes it.")
    if (told.get("model_name"), told.get("version")) != (spec.model_name, spec.version):
        raise PromotionError(f"the verdict is about {told.get('model_name')} {told.get('version')}, not {what}.")
    if not told.get("passed") or version.tags.get("leeway.verdict") != "passed":
        raise PromotionError(f"{what} did not pass the gate: {told.get('reason')}.")
    if version.tags.get("leeway.verdict_digest") != sha256(spec.verdict):
        raise PromotionError(f"{spec.verdict.name} is not the verdict that was given on {what}.", "Run the gate again.")
    return str(told.get("champion", ""))


def _demand_newer(version: ModelVersion, champion: ModelVersion | None) -> None:
    from pipelines.registry import as_of

    if champion and as_of(version) < as_of(champion):
        raise PromotionError(
            f"version {version.version} was trained as of {as_of(version)}, before champion {champion.version} as of "
            f"{as_of(champion)}: promotion only moves forward.",
            "Move the alias by hand where that is what you want.",
        )
