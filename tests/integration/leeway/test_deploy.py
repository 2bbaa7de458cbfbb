"""Test DeployOperator with a real drydock: releases, rollbacks by alarms, killed workers, and what is left."""

import asyncio
import datetime as dt
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from leeway.hooks.endpoint.wait_for_endpoint import _EndpointMonitor
from leeway.operators.deploy import DeployOperator

from pipelines.costs.endpoints.ledger import EndpointLedger
from pipelines.registry.lifecycle import Journal
from pipelines.serving.metering.meter import meter_endpoints
from pipelines.serving.metering.running import list_running_fleets
from pipelines.steps import undeploy
from tests.tools.endpoint_requests import Requests, invoke
from tests.tools.killed_worker import kill_worker
from tests.tools.outages import post_to_drydock

pytestmark = pytest.mark.usefixtures("ended_endpoints")

ROOT = Path(__file__).parents[3]
AT_ONCE = {"traffic": "all_at_once", "wait_s": 0, "bake_s": 0, "error_count": 3}
CANARY = {**AT_ONCE, "traffic": "canary", "step_percent": 50}
NAMES = ("model", "version", "endpoint", "serving", "image_uri", "python")
"""Arguments of a DeployOperator that a killed worker gets."""


@pytest.fixture
def project(write_serving_project):
    """Set LEEWAY_PROJECT to a project whose versions are files; return it."""
    return write_serving_project({"versions/1": "good", "versions/2": "good", "champion": "1", "params.yaml": ""})


@pytest.fixture
def endpoint(request):
    """Return the name of the test's endpoint."""
    return "".join(character if character.isalnum() else "-" for character in request.node.name)[:40].strip("-")


@pytest.fixture
def make_task(request, tmp_path, endpoint):
    """Return the function that makes a new operator of the same task, as each try of a task does."""

    def make(**fields):
        fields = {"serving": AT_ONCE, "endpoint": endpoint, **fields}
        with DAG("".join(character if character.isalnum() else "-" for character in request.node.name)):
            return DeployOperator(
                task_id="deploy", model="boats", image_uri="image", python=str(tmp_path / "python"), **fields
            )

    return make


@pytest.fixture
def deploy(make_task, context, finish):
    """Return the function that runs a task until it returns its result."""

    def run(task_context=context, **fields):
        try:
            return make_task(**fields).execute(task_context)
        except TaskDeferred as deferral:
            return finish(make_task(**fields), deferral)

    return run


@pytest.fixture
def cleared(context):
    """Return the context of the next try after a person has cleared the task. A retry has the same max_tries."""
    return {"ti": SimpleNamespace(**{**vars(context["ti"]), "try_number": 2, "max_tries": 3})}


def begin(task, context):
    """Run a task until it defers, and return the exception."""
    with pytest.raises(TaskDeferred) as deferral:
        task.execute(context)
    return deferral.value


def begin_and_lose(task, context):
    """Run a task until its deployment has begun and is tagged; its trigger is lost, as with its machine."""
    trigger = begin(task, context).trigger
    asyncio.run(_EndpointMonitor(trigger.wait, trigger.log).check())


def describe(drydock, endpoint):
    return drydock.client("sagemaker").describe_endpoint(EndpointName=endpoint)


def list_resources(drydock, endpoint):
    """Return the names of what Leeway made for an endpoint."""
    sagemaker, cloudwatch = drydock.client("sagemaker"), drydock.client("cloudwatch")
    alarms = cloudwatch.describe_alarms(AlarmNamePrefix=f"leeway-{endpoint}")["MetricAlarms"]
    return {
        "endpoints": [item["EndpointName"] for item in sagemaker.list_endpoints(NameContains=endpoint)["Endpoints"]],
        "configs": [
            item["EndpointConfigName"]
            for item in sagemaker.list_endpoint_configs(NameContains=endpoint)["EndpointConfigs"]
        ],
        "models": [
            name for name in drydock.list_all("list_models", "Models", "ModelName") if name.startswith(endpoint)
        ],
        "alarms": sorted(alarm["AlarmName"] for alarm in alarms),
    }


