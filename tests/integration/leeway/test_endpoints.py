"""Test the operators around an endpoint with a real drydock (rollback, deletion, idleness), and a real champion."""

import datetime as dt
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from leeway.operators.collect import CollectOperator
from leeway.operators.deploy import DeployOperator
from leeway.operators.endpoint_rollback import EndpointRollbackOperator
from leeway.operators.materialize import MaterializeOperator
from leeway.operators.undeploy import UndeployOperator

from pipelines.dataset import load_dataset
from pipelines.idle import sweep as idle_sweep
from pipelines.idle.endpoints import EndpointKind
from pipelines.idle.sweep import sweep
from pipelines.lake import Lake
from pipelines.registry.lifecycle import Journal, Kind
from pipelines.registry.lifecycle.deployments import record_deployment
from pipelines.serving.undeployment import Endpoints
from pipelines.steps import serving, stop_idle, sweep_idle, undeploy
from tests.tools import forking

pytestmark = pytest.mark.usefixtures("ended_endpoints")

ROOT = Path(__file__).parents[3]
AT_ONCE = {"traffic": "all_at_once", "wait_s": 0, "bake_s": 0}


@pytest.fixture
def project(write_serving_project):
    """Set LEEWAY_PROJECT to a project with two versions of `boats`, which are files; return it."""
    return write_serving_project({"versions/1": "good", "versions/2": "good", "params.yaml": ""})


def run_task(operator, run_id="run", **fields):
    """Run a task in the worker, as a DAG run's task, until it returns its result."""
    with DAG("endpoints"):
        task = operator(
            task_id="task", image_uri="image", deferrable=False, check_interval_s=1, serving=AT_ONCE,
            env={"LEEWAY_RUN": run_id}, **fields,
        )  # fmt: skip
    return task.execute({"ti": SimpleNamespace(run_id=run_id, map_index=-1, try_number=1, max_tries=2)})


def invoke(drydock, endpoint, body=b"1", content_type="text/csv"):
    response = drydock.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint, ContentType=content_type, Accept=content_type, Body=body
    )
    return response["Body"].read().decode()


def list_endpoints(drydock, name):
    return [item["EndpointName"] for item in drydock.client("sagemaker").list_endpoints(NameContains=name)["Endpoints"]]


def test_rollback_deploys_the_version_before_and_undeployment_leaves_nothing(drydock, project, tmp_path):
    fields = {"model": "boats", "endpoint": "goes-back", "python": str(tmp_path / "python")}
    with pytest.raises(AirflowFailException, match="endpoint goes-back has served no version of boats"):
        run_task(EndpointRollbackOperator, **fields)
    for version in ("1", "2"):
        run_task(DeployOperator, version=version, **fields)
    (project / "params.yaml").write_text("budget: {project: boat, month_usd: 1.0}\n")
    drydock.client("cloudwatch").set_alarm_state(
        AlarmName="leeway-goes-back-errors", StateValue="ALARM", StateReason="the present version fails"
    )
    result = run_task(EndpointRollbackOperator, "rollback", **fields)
    assert (result["version"], result["previous"], result["changed"]) == ("1", "2", True), (
        "alarm and budget do not count"
    )
    assert invoke(drydock, "goes-back") == "1"
    repeat = run_task(EndpointRollbackOperator, "rollback", **fields)
    assert (repeat["version"], repeat["changed"]) == ("1", False), "a run rolls back once"
    with pytest.raises(AirflowFailException, match="has served only version 1 of boats"):
        run_task(EndpointRollbackOperator, "another rollback", **fields)
    with DAG("endpoints"):
        task = UndeployOperator(task_id="undeploy", model="boats", endpoint="goes-back", aws_conn_id="aws_default")
    with DAG("endpoints"):
        wrong_model = UndeployOperator(task_id="wrong", model="ships", endpoint="goes-back", aws_conn_id="aws_default")
    with pytest.raises(AirflowFailException, match="endpoint goes-back serves the model boats, not ships"):
        wrong_model.execute({})
    assert task.execute({})["changed"] and not task.execute({})["changed"]
    sagemaker = drydock.client("sagemaker")
    assert list_endpoints(drydock, "goes-back") == []
    assert sagemaker.list_endpoint_configs(NameContains="goes-back")["EndpointConfigs"] == []
    assert [item for item in sagemaker.list_models()["Models"] if item["ModelName"].startswith("goes-back")] == []
    assert drydock.client("cloudwatch").describe_alarms(AlarmNamePrefix="leeway-goes-back")["MetricAlarms"] == []
    events = [(str(event.kind), event.version) for event in Journal.open().read_state("boats").events]
    assert events == [("deployed", "1"), ("deployed", "2"), ("deployed", "1"), ("undeployed", "1")]


class OlderEndpoints(EndpointKind):
    """Endpoints that were deployed two hours before they were."""

    def find(self, name):
        resource = super().find(name)
        return resource and replace(resource, changed_at=resource.changed_at - dt.timedelta(hours=2))


