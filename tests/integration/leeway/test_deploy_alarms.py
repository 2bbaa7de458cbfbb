"""Test that real requests raise the alarms of DeployOperator on the share of errors and on the latency.

Such an alarm is known at the end of its period, a minute. So three endpoints are released side by side.
"""

import asyncio
from contextlib import ExitStack

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from leeway.hooks.endpoint.wait_for_endpoint import start_and_wait_for_endpoint
from leeway.operators.deploy import DeployOperator

from pipelines.registry.lifecycle import Journal
from tests.tools.endpoint_requests import Requests, invoke

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("ended_endpoints")]

PERIOD_S = 60
SERVING = {
    "traffic": "canary",
    "step_percent": 50,
    "wait_s": PERIOD_S + 2,  # at least one minute ends while the canary is watched
    "bake_s": 0,
    "error_percent": 10,
    "latency_ms": 300,
    "alarm_period_s": PERIOD_S,
}
MODES = {"1": "good", "2": "broken", "3": "slow", "4": "good"}
"""The versions, and how their models answer: with errors, after a second, or well."""
ALARMS = {"2": "errors", "3": "latency", "4": ""}
"""The alarm that each release raises; empty: none, so the release completes."""


@pytest.fixture
def make_task(write_serving_project, tmp_path):
    """Return the function that makes a new operator of the task that deploys a version to an endpoint of its own."""
    write_serving_project({"params.yaml": "", **{f"versions/{version}": mode for version, mode in MODES.items()}})

    def make(version, endpoint, **serving):
        with DAG("alarms"):
            return DeployOperator(
                task_id=endpoint, model="ships", version=version, endpoint=endpoint, serving={**SERVING, **serving},
                image_uri="image", python=str(tmp_path / "python"), check_interval_s=1,
            )  # fmt: skip

    return make


def begin(task, context):
    """Run a task until it defers, and return the exception."""
    with pytest.raises(TaskDeferred) as deferral:
        task.execute(context)
    return deferral.value


def resume(task, context, deferral, event):
    """Resume a task; return its result, or the text of its error."""
    try:
        return getattr(task, deferral.method_name)(context, event=event, **deferral.kwargs)
    except AirflowFailException as error:
        return str(error)


async def wait_for_all(triggers):
    """Begin the deployments as the triggerer does, all at once; return how each wait ended."""
    return await asyncio.gather(*(start_and_wait_for_endpoint(trigger.wait, trigger.log) for trigger in triggers))


def deploy_all(make_task, context, versions):
    """Deploy each version to its endpoint, side by side; return the task's result or error by endpoint."""
    tasks = {endpoint: make_task(version, endpoint) for endpoint, version in versions.items()}
    deferrals = {endpoint: begin(task, context) for endpoint, task in tasks.items()}
    events = asyncio.run(wait_for_all([deferral.trigger for deferral in deferrals.values()]))
    return {
        endpoint: resume(make_task(versions[endpoint], endpoint), context, deferrals[endpoint], event)
        for endpoint, event in zip(deferrals, events, strict=True)
    }


def test_errors_and_slow_answers_of_a_canary_raise_their_alarms_and_good_answers_raise_none(
    drydock, make_task, context
):
    endpoints = {f"alarm-{ALARMS[version] or 'none'}": version for version in ALARMS}
    deploy_all(make_task, context, dict.fromkeys(endpoints, "1"))
    with ExitStack() as traffic:
        requests = {name: traffic.enter_context(Requests(drydock, name, pause_s=0.1)) for name in endpoints}
        outcomes = deploy_all(make_task, context, endpoints)

    reasons = {"errors": "Average of Invocation5XXErrors", "latency": "Average of ModelLatency"}
    for kind, reason in reasons.items():
        endpoint = f"alarm-{kind}"
        assert f"rolled back by alarm leeway-{endpoint}-{kind} (Threshold Crossed: {reason}" in outcomes[endpoint]
        assert {invoke(drydock, endpoint) for _ in range(10)} == {"1"}, "the version before serves"
    assert set(requests["alarm-errors"].answers) == {"1", "ModelError"}
    assert set(requests["alarm-latency"].answers) == {"1", "3"}

    assert outcomes["alarm-none"]["version"] == "4"
    assert set(requests["alarm-none"].answers) == {"1", "4"}
    assert {invoke(drydock, "alarm-none") for _ in range(10)} == {"4"}
    events = [event for event in Journal.open().read_state("ships").events if event.version != "1"]
    assert {(str(event.kind), event.version, *event.evidence.get("alarms", ())) for event in events} == {
        ("deployment_failed", "2", "leeway-alarm-errors-errors"),
        ("deployment_failed", "3", "leeway-alarm-latency-latency"),
        ("deployed", "4"),
    }