def read_thresholds(drydock, endpoint):
    """Return the threshold of each alarm of an endpoint, by its kind."""
    prefix = f"leeway-{endpoint}-"
    alarms = drydock.client("cloudwatch").describe_alarms(AlarmNamePrefix=prefix)["MetricAlarms"]
    return {alarm["AlarmName"].removeprefix(prefix): alarm["Threshold"] for alarm in alarms}


def list_events(endpoint):
    events = Journal.open().read_state("boats").events
    return [event for event in events if event.evidence["endpoint"] == endpoint]


def test_champion_is_deployed_once_and_then_updated(drydock, project, deploy, endpoint):
    first = deploy()
    assert (first["version"], first["previous"], first["changed"], first["endpoint"]) == ("1", "", True, endpoint)
    assert (first["cost_usd_h"], first["cost_usd_month"]) == (0.115, 83.95)
    assert first["endpoint_arn"] == describe(drydock, endpoint)["EndpointArn"]
    assert invoke(drydock, endpoint) == "1"
    created_at = describe(drydock, endpoint)["LastModifiedTime"]
    assert deploy() == {**first, "changed": False, "cost_usd_h": None, "cost_usd_month": None}
    assert describe(drydock, endpoint)["LastModifiedTime"] == created_at
    assert deploy(serving={**AT_ONCE, "error_count": 30, "latency_ms": 50})["changed"] is False
    assert read_thresholds(drydock, endpoint) == {"error-count": 30.0, "errors": 0.01, "latency": 50_000.0}
    assert deploy(serving={**AT_ONCE, "error_count": None, "error_percent": 7})["changed"] is False
    assert read_thresholds(drydock, endpoint) == {"errors": 0.07}
    assert describe(drydock, endpoint)["LastModifiedTime"] == created_at, "only the alarms have changed"
    (project / "champion").write_text("2")
    second = deploy()
    assert (second["version"], second["previous"], second["changed"]) == ("2", "1", True)
    assert invoke(drydock, endpoint) == "2"
    resources = list_resources(drydock, endpoint)
    assert resources["configs"] == [second["config"]] and len(resources["models"]) == 1, "the older ones are deleted"
    assert resources["alarms"] == [f"leeway-{endpoint}-error-count", f"leeway-{endpoint}-errors"]
    assert [(str(event.kind), event.version) for event in list_events(endpoint)] == [
        ("deployed", "1"),
        ("deployed", "2"),
    ]
    changed = deploy(serving={**AT_ONCE, "instance_count": 2, "error_count": None})
    assert changed["config"] != second["config"]
    assert describe(drydock, endpoint)["ProductionVariants"][0]["DesiredInstanceCount"] == 2
    assert list_resources(drydock, endpoint)["alarms"] == [f"leeway-{endpoint}-errors"]


@pytest.mark.usefixtures("set_aws_variables")
def test_a_serverless_version_is_released_at_once_and_its_costs_are_those_of_its_load(
    drydock, project, deploy, endpoint
):
    (project / "params.yaml").write_text("budget: {project: cloud, month_usd: 30.0}\n")
    serverless = {"serverless_memory_mb": 2_048, "serverless_max_concurrency": 2, "serverless_load": 0.25}
    first = deploy(serving=serverless)
    assert (first["cost_usd_h"], first["cost_usd_month"]) == (0.036, 26.28)
    (variant,) = describe(drydock, endpoint)["ProductionVariants"]
    assert variant["CurrentServerlessConfig"] == {"MemorySizeInMB": 2_048, "MaxConcurrency": 2}
    assert invoke(drydock, endpoint) == "1"

    # The budget counts it before it is metered: the load of a second one does not fit.
    (running,) = [item for item in list_running_fleets() if item.fleet.endpoint == endpoint]
    assert (running.fleet.machine, running.usd_h) == ("serverless 2 GB", pytest.approx(0.036))
    with pytest.raises(AirflowFailException, match=r"other endpoints cost 26.28 USD"):
        deploy(serving=serverless, endpoint=f"{endpoint[:39]}-2")

    (project / "champion").write_text("2")
    second = deploy(serving={**serverless, "serverless_max_concurrency": 3})
    assert (second["version"], second["previous"], invoke(drydock, endpoint)) == ("2", "1", "2")
    assert describe(drydock, endpoint)["ProductionVariants"][0]["CurrentServerlessConfig"]["MaxConcurrency"] == 3
    assert list_resources(drydock, endpoint)["configs"] == [second["config"]]
    assert [event.why for event in list_events(endpoint)] == [
        f"endpoint {endpoint}: a new endpoint",
        f"endpoint {endpoint}: all_at_once release",
    ]
    last = list_events(endpoint)[-1]
    assert (last.evidence["serverless_memory_mb"], last.evidence["instance_type"]) == (2_048, "")
    hour = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)
    meter_endpoints(hour + dt.timedelta(hours=2, minutes=6))
    rows = [row for row in EndpointLedger.open().read_rows() if row["endpoint"] == endpoint]
    assert {(row["memory_mb"], row["instance_type"]) for row in rows} == {(2_048, "")}
    assert sum(row["requests"] for row in rows) == 2


