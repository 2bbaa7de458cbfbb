"""Record what a person decided on a verdict that needs approval: approve or reject. Idempotent.

A rejection is a result, not an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pipelines.contract import Result, Spec
from pipelines.errors import PromotionError
from pipelines.system.log import log


class DecideSpec(Spec):
    """The decision of a person, and the verdict that it is about."""

    model: str
    """Registered model."""
    version: str
    """Version that was judged."""
    verdict: Path
    """The verdict's file, as `gate` wrote it; for an approval, its digest must equal the one in the version's tags."""
    decision: Literal["approve", "reject"]
    """The decision."""
    why: str = ""
    """The person's reason, for the event."""


class DecideResult(Result):
    """A recorded decision."""

    model_name: str
    """Registered model."""
    version: str
    """Version that the decision is about."""
    approved: bool
    """Whether the version may be promoted."""
    who: str
    """Who decided: LEEWAY_ACTOR, or else the user of the operating system."""
    changed: bool
    """Whether this call recorded the decision; false if the same was decided on this verdict before."""


def run(spec: DecideSpec) -> DecideResult:
    """Record the decision among the model's events, and update alias `challenger`. Idempotent.

    Raises:
        PromotionError: the verdict needs no approval, is about another version, or was changed after the judgement.
            A retry cannot help.
        DataError: there is no such version, or no verdict. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
        ConflictError: other writers kept adding events. A retry can help.
    """
    from pipelines.registry import lifecycle, verdicts
    from pipelines.registry.versions import Registry
    from pipelines.system.files import sha256

    registry = Registry.open()
    version = registry.get_version(spec.model, spec.version)
    # An approval must be about the version's last verdict; a rejection may be about an earlier one.
    read_verdict = verdicts.read_current_verdict if spec.decision == "approve" else verdicts.read_verdict
    if not read_verdict(spec.verdict, version).get("needs_approval"):
        raise PromotionError(
            f"the verdict on {spec.model} version {spec.version} needs no approval.",
            "See `approval` in params.yaml, section gate.",
        )
    event, is_new = lifecycle.record_decision(
        registry,
        spec.model,
        spec.version,
        approved=spec.decision == "approve",
        why=spec.why,
        digest=sha256(spec.verdict),
    )
    log.info("%s version %s: %s by %s", spec.model, spec.version, event.kind, event.who)
    return DecideResult(
        model_name=spec.model,
        version=spec.version,
        approved=event.kind is lifecycle.Kind.APPROVED,
        who=event.who,
        changed=is_new,
    )
