"""Test the states of service jobs, also after a kill -9 at each moment."""

from typing import Any

import pytest
from moto.sagemaker.exceptions import AWSValidationException

from drydock.batch.errors import ClientException
from drydock.jobs.states import Status


def test_states_follow_the_training_job(bench: Any) -> None:
    job = bench.submit(bench.create_queue(), "job")
    assert bench.describe(job)["status"] == "SUBMITTED"
    assert bench.get_status(job) == "SCHEDULED"
    bench.begin(job)
    assert bench.get_status(job) == "RUNNING"
    bench.end(job)
    assert bench.get_status(job) == "SUCCEEDED"
    assert bench.scheduler.advance() is False, "the scheduler waits for the next change"


def test_killed_server_starts_no_training_job_twice_and_loses_none(bench: Any) -> None:
    queue = bench.create_queue(size=2)
    jobs = [bench.submit(queue, f"job-{number}") for number in range(3)]
    bench.training_jobs.error = SystemExit("killed after the attempt was stored, before the training job was created")
    with pytest.raises(SystemExit, match="killed"):
        bench.scheduler.advance()
    assert not bench.training_jobs.jobs
    bench.training_jobs.error = None
    for _ in range(3):
        bench.restart()
        bench.scheduler.advance()
    assert len(bench.training_jobs.jobs) == 2 and bench.get_status(jobs[2]) == "RUNNABLE"
    bench.begin(jobs[0])
    bench.end(jobs[0])
    bench.restart()
    assert [bench.get_status(job) for job in jobs] == ["SUCCEEDED", "SCHEDULED", "SCHEDULED"]
    assert len(bench.training_jobs.jobs) == 3


def test_killed_server_still_stops_what_was_terminated(bench: Any) -> None:
    job = bench.submit(bench.create_queue(), "job")
    bench.scheduler.advance()
    bench.begin(job)
    bench.training_jobs.stop = lambda _: None  # the server is killed before it stops the training job
    bench.call("TerminateServiceJob", jobId=job, reason="enough")
    del bench.training_jobs.stop
    bench.restart()
    bench.scheduler.advance()
    assert bench.get_training_job(job).status is Status.STOPPING
    bench.end(job, Status.STOPPED)
    assert bench.get_status(job) == "FAILED" and bench.describe(job)["statusReason"] == "enough"


def test_terminated_job_that_had_completed_has_succeeded(bench: Any) -> None:
    job = bench.submit(bench.create_queue(), "job")
    bench.scheduler.advance()
    bench.begin(job)
    bench.end(job)
    bench.call("TerminateServiceJob", jobId=job, reason="too late")
    assert bench.get_status(job) == "SUCCEEDED"


def test_refused_payload_fails_the_job(bench: Any) -> None:
    job = bench.submit(bench.create_queue(), "job")
    bench.training_jobs.error = AWSValidationException("wrong")
    assert bench.get_status(job) == "FAILED"
    assert bench.describe(job)["statusReason"] == "Received status from SageMaker: ValidationException: wrong"


def test_timeout_counts_from_the_start_of_the_attempt_and_is_not_repeated(bench: Any) -> None:
    queue = bench.create_queue()
    job = bench.submit(queue, "job", timeoutConfig={"attemptDurationSeconds": 60}, retryStrategy={"attempts": 9})
    bench.scheduler.advance()
    bench.now_s += 1_000
    bench.scheduler.advance()
    assert not bench.get_training_job(job).stop_event.is_set(), "it waits for its instances"
    bench.begin(job)
    bench.now_s = bench.get_training_job(job).started_at.timestamp() + 59
    bench.scheduler.advance()
    assert not bench.get_training_job(job).stop_event.is_set()
    bench.now_s += 2
    bench.scheduler.advance()
    assert bench.get_training_job(job).stop_event.is_set()
    bench.end(job, Status.STOPPED)
    assert bench.get_status(job) == "FAILED"


