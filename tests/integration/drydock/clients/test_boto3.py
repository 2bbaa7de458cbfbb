"""Test drydock with an unmodified boto3 and AWS_ENDPOINT_URL: its waiters, paginators and exceptions."""

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, WaiterError

SHORT_DELAY = {"Delay": 1, "MaxAttempts": 60}


@pytest.fixture(scope="module")
def create_client(drydock: Any, aws: dict[str, str]) -> Callable[[str], Any]:
    """Return the function that creates a client of a service."""

    def create(service: str) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                patch.setenv(name, aws[name])
            return boto3.session.Session().client(service, config=Config(proxies={}))

    return create


@pytest.fixture(scope="module")
def sagemaker(create_client: Callable[[str], Any]) -> Any:
    """Return a client of SageMaker."""
    return create_client("sagemaker")


@pytest.fixture(scope="module")
def wait(sagemaker: Any) -> Callable[[str], None]:
    """Return the function that waits for the end of a job with boto3's waiter."""

    def wait_for_job(name: str, kind: str = "training") -> None:
        key = f"{kind.capitalize()}JobName"
        sagemaker.get_waiter(f"{kind}_job_completed_or_stopped").wait(**{key: name}, WaiterConfig=SHORT_DELAY)

    return wait_for_job


def test_job_is_created_awaited_and_described_with_log_and_outputs(
    drydock: Any, create_client: Any, sagemaker: Any, wait: Any, scripts: dict[str, str]
) -> None:
    metrics = [{"Name": "loss", "Regex": "loss=([0-9.]+);"}]
    algorithm = {"TrainingImage": "image", "TrainingInputMode": "File", "MetricDefinitions": metrics}
    request = drydock.build_request("whole", scripts["counter"], AlgorithmSpecification=algorithm)
    arn = sagemaker.create_training_job(**request)["TrainingJobArn"]
    assert arn == "arn:aws:sagemaker:us-east-1:123456789012:training-job/whole"
    wait("whole")
    job = sagemaker.describe_training_job(TrainingJobName="whole")
    assert job["TrainingJobStatus"] == "Completed" and job["HyperParameters"] == request["HyperParameters"]
    assert [(metric["MetricName"], metric["Value"]) for metric in job["FinalMetricDataList"]] == [("loss", 0.25)]
    pages = (
        create_client("logs")
        .get_paginator("filter_log_events")
        .paginate(logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix="whole/")
    )
    assert [event["message"] for page in pages for event in page["events"]] == ["from 0", "loss=0.25;"]
    assert drydock.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": b"30"}


def test_failed_job_fails_its_waiter(drydock: Any, sagemaker: Any, wait: Any, scripts: dict[str, str]) -> None:
    sagemaker.create_training_job(**drydock.build_request("broken", scripts["fails"]))
    with pytest.raises(WaiterError, match="terminal failure"):
        wait("broken")
    job = sagemaker.describe_training_job(TrainingJobName="broken")
    assert "ExitCode 7" in job["FailureReason"] and "the script fails" in job["FailureReason"]
    assert "ModelArtifacts" not in job


def test_stop_ends_the_waiter_and_cannot_be_repeated(
    drydock: Any, sagemaker: Any, wait: Any, scripts: dict[str, str], endless: dict[str, str]
) -> None:
    sagemaker.create_training_job(**drydock.build_request("stopped", scripts["counter"], Environment=endless))
    drydock.wait_for_line("stopped", "from 0")
    sagemaker.stop_training_job(TrainingJobName="stopped")
    wait("stopped")
    assert sagemaker.describe_training_job(TrainingJobName="stopped")["TrainingJobStatus"] == "Stopped"
    with pytest.raises(ClientError, match="is in status Stopped"):
        sagemaker.stop_training_job(TrainingJobName="stopped")


@pytest.mark.soak
def test_interruption_does_not_end_the_waiter(
    drydock: Any, sagemaker: Any, wait: Any, scripts: dict[str, str], waits_for_interruption: dict[str, str]
) -> None:
    sagemaker.create_training_job(
        **drydock.build_request(
            "spot", scripts["counter"], Environment=waits_for_interruption, **drydock.build_spot_fields("spot")
        )
    )
    drydock.wait_for_line("spot", "from 0")
    drydock.wait_until("a checkpoint", lambda: drydock.list_keys("checkpoints/spot/"))
    drydock.send_command("interrupt", job="spot", no_capacity_s=0.2)
    wait("spot")
    job = sagemaker.describe_training_job(TrainingJobName="spot")
    assert job["TrainingJobStatus"] == "Completed" and job["EnableManagedSpotTraining"] is True
    assert [transition["Status"] for transition in job["SecondaryStatusTransitions"]].count("Interrupted") == 1
    assert drydock.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": b"30"}
    # An on-demand job cannot be interrupted.
    sagemaker.create_training_job(**drydock.build_request("on-demand", "import time; time.sleep(60)"))
    assert drydock.send_refused_command("interrupt", job="on-demand") == (409, "job on-demand is not a spot job")
    sagemaker.stop_training_job(TrainingJobName="on-demand")


def test_errors_are_exceptions_of_the_client(drydock: Any, sagemaker: Any, wait: Any) -> None:
    request = drydock.build_request("unique", "print(1)")
    sagemaker.create_training_job(**request)
    with pytest.raises(sagemaker.exceptions.ResourceInUse, match="must be unique"):
        sagemaker.create_training_job(**request)
    wait("unique")
    with pytest.raises(sagemaker.exceptions.ResourceInUse):  # also after its end
        sagemaker.create_training_job(**request)
    with pytest.raises(sagemaker.exceptions.ResourceNotFound):
        sagemaker.stop_training_job(TrainingJobName="nobody")
    with pytest.raises(ClientError) as error:  # SageMaker too raises another error here than for a stop
        sagemaker.describe_training_job(TrainingJobName="nobody")
    assert error.value.response["Error"] == {
        "Code": "ValidationException",
        "Message": "Requested resource not found.",
    }
    wrong_request = {**request, "TrainingJobName": "wrong", "StoppingCondition": {"MaxWaitTimeInSeconds": 9}}
    with pytest.raises(ClientError, match="only supported when EnableManagedSpotTraining"):
        sagemaker.create_training_job(**wrong_request)


