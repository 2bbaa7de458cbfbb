"""Record in the model's history which version an endpoint serves, why a deployment failed, or how a shadow ended.

Idempotent.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from pipelines.contract import Result, Spec
from pipelines.system.log import log

NEW_ENDPOINT = "a new endpoint"
"""Reason of the first deployment to an endpoint."""
EVIDENCE = {
    *("config", "alarms", "region", "instance_type", "instance_count", "project"),
    *("serverless_memory_mb", "serverless_load"),
}
"""Fields of the spec that the event stores as evidence."""


class RecordDeploymentSpec(Spec):
    """A deployment or a shadow that has ended."""

    model: str
    """Registered model."""
    version: str
    """Version that was deployed, that could not be deployed, that was undeployed, or that was the shadow."""
    endpoint: str
    """Name of the endpoint."""
    outcome: Literal[
        "deployed", "deployment_failed", "undeployed", "shadow_passed", "shadow_failed", "shadow_undecided"
    ]
    """How the deployment or the shadow ended."""
    config: str = ""
    """Name of SageMaker's endpoint configuration."""
    why: str = ""
    """The reason, in words; for a rollback, the alarm."""
    created: AwareDatetime | None = None
    """When the endpoint was created. If no deployment to it was recorded since then, the reason is `NEW_ENDPOINT`
    instead of `why`."""
    alarms: list[str] = Field(default_factory=list)
    """Alarms that caused a rollback."""
    region: str = ""
    """AWS region of the endpoint. From it and the next five fields, the costs of the endpoint are computed."""
    instance_type: str = ""
    """Instance type of the deployment."""
    instance_count: int = Field(default=0, ge=0)
    """Number of instances of the deployment."""
    serverless_memory_mb: int = Field(default=0, ge=0)
    """Memory of a serverless deployment, MB; 0: the deployment has instances."""
    serverless_load: float = Field(default=0, ge=0)
    """Number of requests that a serverless deployment is expected to work on at a time, on average."""
    project: str = ""
    """Project that pays; empty: the project in section `budget` of the model's parameters."""


class RecordDeploymentResult(Result):
    """Whether the event was recorded, and what the endpoint served before."""

    model_name: str
    """Registered model."""
    version: str
    """Version of the event."""
    previous: str
    """Last version, other than `version`, that the endpoint served; empty if there was none."""
    changed: bool
    """Whether this call recorded the event; false if it was recorded before."""


def run(spec: RecordDeploymentSpec) -> RecordDeploymentResult:
    """Add the event to the table `lifecycle_events`.

    Raises:
        ConflictError: other writers kept adding events. A retry can help.
    """
    from pipelines.registry.lifecycle import Journal, Kind
    from pipelines.registry.lifecycle.deployments import has_deployment_since, record_deployment

    state = Journal.open().read_state(spec.model)
    versions = state.served_versions.get(spec.endpoint, ())
    is_new = spec.created is not None and not has_deployment_since(state, spec.endpoint, spec.created)
    why, evidence = NEW_ENDPOINT if is_new else spec.why, spec.model_dump(include=EVIDENCE)
    event = record_deployment(Kind(spec.outcome), spec.model, spec.version, spec.endpoint, why, evidence)
    log.info("%s version %s, endpoint %s: %s. %s", spec.model, spec.version, spec.endpoint, spec.outcome, why)
    other_versions = [version for version in versions if version != spec.version]
    return RecordDeploymentResult(
        model_name=spec.model,
        version=spec.version,
        previous=other_versions[-1] if other_versions else "",
        changed=event is not None,
    )