def _create_quota_queue(bench: Any, **shares: int) -> str:
    idle = {"idleResourceAssignmentStrategy": "FIFO"}
    policy = bench.call("CreateSchedulingPolicy", name="quota", quotaSharePolicy=idle)["arn"]
    queue = bench.create_queue(size=sum(shares.values()), unit="ml.m5.large", schedulingPolicyArn=policy)
    for name, limit in shares.items():
        bench.call(
            "CreateQuotaShare",
            quotaShareName=name,
            jobQueue=queue,
            capacityLimits=[{"maxCapacity": limit, "capacityUnit": "ml.m5.large"}],
            resourceSharingConfiguration={"strategy": "LEND_AND_BORROW"},
            preemptionConfiguration={"inSharePreemption": "ENABLED"},
        )
    return str(queue)


@pytest.mark.parametrize(("retries", "expected"), [(None, "SCHEDULED"), (1, "SCHEDULED"), (0, "FAILED")])
def test_preempted_job_waits_and_continues_unless_its_retries_are_used_up(
    bench: Any, retries: int | None, expected: str
) -> None:
    queue = _create_quota_queue(bench, a=1)
    config = {} if retries is None else {"preemptionRetriesBeforeTermination": retries}
    low = bench.submit(queue, "low", quotaShareName="a", preemptionConfiguration=config)
    bench.scheduler.advance()
    bench.begin(low)
    high = bench.submit(queue, "high", quotaShareName="a", schedulingPriority=5)
    bench.scheduler.advance()
    first = bench.get_training_job(low)
    assert first.status is Status.STOPPING
    first.end(Status.STOPPED, first.phase)
    assert bench.get_status(high) == "SCHEDULED"
    bench.begin(high)
    bench.end(high)
    assert bench.get_status(high) == "SUCCEEDED" and bench.get_status(low) == expected
    summary = bench.describe(low)["preemptionSummary"]
    assert summary["preemptedAttemptCount"] == len(summary["recentPreemptedAttempts"]) == 1
    assert "higher priority" in summary["recentPreemptedAttempts"][0]["statusReason"]
    assert bench.describe(low)["attempts"] == []
    assert (bench.get_training_job(low) is not first) is (expected == "SCHEDULED")


def test_changed_priority_preempts_and_the_snapshot_shows_shares(bench: Any) -> None:
    queue = _create_quota_queue(bench, a=1, b=1)
    running = bench.submit(queue, "running", quotaShareName="a", schedulingPriority=1)
    other = bench.submit(queue, "other", quotaShareName="b")
    waiting = bench.submit(queue, "waiting", quotaShareName="a", schedulingPriority=1)
    assert bench.get_status(waiting) == "RUNNABLE"
    snapshot = bench.call("GetJobQueueSnapshot", jobQueue=queue)
    assert list(snapshot["frontOfQuotaShares"]["quotaShares"]) == ["a"]
    usage = snapshot["queueUtilization"]["quotaShareUtilization"]["topCapacityUtilization"]
    assert {item["quotaShareName"]: item["capacityUsage"][0]["quantity"] for item in usage} == {"a": 1.0, "b": 1.0}
    bench.call("UpdateServiceJob", jobId=waiting, schedulingPriority=2)
    bench.scheduler.advance()
    assert bench.get_training_job(running).stop_event.is_set()
    assert not bench.get_training_job(other).stop_event.is_set()


def test_fair_shares_and_their_snapshot(bench: Any) -> None:
    policy = bench.call("CreateSchedulingPolicy", name="fair", fairsharePolicy={"shareDecaySeconds": 3_600})["arn"]
    queue = bench.create_queue(size=2, schedulingPolicyArn=policy)
    jobs = [bench.submit(queue, f"a{number}", shareIdentifier="A") for number in range(3)]
    jobs += [bench.submit(queue, f"b{number}", shareIdentifier="B", schedulingPriority=number) for number in range(2)]
    bench.scheduler.advance()
    assert [bench.describe(job)["status"] for job in jobs] == [
        "SCHEDULED", "RUNNABLE", "RUNNABLE", "RUNNABLE", "SCHEDULED",
    ]  # fmt: skip
    snapshot = bench.call("GetJobQueueSnapshot", jobQueue=queue)
    order = [entry["jobArn"].rpartition("/")[2] for entry in snapshot["frontOfQueue"]["jobs"]]
    assert order == [jobs[1], jobs[3], jobs[2]]
    assert snapshot["queueUtilization"]["fairshareUtilization"]["activeShareCount"] == 2