@pytest.mark.soak
def test_instances_do_not_become_serverless(drydock, project, deploy, endpoint):
    first = deploy()
    with pytest.raises(AirflowFailException, match="has instances, and SageMaker cannot make it serverless"):
        deploy(serving={"serverless_memory_mb": 1_024}, version="2")
    assert invoke(drydock, endpoint) == "1"
    assert list_resources(drydock, endpoint)["configs"] == [first["config"]]


def test_version_whose_inference_fails_is_rolled_back_by_its_alarm(drydock, project, deploy, endpoint, cleared):
    first = deploy()
    (project / "versions/2").write_text("broken")
    with Requests(drydock, endpoint) as requests, pytest.raises(AirflowFailException) as error:
        deploy(version="2", serving={**CANARY, "wait_s": 600})
    alarm = f"leeway-{endpoint}-error-count"
    text = f"version 2 of boats was not deployed to endpoint {endpoint}, and the endpoint serves what it served before"
    assert f"{text}: rolled back by alarm {alarm} (Threshold Crossed: Sum of Invocation5XXErrors" in str(error.value)
    assert "\n" not in str(error.value)
    assert set(requests.answers) == {"1", "ModelError"}
    assert {invoke(drydock, endpoint) for _ in range(10)} == {"1"}
    assert list_resources(drydock, endpoint)["configs"] == [first["config"]]
    event = list_events(endpoint)[-1]
    assert (str(event.kind), event.version, event.evidence["alarms"]) == ("deployment_failed", "2", [alarm])
    assert "Threshold Crossed" in event.why
    with pytest.raises(AirflowException, match="is in the state ALARM already") as error:
        deploy(cleared, version="2", serving=CANARY)
    assert type(error.value) is AirflowException, "a retry can help once the alarm is OK"


@pytest.mark.soak
@pytest.mark.usefixtures("fresh_settings")
def test_version_before_comes_back_at_once_whatever_alarms_and_budget_say(drydock, project, deploy, endpoint):
    for version in ("1", "2"):
        deploy(version=version)
    (project / "params.yaml").write_text("budget: {project: boat, month_usd: 1.0}\n")
    set_alarm(drydock, endpoint, "ALARM")
    result = deploy(version="1", serving={**CANARY, "wait_s": 600})
    assert (result["version"], result["previous"], invoke(drydock, endpoint)) == ("1", "2", "1")
    set_alarm(drydock, endpoint, "OK")
    with pytest.raises(AirflowFailException, match="the budget does not allow endpoint"):
        deploy(version="2")  # it is later than version 1, so this is no rollback


@pytest.mark.soak
def test_retry_of_a_killed_worker_attaches_to_the_deployment(
    drydock, project, make_task, deploy, context, finish, endpoint
):
    deploy()
    fields = {"version": "2", "serving": {**CANARY, "wait_s": 15}}  # a slow machine needs some seconds until `begin`
    tag = "leeway.hooks.endpoint.wait_for_endpoint:_EndpointMonitor._tag"
    kill_worker(make_task(**fields), NAMES, tag, is_called=False)
    pending = describe(drydock, endpoint)["PendingDeploymentSummary"]["EndpointConfigName"]
    deferral = begin(make_task(**fields), context)
    assert (deferral.trigger.wait.verb, deferral.trigger.wait.config_name) == ("", pending), "no second update"
    result = finish(make_task(**fields), deferral)
    assert (result["config"], result["changed"], invoke(drydock, endpoint)) == (pending, True, "2")


