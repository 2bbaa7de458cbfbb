"""Test SpotTrainingOperator(job_queue=...) with the queues of a real drydock: each service job has one training job."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from leeway.hooks.training.queue.wait_in_queue import submit_job
from leeway.triggers.queued_job import QueuedJobTrigger

from pipelines.costs.ledger import Ledger
from tests.tools.killed_worker import TRAINING_FIELDS, kill_worker
from tests.tools.outages import ONE_ATTEMPT, post_to_drydock

TYPE = "ml.m5.large"
FAIR, QUOTA = {"fairsharePolicy": {}}, {"quotaSharePolicy": {"idleResourceAssignmentStrategy": "FIFO"}}


@dataclass
class Queue:
    """A queue of a drydock, and the jobs in it."""

    drydock: Any
    name: str

    @property
    def batch(self):
        """A client of AWS Batch."""
        return self.drydock.client("batch")

    def list_jobs(self) -> list[dict[str, Any]]:
        """Return the descriptions of all service jobs of the queue, oldest first."""
        filters = [{"name": "AFTER_CREATED_AT", "values": ["0"]}]
        jobs = self.batch.list_service_jobs(jobQueue=self.name, filters=filters)["jobSummaryList"]
        return [self.batch.describe_service_job(jobId=job["jobId"]) for job in reversed(jobs)]

    def list_training_jobs(self) -> list[dict[str, Any]]:
        """Return the descriptions of the training jobs of all service jobs of the queue, oldest first."""
        names = [name for name in self.drydock.list_jobs() if name.startswith("AWSBatch")]
        jobs = [job for job in map(self.drydock.describe_job, names) if job["Environment"].get("QUEUE") == self.name]
        return sorted(jobs, key=lambda job: job["CreationTime"])

    def get_states(self) -> list[str]:
        """Return the states of all service jobs, oldest first."""
        return [job["status"] for job in self.list_jobs()]


def create_queue(drydock: Any, name: str, policy: dict[str, Any] | None = None, state: str = "ENABLED") -> Queue:
    """Create a queue for one instance."""
    batch, unit = drydock.client("batch"), TYPE if policy == QUOTA else "NUM_INSTANCES"
    batch.create_service_environment(
        serviceEnvironmentName=name,
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 1, "capacityUnit": unit}],
    )
    policy_fields = (
        {"schedulingPolicyArn": batch.create_scheduling_policy(name=name, **policy)["arn"]} if policy else {}
    )
    batch.create_job_queue(
        jobQueueName=name,
        jobQueueType="SAGEMAKER_TRAINING",
        priority=1,
        state=state,
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": name}],
        **policy_fields,
    )
    return Queue(drydock, name)


@pytest.fixture
def make_queue(drydock, request):
    """Return the function that creates a queue for one instance, with a scheduling policy."""
    numbers = iter(range(9))

    def make(policy: dict[str, Any] | None = None, state: str = "ENABLED"):
        name = f"q{abs(hash(request.node.name)) % 10**8}-{next(numbers)}"
        return create_queue(drydock, name, policy, state)

    return make


@pytest.fixture
def make_task(make_spot_task):
    """Return the function that makes a task whose jobs go to a queue, and name it in a variable."""

    def make(queue: Queue, mode: str = "ok", **fields: Any):
        return make_spot_task(mode, job_queue=queue.name, environment={"QUEUE": queue.name}, **fields)

    return make


def make_context(run_id: str) -> dict[str, Any]:
    """Return the context of another run of the task."""
    return {"ti": SimpleNamespace(run_id=run_id, map_index=-1, try_number=1)}


def test_job_is_submitted_with_share_and_priority_and_gives_the_result(
    drydock, project, make_queue, make_task, context, start, finish, capsys
):
    queue = make_queue(policy=FAIR)
    fields = {"share": "teamA", "priority": "high"}
    deferral = start(make_task(queue, **fields), context)
    # Airflow's own limit of the wait has room for the queue.
    assert deferral.timeout.total_seconds() >= 604_800 + 900
    result = finish(make_task(queue, **fields), deferral)
    (service_job,) = queue.list_jobs()
    assert service_job["jobName"] == deferral.trigger.wait.job_name
    assert (service_job["shareIdentifier"], service_job["schedulingPriority"]) == ("teamA", 1_000)
    assert service_job["tags"]["leeway:task"] == "train"
    (job,) = queue.list_training_jobs()
    assert service_job["latestAttempt"]["serviceResourceId"]["value"] == job["TrainingJobArn"]
    assert job["StoppingCondition"] == {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 900}
    assert (result["training_job"], result["status"]) == (job["TrainingJobName"], "Completed")
    assert (result["service_job"], result["attempts"]) == (service_job["jobId"], 1)
    assert drydock.read_archive(result["model"]) == {"model": f"{project.parent.name} 13".encode()}
    log = capsys.readouterr().out
    assert f"to queue {queue.name}" in log and f"trained on {project.parent.name} ok" in log
    # A retry collects the result, and starts nothing.
    assert make_task(queue, **fields).execute(context) == result
    assert len(queue.list_jobs()) == 1
    (row,) = Ledger.open().read_rows()
    assert row["queue_s"] is not None and row["queue_s"] == pytest.approx(result["queue_s"], abs=1e-3)
    assert row["priority"] == "high"


def test_executor_queue_of_the_airflow_task_is_another_one(make_spot_task):
    """BaseOperator's `queue` says which workers of the CeleryExecutor run the task. The two do not mix."""
    task = make_spot_task(job_queue="training", queue="gpu-workers")
    assert (task.job_queue, task.queue) == ("training", "gpu-workers")
    assert make_spot_task(job_queue="training").queue == make_spot_task().queue == "default"


