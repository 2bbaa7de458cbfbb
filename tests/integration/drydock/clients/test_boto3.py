"""boto3, unmodified, with nothing but AWS_ENDPOINT_URL: its own waiters, paginators and exceptions."""

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, WaiterError

FAST = {"Delay": 1, "MaxAttempts": 60}


@pytest.fixture(scope="module")
def client(drydock: Any, aws: dict[str, str]) -> Callable[[str], Any]:
    def make(service: str) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                patch.setenv(name, aws[name])
            return boto3.session.Session().client(service, config=Config(proxies={}))

    return make


@pytest.fixture(scope="module")
def sagemaker(client: Callable[[str], Any]) -> Any:
    return client("sagemaker")


@pytest.fixture(scope="module")
def wait(sagemaker: Any) -> Callable[[str], None]:
    def until_ended(name: str, kind: str = "training") -> None:
        key = f"{kind.capitalize()}JobName"
        sagemaker.get_waiter(f"{kind}_job_completed_or_stopped").wait(**{key: name}, WaiterConfig=FAST)

    return until_ended


def test_create_wait_describe_logs_outputs(
    drydock: Any, client: Any, sagemaker: Any, wait: Any, scripts: dict[str, str]
) -> None:
    metrics = [{"Name": "loss", "Regex": "loss=([0-9.]+);"}]
    algorithm = {"TrainingImage": "image", "TrainingInputMode": "File", "MetricDefinitions": metrics}
    request = drydock.build_request("whole", scripts["counter"], AlgorithmSpecification=algorithm)
    arn = sagemaker.create_training_job(**request)["TrainingJobArn"]
    assert arn == "arn:aws:sagemaker:us-east-1:123456789012:training-job/whole"
    wait("whole")
    done = sagemaker.describe_training_job(TrainingJobName="whole")
    assert done["TrainingJobStatus"] == "Completed" and done["HyperParameters"] == request["HyperParameters"]
    assert [(one["MetricName"], one["Value"]) for one in done["FinalMetricDataList"]] == [("loss", 0.25)]
    pages = (
        client("logs")
        .get_paginator("filter_log_events")
        .paginate(logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix="whole/")
    )
    assert [event["message"] for page in pages for event in page["events"]] == ["from 0", "loss=0.25;"]
    assert drydock.read_archive(done["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": b"30"}


def test_a_failed_job_fails_its_waiter(drydock: Any, sagemaker: Any, wait: Any, scripts: dict[str, str]) -> None:
    sagemaker.create_training_job(**drydock.build_request("broken", scripts["fails"]))
    with pytest.raises(WaiterError, match="terminal failure"):
        wait("broken")
    done = sagemaker.describe_training_job(TrainingJobName="broken")
    assert "ExitCode 7" in done["FailureReason"] and "the hull is leaking" in done["FailureReason"]
    assert "ModelArtifacts" not in done


def test_a_stop_ends_the_waiter_and_cannot_be_repeated(
    drydock: Any, sagemaker: Any, wait: Any, scripts: dict[str, str], forever: dict[str, str]
) -> None:
    sagemaker.create_training_job(**drydock.build_request("stopped", scripts["counter"], Environment=forever))
    drydock.wait_for_line("stopped", "from 0")
    sagemaker.stop_training_job(TrainingJobName="stopped")
    wait("stopped")
    assert sagemaker.describe_training_job(TrainingJobName="stopped")["TrainingJobStatus"] == "Stopped"
    with pytest.raises(ClientError, match="is in status Stopped"):
        sagemaker.stop_training_job(TrainingJobName="stopped")


def test_an_interruption_ends_no_waiter(
    drydock: Any, sagemaker: Any, wait: Any, scripts: dict[str, str], held: dict[str, str]
) -> None:
    sagemaker.create_training_job(
        **drydock.build_request("spot", scripts["counter"], Environment=held, **drydock.build_spot_fields("spot"))
    )
    drydock.wait_for_line("spot", "from 0")
    drydock.wait_until("a checkpoint", lambda: drydock.list_keys("checkpoints/spot/"))
    drydock.send_command("interrupt", job="spot", capacity_back_after_s=0.2)
    wait("spot")
    done = sagemaker.describe_training_job(TrainingJobName="spot")
    assert done["TrainingJobStatus"] == "Completed" and done["EnableManagedSpotTraining"] is True
    assert [one["Status"] for one in done["SecondaryStatusTransitions"]].count("Interrupted") == 1
    assert drydock.read_archive(done["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": b"30"}
    # Not interrupted is who runs on demand.
    sagemaker.create_training_job(**drydock.build_request("demand", "import time; time.sleep(60)"))
    assert drydock.send_refused_command("interrupt", job="demand") == (409, "job demand is not a spot job")
    sagemaker.stop_training_job(TrainingJobName="demand")


def test_exceptions_by_their_names(drydock: Any, sagemaker: Any, wait: Any) -> None:
    request = drydock.build_request("taken", "print(1)")
    sagemaker.create_training_job(**request)
    with pytest.raises(sagemaker.exceptions.ResourceInUse, match="must be unique"):
        sagemaker.create_training_job(**request)
    wait("taken")
    with pytest.raises(sagemaker.exceptions.ResourceInUse):  # for ever, and not only while it runs
        sagemaker.create_training_job(**request)
    with pytest.raises(sagemaker.exceptions.ResourceNotFound):
        sagemaker.stop_training_job(TrainingJobName="nobody")
    with pytest.raises(ClientError) as caught:  # SageMaker's own inconsistency
        sagemaker.describe_training_job(TrainingJobName="nobody")
    assert caught.value.response["Error"] == {
        "Code": "ValidationException",
        "Message": "Requested resource not found.",
    }
    wrong = {**request, "TrainingJobName": "wrong", "StoppingCondition": {"MaxWaitTimeInSeconds": 9}}
    with pytest.raises(ClientError, match="only supported when EnableManagedSpotTraining"):
        sagemaker.create_training_job(**wrong)


def test_paginators(drydock: Any, sagemaker: Any) -> None:
    names = [f"page-{number:02}" for number in range(13)]
    for name in names:
        sagemaker.create_training_job(**drydock.build_request(name, "print(1)"))
    options = {"NameContains": "page-", "SortBy": "Name", "SortOrder": "Ascending"}
    pages = list(sagemaker.get_paginator("list_training_jobs").paginate(**options, PaginationConfig={"PageSize": 5}))
    assert [len(page["TrainingJobSummaries"]) for page in pages] == [5, 5, 3]
    assert [one["TrainingJobName"] for page in pages for one in page["TrainingJobSummaries"]] == names
    for name in names:
        drydock.wait_for_end(name)
    # As documented: of 100 jobs of any status, those that have this one.
    found = sagemaker.list_training_jobs(**options, StatusEquals="Failed", MaxResults=5)
    assert found["TrainingJobSummaries"] == [] and "NextToken" in found
    assert "NextToken" not in sagemaker.list_training_jobs(**options, StatusEquals="Failed")
    with pytest.raises(ClientError, match="Invalid pagination token"):
        sagemaker.list_training_jobs(NextToken="none of ours")


def test_tags_and_search(drydock: Any, client: Any, sagemaker: Any, wait: Any) -> None:
    tags = [{"Key": "team", "Value": "harbour"}]
    arn = sagemaker.create_training_job(**drydock.build_request("tagged", "print(1)"), Tags=tags)["TrainingJobArn"]
    wait("tagged")
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "run", "Value": "7"}])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [*tags, {"Key": "run", "Value": "7"}]
    # The Resource Groups Tagging API sees the jobs, and only those that are meant.
    tagging = client("resourcegroupstaggingapi")
    asked = {"ResourceTypeFilters": ["sagemaker:training-job"]}
    filters = [{"Key": "team", "Values": ["harbour"]}]
    found = tagging.get_resources(**asked, TagFilters=filters)["ResourceTagMappingList"]
    assert [one["ResourceARN"] for one in found] == [arn]
    filters = [{"Key": "team", "Values": ["office"]}]
    assert tagging.get_resources(**asked, TagFilters=filters)["ResourceTagMappingList"] == []
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["team"])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "run", "Value": "7"}]

    def search(name: str) -> list[str]:
        named = {"Name": "TrainingJobName", "Operator": "Equals", "Value": name}
        answer = sagemaker.search(Resource="TrainingJob", SearchExpression={"Filters": [named]})
        return [one["TrainingJob"]["TrainingJobName"] for one in answer["Results"]]

    assert search("tagged") == ["tagged"] and search("untagged") == []


