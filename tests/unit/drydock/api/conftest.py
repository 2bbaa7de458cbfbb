"""Provide a backend whose endpoints start nothing."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from moto.cloudwatch.models import cloudwatch_backends

from drydock.api.endpoints_backend import EndpointsBackend
from drydock.endpoints.endpoint import Endpoint
from drydock.endpoints.registry import Endpoints
from drydock.settings import Settings
from drydock.store import Store
from tests.tools.alarms import build_alarm

ACCOUNT, REGION = "123456789012", "us-east-1"
CONTAINER = {"Image": "image", "ModelDataUrl": "s3://bucket/model.tar.gz"}
CreateModel = Callable[..., Any]


@pytest.fixture
def create_model() -> CreateModel:
    """Return the function that creates a model by the arguments of moto's method, with some of them changed."""

    def create(backend: EndpointsBackend, name: str, **fields: Any) -> Any:
        arguments = {"execution_role_arn": f"arn:aws:iam::{ACCOUNT}:role/r", "primary_container": CONTAINER}
        return backend.create_model(name, **{**arguments, "containers": [], "vpc_config": None, "tags": [], **fields})

    return create


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, create_model: CreateModel) -> Iterator[EndpointsBackend]:
    """Return a backend with a configuration `config`, an alarm `good` and one on an expression; nothing is started."""
    monkeypatch.setattr(Endpoint, "_run_in_background", lambda *_: None)
    settings = Settings(tmp_path, "http://127.0.0.1:1", 1, 1)
    endpoints = Endpoints(Store(tmp_path / "db"), settings, cast(Any, None), cast(Any, None), lambda *_: None)
    backend = EndpointsBackend(endpoints, REGION, ACCOUNT)
    create_model(backend, "model")
    variant = {"VariantName": "main", "ModelName": "model", "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    backend.create_config({"EndpointConfigName": "config", "ProductionVariants": [variant]})
    alarms = cloudwatch_backends[ACCOUNT][REGION].alarms
    alarms["good"], alarms["expression"] = build_alarm({})[1], build_alarm({}, metric_data_queries=["m1 / m2"])[1]
    yield backend
    alarms.clear()