@pytest.mark.soak
def test_rollback_while_no_task_waited_is_reported_by_each_retry_and_deployed_again_after_a_clear(
    drydock, project, make_task, deploy, context, cleared, endpoint, until
):
    deploy()
    fields = {"version": "2", "serving": {**CANARY, "wait_s": 600}}
    begin_and_lose(make_task(**fields), context)
    set_alarm(drydock, endpoint, "ALARM")
    until(lambda: describe(drydock, endpoint)["EndpointStatus"] == "InService")
    for state in ("ALARM", "OK"):  # Airflow may not have got the error of the first of these tries
        set_alarm(drydock, endpoint, state)
        with pytest.raises(AirflowFailException, match=f"rolled back by alarm leeway-{endpoint}-errors"):
            make_task(**fields).execute(context)
    assert [str(event.kind) for event in list_events(endpoint)] == ["deployed", "deployment_failed"]
    assert begin(make_task(**fields), cleared).trigger.wait.verb == "update", "a person has cleared the task"
    next_run = {"ti": SimpleNamespace(**{**vars(context["ti"]), "run_id": "next"})}
    assert begin(make_task(**fields), next_run).trigger.wait.verb == "update"


@pytest.mark.soak
def test_restarted_triggerer_does_not_release_a_rolled_back_version_again(
    drydock, project, make_task, deploy, context, resume, endpoint, until
):
    first = deploy()
    fields = {"version": "2", "serving": {**CANARY, "wait_s": 600}}
    deferral = begin(make_task(**fields), context)
    check_once(deferral)
    set_alarm(drydock, endpoint, "ALARM")
    until(lambda: describe(drydock, endpoint)["EndpointStatus"] == "InService")
    set_alarm(drydock, endpoint, "OK")
    modified_at = describe(drydock, endpoint)["LastModifiedTime"]
    assert not check_once(deferral), "nothing is in progress"
    assert describe(drydock, endpoint)["LastModifiedTime"] == modified_at
    with pytest.raises(AirflowFailException, match=f"rolled back by alarm leeway-{endpoint}-errors"):
        resume(make_task(**fields), deferral)
    assert describe(drydock, endpoint)["EndpointConfigName"] == first["config"]
    assert [str(event.kind) for event in list_events(endpoint)] == ["deployed", "deployment_failed"]


def test_restarted_triggerer_does_not_release_a_deployed_version_again(
    drydock, project, make_task, deploy, context, finish, endpoint, until
):
    deploy()
    fields = {"version": "2", "serving": {**CANARY, "wait_s": 1}}
    deferral = begin(make_task(**fields), context)
    check_once(deferral)
    until(lambda: describe(drydock, endpoint)["EndpointStatus"] == "InService")
    modified_at = describe(drydock, endpoint)["LastModifiedTime"]
    result = finish(make_task(**fields), deferral)
    assert (result["version"], result["changed"], invoke(drydock, endpoint)) == ("2", True, "2")
    assert describe(drydock, endpoint)["LastModifiedTime"] == modified_at, "no second canary"


def check_once(deferral):
    """Build the stored trigger, as a triggerer that starts does, let it check the endpoint once, and lose it."""
    _, fields = deferral.trigger.serialize()
    trigger = type(deferral.trigger)(**json.loads(json.dumps(fields)))
    return asyncio.run(_EndpointMonitor(trigger.wait, trigger.log).check())


KILLED = {
    "before the request": ("leeway.hooks.endpoint.wait_for_endpoint:_EndpointMonitor._begin", False),
    "after the request": ("leeway.hooks.endpoint.wait_for_endpoint:_EndpointMonitor._tag", True),
}


@pytest.mark.parametrize("moment", [pytest.param("before the request", marks=pytest.mark.soak), "after the request"])
def test_retry_of_a_worker_that_was_killed_at_the_request_knows_whether_the_update_began(
    moment, drydock, project, make_task, deploy, context, endpoint, until
):
    deploy()
    fields = {"version": "2", "serving": {**CANARY, "wait_s": 600}}
    function, has_begun = KILLED[moment]
    kill_worker(make_task(**fields), NAMES, function, is_called=False)
    assert (describe(drydock, endpoint)["EndpointStatus"] == "Updating") == has_begun
    if not has_begun:
        assert begin(make_task(**fields), context).trigger.wait.verb == "update"
        return
    pending = describe(drydock, endpoint)["PendingDeploymentSummary"]["EndpointConfigName"]
    wait = begin(make_task(**fields), context).trigger.wait
    assert (wait.verb, wait.config_name) == ("", pending), "no second update"
    set_alarm(drydock, endpoint, "ALARM")
    until(lambda: describe(drydock, endpoint)["EndpointStatus"] == "InService")
    set_alarm(drydock, endpoint, "OK")
    with pytest.raises(AirflowFailException, match=f"rolled back by alarm leeway-{endpoint}-errors"):
        make_task(**fields).execute(context)


