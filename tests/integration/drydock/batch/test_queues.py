"""Test queues whose jobs really run: their order, states, retries, timeouts and ends."""

import itertools
import json
import re
from typing import Any

import pytest

SLEEP = "import time; time.sleep(600)"


def test_jobs_run_one_after_the_other_in_their_order(queues: Any) -> None:
    queue = queues.create("fifo")
    # The priority has no effect without a scheduling policy.
    jobs = [queues.submit(queue, f"fifo-{number}", schedulingPriority=number) for number in range(3)]
    ends = [queues.wait_for_end(job) for job in jobs]
    assert [job["status"] for job in ends] == ["SUCCEEDED"] * 3
    assert queues.read_runs() == ["fifo-0", "fifo-1", "fifo-2"]
    for earlier, later in itertools.pairwise(ends):
        assert earlier["stoppedAt"] <= later["scheduledAt"]


def test_description_of_a_job_and_the_name_of_its_training_job(queues: Any) -> None:
    queue = queues.create("described")
    payload = queues.build_payload("a-name-that-is-longer-than-there-is-room", Tags=[{"Key": "team", "Value": "x"}])
    job_id = queues.submit(queue, "described", payload=payload, tags={"team": "y", "project": "z"})
    job = queues.wait_for_end(job_id)
    name = job["latestAttempt"]["serviceResourceId"]["value"].rpartition("/")[2]
    assert re.fullmatch("AWSBatcha-name-that-is-longer-t[0-9a-f]{32}", name) and len(name) == 63
    assert job["jobArn"] == f"arn:aws:batch:us-east-1:123456789012:service-job/{job_id}"
    assert job["statusReason"] == "Received status from SageMaker: Training job completed"
    (attempt,) = job["attempts"]
    assert attempt["serviceResourceId"] == job["latestAttempt"]["serviceResourceId"]
    assert job["createdAt"] <= job["scheduledAt"] <= job["startedAt"] <= job["stoppedAt"] == attempt["stoppedAt"]
    assert job["capacityUsage"] == [{"capacityUnit": "ml.m5.large", "quantity": 1.0}]
    assert (job["jobQueue"], json.loads(job["serviceRequestPayload"])) == (queue, payload)
    assert not job["isTerminated"] and "preemptionSummary" not in job and "shareIdentifier" not in job
    training_job = queues.get_training_job(job)
    assert training_job["TrainingJobStatus"] == "Completed"
    tags = queues.server.client("sagemaker").list_tags(ResourceArn=training_job["TrainingJobArn"])["Tags"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"team": "y", "project": "z"}
    assert queues.describe(job["jobArn"])["jobId"] == job_id


def test_states_of_a_running_and_a_waiting_job(queues: Any) -> None:
    queue = queues.create("states", 2)
    running = queues.submit(queue, "states-1", SLEEP)
    payload = queues.build_payload(
        "pair", SLEEP, ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1}
    )
    waiting = queues.submit(queue, "states-2", payload=payload)
    job = queues.wait_for_status(running, "RUNNING")
    assert queues.get_training_job(job)["SecondaryStatus"] == "Training" and job["attempts"] == []
    other_job = queues.wait_for_status(waiting, "RUNNABLE")
    assert "latestAttempt" not in other_job and "startedAt" not in other_job
    assert other_job["capacityUsage"][0]["quantity"] == 2.0
    snapshot = queues.client.get_job_queue_snapshot(jobQueue="states")
    assert [entry["jobArn"] for entry in snapshot["frontOfQueue"]["jobs"]] == [other_job["jobArn"]]
    assert snapshot["queueUtilization"]["totalCapacityUsage"] == [{"capacityUnit": "ml.m5.large", "quantity": 1.0}]
    queues.client.terminate_service_job(jobId=waiting, reason="not needed")
    ended_job = queues.describe(waiting)
    assert (ended_job["status"], ended_job["statusReason"], ended_job["isTerminated"]) == ("FAILED", "not needed", True)
    queues.client.terminate_service_job(jobId=job["jobArn"], reason="enough")
    ended_job = queues.wait_for_end(running)
    assert (ended_job["status"], ended_job["statusReason"], ended_job["isTerminated"]) == ("FAILED", "enough", True)
    assert queues.get_training_job(ended_job)["TrainingJobStatus"] == "Stopped"


def test_failed_attempts_are_repeated_and_each_has_a_training_job(queues: Any) -> None:
    queue, script = queues.create("retries"), "raise SystemExit(3)"
    rules = [{"action": "EXIT", "onStatusReason": "Received status from SageMaker: AlgorithmError*"}]
    job = queues.wait_for_end(queues.submit(queue, "three", script, retryStrategy={"attempts": 3}))
    assert job["status"] == "FAILED" and len(job["attempts"]) == 3
    assert len({attempt["serviceResourceId"]["value"] for attempt in job["attempts"]}) == 3
    assert job["statusReason"].startswith("Received status from SageMaker: AlgorithmError: ExecuteUserScriptError")
    strategy = {"attempts": 3, "evaluateOnExit": rules}
    assert len(queues.wait_for_end(queues.submit(queue, "one", script, retryStrategy=strategy))["attempts"]) == 1
    assert len(queues.wait_for_end(queues.submit(queue, "default", script))["attempts"]) == 1