def test_waiting_job_is_found_again_and_starts_once_there_is_room(
    drydock, project, make_queue, make_task, context, start, finish, tmp_path, until, capsys
):
    queue = make_queue()
    first = start(make_task(queue, "wait"), context)
    until(lambda: queue.get_states() == ["RUNNING"])
    second = start(make_task(queue, "wait"), make_context("run2"))
    until(lambda: queue.get_states() == ["RUNNING", "RUNNABLE"])
    retry = start(make_task(queue, "wait"), make_context("run2"))
    assert retry.trigger.wait.job_name == second.trigger.wait.job_name
    assert retry.trigger.wait.attached_at and not second.trigger.wait.attached_at
    assert queue.get_states() == ["RUNNING", "RUNNABLE"]
    (tmp_path / "release").touch()
    assert finish(make_task(queue, "wait"), first)["status"] == "Completed"
    result = make_task(queue, "wait", deferrable=False).execute(make_context("run2"))
    assert queue.get_states() == ["SUCCEEDED"] * 2
    assert len(queue.list_training_jobs()) == 2
    assert result["queue_s"] > 0
    # The wait in the queue is neither training nor cost.
    job = drydock.describe_job(result["training_job"])
    assert result["billable_s"] == job["BillableTimeInSeconds"] and result["training_s"] == job["TrainingTimeInSeconds"]
    (row,) = (row for row in Ledger.open().read_rows() if row["run_id"] == "run2")
    assert row["queue_s"] == pytest.approx(result["queue_s"], abs=1e-3) and row["created"] == job["CreationTime"]


def test_clear_of_a_waiting_task_takes_its_job_out_of_the_queue(
    drydock, project, make_queue, make_task, context, start, finish, resume, tmp_path, until
):
    queue = make_queue()
    start(make_task(queue, "wait"), context)
    until(lambda: queue.get_states() == ["RUNNING"])
    waiting = start(make_task(queue, "wait"), make_context("run2"))
    kill_trigger(waiting)
    assert queue.get_states() == ["RUNNING", "FAILED"]
    assert queue.list_jobs()[1]["statusReason"] == "stopped by the Airflow task"
    # The cleared task submits the next job, and the job that was taken out costs nothing.
    second = start(make_task(queue, "wait"), make_context("run2"))
    names = [job["jobName"] for job in queue.list_jobs()]
    assert names[2] == second.trigger.wait.job_name == names[1].removesuffix("-1") + "-2"
    (tmp_path / "release").touch()
    result = make_task(queue, "wait", deferrable=False).execute(make_context("run2"))
    assert result["attempts"] == 1 and len(queue.list_training_jobs()) == 2


