"""Test what a task does with an endpoint that already serves its release, or that was rolled back."""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from leeway.hooks.endpoint.client import EndpointClient
from leeway.hooks.endpoint.deployment import Deployment, Release
from leeway.hooks.endpoint.deployment_tag import DEPLOYMENT_TAG
from leeway.hooks.endpoint.requests import build_deployment_tag
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


ALARM_REASON = "The update was rolled back because the alarm leeway-flights-errors was in the state ALARM."
CAPACITY_REASON = "CapacityError: unable to provision instances"
RUN = {"dag_id": "d", "run_id": "r", "task_id": "deploy", "map_index": -1}


class Killed(BaseException):
    """The process was killed."""


@dataclass
class RolledBackEndpoint(ServingEndpoint):
    """Stands for the client of an endpoint whose update to `config` was rolled back; kills its caller at one call."""

    reason: str = ALARM_REASON
    killing_call: int = -1
    tags: dict[str, str] = field(default_factory=lambda: {DEPLOYMENT_TAG: build_deployment_tag("config", RUN)})
    calls: int = 0

    def describe(self) -> dict[str, Any]:
        changed = {"EndpointConfigName": "old", "FailureReason": self.reason, "LastModifiedTime": CREATED}
        return {**super().describe(), **changed}

    def read_own_tags(self, endpoint: Any) -> dict[str, str]:
        return dict(self.tags)

    def list_alarms(self) -> dict[str, str]:
        return {"leeway-flights-errors": "Threshold Crossed"}

    def list_raised_alarms(self) -> dict[str, str]:
        return {}

    def read_log_end(self) -> list[str]:
        self._count_call()
        return []

    def delete_config_and_model(self, config_name: str, model_name: str) -> None:
        self._count_call()

    def set_tags(self, endpoint: Any, tags: dict[str, str]) -> None:
        self.tags.update(tags)
        self._count_call()

    def remove_tag(self, endpoint: Any, key: str) -> None:
        self.tags.pop(key, None)
        self._count_call()

    def create_model_and_config(self, model: Any, config: Any) -> None:
        """Begin another deployment."""

    def _count_call(self) -> None:
        self.calls += 1
        if self.calls - 1 == self.killing_call:
            raise Killed


def resume(client: RolledBackEndpoint, max_tries: int = 2, **task: Any) -> DeploymentWait:
    """Run a try of the task; return the wait that begins a deployment."""
    release = Release(
        "flights", "1", ReleasePolicy().model_dump(), {"ModelName": "model"}, {"EndpointConfigName": "config"}, [],
        {**RUN, **task}, is_rollback=True, max_tries=max_tries,
    )  # fmt: skip
    allocation = type("Allocation", (), {"region": "us-east-1", "project": "p"})
    costs = cast(Costs, type("Costs", (), {"allocation": allocation}))
    wait = DeploymentWait(endpoint="flights", config_name="", check_interval_s=1, max_duration_s=1)
    deployment = Deployment(
        cast(EndpointClient, client), release, {}, costs, cast(StepHook, Recorder()), wait, logging.getLogger("test")
    )
    result = deployment.resume(None)
    assert isinstance(result, DeploymentWait)
    return result


@pytest.mark.parametrize("call", range(3))
def test_retry_reports_the_same_failure_at_whatever_call_the_process_was_killed(call: int) -> None:
    client = RolledBackEndpoint(killing_call=call)
    with pytest.raises(Killed):
        resume(client)
    for _ in range(2):
        with pytest.raises(AirflowFailException, match="rolled back by alarm leeway-flights-errors"):
            resume(client)


@pytest.mark.parametrize("change", [{"max_tries": 3}, {"run_id": "next"}])
def test_cleared_task_and_next_run_deploy_again_after_a_reported_failure(change: dict[str, Any]) -> None:
    client = RolledBackEndpoint()
    with pytest.raises(AirflowFailException):
        resume(client)
    wait = resume(client, **change)
    assert (wait.verb, wait.config_name, wait.modification) == ("update", "config", CREATED.isoformat())


def test_cleared_task_reports_a_failure_first_that_no_try_has_reported() -> None:
    client = RolledBackEndpoint()
    with pytest.raises(AirflowFailException):
        resume(client, max_tries=3)
    with pytest.raises(AirflowFailException):
        resume(client, max_tries=3)
    assert resume(client, max_tries=4).verb == "update"


@pytest.mark.parametrize("call", range(3))
def test_retry_deploys_again_only_after_a_reported_failure_of_sagemaker(call: int) -> None:
    client = RolledBackEndpoint(reason=CAPACITY_REASON, killing_call=call)
    with pytest.raises(Killed):
        resume(client)
    if DEPLOYMENT_TAG in client.tags:
        with pytest.raises(AirflowException) as error:
            resume(client)
        assert type(error.value) is AirflowException, "a retry can help"
    assert resume(client).verb == "update"


@pytest.mark.parametrize(("modified", "is_begun"), [(CREATED, False), (CREATED - dt.timedelta(seconds=1), True)])
def test_announced_deployment_has_begun_only_if_the_endpoint_was_modified_since(
    modified: dt.datetime, is_begun: bool
) -> None:
    client = RolledBackEndpoint()
    client.tags[DEPLOYMENT_TAG] += f"@{modified.isoformat()}"
    if is_begun:
        with pytest.raises(AirflowFailException):
            resume(client)
    else:
        assert resume(client).verb == "update"
