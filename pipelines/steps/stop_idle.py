"""Find the endpoints of Leeway that nobody calls, and delete them if `delete` is set. Idempotent."""

from __future__ import annotations

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.system.log import log


class StopIdleSpec(Spec):
    """When an endpoint is idle, and whether to delete it."""

    hours: int = Field(default=24, ge=1, le=1_440)
    """Hours without a request after which an endpoint is idle. A deployment counts as a request."""
    delete: bool = False
    """Whether idle endpoints are deleted; otherwise they are only listed."""


class StopIdleResult(Result):
    """The idle endpoints."""

    idle: list[str]
    """Endpoints that nobody called, without the exempt ones."""
    exempt: list[str]
    """Idle endpoints that stay, because they have the tag leeway:keep."""
    stopped: list[str]
    """Endpoints that this call deleted."""


def run(spec: StopIdleSpec) -> StopIdleResult:
    """List the idle endpoints, and delete them if `delete` is set. Endpoints that Leeway did not make are not touched.

    Raises:
        SpecError: no AWS region is configured. A retry cannot help.
        ServiceError: SageMaker or CloudWatch does not answer. A retry can help.
    """
    import datetime as dt

    from pipelines.serving.undeployment import KEEP_TAG, Endpoints

    endpoints = Endpoints()
    idle_endpoints = endpoints.list_idle(spec.hours, dt.datetime.now(dt.UTC))
    exempt = [item.name for item in idle_endpoints if KEEP_TAG in item.tags]
    idle = [item.name for item in idle_endpoints if item.name not in exempt]
    why = f"nobody called it for {spec.hours} h"
    for name in idle:
        log.info("endpoint %s: %s%s", name, why, "" if spec.delete else "; it is only listed")
    stopped_endpoints = [name for name in idle if spec.delete and endpoints.undeploy(name, why)]
    return StopIdleResult(idle=idle, exempt=exempt, stopped=stopped_endpoints)
