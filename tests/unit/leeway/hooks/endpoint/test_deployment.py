"""Test what a task does with an endpoint that already serves its release."""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import dataclass, field
from typing import Any, cast

from leeway.hooks.endpoint.client import EndpointClient
from leeway.hooks.endpoint.deployment import Deployment, Release
from leeway.hooks.endpoint.wait import DeploymentWait
from leeway.hooks.sagemaker.costs import Costs
from leeway.hooks.step.hook import StepHook

from pipelines.serving.release_policy import ReleasePolicy

CREATED = dt.datetime(2026, 11, 25, tzinfo=dt.UTC)


@dataclass
class ServingEndpoint:
    """Stands for the client of an endpoint that serves the configuration `config`."""

    name: str = "flights"
    alarms: dict[str, Any] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        return {
            "EndpointName": self.name, "EndpointArn": "arn", "EndpointStatus": "InService",
            "EndpointConfigName": "config", "CreationTime": CREATED,
        }  # fmt: skip

    def read_own_tags(self, endpoint: Any) -> dict[str, str]:
        return {"leeway:version": "1"}

    def put_alarms(self, requests: list[dict[str, Any]]) -> None:
        self.alarms = {request["AlarmName"]: request["Threshold"] for request in requests}


class Recorder:
    """Stands for the hook that runs the steps; has the specs of the calls."""

    def __init__(self) -> None:
        self.specs: list[dict[str, Any]] = []

    def run(self, step: str, spec: dict[str, Any]) -> dict[str, Any]:
        assert step == "record_deployment"
        self.specs.append(spec)
        return {"previous": ""}


def finish(client: ServingEndpoint, **serving: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a task with these parameters of `serving`; return its result, and the spec of the recorded event."""
    policy, recorder = ReleasePolicy(**serving).model_dump(), Recorder()
    config = {"EndpointConfigName": "config"}
    release = Release("flights", "1", policy, {"ModelName": "model"}, config, [], {"dag_id": "d"}, is_rollback=False)
    allocation = type("Allocation", (), {"region": "us-east-1", "project": "p"})
    costs = cast(Costs, type("Costs", (), {"allocation": allocation}))
    deployment = Deployment(
        cast(EndpointClient, client), release, {}, costs, cast(StepHook, recorder), cast(DeploymentWait, None),
        logging.getLogger("test"),
    )  # fmt: skip
    result = deployment.resume(None)
    assert isinstance(result, dict)
    return result, recorder.specs[-1]


def test_changed_limits_of_alarms_are_applied_to_an_endpoint_that_serves_the_release_already() -> None:
    client = ServingEndpoint()
    result, _ = finish(client, error_count=3)
    assert client.alarms["leeway-flights-error-count"] == 3.0
    result, _ = finish(client, error_count=30, latency_ms=50)
    assert not result["changed"], "the configuration is the same"
    assert client.alarms["leeway-flights-error-count"] == 30.0
    assert client.alarms["leeway-flights-latency"] == 50_000.0
    finish(client, error_count=None)
    assert list(client.alarms) == ["leeway-flights-errors"]


def test_event_has_the_time_of_the_endpoints_creation_by_which_a_new_endpoint_is_recognised() -> None:
    _, spec = finish(ServingEndpoint())
    assert (spec["outcome"], spec["created"]) == ("deployed", CREATED.isoformat())