def test_paginators_return_all_jobs(drydock: Any, sagemaker: Any) -> None:
    names = [f"page-{number:02}" for number in range(13)]
    for name in names:
        sagemaker.create_training_job(**drydock.build_request(name, "print(1)"))
    options = {"NameContains": "page-", "SortBy": "Name", "SortOrder": "Ascending"}
    pages = list(sagemaker.get_paginator("list_training_jobs").paginate(**options, PaginationConfig={"PageSize": 5}))
    assert [len(page["TrainingJobSummaries"]) for page in pages] == [5, 5, 3]
    assert [summary["TrainingJobName"] for page in pages for summary in page["TrainingJobSummaries"]] == names
    for name in names:
        drydock.wait_for_end(name)
    # As SageMaker documents, MaxResults selects the page before StatusEquals filters it, so a page may be empty.
    response = sagemaker.list_training_jobs(**options, StatusEquals="Failed", MaxResults=5)
    assert response["TrainingJobSummaries"] == [] and "NextToken" in response
    assert "NextToken" not in sagemaker.list_training_jobs(**options, StatusEquals="Failed")
    with pytest.raises(ClientError, match="Invalid pagination token"):
        sagemaker.list_training_jobs(NextToken="invalid")


def test_jobs_are_found_by_tags_and_by_search(drydock: Any, create_client: Any, sagemaker: Any, wait: Any) -> None:
    tags = [{"Key": "team", "Value": "team-a"}]
    arn = sagemaker.create_training_job(**drydock.build_request("tagged", "print(1)"), Tags=tags)["TrainingJobArn"]
    wait("tagged")
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "run", "Value": "7"}])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [*tags, {"Key": "run", "Value": "7"}]
    # The Resource Groups Tagging API finds the jobs with a tag, and no others.
    tagging_client = create_client("resourcegroupstaggingapi")
    query = {"ResourceTypeFilters": ["sagemaker:training-job"]}
    filters = [{"Key": "team", "Values": ["team-a"]}]
    mappings = tagging_client.get_resources(**query, TagFilters=filters)["ResourceTagMappingList"]
    assert [mapping["ResourceARN"] for mapping in mappings] == [arn]
    filters = [{"Key": "team", "Values": ["team-b"]}]
    assert tagging_client.get_resources(**query, TagFilters=filters)["ResourceTagMappingList"] == []
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["team"])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "run", "Value": "7"}]

    def search(name: str) -> list[str]:
        condition = {"Name": "TrainingJobName", "Operator": "Equals", "Value": name}
        response = sagemaker.search(Resource="TrainingJob", SearchExpression={"Filters": [condition]})
        return [result["TrainingJob"]["TrainingJobName"] for result in response["Results"]]

    assert search("tagged") == ["tagged"] and search("untagged") == []


def test_processing_jobs_are_created_awaited_and_listed(
    drydock: Any, sagemaker: Any, wait: Any, build_processing: Any, programs: dict[str, str]
) -> None:
    sagemaker.create_processing_job(**build_processing(drydock, "reports", programs["reports"]))
    wait("reports", "processing")
    assert drydock.get("s3://bucket/reports/out/report.json") == b'{"rows": 3}'
    with pytest.raises(sagemaker.exceptions.ResourceInUse):
        sagemaker.create_processing_job(**build_processing(drydock, "reports", programs["reports"]))

    sagemaker.create_processing_job(**build_processing(drydock, "breaks", programs["fails"]))
    with pytest.raises(WaiterError, match="terminal failure"):
        wait("breaks", "processing")
    failed_job = sagemaker.describe_processing_job(ProcessingJobName="breaks")
    assert "ExitCode 7" in failed_job["FailureReason"] and drydock.list_keys("breaks/out") == []

    sagemaker.create_processing_job(**build_processing(drydock, "waits", programs["waits"]))
    drydock.wait_until("its log", lambda: "waiting" in drydock.read_full_log("waits", "/aws/sagemaker/ProcessingJobs"))
    sagemaker.stop_processing_job(ProcessingJobName="waits")
    wait("waits", "processing")
    assert sagemaker.describe_processing_job(ProcessingJobName="waits")["ProcessingJobStatus"] == "Stopped"
    pages = sagemaker.get_paginator("list_processing_jobs").paginate(PaginationConfig={"PageSize": 1})
    names = [summary["ProcessingJobName"] for page in pages for summary in page["ProcessingJobSummaries"]]
    assert sorted(names) == ["breaks", "reports", "waits"]
    with pytest.raises(ClientError, match="Could not find requested job with name: nobody"):
        sagemaker.describe_processing_job(ProcessingJobName="nobody")


def test_operations_that_are_not_implemented_are_refused(create_client: Any, sagemaker: Any) -> None:
    with pytest.raises(ClientError, match="simulate_principal_policy action has not been implemented") as error:
        create_client("iam").simulate_principal_policy(
            PolicySourceArn="arn:aws:iam::123456789012:role/x", ActionNames=["s3:*"]
        )
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501
    assert error.value.response["ResponseMetadata"]["RetryAttempts"] == 0
    with pytest.raises(ClientError, match=r"\(NotImplemented\)"):
        sagemaker.list_workteams()
