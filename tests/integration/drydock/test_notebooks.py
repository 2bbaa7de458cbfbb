"""Test notebook instances and Studio apps: their states, tags and CPU, and that they survive a kill."""

import datetime as dt
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

ROLE = "arn:aws:iam::123456789012:role/r"
APP = {"DomainId": "d-1", "UserProfileName": "ana", "AppType": "JupyterLab", "AppName": "lab"}


def create_notebook(server: Any, name: str, **fields: Any) -> str:
    response = server.client("sagemaker").create_notebook_instance(
        NotebookInstanceName=name, InstanceType="ml.t3.medium", RoleArn=ROLE, **fields
    )
    return str(response["NotebookInstanceArn"])


def describe(server: Any, name: str) -> dict[str, Any]:
    return dict(server.client("sagemaker").describe_notebook_instance(NotebookInstanceName=name))


def wait_for_status(server: Any, name: str, status: str) -> None:
    server.wait_until(f"{name} {status}", lambda: describe(server, name)["NotebookInstanceStatus"] == status)


def read_cpu(server: Any, name: str) -> float:
    """Return the highest CPU of a notebook instance in the last hour; -1 if there is no value."""
    now = dt.datetime.now(dt.UTC)
    response = server.client("cloudwatch").get_metric_statistics(
        Namespace="/aws/sagemaker/NotebookInstances", MetricName="CPUUtilization",
        Dimensions=[{"Name": "NotebookInstanceName", "Value": name}], StartTime=now - dt.timedelta(hours=1),
        EndTime=now + dt.timedelta(minutes=1), Period=60, Statistics=["Maximum"],
    )  # fmt: skip
    return max((point["Maximum"] for point in response["Datapoints"]), default=-1.0)


def test_a_notebook_instance_goes_through_sagemaker_s_states(drydock: Any) -> None:
    sagemaker = drydock.client("sagemaker")
    arn = create_notebook(
        drydock, "states", Tags=[{"Key": "team", "Value": "red"}], VolumeSizeInGB=20, SecurityGroupIds=["sg-1"]
    )
    assert describe(drydock, "states")["NotebookInstanceStatus"] == "Pending"
    with pytest.raises(ClientError, match=r"Status \(Pending\) not in \(\[InService\]\)"):
        sagemaker.stop_notebook_instance(NotebookInstanceName="states")
    wait_for_status(drydock, "states", "InService")
    notebook = describe(drydock, "states")
    assert (notebook["InstanceType"], notebook["VolumeSizeInGB"], notebook["NotebookInstanceArn"]) == (
        "ml.t3.medium",
        20,
        arn,
    )
    assert (notebook["SecurityGroups"], notebook["Url"]) == (["sg-1"], "states.notebook.us-east-1.sagemaker.aws")
    with pytest.raises(ClientError, match="duplicate"):
        create_notebook(drydock, "states")
    with pytest.raises(ClientError, match=r"Status \(InService\) not in \(\[Stopped, Failed\]\)"):
        sagemaker.delete_notebook_instance(NotebookInstanceName="states")
    sagemaker.stop_notebook_instance(NotebookInstanceName="states")
    assert describe(drydock, "states")["NotebookInstanceStatus"] == "Stopping"
    wait_for_status(drydock, "states", "Stopped")
    sagemaker.start_notebook_instance(NotebookInstanceName="states")
    wait_for_status(drydock, "states", "InService")
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "leeway:keep", "Value": "x"}])
    tags = sagemaker.list_tags(ResourceArn=arn)["Tags"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"team": "red", "leeway:keep": "x"}
    listed = sagemaker.list_notebook_instances(NameContains="states", StatusEquals="InService")["NotebookInstances"]
    assert [item["NotebookInstanceName"] for item in listed] == ["states"]
    assert sagemaker.list_notebook_instances(NameContains="states", StatusEquals="Stopped")["NotebookInstances"] == []
    sagemaker.stop_notebook_instance(NotebookInstanceName="states")
    wait_for_status(drydock, "states", "Stopped")
    sagemaker.delete_notebook_instance(NotebookInstanceName="states")

    def is_gone() -> bool:
        try:
            return describe(drydock, "states")["NotebookInstanceStatus"] != "Deleting"
        except ClientError as error:
            return "RecordNotFound" in str(error)

    drydock.wait_until("the deletion", is_gone)
    create_notebook(drydock, "states")


