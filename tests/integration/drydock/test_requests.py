"""Test refused requests, and listings. The jobs of this module are short."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

SPOT = {"EnableManagedSpotTraining": True}
IMAGE = {"TrainingImage": "image", "TrainingInputMode": "File"}
GROUP = {"InstanceType": "ml.m5.large", "InstanceCount": 1, "InstanceGroupName": "g"}
S3 = {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/x"}


def build_channel(**source: Any) -> dict[str, Any]:
    return {"ChannelName": "train", "DataSource": {"S3DataSource": {**S3, **source}}}


REFUSED = [
    (
        {"TrainingJobName": "under_score"},
        "at 'trainingJobName' failed to satisfy constraint: Member must satisfy reg",
    ),
    ({"TrainingJobName": "x" * 64}, "length less than or equal to 63"),
    ({"TrainingJobName": 7}, "Invalid type for parameter TrainingJobName"),
    ({"TrainingJobName": None}, "Value null at 'trainingJobName'"),
    ({"TrainingJobName": "../../etc"}, "regular expression"),
    ({"RoleArn": "me"}, "'roleArn'"),
    ({"RoleArn": None}, "Value null at 'roleArn' failed to satisfy constraint: Member must not be null"),
    ({"OutputDataConfig": {}}, "Value null at 'outputDataConfig.s3OutputPath'"),
    ({"OutputDataConfig": {"S3OutputPath": "https://bucket/x"}}, "not an s3:// URI"),
    ({"OutputDataConfig": {"S3OutputPath": "s3://bucket/x", "CompressionType": "ZIP"}}, "enum value set: [GZIP, NONE]"),
    ({"ResourceConfig": None}, "Value null at 'resourceConfig'"),
    ({"ResourceConfig": {"InstanceType": "ml.x", "InstanceCount": 1}}, "'resourceConfig.instanceType'"),
    ({"ResourceConfig": {"InstanceType": "ml.m5.large"}}, "ResourceConfig must specify InstanceCount"),
    ({"ResourceConfig": {"InstanceGroups": [GROUP], "VolumeSizeInGB": 1}}, "InstanceGroups is not supported"),
    ({"ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": "1"}}, "InstanceCount, value: 1"),
    ({"StoppingCondition": {"MaxRuntimeInSeconds": 0}}, "greater than or equal to 1"),
    ({"HyperParameters": {"a": 1}}, "Invalid type for parameter HyperParameters.a"),
    ({"StoppingCondition": {"MaxRuntimeInSeconds": 28 * 86_400 + 1}}, "28 days"),
    ({"Unknown": 1}, 'Unknown parameter in input: "Unknown"'),
    ({"AlgorithmSpecification": None}, "Value null at 'algorithmSpecification'"),
    ({"AlgorithmSpecification": {"TrainingInputMode": "File"}}, "algorithm name or a training image"),
    (
        {"AlgorithmSpecification": {**IMAGE, "TrainingInputMode": "Tape"}},
        "enum value set: [Pipe, File, FastFile]",
    ),
    ({"AlgorithmSpecification": {**IMAGE, "TrainingInputMode": "Pipe"}}, "Pipe is not supported"),
    ({"AlgorithmSpecification": {**IMAGE, "MetricDefinitions": [{"Name": "a", "Regex": "("}]}}, "Regex of a"),
    ({"InputDataConfig": [build_channel(), build_channel()]}, "duplicate channel names"),
    ({"InputDataConfig": [build_channel(S3DataType="AugmentedManifestFile")]}, "Augmented"),
    ({"InputDataConfig": [build_channel(S3Uri="https://bucket/x")]}, "s3://"),
    ({"InputDataConfig": []}, "'inputDataConfig'"),
    (
        {"CheckpointConfig": {"S3Uri": "s3://bucket/c", "LocalPath": "/opt/ml/../../etc"}},
        "folder under /opt/ml",
    ),
    ({"CheckpointConfig": {"S3Uri": "s3://bucket/c", "LocalPath": "/home"}}, "folder under /opt/ml"),
    ({**SPOT}, "must be specified when EnableManagedSpotTraining"),
    ({**SPOT, "StoppingCondition": {"MaxRuntimeInSeconds": 9, "MaxWaitTimeInSeconds": 8}}, "above or equal"),
    ({"StoppingCondition": {"MaxRuntimeInSeconds": 9, "MaxWaitTimeInSeconds": 9}}, "only supported when"),
]


@pytest.mark.parametrize(("change", "text"), REFUSED, ids=range(len(REFUSED)))
def test_malformed_request_is_refused(drydock: Any, change: dict[str, Any], text: str) -> None:
    request = {**drydock.build_request("refused"), **change}
    status, code, message = drydock.send_raw("CreateTrainingJob", json.dumps(request).encode())
    assert (status, code) == (400, "ValidationException")
    assert text in message
    # Nothing was created: the name is free.
    with pytest.raises(ClientError, match="Requested resource not found"):
        drydock.describe_job("refused")


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b'"text"', b"\xff"])
def test_body_that_is_not_an_object_is_refused(drydock: Any, body: bytes) -> None:
    status, code, _ = drydock.send_raw("CreateTrainingJob", body)
    assert (status, code) == (400, "ValidationException")


def test_valid_spot_limits_are_accepted(drydock: Any) -> None:
    limits = {"MaxRuntimeInSeconds": 9, "MaxWaitTimeInSeconds": 9}
    job = drydock.run_job("spot", StoppingCondition=limits, **SPOT)
    assert job["EnableManagedSpotTraining"] is True and job["StoppingCondition"] == limits
    assert job["TrainingJobStatus"] == "Completed"


@pytest.fixture(scope="module")
def names(drydock: Any) -> list[str]:
    """Run four jobs, and return their names in the order of their creation."""
    names = ["list-b", "list-a", "list-d", "list-c"]
    for name in names:
        drydock.run_job(name, "import sys; sys.exit(3)" if name == "list-d" else "")
    return names


def list_jobs(drydock: Any, **options: Any) -> list[str]:
    """Return the names of the jobs that a listing with these options returns, of the four jobs of `names`."""
    response = drydock.client("sagemaker").list_training_jobs(NameContains="list-", **options)
    return [item["TrainingJobName"] for item in response["TrainingJobSummaries"]]


def test_listing_is_sorted_and_filtered(drydock: Any, names: list[str]) -> None:
    assert list_jobs(drydock) == names
    assert list_jobs(drydock, SortOrder="Descending") == names[::-1]
    assert list_jobs(drydock, SortBy="Name") == sorted(names)
    assert list_jobs(drydock, SortBy="Status", StatusEquals="Failed") == ["list-d"]
    moment = drydock.describe_job("list-a")["CreationTime"]
    assert list_jobs(drydock, CreationTimeAfter=moment)[-2:] == names[2:]
    assert list_jobs(drydock, CreationTimeBefore=moment) == names[:1]
    assert list_jobs(drydock, StatusEquals="InProgress") == []


@pytest.mark.parametrize("options", [{}, {"SortBy": "Name", "SortOrder": "Descending"}, {"SortBy": "Status"}])
def test_pages_show_every_job_once(drydock: Any, names: list[str], options: dict[str, str]) -> None:
    pages = (
        drydock.client("sagemaker")
        .get_paginator("list_training_jobs")
        .paginate(NameContains="list-", PaginationConfig={"PageSize": 2}, **options)
    )
    page_names = [[item["TrainingJobName"] for item in page["TrainingJobSummaries"]] for page in pages]
    assert [len(page) for page in page_names] == [2, 2]
    assert sorted(name for page in page_names for name in page) == sorted(names)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"NextToken": "invented"}, "pagination token"),
        ({"MaxResults": 101}, "less than or equal to 100"),
        ({"StatusEquals": "Dancing"}, "enum value set"),
        ({"CreationTimeAfter": "the day before yesterday"}, "CreationTimeAfter"),
    ],
)
def test_malformed_listing_is_refused(drydock: Any, options: dict[str, Any], text: str) -> None:
    status, code, message = drydock.send_raw("ListTrainingJobs", json.dumps(options).encode())
    assert (status, code) == (400, "ValidationException")
    assert text in message