def test_processing(drydock: Any, sagemaker: Any, wait: Any, processing: Any, programs: dict[str, str]) -> None:
    sagemaker.create_processing_job(**processing(drydock, "reports", programs["reports"]))
    wait("reports", "processing")
    assert drydock.get("s3://bucket/reports/out/report.json") == b'{"rows": 3}'
    with pytest.raises(sagemaker.exceptions.ResourceInUse):
        sagemaker.create_processing_job(**processing(drydock, "reports", programs["reports"]))

    sagemaker.create_processing_job(**processing(drydock, "breaks", programs["fails"]))
    with pytest.raises(WaiterError, match="terminal failure"):
        wait("breaks", "processing")
    failed = sagemaker.describe_processing_job(ProcessingJobName="breaks")
    assert "ExitCode 7" in failed["FailureReason"] and drydock.list_keys("breaks/out") == []

    sagemaker.create_processing_job(**processing(drydock, "waits", programs["waits"]))
    drydock.wait_until("its log", lambda: "waiting" in drydock.read_full_log("waits", "/aws/sagemaker/ProcessingJobs"))
    sagemaker.stop_processing_job(ProcessingJobName="waits")
    wait("waits", "processing")
    assert sagemaker.describe_processing_job(ProcessingJobName="waits")["ProcessingJobStatus"] == "Stopped"
    pages = sagemaker.get_paginator("list_processing_jobs").paginate(PaginationConfig={"PageSize": 1})
    names = [one["ProcessingJobName"] for page in pages for one in page["ProcessingJobSummaries"]]
    assert sorted(names) == ["breaks", "reports", "waits"]
    with pytest.raises(ClientError, match="Could not find processing job"):
        sagemaker.describe_processing_job(ProcessingJobName="nobody")


def test_refuses_unimplemented_operations(client: Any, sagemaker: Any) -> None:
    with pytest.raises(ClientError, match="simulate_principal_policy action has not been implemented") as caught:
        client("iam").simulate_principal_policy(
            PolicySourceArn="arn:aws:iam::123456789012:role/x", ActionNames=["s3:*"]
        )
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501
    assert caught.value.response["ResponseMetadata"]["RetryAttempts"] == 0
    with pytest.raises(ClientError, match=r"\(NotImplemented\)"):
        sagemaker.list_workteams()
