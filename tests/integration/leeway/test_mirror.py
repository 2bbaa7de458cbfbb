"""MirrorOperator against a real drydock: one model package a version, whose status follows."""

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from leeway.operators.mirror import MirrorOperator

IMAGE = {"image_uri": "123.dkr.ecr.us-east-1.amazonaws.com/xgboost:3", "model_url": "s3://b/model.tar.gz"}


def mirror(group: str, version: str, **more: str) -> dict:
    with DAG("mirroring"):
        task = MirrorOperator(
            task_id="mirror", model_name="flights", version=version, package_group_name=group,
            aws_conn_id="aws_default", region_name="us-east-1", **more,
        )  # fmt: skip
    return task.execute({})


def packages(drydock, group: str) -> list[dict]:
    client = drydock.client("sagemaker")
    found = client.list_model_packages(ModelPackageGroupName=group)["ModelPackageSummaryList"]
    return [client.describe_model_package(ModelPackageName=one["ModelPackageArn"]) for one in found]


def test_a_version_is_one_package_however_often_it_is_mirrored(drydock):
    first = mirror("once", "1", **IMAGE)
    assert (first["model_approval"], first["changed"]) == ("Approved", True)
    again = mirror("once", "1", **IMAGE)
    assert again == {**first, "changed": False}
    other = mirror("once", "2", **IMAGE)
    assert other["model_package_arn"] != first["model_package_arn"]
    one, two = sorted(packages(drydock, "once"), key=lambda told: told["ModelPackageVersion"])
    assert one["CustomerMetadataProperties"] == {"leeway.version": "flights/1"}
    assert two["InferenceSpecification"]["Containers"][0]["ModelDataUrl"] == IMAGE["model_url"]


def test_a_rollback_rejects_one_and_approves_the_other(drydock):
    for version in ("1", "2"):
        mirror("back", version, **IMAGE)
    assert mirror("back", "2", model_approval="Rejected")["changed"]
    assert not mirror("back", "1", model_approval="Approved")["changed"]
    told = {one["CustomerMetadataProperties"]["leeway.version"]: one["ModelApprovalStatus"]
            for one in packages(drydock, "back")}  # fmt: skip
    assert told == {"flights/1": "Approved", "flights/2": "Rejected"}


def test_the_training_job_says_image_and_model(drydock, project, make_spot_task, context, start, finish):
    done = finish(make_spot_task(), start(make_spot_task(), context))
    mirror("of-a-job", "1", training_job=done["training_job"])
    (told,) = packages(drydock, "of-a-job")
    (container,) = told["InferenceSpecification"]["Containers"]
    assert container["ModelDataUrl"] == done["model"]
    asked = drydock.describe_job(done["training_job"])["AlgorithmSpecification"]
    assert container["Image"] == asked["TrainingImage"]


def test_what_cannot_be_mirrored_is_said_and_leaves_nothing(drydock):
    with pytest.raises(AirflowFailException, match="give training_job="):
        mirror("nothing", "1")
    with pytest.raises(AirflowFailException, match="model_approval is 'yes'; it may be Approved, Rejected"):
        mirror("nothing", "1", model_approval="yes", **IMAGE)
    groups = drydock.client("sagemaker").list_model_package_groups()["ModelPackageGroupSummaryList"]
    assert "nothing" not in {one["ModelPackageGroupName"] for one in groups}