def kill_trigger(deferral) -> None:
    """Run the trigger of a deferred task for a moment, and cancel it as Airflow does for a cleared task."""
    trigger = QueuedJobTrigger(**asdict(deferral.trigger.wait))
    trigger.task_instance = SimpleNamespace(id="1", task_id="train", task=None)

    async def run_and_kill():
        run = asyncio.create_task(anext(trigger.run()))
        await asyncio.sleep(1)
        run.cancel()
        await trigger.on_kill()

    asyncio.run(run_and_kill())


def test_clear_of_a_running_task_stops_the_training_and_the_next_job_resumes(
    drydock, project, make_queue, make_task, context, start, finish, tmp_path, until, capsys
):
    queue = make_queue()
    first = start(make_task(queue, "wait"), context)
    until(lambda: queue.get_states() == ["RUNNING"])
    checkpoint = queue.list_training_jobs()[0]["CheckpointConfig"]["S3Uri"].removeprefix("s3://leeway/")
    until(lambda: f"{checkpoint}/step-0" in drydock.list_uploads())
    kill_trigger(first)
    # The new try attaches to the job that is being stopped, and submits the next one after its end.
    second = start(make_task(queue, "wait"), context)
    (tmp_path / "release").touch()
    result = finish(make_task(queue, "wait"), second)
    assert queue.get_states() == ["FAILED", "SUCCEEDED"]
    jobs = queue.list_training_jobs()
    assert [job["TrainingJobStatus"] for job in jobs] == ["Stopped", "Completed"]
    assert jobs[0]["CheckpointConfig"] == jobs[1]["CheckpointConfig"]
    assert (result["attempts"], result["training_job"]) == (2, jobs[1]["TrainingJobName"])
    assert "after ['step-0']" in capsys.readouterr().out


def test_kill_of_the_worker_process_terminates_the_job(drydock, project, make_queue, make_task, context, start, until):
    """Airflow calls on_kill of the task that waits in a worker, or that has attached and not yet deferred."""
    queue = make_queue()
    start(make_task(queue, "wait"), context)
    until(lambda: queue.get_states() == ["RUNNING"])
    task = make_task(queue, "wait")
    with pytest.raises(TaskDeferred):
        task.execute(context)
    task.on_kill()
    until(lambda: queue.get_states() == ["FAILED"])
    assert [job["TrainingJobStatus"] for job in queue.list_training_jobs()] == ["Stopped"]


@pytest.mark.soak
def test_crashed_script_fails_the_task_and_a_clear_submits_the_next_job_with_its_checkpoints(
    drydock, project, make_queue, make_task, context, start, finish
):
    queue = make_queue()
    with pytest.raises(AirflowFailException, match=r"AlgorithmError.*the script failed"):
        finish(make_task(queue, "crash"), start(make_task(queue, "crash"), context))
    assert queue.get_states() == ["FAILED"]
    second = start(make_task(queue, "crash"), context)
    assert second.trigger.wait.job_name.endswith("-2")
    with pytest.raises(AirflowFailException, match="AlgorithmError"):
        finish(make_task(queue, "crash"), second)
    jobs = queue.list_training_jobs()
    assert len(jobs) == 2 and jobs[0]["CheckpointConfig"] == jobs[1]["CheckpointConfig"]
    assert len(Ledger.open().read_rows()) == 2


