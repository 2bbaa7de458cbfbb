"""Test which requests for endpoints are refused, without starting an instance."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from moto.cloudwatch.models import cloudwatch_backends
from moto.sagemaker.exceptions import AWSValidationException

from drydock.api.endpoints_backend import EndpointsBackend
from drydock.endpoints.endpoint import Endpoint
from drydock.endpoints.records import EndpointStatus
from drydock.endpoints.registry import Endpoints
from drydock.settings import Settings
from drydock.store import Store
from tests.tools.alarms import build_alarm

ACCOUNT, REGION = "123456789012", "us-east-1"
CONTAINER = {"Image": "image", "ModelDataUrl": "s3://bucket/model.tar.gz"}


def build_deployment(alarm: str = "", size: int = 50) -> dict[str, Any]:
    """Return a DeploymentConfig with a canary of so many percent, and an alarm unless it is empty."""
    canary = {"Type": "CANARY", "WaitIntervalInSeconds": 1, "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": size}}
    rollback = {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": alarm}]}} if alarm else {}
    return {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": canary}, **rollback}


def create_model(backend: EndpointsBackend, name: str, **fields: Any) -> None:
    """Create a model by the arguments of moto's method."""
    defaults = {"execution_role_arn": f"arn:aws:iam::{ACCOUNT}:role/r", "primary_container": None, "containers": []}
    backend.create_model(name, **{**defaults, "vpc_config": None, "tags": [], **fields})


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EndpointsBackend]:
    """Return a backend with a configuration `config`, an alarm `good` and one on an expression; nothing is started."""
    monkeypatch.setattr(Endpoint, "_run_in_background", lambda *_: None)
    settings = Settings(tmp_path, "http://127.0.0.1:1", 1, 1)
    endpoints = Endpoints(Store(tmp_path / "db"), settings, cast(Any, None), cast(Any, None), lambda *_: None)
    backend = EndpointsBackend(endpoints, REGION, ACCOUNT)
    create_model(backend, "model", primary_container=CONTAINER)
    variant = {"VariantName": "main", "ModelName": "model", "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    backend.create_config({"EndpointConfigName": "config", "ProductionVariants": [variant]})
    alarms = cloudwatch_backends[ACCOUNT][REGION].alarms
    alarms["good"], alarms["expression"] = build_alarm({})[1], build_alarm({}, metric_data_queries=["m1 / m2"])[1]
    yield backend
    alarms.clear()


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
    backend.start_endpoint({"EndpointName": name, "EndpointConfigName": "config", **fields})
    endpoint = backend.find_endpoint(name)
    endpoint.record.status = EndpointStatus.IN_SERVICE
    return endpoint


@pytest.mark.parametrize(("deployment", "message"), REFUSED_DEPLOYMENTS, ids=[text for _, text in REFUSED_DEPLOYMENTS])
def test_deployment_config_is_checked_at_creation_as_at_an_update(
    backend: EndpointsBackend, deployment: dict[str, Any], message: str
) -> None:
    request = {"EndpointConfigName": "config", "DeploymentConfig": deployment}
    with pytest.raises(AWSValidationException) as creation:
        backend.start_endpoint({"EndpointName": "new", **request})
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
