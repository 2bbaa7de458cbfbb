"""Records what a person decided on a verdict that asks for it: approve or reject. A "no" is a result. Idempotent."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pipelines.contract import Result, Spec
from pipelines.errors import PromotionError
from pipelines.system.log import log


class DecideSpec(Spec):
    """A decision."""

    model_name: str
    """Registered model."""
    version: str
    """Version that was judged."""
    verdict: Path
    """The verdict's file, as `gate` wrote it; its digest must be the one on the version."""
    decision: Literal["approve", "reject"]
    """What was decided."""
    why: str = ""
    """Why, for the event."""


class DecideResult(Result):
    """A decision that is on record."""

    model_name: str
    """Registered model."""
    version: str
    """Version that it is about."""
    approved: bool
    """Whether the version may be promoted."""
    who: str
    """Who decided: LEEWAY_ACTOR, else the user of the operating system."""
    changed: bool
    """Whether this call recorded it: not where the same was decided on this verdict already."""


def run(spec: DecideSpec) -> DecideResult:
    """The decision is among the model's events, and alias `challenger` follows it.

    Raises:
        PromotionError: the verdict asks nobody, is about another version, or was changed since.
        DataError: there is no such version, or no verdict.
        ServiceError: MLflow does not answer. A retry is safe.
    """
    from pipelines.registry import lifecycle, verdicts
    from pipelines.registry.versions import Registry
    from pipelines.system.files import sha256

    registry = Registry.open()
    version = registry.version(spec.model_name, spec.version)
    # A "no" holds whatever was found since; a "yes" is one to the last verdict only.
    read = verdicts.given if spec.decision == "approve" else verdicts.about
    if not read(spec.verdict, version).get("asks"):
        what = f"{spec.model_name} version {spec.version}"
        raise PromotionError(f"the verdict on {what} asks nobody.", "See `approval` in params.yaml, section gate.")
    event, changed = lifecycle.decided(registry, spec, sha256(spec.verdict))
    log.info("%s version %s: %s by %s", spec.model_name, spec.version, event.kind, event.who)
    return DecideResult(
        model_name=spec.model_name,
        version=spec.version,
        approved=event.kind is lifecycle.Kind.APPROVED,
        who=event.who,
        changed=changed,
    )