def test_preempted_job_resumes_as_a_new_training_job_of_the_same_service_job(
    drydock, project, make_queue, make_task, context, start, finish, resume, tmp_path, until, capsys
):
    queue = make_queue(policy=QUOTA)
    queue.batch.create_quota_share(
        quotaShareName="teamA",
        jobQueue=queue.name,
        capacityLimits=[{"maxCapacity": 1, "capacityUnit": TYPE}],
        resourceSharingConfiguration={"strategy": "RESERVE"},
        preemptionConfiguration={"inSharePreemption": "ENABLED"},
    )
    low = {"share": "teamA", "priority": "low"}
    first = start(make_task(queue, "wait", **low), context)
    until(lambda: queue.get_states() == ["RUNNING"])
    checkpoint = queue.list_training_jobs()[0]["CheckpointConfig"]["S3Uri"].removeprefix("s3://leeway/")
    until(lambda: f"{checkpoint}/step-0" in drydock.list_uploads())
    with ThreadPoolExecutor() as pool:
        event = pool.submit(wait_with_trigger, first)
        until(lambda: "Training since" in capsys.readouterr().out)
        start(make_task(queue, "ok", share="teamA", priority="high"), make_context("urgent"))
        with pytest.raises(TaskDeferred) as preempted:
            resume(make_task(queue, "wait", **low), first, event.result())
    assert preempted.value.trigger.wait.job_name == first.trigger.wait.job_name
    assert "was preempted" in capsys.readouterr().out
    urgent = make_task(queue, "ok", share="teamA", priority="high", deferrable=False)
    assert urgent.execute(make_context("urgent"))["status"] == "Completed"
    (tmp_path / "release").touch()
    result = finish(make_task(queue, "wait", **low), preempted.value)
    assert queue.get_states() == ["SUCCEEDED"] * 2
    low_jobs = [job for job in queue.list_training_jobs() if job["HyperParameters"]["mode"] == "wait"]
    assert [job["TrainingJobStatus"] for job in low_jobs] == ["Stopped", "Completed"]
    assert (result["attempts"], result["training_job"]) == (2, low_jobs[1]["TrainingJobName"])
    assert "after ['step-0']" in capsys.readouterr().out
    # Each training job is in the ledger. The second one waited while the urgent one ran.
    rows = [row for row in Ledger.open().read_rows() if row["run_id"] == "run"]
    assert [row["arn"] for row in rows] == [job["TrainingJobArn"] for job in low_jobs]
    assert result["queue_s"] == pytest.approx(sum(row["queue_s"] for row in rows), abs=1e-3)
    assert 0 < rows[1]["queue_s"] < (low_jobs[1]["CreationTime"] - low_jobs[0]["CreationTime"]).total_seconds()


def test_worker_killed_between_submission_and_record_leaves_one_job(
    drydock, project, make_queue, make_task, context, tmp_path
):
    queue = make_queue()
    task = make_task(queue, deferrable=False)
    kill_worker(
        task, (*TRAINING_FIELDS, "job_queue", "environment"), "leeway.hooks.training.queue.wait_in_queue:_submit"
    )
    (orphan,) = queue.list_jobs()
    result = task.execute(context)
    assert result["service_job"] == orphan["jobId"]
    assert queue.get_states() == ["SUCCEEDED"] and len(queue.list_training_jobs()) == 1


@pytest.mark.soak
def test_kills_of_drydock_while_a_task_waits_leave_one_training_job_for_each_service_job(
    start_drydock, connect_airflow, project, make_task, context, start, finish, tmp_path, until
):
    """It is killed while the second job waits in the queue, and again while it trains."""
    with start_drydock() as drydock, ThreadPoolExecutor() as pool:
        connect_airflow(drydock.url)
        queue = create_queue(drydock, "killed")
        start(make_task(queue, "wait"), make_context("first"))
        until(lambda: queue.get_states() == ["RUNNING"])
        deferral = start(make_task(queue, "wait"), context)
        event = pool.submit(wait_with_trigger, deferral)
        drydock.kill_and_restart(until)
        until(lambda: queue.get_states() == ["RUNNING", "RUNNABLE"])
        (tmp_path / "release").touch()
        until(lambda: queue.get_states()[0] == "SUCCEEDED")
        drydock.kill_and_restart(until)
        assert event.result()["cause"] == "ended"
        result = finish(make_task(queue, "wait"), deferral)
        assert (queue.get_states(), result["attempts"]) == (["SUCCEEDED"] * 2, 1)
        assert len(queue.list_training_jobs()) == 2


