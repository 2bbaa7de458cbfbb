"""Test which requests are refused as ClientException, and that they change nothing."""

import base64
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

PAYLOAD = json.dumps({"ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1}})


def call(client: Any, operation: str, **request: Any) -> str:
    """Send a request that must be refused, and return the message."""
    with pytest.raises(ClientError) as error:
        getattr(client, operation)(**request)
    assert error.value.response["Error"]["Code"] == "ClientException", error.value
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    return str(error.value.response["Error"]["Message"])


def submit(client: Any, queue: str, **fields: Any) -> str:
    """Submit a job that must be refused, and return the message."""
    request = {"jobName": "job", "jobQueue": queue, "serviceJobType": "SAGEMAKER_TRAINING", **fields}
    return call(client, "submit_service_job", **{"serviceRequestPayload": PAYLOAD, **request})


def test_bad_jobs(queues: Any) -> None:
    client = queues.server.create_unchecked_client("batch")
    fifo, fair = queues.create("bad-fifo"), queues.create_fair("bad-fair")
    quota = queues.create_quota("bad-quota", 1, a={"limit": 1})
    assert submit(client, "none") == "JobQueue none not found."
    assert "jobName 'a b' is not valid" in submit(client, fifo, jobName="a b")
    assert "shareIdentifier can't be specified" in submit(client, fifo, shareIdentifier="A")
    assert "quotaShareName can't be specified" in submit(client, fifo, quotaShareName="a")
    assert "preemptionConfiguration can't be specified" in submit(client, fifo, preemptionConfiguration={})
    assert "shareIdentifier must be specified" in submit(client, fair)
    assert "alphanumeric" in submit(client, fair, shareIdentifier="team-a")
    assert "quotaShareName must be specified" in submit(client, quota)
    assert "QuotaShare b not found" in submit(client, quota, quotaShareName="b")
    assert "between 0 and 9999" in submit(client, fifo, schedulingPriority=10_000)
    assert "attempts must be between 1 and 10" in submit(client, fifo, retryStrategy={"attempts": 11})
    assert "attempts" in submit(client, fifo, retryStrategy={})
    assert "attemptDurationSeconds" in submit(client, fifo, timeoutConfig={"attemptDurationSeconds": 0})
    assert "not valid JSON" in submit(client, fifo, serviceRequestPayload="{")
    assert "must be a JSON object" in submit(client, fifo, serviceRequestPayload="[]")
    assert "InstanceType and InstanceCount" in submit(client, fifo, serviceRequestPayload="{}")
    assert "enum value set: [SAGEMAKER_TRAINING]" in submit(client, fifo, serviceJobType="OTHER")
    assert "Member must not be null" in call(client, "submit_service_job", jobName="x")
    for queue in (fifo, fair, quota):
        for status in ("SUBMITTED", "RUNNABLE", "FAILED", "SCHEDULED"):
            assert client.list_service_jobs(jobQueue=queue, jobStatus=status)["jobSummaryList"] == []
    for operation, fields in (
        ("describe_service_job", {}),
        ("terminate_service_job", {"reason": "x"}),
        ("update_service_job", {"schedulingPriority": 1}),
    ):
        assert call(client, operation, jobId="none", **fields) == "Service job none not found."
    filters = [{"name": "OTHER", "values": ["x"]}]
    assert "filter OTHER is not valid" in call(client, "list_service_jobs", jobQueue=fifo, filters=filters)
    times = [{"name": "AFTER_CREATED_AT", "values": ["x"]}]
    assert "milliseconds" in call(client, "list_service_jobs", jobQueue=fifo, filters=times)
    assert "maxResults" in call(client, "list_service_jobs", jobQueue=fifo, maxResults=0)
    assert "nextToken" in call(client, "list_service_jobs", jobQueue=fifo, nextToken="%")
    negative_token = base64.urlsafe_b64encode(b"-1").decode()
    assert "nextToken" in call(client, "list_service_jobs", jobQueue=fifo, nextToken=negative_token)
    assert client.terminate_service_jobs(jobs=["none"], reason="x")["successful"] == ["none"]


def test_bad_queues(queues: Any) -> None:
    client = queues.server.create_unchecked_client("batch")
    limits = [{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}]
    environment = {"serviceEnvironmentName": "e", "serviceEnvironmentType": "SAGEMAKER_TRAINING"}

    def create_environment(**fields: Any) -> str:
        return call(client, "create_service_environment", **{**environment, "capacityLimits": limits, **fields})

    assert "at least one limit" in create_environment(capacityLimits=[])
    assert "capacityUnit 'CPU'" in create_environment(capacityLimits=[{"maxCapacity": 1, "capacityUnit": "CPU"}])
    assert "twice" in create_environment(capacityLimits=limits * 2)
    assert "maxCapacity" in create_environment(capacityLimits=[{"maxCapacity": -1, "capacityUnit": "NUM_INSTANCES"}])
    queues.create("bad-queues")
    assert create_environment(serviceEnvironmentName="bad-queues") == "Object already exists"
    order = [{"order": 1, "serviceEnvironment": "bad-queues"}]
    queue = {"jobQueueName": "q", "priority": 1, "serviceEnvironmentOrder": order}

    def create_queue(**fields: Any) -> str:
        return call(client, "create_job_queue", **{**queue, **fields})

    assert create_queue(jobQueueName="bad-queues") == "Object already exists"
    assert "not found" in create_queue(serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "none"}])
    assert "both" in create_queue(computeEnvironmentOrder=[{"order": 1, "computeEnvironment": "x"}])
    assert "SAGEMAKER_TRAINING" in create_queue(jobQueueType="EKS")
    assert "priority must be between" in create_queue(priority=-1)
    assert "SchedulingPolicy x not found" in create_queue(schedulingPolicyArn="x")
    assert "at least one service environment" in create_queue(
        serviceEnvironmentOrder=[], jobQueueType="SAGEMAKER_TRAINING"
    )
    policy = client.create_scheduling_policy(name="bad-policy", fairsharePolicy={})["arn"]
    quota = client.create_scheduling_policy(
        name="bad-quota-policy", quotaSharePolicy={"idleResourceAssignmentStrategy": "FIFO"}
    )["arn"]
    assert "must be instance types" in create_queue(schedulingPolicyArn=quota)
    by_type = [{"capacityUnit": "ml.m5.large", "maxCapacity": 1}]
    client.create_service_environment(
        **{**environment, "serviceEnvironmentName": "bad-types", "capacityLimits": by_type}
    )
    assert "must be NUM_INSTANCES" in call(
        client,
        "update_job_queue",
        jobQueue="bad-queues",
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "bad-types"}],
    )
    assert "can't have a scheduling policy added" in call(
        client, "update_job_queue", jobQueue="bad-queues", schedulingPolicyArn=policy
    )
    for fairness, problem in (
        ({"shareDecaySeconds": 604_801}, "shareDecaySeconds"),
        ({"computeReservation": 100}, "computeReservation"),
        ({"shareDistribution": [{"shareIdentifier": "A*"}, {"shareIdentifier": "A1"}]}, "overlap"),
        ({"shareDistribution": [{"shareIdentifier": "A", "weightFactor": 0}]}, "weightFactor"),
        ({"shareDistribution": [{"shareIdentifier": "team-a"}]}, "alphanumeric"),
    ):
        assert problem in call(client, "create_scheduling_policy", name="p", fairsharePolicy=fairness)
    both = {"fairsharePolicy": {}, "quotaSharePolicy": {"idleResourceAssignmentStrategy": "FIFO"}}
    assert "Only one of" in call(client, "create_scheduling_policy", name="p", **both)
    share = {
        "quotaShareName": "s",
        "jobQueue": "bad-queues",
        "capacityLimits": [{"maxCapacity": 1, "capacityUnit": "ml.m5.large"}],
        "resourceSharingConfiguration": {"strategy": "LEND"},
        "preemptionConfiguration": {"inSharePreemption": "DISABLED"},
    }
    assert "doesn't have a quota share" in call(client, "create_quota_share", **share)
    share["jobQueue"] = queues.create_quota("bad-shares", 1)
    borrows = {"strategy": "LEND", "borrowLimit": 50}
    assert "borrowLimit" in call(client, "create_quota_share", **share | {"resourceSharingConfiguration": borrows})
    units = [{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}]
    assert "instance type" in call(client, "create_quota_share", **share | {"capacityLimits": units})