def test_list_has_the_filters_of_repositories_and_lifecycle_configurations(drydock: Any) -> None:
    fields = {
        "LifecycleConfigName": "stop-at-night",
        "DefaultCodeRepository": "https://git.example/main",
        "AdditionalCodeRepositories": ["https://git.example/more"],
    }
    create_notebook(drydock, "filtered", **fields)
    create_notebook(drydock, "filtered-plain")

    def list_names(**filters: str) -> list[str]:
        response = drydock.client("sagemaker").list_notebook_instances(NameContains="filtered", **filters)
        return [item["NotebookInstanceName"] for item in response["NotebookInstances"]]

    assert list_names() == ["filtered", "filtered-plain"]
    assert list_names(NotebookInstanceLifecycleConfigNameContains="at-night") == ["filtered"]
    assert list_names(NotebookInstanceLifecycleConfigNameContains="at-noon") == []
    assert list_names(DefaultCodeRepositoryContains="main") == ["filtered"]
    assert list_names(AdditionalCodeRepositoryEquals="https://git.example/more") == ["filtered"]
    assert list_names(AdditionalCodeRepositoryEquals="https://git.example") == []


def test_cpu_is_0_until_a_request_simulates_use(drydock: Any) -> None:
    create_notebook(drydock, "busy")
    assert read_cpu(drydock, "busy") == 0.0
    wait_for_status(drydock, "busy", "InService")
    drydock.send_command("use", notebook="busy", cpu=80)
    assert read_cpu(drydock, "busy") == 80.0
    assert read_cpu(drydock, "absent") == -1.0
    assert drydock.send_refused_command("use", notebook="absent") == (404, "no notebook absent is InService")


@pytest.mark.soak
def test_an_app_has_states_and_the_time_of_its_last_use(drydock: Any) -> None:
    sagemaker = drydock.client("sagemaker")
    arn = sagemaker.create_app(**APP, ResourceSpec={"InstanceType": "ml.t3.medium"})["AppArn"]
    with pytest.raises(ClientError, match="ResourceInUse"):
        sagemaker.create_app(**APP)
    with pytest.raises(ClientError, match="either UserProfileName or SpaceName"):
        sagemaker.create_app(**APP, SpaceName="s")
    drydock.wait_until("the app", lambda: sagemaker.describe_app(**APP)["Status"] == "InService")
    before = sagemaker.describe_app(**APP)
    drydock.send_command("use", app="lab")
    assert sagemaker.describe_app(**APP)["LastUserActivityTimestamp"] > before["LastUserActivityTimestamp"]
    assert before["ResourceSpec"] == {"InstanceType": "ml.t3.medium"}
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "b"}])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "a", "Value": "b"}]
    assert [app["AppName"] for app in sagemaker.list_apps(DomainIdEquals="d-1")["Apps"]] == ["lab"]
    assert sagemaker.list_apps(UserProfileNameEquals="bo")["Apps"] == []
    sagemaker.delete_app(**APP)
    drydock.wait_until("the deletion", lambda: sagemaker.describe_app(**APP)["Status"] == "Deleted")
    with pytest.raises(ClientError, match="ResourceNotFound"):
        sagemaker.delete_app(**APP)
    sagemaker.create_app(**APP)
    with pytest.raises(ClientError, match="ResourceNotFound"):
        sagemaker.describe_app(**{**APP, "AppName": "other"})


def test_notebook_instances_apps_and_cpu_survive_a_kill(run_drydock: Any, tmp_path: Path) -> None:
    with run_drydock(tmp_path) as server:
        create_notebook(server, "stays", Tags=[{"Key": "team", "Value": "red"}])
        wait_for_status(server, "stays", "InService")
        server.send_command("use", notebook="stays", cpu=70)
        server.client("sagemaker").stop_notebook_instance(NotebookInstanceName="stays")
        server.client("sagemaker").create_app(**APP)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    (tmp_path / "port").unlink()
    with run_drydock(tmp_path) as server:
        wait_for_status(server, "stays", "Stopped")
        assert read_cpu(server, "stays") == 70.0
        arn = describe(server, "stays")["NotebookInstanceArn"]
        assert server.client("sagemaker").list_tags(ResourceArn=arn)["Tags"] == [{"Key": "team", "Value": "red"}]
        assert server.client("sagemaker").describe_app(**APP)["AppName"] == "lab"