@pytest.mark.usefixtures("set_aws_variables", "fresh_settings")
def test_idle_endpoints_are_deleted_but_never_kept_foreign_or_called_ones(
    drydock, project, tmp_path, monkeypatch, until
):
    fields = {"model": "boats", "version": "1", "python": str(tmp_path / "python")}
    for name in ("idle-alone", "idle-kept", "idle-called"):
        result = run_task(DeployOperator, endpoint=name, **fields)
    sagemaker = drydock.client("sagemaker")
    arn = sagemaker.describe_endpoint(EndpointName="idle-kept")["EndpointArn"]
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "leeway:keep", "Value": "demo"}])
    sagemaker.create_endpoint(EndpointName="idle-foreign", EndpointConfigName=result["config"])
    until(lambda: sagemaker.describe_endpoint(EndpointName="idle-foreign")["EndpointStatus"] == "InService")
    assert stop_idle.run(stop_idle.StopIdleSpec(hours=1)).idle == [], "a deployment counts as a request"
    assert invoke(drydock, "idle-called") == "1"
    later = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=30)

    def list_idle(now):
        findings = sweep([OlderEndpoints(Endpoints())], dt.timedelta(hours=1), (), "us-east-1", lambda: now)
        return [(item.name, item.outcome) for item in findings if item.name.startswith("idle")]

    exempt = [("idle-foreign", "exempt"), ("idle-kept", "exempt")]
    assert list_idle(later + dt.timedelta(hours=2)) == [("idle-alone", "idle"), ("idle-called", "idle"), *exempt]
    assert invoke(drydock, "idle-foreign") == "1"
    # Who made an endpoint that is called does not matter.
    until(lambda: list_idle(later) == [("idle-alone", "idle"), exempt[1]])
    names = ("idle-alone", "idle-foreign", "idle-kept")
    monkeypatch.setattr(idle_sweep, "find_use_state", lambda _, item, *__: "idle" if item.name in names else "used")
    listed = stop_idle.run(stop_idle.StopIdleSpec())
    assert (listed.idle, listed.exempt, listed.stopped) == (["idle-alone"], ["idle-foreign", "idle-kept"], [])
    assert stop_idle.run(stop_idle.StopIdleSpec(delete=True)).stopped == ["idle-alone"]
    swept = sweep_idle.run(sweep_idle.SweepIdleSpec(kinds=["endpoint"], stop=["endpoint"]))
    assert (swept.exempt, swept.stopped) == (["endpoint idle-foreign", "endpoint idle-kept"], [])
    assert swept.usd_month["endpoint idle-foreign"] == pytest.approx(0.115 * 730, abs=0.01)
    assert sorted(list_endpoints(drydock, "idle-")) == ["idle-called", "idle-foreign", "idle-kept"]


@pytest.mark.usefixtures("set_aws_variables", "fresh_settings")
@pytest.mark.parametrize(
    "finish",
    [
        pytest.param(
            lambda: sweep_idle.run(sweep_idle.SweepIdleSpec(kinds=["endpoint"], stop=["endpoint"])),
            marks=pytest.mark.soak,
        ),
        pytest.param(lambda: stop_idle.run(stop_idle.StopIdleSpec(delete=True)), marks=pytest.mark.soak),
        lambda: undeploy.run(undeploy.UndeploySpec(model="boats", endpoint="is-killed")),
    ],
    ids=["sweep_idle", "stop_idle", "undeploy"],
)
def test_deletion_whose_process_was_killed_is_finished_later(drydock, project, tmp_path, until, finish):
    run_task(DeployOperator, model="boats", version="1", endpoint="is-killed", python=str(tmp_path / "python"))
    sagemaker = drydock.client("sagemaker")
    sagemaker.delete_endpoint(EndpointName="is-killed")  # all that the killed process did
    until(lambda: list_endpoints(drydock, "is-killed") == [])

    def list_rest():
        models = [item["ModelName"] for item in sagemaker.list_models()["Models"]]
        configs = sagemaker.list_endpoint_configs(NameContains="is-killed")["EndpointConfigs"]
        alarms = drydock.client("cloudwatch").describe_alarms(AlarmNamePrefix="leeway-is-killed")["MetricAlarms"]
        return [*(name for name in models if name.startswith("is-killed")), *configs, *alarms]

    def list_kinds():
        return [str(event.kind) for event in Journal.open().read_state("boats").events]

    evidence = {"endpoint": "elsewhere", "config": "c", "region": "us-east-1"}
    record_deployment(Kind.DEPLOYED, "ships", "1", "elsewhere", "", evidence)  # with the same lake, in another account
    stop_idle.run(stop_idle.StopIdleSpec())
    assert len(list_rest()) > 2 and list_kinds() == ["deployed"], "a sweep that deletes nothing finishes nothing"
    for _ in range(2):
        finish()
        assert list_rest() == [] and list_kinds() == ["deployed", "undeployed"]
    assert [event.kind for event in Journal.open().read_state("ships").events] == [Kind.DEPLOYED]