def test_tags_pages_and_moto_own_queues(queues: Any) -> None:
    client = queues.client
    arn = queues.create("tagged", tags={"team": "a"})
    client.tag_resource(resourceArn=arn, tags={"project": "b"})
    assert client.list_tags_for_resource(resourceArn=arn)["tags"] == {"team": "a", "project": "b"}
    client.untag_resource(resourceArn=arn, tagKeys=["team"])
    assert client.describe_job_queues(jobQueues=[arn])["jobQueues"][0]["tags"] == {"project": "b"}
    client.update_job_queue(jobQueue="tagged", state="DISABLED", priority=3)
    description = client.describe_job_queues(jobQueues=["tagged"])["jobQueues"][0]
    assert (description["priority"], description["state"], description["status"]) == (3, "DISABLED", "VALID")
    for number in range(3):
        client.create_scheduling_policy(name=f"paged-{number}", fairsharePolicy={})
    pages = list(client.get_paginator("list_scheduling_policies").paginate(PaginationConfig={"PageSize": 2}))
    names = [item["arn"].rpartition("/")[2] for page in pages for item in page["schedulingPolicies"]]
    assert [name for name in names if name.startswith("paged")] == ["paged-0", "paged-1", "paged-2"]
    # Queues of containers are moto's, and both kinds are listed together.
    role = queues.server.client("iam").create_role(RoleName="batch", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    environment = client.create_compute_environment(
        computeEnvironmentName="containers", type="UNMANAGED", state="ENABLED", serviceRole=role
    )["computeEnvironmentArn"]
    client.create_job_queue(
        jobQueueName="containers",
        state="ENABLED",
        priority=1,
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": environment}],
    )
    names = [item["jobQueueName"] for item in client.describe_job_queues()["jobQueues"]]
    assert {"containers", "tagged"} <= set(names)
    with pytest.raises(client.exceptions.ClientException, match="Object already exists"):
        queues.create("containers")