@pytest.mark.soak
def test_simultaneous_tries_submit_one_job(drydock, project, make_queue, make_task, context, until):
    """A try that seemed dead and its retry both find no job, and both submit one; the requests differ in a variable."""
    queue, waits = make_queue(), []
    for number in range(4):
        task = make_task(queue, "wait")
        task.environment = {**task.environment, "TRY": str(number)}
        with pytest.raises(TaskDeferred) as deferral:
            task.execute(context)
        waits.append(deferral.value.trigger.wait)
    assert len({wait.job_name for wait in waits}) == 1
    assert queue.list_jobs() == [], "the trigger submits the job, not the task"

    async def submit_together():
        return await asyncio.gather(*(submit_job(wait, structlog.get_logger()) for wait in waits))

    submitted = asyncio.run(submit_together())
    assert all(wait.request is None for wait in submitted)
    (service_job,) = queue.list_jobs()
    until(lambda: queue.get_states() == ["RUNNING"])
    assert len(queue.list_training_jobs()) == 1
    queue.batch.terminate_service_job(jobId=service_job["jobId"], reason="the test ends")


@pytest.mark.soak
def test_kill_of_a_trigger_that_submits_terminates_the_job(drydock, project, make_queue, make_task, context, until):
    """The trigger is killed while Batch refuses the submission, so the job exists only after the kill."""
    queue = make_queue()
    with pytest.raises(TaskDeferred) as deferral:
        make_task(queue, "wait", botocore_config=ONE_ATTEMPT).execute(context)
    trigger = QueuedJobTrigger(**asdict(deferral.value.trigger.wait))
    trigger.task_instance = SimpleNamespace(id="1", task_id="train", task=None)
    outage = {"service": "batch", "operation": "POST", "code": "TooManyRequestsException", "status": 400}
    post_to_drydock(drydock, "outage", **outage, for_s=3)

    async def start_and_kill():
        run = asyncio.create_task(anext(trigger.run()))
        await asyncio.sleep(0.5)
        run.cancel()
        await trigger.on_kill()

    asyncio.run(start_and_kill())
    until(lambda: queue.get_states() == ["FAILED"])


def test_job_that_waits_longer_than_max_queue_s_is_taken_out(
    drydock, project, make_queue, make_task, context, start, resume, until, capsys
):
    queue = make_queue()
    start(make_task(queue, "wait"), context)
    until(lambda: queue.get_states() == ["RUNNING"])
    waiting = start(make_task(queue, "wait", max_queue_s="1"), make_context("run2"))
    with pytest.raises(AirflowFailException, match=r"it waited in queue .* than max_queue_s \(1 s\)") as error:
        getattr(make_task(queue, "wait", max_queue_s="1"), waiting.method_name)(
            make_context("run2"), event=wait_with_trigger(waiting), **waiting.kwargs
        )
    check_one_line(error.value)
    assert queue.get_states() == ["RUNNING", "FAILED"] and len(queue.list_training_jobs()) == 1
    assert " UTC, position 1. " in capsys.readouterr().out


def wait_with_trigger(deferral) -> dict[str, Any]:
    """Run the trigger of a deferred task from its serialized form, and return its event."""
    trigger = QueuedJobTrigger(**json.loads(json.dumps(deferral.trigger.serialize()[1])))

    async def read_first_event():
        return (await anext(trigger.run())).payload

    return dict(asyncio.run(read_first_event()))


