"""Requests that are refused, and listing: no job of this module runs for long."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

SPOT = {"EnableManagedSpotTraining": True}
IMAGE = {"TrainingImage": "image", "TrainingInputMode": "File"}
GROUP = {"InstanceType": "ml.m5.large", "InstanceCount": 1, "InstanceGroupName": "g"}
S3 = {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/x"}


def channel(**source: Any) -> dict[str, Any]:
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
    ({"InputDataConfig": [channel(), channel()]}, "duplicate channel names"),
    ({"InputDataConfig": [channel(S3DataType="AugmentedManifestFile")]}, "Augmented"),
    ({"InputDataConfig": [channel(S3Uri="https://bucket/x")]}, "s3://"),
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


@pytest.mark.parametrize(("change", "said"), REFUSED, ids=range(len(REFUSED)))
def test_a_malformed_request_is_refused(drydock: Any, change: dict[str, Any], said: str) -> None:
    request = {**drydock.build_request("refused"), **change}
    status, code, message = drydock.send_raw("CreateTrainingJob", json.dumps(request).encode())
    assert (status, code) == (400, "ValidationException")
    assert said in message
    # No trace of it: the name is free.
    with pytest.raises(ClientError, match="Requested resource not found"):
        drydock.describe_job("refused")


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b'"text"', b"\xff"])
def test_a_body_that_is_no_object_is_refused(drydock: Any, body: bytes) -> None:
    status, code, _ = drydock.send_raw("CreateTrainingJob", body)
    assert (status, code) == (400, "ValidationException")


def test_accepts_valid_spot_limits(drydock: Any) -> None:
    limits = {"MaxRuntimeInSeconds": 9, "MaxWaitTimeInSeconds": 9}
    done = drydock.run_job("spot", StoppingCondition=limits, **SPOT)
    assert done["EnableManagedSpotTraining"] is True and done["StoppingCondition"] == limits
    assert done["TrainingJobStatus"] == "Completed"


@pytest.fixture(scope="module")
def four(drydock: Any) -> list[str]:
    """Four ended jobs, in the order of their creation."""
    names = ["list-b", "list-a", "list-d", "list-c"]
    for name in names:
        drydock.run_job(name, "import sys; sys.exit(3)" if name == "list-d" else "")
    return names


def listed(drydock: Any, **options: Any) -> list[str]:
    answer = drydock.client("sagemaker").list_training_jobs(NameContains="list-", **options)
    return [item["TrainingJobName"] for item in answer["TrainingJobSummaries"]]


def test_listing_sorts_and_filters(drydock: Any, four: list[str]) -> None:
    assert listed(drydock) == four
    assert listed(drydock, SortOrder="Descending") == four[::-1]
    assert listed(drydock, SortBy="Name") == sorted(four)
    assert listed(drydock, SortBy="Status", StatusEquals="Failed") == ["list-d"]
    moment = drydock.describe_job("list-a")["CreationTime"]
    assert listed(drydock, CreationTimeAfter=moment)[-2:] == four[2:]
    assert listed(drydock, CreationTimeBefore=moment) == four[:1]
    assert listed(drydock, StatusEquals="InProgress") == []


@pytest.mark.parametrize("options", [{}, {"SortBy": "Name", "SortOrder": "Descending"}, {"SortBy": "Status"}])
def test_pages_show_every_job_once(drydock: Any, four: list[str], options: dict[str, str]) -> None:
    pages = (
        drydock.client("sagemaker")
        .get_paginator("list_training_jobs")
        .paginate(NameContains="list-", PaginationConfig={"PageSize": 2}, **options)
    )
    found = [[item["TrainingJobName"] for item in page["TrainingJobSummaries"]] for page in pages]
    assert [len(page) for page in found] == [2, 2]
    assert sorted(name for page in found for name in page) == sorted(four)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"NextToken": "invented"}, "pagination token"),
        ({"MaxResults": 101}, "less than or equal to 100"),
        ({"StatusEquals": "Dancing"}, "enum value set"),
        ({"CreationTimeAfter": "the day before yesterday"}, "CreationTimeAfter"),
    ],
)
def test_malformed_listings_are_refused(drydock: Any, options: dict[str, Any], said: str) -> None:
    status, code, message = drydock.send_raw("ListTrainingJobs", json.dumps(options).encode())
    assert (status, code) == (400, "ValidationException")
    assert said in message
