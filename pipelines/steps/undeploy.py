"""Delete an endpoint that Leeway created, with its configurations, models and alarms. Idempotent."""

from __future__ import annotations

from pydantic import Field

from pipelines.contract import Result, Spec


class UndeploySpec(Spec):
    """The endpoint to delete."""

    model: str
    """Registered model that the endpoint serves."""
    endpoint: str = ""
    """Name of the endpoint; empty: that of the model."""
    why: str = Field(default="undeployed on request", min_length=1)
    """The reason, for the event in the model's history."""


class UndeployResult(Result):
    """The endpoint, and whether it was deleted."""

    model_name: str
    """Registered model."""
    endpoint: str
    """Name of the endpoint."""
    changed: bool
    """Whether there was such an endpoint; false if it was deleted before."""


def run(spec: UndeploySpec) -> UndeployResult:
    """Delete the endpoint and what belongs to it, and wait until they are gone. The log of the endpoint stays.

    It is no error if the endpoint does not exist any more: a retry finds it deleted.

    Raises:
        DataError: Leeway did not make the endpoint, the endpoint serves another model, or it is being changed; or there
            is no such model, or it was never deployed to an endpoint of this name. A retry cannot help.
        SpecError: no AWS region is configured. A retry cannot help.
        ServiceError: SageMaker does not answer, or the deletion takes too long. A retry continues it.
    """
    from pipelines.registry.lifecycle import Journal
    from pipelines.serving.endpoint_resources import build_endpoint_name
    from pipelines.serving.undeployment import Endpoints, require_known_endpoint

    endpoint = spec.endpoint or build_endpoint_name(spec.model)
    is_changed = Endpoints().undeploy(endpoint, spec.why, spec.model)
    if not is_changed:
        require_known_endpoint(Journal.open().read_state(spec.model), spec.model, endpoint)
    return UndeployResult(model_name=spec.model, endpoint=endpoint, changed=is_changed)