@pytest.mark.soak
@pytest.mark.parametrize("function", ["_discard", "_record"])
def test_retry_of_a_worker_that_was_killed_while_it_reports_a_failure_reports_the_same(
    function, drydock, project, make_task, deploy, context, endpoint
):
    first = deploy()
    (project / "versions/2").write_text("crash")
    module = "leeway.hooks.endpoint.deployment:Deployment"
    kill_worker(make_task(version="2"), NAMES, f"{module}.{function}", is_called=False)
    for _ in range(2):
        with pytest.raises(AirflowFailException, match=r"serves what it served before: .*the weights are missing"):
            make_task(version="2").execute(context)
    assert list_resources(drydock, endpoint)["configs"] == [first["config"]]
    assert [str(event.kind) for event in list_events(endpoint)] == ["deployed", "deployment_failed"]


def set_alarm(drydock, endpoint, state):
    drydock.client("cloudwatch").set_alarm_state(
        AlarmName=f"leeway-{endpoint}-errors", StateValue=state, StateReason="rehearsed"
    )


@pytest.mark.soak
def test_update_that_another_process_began_first_is_followed_by_this_one(
    drydock, project, make_task, deploy, context, finish, endpoint
):
    deploy()
    deferral = begin(make_task(serving={**AT_ONCE, "instance_count": 2}), context)
    assert deferral.trigger.wait.verb == "update"
    begin_and_lose(make_task(version="2", serving={**CANARY, "wait_s": 3}), context)
    waiting = begin(make_task(serving={**AT_ONCE, "instance_count": 2}), context).trigger.wait
    assert (waiting.verb, waiting.config_name) == ("", ""), "another try waits for the end of the deployment first"
    result = finish(make_task(serving={**AT_ONCE, "instance_count": 2}), deferral)
    assert (result["version"], invoke(drydock, endpoint)) == ("1", "1")


def test_model_that_does_not_load_leaves_nothing_or_the_old_version(drydock, project, deploy, endpoint, until, capsys):
    (project / "versions/2").write_text("crash")
    with pytest.raises(AirflowFailException, match=r"the endpoint was deleted: .*the weights are missing") as error:
        deploy(version="2")
    assert "\n" not in str(error.value)
    assert "loading version 2" in capsys.readouterr().out, "the task's log has the end of the endpoint's log"
    until(lambda: not any(list_resources(drydock, endpoint).values()))
    deploy()
    with pytest.raises(AirflowFailException, match=r"serves what it served before: .*the weights are missing"):
        deploy(version="2")
    assert invoke(drydock, endpoint) == "1"
    assert len(list_resources(drydock, endpoint)["models"]) == 1
    assert [str(event.kind) for event in list_events(endpoint)] == [
        "deployment_failed",
        "deployed",
        "deployment_failed",
    ]


@pytest.mark.usefixtures("fresh_settings")
def test_refuses_an_endpoint_that_exceeds_the_budget_and_creates_nothing(drydock, project, deploy, endpoint):
    (project / "params.yaml").write_text("budget: {project: boat, month_usd: 100.0}\nserving: {instance_count: 2}\n")
    with pytest.raises(AirflowFailException, match=r"a full month, 2 x ml.m5.large .* for 730 h, is 167.90 USD"):
        deploy()
    assert not any(list_resources(drydock, endpoint).values())
    assert deploy(serving={**AT_ONCE, "instance_count": 1})["cost_usd_month"] == 83.95