def test_time_limit_terminates_only_a_job_that_waits_for_its_reason(bench: Any) -> None:
    reason = "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE"
    action = {"reason": reason, "state": "RUNNABLE", "maxTimeSeconds": 600, "action": "TERMINATE"}
    queue = bench.create_queue(jobStateTimeLimitActions=[action])
    running, waiting = bench.submit(queue, "running"), bench.submit(queue, "waiting")
    for _ in range(2):
        assert bench.get_status(waiting) == "RUNNABLE"
        bench.now_s += 700
    bench.begin(running)
    bench.end(running)
    large = bench.submit(queue, "large", instances=2)
    assert bench.get_status(large) == "RUNNABLE"
    assert bench.get_status(large) == "RUNNABLE" and bench.describe(large)["statusReason"].startswith(reason)
    bench.now_s += 601
    assert bench.get_status(large) == "FAILED" and bench.describe(large)["isTerminated"]


def test_deleted_queue_terminates_its_jobs(bench: Any) -> None:
    queue = _create_quota_queue(bench, a=1)
    running = bench.submit(queue, "running", quotaShareName="a")
    waiting = bench.submit(queue, "waiting", quotaShareName="a")
    bench.scheduler.advance()
    bench.begin(running)
    bench.call("UpdateJobQueue", jobQueue=queue, state="DISABLED")
    bench.call("DeleteJobQueue", jobQueue=queue)
    assert bench.get_status(waiting) == "FAILED"
    assert bench.call("DescribeJobQueues")["jobQueues"][0]["status"] == "DELETING"
    bench.restart()
    bench.end(running, Status.STOPPED)
    assert bench.get_status(running) == "FAILED"
    assert bench.call("DescribeJobQueues")["jobQueues"] == []
    with pytest.raises(ClientException):
        bench.call("GetJobQueueSnapshot", jobQueue=queue)


def test_second_request_with_the_same_token_gets_the_same_job(bench: Any) -> None:
    queue = bench.create_queue()
    first = bench.submit(queue, "job", clientToken="token")
    bench.restart()
    assert bench.submit(queue, "job", clientToken="token") == first
    with pytest.raises(ClientException) as error:
        bench.submit(queue, "other", clientToken="token")
    assert "already used" in error.value.message
    assert bench.submit(queue, "job", clientToken="other") != first


def test_job_that_fails_by_itself_while_it_is_preempted_has_failed(bench: Any) -> None:
    queue = _create_quota_queue(bench, a=1)
    low = bench.submit(queue, "low", quotaShareName="a")
    bench.scheduler.advance()
    bench.begin(low)
    bench.submit(queue, "high", quotaShareName="a", schedulingPriority=5)
    bench.scheduler.advance()
    bench.end(low, Status.FAILED, "AlgorithmError: x")
    assert bench.get_status(low) == "FAILED"
    assert bench.describe(low)["statusReason"] == "Received status from SageMaker: AlgorithmError: x"


def test_error_of_one_job_does_not_stop_the_others(bench: Any) -> None:
    queue = bench.create_queue(size=1)
    broken = bench.submit(queue, "broken")
    bench.training_jobs.error = RuntimeError("a bug")
    bench.scheduler.advance()
    bench.scheduler.advance()
    bench.training_jobs.error = None
    other = bench.submit(queue, "other")
    bench.scheduler.advance()
    assert bench.describe(broken)["status"] == "FAILED" and "a bug" in bench.describe(broken)["statusReason"]
    assert bench.get_status(other) == "SCHEDULED"
