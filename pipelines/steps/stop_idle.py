"""Find the endpoints that nobody calls, and delete those of Leeway if `delete` is set. Idempotent."""

from __future__ import annotations

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.idle.names import KindName


class StopIdleSpec(Spec):
    """The time after which an endpoint is idle, and whether to delete it."""

    hours: int = Field(default=24, ge=1, le=1_440)
    """Hours without a request after which an endpoint is idle. A deployment counts as a request."""
    delete: bool = False
    """Whether idle endpoints that Leeway created are deleted; otherwise they are only listed."""


class StopIdleResult(Result):
    """The endpoints that nobody called, in the same lists as those of `SweepIdleResult`.

    An endpoint that somebody else deleted meanwhile is in no list.
    """

    idle: list[str]
    """Endpoints that nobody called and that were only listed."""
    exempt: list[str]
    """Idle endpoints that stay, because they have the tag leeway:keep, or because Leeway did not create them."""
    unknown: list[str]
    """Endpoints that may be in use: CloudWatch does not say whether somebody called them. They are never deleted."""
    used_again: list[str]
    """Endpoints that had been called or changed at a second check, just before the deletion, or whose use was not known
    then. They are not deleted."""
    stopped: list[str]
    """Endpoints that this call deleted."""


def run(spec: StopIdleSpec) -> StopIdleResult:
    """List the idle endpoints, and delete those that Leeway created if `delete` is set.

    Each endpoint is checked again just before its deletion. If it was called or changed meanwhile, it is not deleted.
    If `delete` is set, deletions that a killed process began are finished first.

    Raises:
        SpecError: no AWS region is configured. A retry cannot help.
        InvalidError: AWS denies a request. A retry cannot help.
        ServiceError: SageMaker or CloudWatch does not answer. A retry can help.
    """
    import datetime as dt

    from pipelines.idle.endpoints import EndpointKind
    from pipelines.idle.sweep import sweep
    from pipelines.serving.undeployment import Endpoints

    endpoints = Endpoints()
    kinds_to_stop: tuple[KindName, ...] = ("endpoint",) if spec.delete else ()
    if kinds_to_stop:
        endpoints.finish_deletions()
    findings = sweep([EndpointKind(endpoints)], dt.timedelta(hours=spec.hours), kinds_to_stop, endpoints.region)
    idle_names, exempt_names, unknown_names, used_again_names, stopped_names = (
        [finding.name for finding in findings if finding.outcome == outcome]
        for outcome in ("idle", "exempt", "unknown", "used_again", "stopped")
    )
    return StopIdleResult(
        idle=idle_names,
        exempt=exempt_names,
        unknown=unknown_names,
        used_again=used_again_names,
        stopped=stopped_names,
    )