@pytest.mark.usefixtures("fresh_settings", "set_aws_variables")
def test_budget_counts_other_endpoints_of_the_project_and_deployments_are_charged_by_their_events(
    drydock, project, deploy, endpoint
):
    (project / "params.yaml").write_text("budget: {project: boat, month_usd: 150.0}\n")
    begin = dt.datetime.now(dt.UTC)
    deploy()
    with pytest.raises(AirflowFailException, match=r"150.00 USD a month, of which other endpoints cost 83.95 USD"):
        deploy(endpoint=f"{endpoint[:30]}-second")
    assert deploy(version="2")["version"] == "2", "the endpoint itself is replaced: it is no other endpoint"
    deploy(endpoint=f"{endpoint[:30]}-third", project="another")
    undeploy.run(undeploy.UndeploySpec(model="boats", endpoint=endpoint))
    end = dt.datetime.now(dt.UTC)
    meter_endpoints(end + dt.timedelta(hours=5))
    rows = [row for row in EndpointLedger.open().read_rows() if row["endpoint"] == endpoint]
    assert [(row["instance_type"], row["project"], row["running"]) for row in rows] == [
        ("ml.m5.large", "boat", False)
    ] * 2, "no metering saw the endpoint, and its events say what ran"
    assert begin < rows[0]["begin"] < rows[0]["end"] == rows[1]["begin"] < rows[1]["end"] < end
    running_fleets = [item.fleet for item in list_running_fleets()]
    assert [(item.project, item.model) for item in running_fleets if item.endpoint.startswith(endpoint[:30])] == [
        ("another", "boats")
    ]


def test_worker_waits_if_the_task_is_not_deferrable_and_a_task_without_requests_captures(
    drydock, project, make_task, context, endpoint, until
):
    task = make_task(deferrable=False, serving={**AT_ONCE, "capture_percent": 100}, check_interval_s=1)
    assert task.execute(context)["changed"]
    assert invoke(drydock, endpoint) == "1"
    prefix = f"leeway/capture/1/{endpoint}/AllTraffic/"
    listing = until(lambda: drydock.client("s3").list_objects_v2(Bucket="leeway", Prefix=prefix).get("Contents"))
    assert listing[0]["Key"].endswith(".jsonl")


REFUSED = {
    "canary of more than half": ({"serving": {"step_percent": 60}}, "step_percent.*less than or equal to 50"),
    "unknown key": ({"serving": {"colour": "red"}}, "unknown key colour"),
    "endpoint's name": ({"endpoint": "a_b"}, "hyphens between them, unlike 'a_b'"),
    "missing bucket": ({"bucket": "nobody-has-it"}, "the bucket nobody-has-it does not exist"),
    "no object": ({"serving": "[1]"}, "serving of the task deploy must be a JSON object, unlike \\[1\\]"),
    "interval": ({"check_interval_s": 0}, "check_interval_s of the task deploy must be"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_wrong_fields_in_one_line_and_creates_nothing(case, drydock, project, make_task, context, endpoint):
    fields, text = REFUSED[case]
    before = drydock.list_uploads()
    with pytest.raises(AirflowFailException, match=text) as error:
        make_task(**fields).execute(context)
    assert "\n" not in str(error.value)
    assert drydock.list_uploads() == before
    assert not any(list_resources(drydock, endpoint).values())


def test_endpoint_that_leeway_did_not_make_stays(drydock, project, deploy, make_task, context, endpoint):
    config = deploy()["config"]
    sagemaker, other = drydock.client("sagemaker"), f"{endpoint[:30]}-other"
    sagemaker.create_endpoint(EndpointName=other, EndpointConfigName=config)
    with pytest.raises(AirflowFailException, match="Leeway did not make the endpoint"):
        make_task(endpoint=other).execute(context)


@pytest.mark.soak
def test_request_that_sagemaker_refuses_leaves_the_endpoint_and_nothing_new(drydock, project, deploy, endpoint):
    first = deploy()
    outage = {"operation": "UpdateEndpoint", "status": 400, "code": "ValidationException", "times": 1, "for_s": 600}
    post_to_drydock(drydock, "outage", service="sagemaker", **outage)
    with pytest.raises(AirflowFailException, match=f"endpoint {endpoint} was not changed: "):
        deploy(version="2")
    assert list_resources(drydock, endpoint)["configs"] == [first["config"]]
    post_to_drydock(drydock, "outage", service="sagemaker", operation="UpdateEndpoint", status=503, times=2, for_s=600)
    assert deploy(version="2")["changed"], "a failure of SageMaker is retried"