def test_endpoint_that_leeway_did_not_make_is_not_deleted(drydock, set_aws_variables, fresh_settings):
    from pipelines.errors import DataError

    with pytest.raises(DataError, match="there is no model nothing"):
        undeploy.run(undeploy.UndeploySpec(model="nothing"))
    sagemaker = drydock.client("sagemaker")
    sagemaker.create_model(
        ModelName="foreign", ExecutionRoleArn="arn:aws:iam::123456789012:role/x",
        PrimaryContainer={"Image": "image", "ModelDataUrl": "s3://leeway/leeway/features/none/model.tar.gz"},
    )  # fmt: skip
    variant = {"VariantName": "v", "ModelName": "foreign", "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(EndpointConfigName="foreign", ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName="foreign", EndpointConfigName="foreign")
    with pytest.raises(DataError, match="Leeway did not make the endpoint foreign"):
        undeploy.run(undeploy.UndeploySpec(model="boats", endpoint="foreign"))
    assert "foreign" in list_endpoints(drydock, "foreign")


def test_champion_of_the_registry_has_the_same_scores_on_its_endpoint(
    drydock, trained, with_mlflow, home, tmp_path, monkeypatch, fresh_settings
):
    """The real steps and the real package: each score is the one that the model gives in this process."""
    import mlflow

    from pipelines.registry.versions import Registry
    from pipelines.scoring import batch
    from tests.tools.candidates import register

    shutil.copytree(trained.data, tmp_path / "data")
    version = register("served")
    fields = {"model": "served", "endpoint": "served", "python": forking.ensure_stand_in()}
    (tmp_path / "without-models").mkdir()
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path / "without-models"))
    monkeypatch.setenv("LEEWAY_HOME", str(home))
    fresh_settings()
    with pytest.raises(AirflowFailException, match="served has no champion"):
        run_task(DeployOperator, **fields)
    with pytest.raises(AirflowFailException, match="the registry has no served version 99"):
        run_task(DeployOperator, version="99", **fields)
    with pytest.raises(AirflowFailException, match="nothing has no champion"):
        run_task(DeployOperator, **{**fields, "model": "nothing"})
    assert list_endpoints(drydock, "served") == []
    Registry.open().client.set_registered_model_alias("served", "champion", version)
    result = run_task(DeployOperator, **fields)
    assert (result["version"], result["changed"]) == (version, True)
    request = {"model": "served", "endpoint": "served"}
    assert serving.run(serving.ServingSpec(**request)).version == version, "without a folder, it is only chosen"
    serving.run(serving.ServingSpec(**request, folder=tmp_path / "shadow", beside=version))
    assert (tmp_path / "shadow/model.tar.gz").is_file(), "a version has the features of itself"
    model = mlflow.pyfunc.load_model(f"models:/served/{version}")
    features = [str(column.name) for column in model.metadata.signature.inputs.inputs]
    rows = pd.read_parquet(tmp_path / "data/features/holdout/data.parquet").head(50)
    batch.write_request([rows], features, tmp_path / "request")
    body = (tmp_path / "request/part-00000.jsonl").read_bytes()
    answer = invoke(drydock, "served", body, "application/jsonlines")
    scores = [json.loads(line) for line in answer.splitlines()]
    assert scores == [float(score) for score in model.predict(rows[features])]


@pytest.mark.usefixtures("set_aws_variables", "with_mlflow")
def test_values_are_materialized_and_captured_requests_are_read(
    drydock, trained, home, tmp_path, monkeypatch, fresh_settings, day_rows
):
    """The policies allow the calls of both: see `only_recorded_calls`. What they store is tested with their steps."""
    from tests.tools.candidates import register

    monkeypatch.setenv("LEEWAY_HOME", str(home))
    fresh_settings()
    flights, day = load_dataset("flights"), dt.date(2013, 2, 1)
    Lake.open().write_partition("flights", day, day_rows("2013-02-01"), flights.key)
    fields = {"dataset": "flights", "model": "captured", "partition": "2013-02-01"}
    with DAG("online"):
        materialize = MaterializeOperator(task_id="materialize", **fields)
        collect = CollectOperator(
            task_id="collect", **fields, version="1", endpoint="captured", captured="s3://leeway/leeway/capture/1"
        )
    results = [materialize.execute({}) for _ in range(2)]
    assert [result["written"] > 0 for result in results] == [True, False]

    shutil.copytree(trained.data, tmp_path / "data")
    assert register("captured") == "1"
    key = "leeway/capture/1/captured/AllTraffic/2013/02/01/08/00.jsonl"
    drydock.client("s3").put_object(Bucket="leeway", Key=key, Body=b"{}")
    ti: Any = SimpleNamespace(xcom_push=lambda *_: None)
    with pytest.raises(AirflowSkipException, match="captured captured no row of 2013-02-01"):
        collect.execute({"ti": ti})