def test_job_that_runs_without_a_queue_is_not_started_again_in_one(
    drydock, project, make_queue, make_spot_task, make_task, context, start, finish, tmp_path
):
    first, queue = start(make_spot_task("wait"), context), make_queue()
    second = start(make_task(queue, "wait"), context)
    assert (type(second.trigger).__name__, second.trigger.wait.job_name) == ("JobTrigger", first.trigger.wait.job_name)
    (tmp_path / "release").touch()
    assert finish(make_task(queue, "wait"), second)["training_job"] == first.trigger.wait.job_name
    assert queue.list_jobs() == []


# A refusal is one line.


def check_one_line(error: BaseException) -> None:
    """Check that an error has one line and no cause."""
    assert "\n" not in str(error) and error.__cause__ is None


@pytest.mark.parametrize(
    ("policy", "fields", "message"),
    [
        (None, {"share": "teamA"}, "has no fair share: leave out share='teamA'"),
        (FAIR, {}, "has fair share: give share=, a share identifier, such as teamA"),
        (FAIR, {"share": "team-a"}, "share 'team-a' must be 1 to 255 letters and digits"),
        (QUOTA, {}, "has quota shares: give share=, the name of a quota share"),
        (None, {"max_queue_s": 0}, "max_queue_s of the task train must be a whole number of 1 or more"),
        (None, {"max_queue_s": "a day"}, "max_queue_s of the task train is not a whole number: 'a day'"),
    ],
)
def test_wrong_share_or_limit_fails_the_task_without_a_retry(
    drydock, project, make_queue, make_task, context, policy, fields, message
):
    queue = make_queue(policy=policy)
    with pytest.raises(AirflowFailException, match=message) as error:
        make_task(queue, **fields).execute(context)
    check_one_line(error.value)
    assert queue.list_jobs() == []


def test_queue_that_is_missing_disabled_or_for_containers_fails_the_task(
    drydock, project, make_queue, make_spot_task, make_task, context, start, resume
):
    with pytest.raises(AirflowFailException, match="job queue no-such-queue does not exist") as error:
        make_spot_task(job_queue="no-such-queue").execute(context)
    check_one_line(error.value)
    with pytest.raises(AirflowFailException, match="share of the task train has no effect without job_queue="):
        make_spot_task(share="teamA", job_queue="None").execute(context)
    queue = make_queue(state="DISABLED")
    with pytest.raises(AirflowFailException, match=f"job queue {queue.name} is disabled: enable it") as error:
        make_task(queue).execute(context)
    check_one_line(error.value)
    # A queue that is disabled later still runs the jobs that it has, so the task attaches.
    queue.batch.update_job_queue(jobQueue=queue.name, state="ENABLED")
    start(make_task(queue), context)
    queue.batch.update_job_queue(jobQueue=queue.name, state="DISABLED")
    assert make_task(queue, deferrable=False).execute(context)["status"] == "Completed"


def test_job_that_batch_refuses_fails_the_task(drydock, project, make_queue, make_task, context, resume):
    """The quota share does not exist: only the submission finds that out."""
    queue = make_queue(policy=QUOTA)
    with pytest.raises(TaskDeferred) as deferral:
        make_task(queue, share="nobody").execute(context)
    with pytest.raises(AirflowFailException, match=r"was not started: .*QuotaShare nobody not found") as error:
        resume(make_task(queue, share="nobody"), deferral.value)
    check_one_line(error.value)


def test_task_is_retried_when_batch_does_not_answer(
    drydock, project, make_queue, make_task, context, monkeypatch, start
):
    monkeypatch.setattr("leeway.hooks.sagemaker.aws_errors.RETRY_TIMEOUT_S", 1.0)
    queue = make_queue()
    outage = {"service": "batch", "operation": "POST", "code": "ServerException", "status": 500}
    post_to_drydock(drydock, "outage", **outage, for_s=600, times=1)
    with pytest.raises(AirflowException, match=r"AWS Batch refused: .*ServerException") as error:
        make_task(queue, botocore_config=ONE_ATTEMPT).execute(context)
    assert type(error.value) is AirflowException
    # This is the negative control: without the outage, the job is submitted.
    start(make_task(queue), context)
