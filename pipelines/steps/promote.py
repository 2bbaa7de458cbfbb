"""Makes a version the champion, where its verdict is a yes and it is not older than the champion. Idempotent."""

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


class PromoteResult(Result):
    """The champion."""

    model_name: str
    """Registered model."""
    version: str
    """Version that is champion now."""
    previous: str
    """Version that was champion before; empty where there was none."""
    changed: bool
    """False where this version was champion already."""


def run(spec: PromoteSpec) -> PromoteResult:
    """Alias `champion` names the version.

    Raises:
        PromotionError: the verdict is a no, is about another version, was changed since, or the champion is newer.
        DataError: there is no such version, or no verdict.
        ServiceError: MLflow does not answer. A retry can help.
    """
    from pipelines.registry import Registry

    registry = Registry.open()
    version = registry.version(spec.model_name, spec.version)
    _demand_yes(spec, version)
    champion = registry.champion(spec.model_name)
    previous = str(champion.version) if champion else ""
    if previous == spec.version:
        return PromoteResult(model_name=spec.model_name, version=spec.version, previous=previous, changed=False)
    _demand_newer(version, champion)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    note = {"leeway.promoted_at": now, "leeway.promoted_over": previous or "none"}
    registry.crown(spec.model_name, spec.version, note)
    log.info("%s: version %s is champion, after %s", spec.model_name, spec.version, previous or "none")
    return PromoteResult(model_name=spec.model_name, version=spec.version, previous=previous, changed=True)


def _demand_yes(spec: PromoteSpec, version: ModelVersion) -> None:
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


def _demand_newer(version: ModelVersion, champion: ModelVersion | None) -> None:
    from pipelines.registry import as_of

    if champion and as_of(version) < as_of(champion):
        raise PromotionError(
            f"version {version.version} was trained as of {as_of(version)}, before champion {champion.version} as of "
            f"{as_of(champion)}: promotion only moves forward.",
            "Move the alias by hand where that is what you want.",
        )