def test_attempt_that_takes_too_long_is_stopped(queues: Any) -> None:
    queue = queues.create("timeouts")
    job_id = queues.submit(
        queue, "slow", SLEEP, timeoutConfig={"attemptDurationSeconds": 1}, retryStrategy={"attempts": 5}
    )
    job = queues.wait_for_end(job_id)
    assert (job["status"], job["statusReason"]) == ("FAILED", "Job attempt duration exceeded timeout")
    assert queues.get_training_job(job)["TrainingJobStatus"] == "Stopped" and not job["isTerminated"]


def test_payload_that_sagemaker_refuses_fails_the_job_and_a_stopped_training_job_too(queues: Any) -> None:
    queue = queues.create("refused")
    payload = queues.build_payload("refused") | {"RoleArn": "x"}
    job = queues.wait_for_end(queues.submit(queue, "refused", payload=payload))
    assert job["status"] == "FAILED"
    assert job["statusReason"].startswith("Received status from SageMaker: ValidationException: 2 validation errors")
    running = queues.submit(queue, "stopped", SLEEP)
    name = queues.get_training_job(queues.wait_for_status(running, "RUNNING"))["TrainingJobName"]
    queues.server.stop_job(name)
    job = queues.wait_for_end(running)
    assert (job["status"], job["isTerminated"]) == ("FAILED", False)
    assert job["statusReason"] == "Received status from SageMaker: Training job stopped"


def test_job_that_is_larger_than_the_environment_says_so_and_runs_once_there_is_room(queues: Any) -> None:
    queue = queues.create("small", 1)
    resources = {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1}
    job_id = queues.submit(queue, "large", payload=queues.build_payload("large", ResourceConfig=resources))
    queues.server.wait_until(
        "the reason", lambda: "SERVICE_ENVIRONMENT_MAX_RESOURCE" in queues.describe(job_id).get("statusReason", "")
    )
    queues.client.update_service_environment(
        serviceEnvironment="small", capacityLimits=[{"maxCapacity": 2, "capacityUnit": "NUM_INSTANCES"}]
    )
    assert queues.wait_for_end(job_id)["status"] == "SUCCEEDED"


def test_queue_with_a_higher_priority_gets_the_instances_first(queues: Any) -> None:
    low = queues.create("low")
    order = queues.client.describe_job_queues(jobQueues=[low])["jobQueues"][0]["serviceEnvironmentOrder"]
    high = queues.client.create_job_queue(
        jobQueueName="high", priority=9, serviceEnvironmentOrder=order, jobQueueType="SAGEMAKER_TRAINING"
    )["jobQueueArn"]
    first = queues.submit(low, "first", SLEEP)
    queues.wait_for_status(first, "RUNNING")
    jobs = [queues.submit(low, "second"), queues.submit(high, "third")]
    queues.client.terminate_service_job(jobId=first, reason="done")
    assert {queues.wait_for_end(job)["status"] for job in jobs} == {"SUCCEEDED"}
    assert queues.read_runs() == ["third", "second"]


def test_disabled_and_deleted_queues(queues: Any) -> None:
    queue = queues.create("deleted")
    job_id = queues.submit(queue, "in-deleted", SLEEP)
    queues.wait_for_status(job_id, "RUNNING")
    with pytest.raises(queues.client.exceptions.ClientException, match="must be disabled first"):
        queues.client.delete_job_queue(jobQueue="deleted")
    queues.client.update_job_queue(jobQueue="deleted", state="DISABLED")
    with pytest.raises(queues.client.exceptions.ClientException, match="accepts no jobs"):
        queues.submit(queue, "late")
    with pytest.raises(queues.client.exceptions.ClientException, match="must be disabled first"):
        queues.client.delete_service_environment(serviceEnvironment="deleted")
    queues.client.update_service_environment(serviceEnvironment="deleted", state="DISABLED")
    with pytest.raises(queues.client.exceptions.ClientException, match="found existing JobQueue relationship: deleted"):
        queues.client.delete_service_environment(serviceEnvironment="deleted")
    queues.client.delete_job_queue(jobQueue="deleted")
    assert queues.wait_for_end(job_id)["status"] == "FAILED"
    queues.server.wait_until(
        "the deletion", lambda: not queues.client.describe_job_queues(jobQueues=["deleted"])["jobQueues"]
    )
    queues.client.delete_service_environment(serviceEnvironment="deleted")
    response = queues.client.describe_service_environments(serviceEnvironments=["deleted"])
    assert response["serviceEnvironments"] == []
