"""Test MirrorOperator with a real drydock: each version has one package, with the status of the last call."""

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from leeway.operators.mirror import MirrorOperator

IMAGE = {"image_uri": "123.dkr.ecr.us-east-1.amazonaws.com/xgboost:3", "model_url": "s3://b/model.tar.gz"}


def mirror(group: str, version: str, **fields: str) -> dict:
    with DAG("mirroring"):
        task = MirrorOperator(
            task_id="mirror", model="flights", version=version, package_group_name=group,
            aws_conn_id="aws_default", region_name="us-east-1", **fields,
        )  # fmt: skip
    return task.execute({})


def list_packages(drydock, group: str) -> list[dict]:
    client = drydock.client("sagemaker")
    packages = client.list_model_packages(ModelPackageGroupName=group)["ModelPackageSummaryList"]
    return [client.describe_model_package(ModelPackageName=package["ModelPackageArn"]) for package in packages]


def test_version_has_one_package_when_it_is_mirrored_twice(drydock):
    first = mirror("once", "1", **IMAGE)
    assert (first["model_approval"], first["changed"]) == ("Approved", True)
    repeat = mirror("once", "1", **IMAGE)
    assert repeat == {**first, "changed": False}
    other = mirror("once", "2", **IMAGE)
    assert other["model_package_arn"] != first["model_package_arn"]
    package_1, package_2 = sorted(list_packages(drydock, "once"), key=lambda package: package["ModelPackageVersion"])
    assert package_1["CustomerMetadataProperties"] == {"leeway.version": "flights/1"}
    assert package_2["InferenceSpecification"]["Containers"][0]["ModelDataUrl"] == IMAGE["model_url"]


def test_rollback_rejects_one_version_and_approves_the_other(drydock):
    for version in ("1", "2"):
        mirror("back", version, **IMAGE)
    assert mirror("back", "2", model_approval="Rejected")["changed"]
    assert not mirror("back", "1", model_approval="Approved")["changed"]
    statuses = {package["CustomerMetadataProperties"]["leeway.version"]: package["ModelApprovalStatus"]
                for package in list_packages(drydock, "back")}  # fmt: skip
    assert statuses == {"flights/1": "Approved", "flights/2": "Rejected"}


def test_image_and_model_come_from_the_training_job(drydock, project, make_spot_task, context, start, finish):
    result = finish(make_spot_task(), start(make_spot_task(), context))
    mirror("of-a-job", "1", training_job=result["training_job"])
    (package,) = list_packages(drydock, "of-a-job")
    (container,) = package["InferenceSpecification"]["Containers"]
    assert container["ModelDataUrl"] == result["model"]
    algorithm = drydock.describe_job(result["training_job"])["AlgorithmSpecification"]
    assert container["Image"] == algorithm["TrainingImage"]


def test_refuses_wrong_fields_and_creates_no_group(drydock):
    with pytest.raises(AirflowFailException, match="give training_job="):
        mirror("nothing", "1")
    with pytest.raises(AirflowFailException, match="model_approval is 'yes': give one of Approved, Rejected"):
        mirror("nothing", "1", model_approval="yes", **IMAGE)
    groups = drydock.client("sagemaker").list_model_package_groups()["ModelPackageGroupSummaryList"]
    assert "nothing" not in {group["ModelPackageGroupName"] for group in groups}
