"""Test which requests for endpoints are refused, without starting an instance."""

from typing import Any

import pytest
from moto.sagemaker.exceptions import AWSValidationException

from drydock.api.endpoints_backend import EndpointsBackend
from drydock.endpoints.endpoint import Endpoint
from drydock.endpoints.records import EndpointStatus


def build_deployment(alarm: str = "", size: int = 50) -> dict[str, Any]:
    """Return a DeploymentConfig with a canary of so many percent, and an alarm unless it is empty."""
    canary = {"Type": "CANARY", "WaitIntervalInSeconds": 1, "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": size}}
    rollback = {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": alarm}]}} if alarm else {}
    return {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": canary}, **rollback}


REFUSED_DEPLOYMENTS = [
    (build_deployment(size=60), "CanarySize must be at most 50 percent of the instances, not 60%."),
    (build_deployment("missing"), "The CloudWatch alarm missing does not exist."),
    (
        build_deployment("expression"),
        "The CloudWatch alarm expression cannot guard an update: drydock evaluates only alarms on one metric.",
    ),
]


def create(backend: EndpointsBackend, name: str, **fields: Any) -> Endpoint:
    """Create an endpoint, and set its status to InService."""
    backend.begin_endpoint_creation({"EndpointName": name, "EndpointConfigName": "config", **fields})
    endpoint = backend.find_endpoint(name)
    endpoint.record.status = EndpointStatus.IN_SERVICE
    return endpoint


@pytest.mark.parametrize(("deployment", "message"), REFUSED_DEPLOYMENTS, ids=[text for _, text in REFUSED_DEPLOYMENTS])
def test_deployment_config_is_checked_at_creation_as_at_an_update(
    backend: EndpointsBackend, deployment: dict[str, Any], message: str
) -> None:
    request = {"EndpointConfigName": "config", "DeploymentConfig": deployment}
    with pytest.raises(AWSValidationException) as creation:
        backend.begin_endpoint_creation({"EndpointName": "new", **request})
    assert creation.value.message == message
    assert "new" not in backend.endpoints, "nothing is created"
    create(backend, "old")
    with pytest.raises(AWSValidationException) as update:
        backend.update_endpoint({"EndpointName": "old", **request})
    assert update.value.message == message


def test_deployment_config_of_the_creation_is_shown_and_retained_by_an_update(backend: EndpointsBackend) -> None:
    endpoint = create(backend, "kept", DeploymentConfig=build_deployment("good"))
    assert endpoint.describe()["LastDeploymentConfig"] == build_deployment("good")
    request = {"EndpointName": "kept", "EndpointConfigName": "config"}
    backend.update_endpoint({**request, "RetainDeploymentConfig": True})
    assert endpoint.record.deployment == build_deployment("good")
    endpoint.record.status = EndpointStatus.IN_SERVICE
    backend.update_endpoint(request)
    assert endpoint.record.deployment is None, "an update without the member retains nothing"


def test_a_variant_that_is_changed_twice_in_one_request_is_refused(backend: EndpointsBackend) -> None:
    endpoint = create(backend, "twice")
    name = endpoint.record.plan.variants[0].name
    changes = [{"VariantName": name, "DesiredWeight": weight} for weight in (0.5, 0.7)]
    with pytest.raises(AWSValidationException) as error:
        backend.scale_endpoint({"EndpointName": "twice", "DesiredWeightsAndCapacities": changes})
    assert error.value.message == f"The variant {name} is in DesiredWeightsAndCapacities more than once."
    assert endpoint.record.plan.variants[0].weight == 1.0
