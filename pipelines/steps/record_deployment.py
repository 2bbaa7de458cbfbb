"""Record in the model's history which version an endpoint serves, or why a deployment failed. Idempotent."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.system.log import log


class RecordDeploymentSpec(Spec):
    """A deployment that has ended."""

    model: str
    """Registered model."""
    version: str
    """Version that was deployed, that could not be deployed, or that was undeployed."""
    endpoint: str
    """Name of the endpoint."""
    outcome: Literal["deployed", "deployment_failed", "undeployed"]
    """How it ended."""
    config: str = ""
    """Name of SageMaker's endpoint configuration."""
    why: str = ""
    """The reason, in words; for a rollback, the alarm."""
    alarms: list[str] = Field(default_factory=list)
    """Alarms that caused a rollback."""


class RecordDeploymentResult(Result):
    """Whether the event was recorded, and what the endpoint served before."""

    model_name: str
    """Registered model."""
    version: str
    """Version of the event."""
    previous: str
    """Last other version that the endpoint served; empty if there was none."""
    changed: bool
    """Whether this call recorded the event; false if it was recorded before."""


def run(spec: RecordDeploymentSpec) -> RecordDeploymentResult:
    """Add the event to the table `lifecycle_events`.

    Raises:
        ConflictError: other writers kept adding events. A retry can help.
    """
    from pipelines.registry.lifecycle import Journal, Kind
    from pipelines.registry.lifecycle.deployments import record_deployment

    versions = Journal.open().read_state(spec.model).served.get(spec.endpoint, ())
    evidence = {"config": spec.config, "alarms": spec.alarms}
    event = record_deployment(Kind(spec.outcome), spec.model, spec.version, spec.endpoint, spec.why, evidence)
    log.info("%s version %s, endpoint %s: %s. %s", spec.model, spec.version, spec.endpoint, spec.outcome, spec.why)
    previous = [version for version in versions if version != spec.version]
    return RecordDeploymentResult(
        model_name=spec.model,
        version=spec.version,
        previous=previous[-1] if previous else "",
        changed=event is not None,
    )
