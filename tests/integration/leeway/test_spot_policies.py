"""Test SpotTrainingOperator with a drydock whose spot market and outages the tests control: capacity, budgets, logs."""

import asyncio
import contextlib
import datetime as dt
import threading
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferralTimeout, TaskDeferred
from botocore.exceptions import ClientError
from leeway.hooks.sagemaker import wait as watch
from leeway.hooks.sagemaker import wait_for_job
from leeway.hooks.sagemaker.logs import job_log
from leeway.triggers.job import JobTrigger

from pipelines.costs import job_records
from tests.tools.outages import ONE_ATTEMPT, post_to_drydock


def has_s3(drydock):
    """Return whether drydock's S3 answers without an error."""
    with contextlib.suppress(ClientError):
        return bool(drydock.client("s3").list_buckets())
    return False


@pytest.fixture
def no_capacity(start_drydock, connect_airflow):
    """Start a drydock for this test, without spot capacity for ml.m5.large."""
    with start_drydock() as drydock:
        connect_airflow(drydock.url)
        post_to_drydock(drydock, "capacity", instance_type="ml.m5.large", available=False)
        yield drydock


SHORT = {"max_run_s": 2, "max_wait_s": 2}
"""Limits of jobs that get no instance; a job on an instance would have to end within them."""
ENOUGH = {"max_run_s": 10, "max_wait_s": 10}


def test_job_without_capacity_fails_the_task_without_a_retry_and_names_max_wait_s(
    no_capacity, project, make_spot_task, context, start, resume
):
    deferral = start(make_spot_task(**SHORT), context)
    with pytest.raises(
        AirflowFailException, match=r"got no machine .ml.m5.large spot. within 2 s.*max_wait_s"
    ) as error:
        resume(make_spot_task(**SHORT), deferral)
    assert "\n" not in str(error.value)
    job = no_capacity.describe_job(deferral.trigger.wait.job_name)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxWaitTimeExceeded")


SWITCHES = {
    "next-instance-type": (
        {"instance_types": ["ml.m5.large", "ml.m5.xlarge"], "on_no_capacity": "next_instance_type"},
        "ml.m5.xlarge",
        True,
    ),
    "on-demand": ({"on_no_capacity": "on_demand"}, "ml.m5.large", False),
}
"""Fields of a task, and the instance type that its second job gets, by spot or not."""


def test_switch_of_instances_keeps_the_checkpoints_and_is_in_the_result(
    no_capacity, project, make_spot_task, context, start, finish, capsys
):
    """The jobs of both runs wait for capacity at the same time."""
    deferral_by_run = {}
    for run_id, (fields, _, _) in SWITCHES.items():
        context["ti"].run_id = run_id
        deferral_by_run[run_id] = start(make_spot_task(**ENOUGH, **fields), context)
    for run_id, (fields, instance_type, is_spot) in SWITCHES.items():
        context["ti"].run_id = run_id
        result = finish(make_spot_task(**ENOUGH, **fields), deferral_by_run[run_id])
        base = deferral_by_run[run_id].trigger.wait.job_name.removesuffix("-1")
        first, second = (no_capacity.describe_job(f"{base}-{number}") for number in (1, 2))
        assert first["CheckpointConfig"] == second["CheckpointConfig"]
        assert second["ResourceConfig"]["InstanceType"] == result["instance_type"] == instance_type
        assert second["EnableManagedSpotTraining"] is is_spot
        assert ("MaxWaitTimeInSeconds" in second["StoppingCondition"]) is is_spot
        target = f"{instance_type} {'spot' if is_spot else 'on demand'}"
        switch = {
            "from": "ml.m5.large spot",
            "to": target,
            "reason": "MaxWaitTimeExceeded",
            "job": first["TrainingJobName"],
        }
        assert result["switches"] == [switch]
        assert result["attempts"] == 2
        assert f"no capacity for ml.m5.large spot: continuing with {target}" in capsys.readouterr().out
        # The next try remembers nothing and finds the same.
        assert make_spot_task(**ENOUGH, **fields).execute(context) == result
    assert len(no_capacity.list_jobs()) == 4


@pytest.mark.soak
def test_task_fails_without_a_retry_when_no_instance_type_has_capacity(
    no_capacity, project, make_spot_task, context, start, finish
):
    post_to_drydock(no_capacity, "capacity", instance_type="ml.m5.*", available=False)
    fields = {**SHORT, "instance_types": ["ml.m5.large", "ml.m5.xlarge"], "on_no_capacity": "next_instance_type"}
    with pytest.raises(AirflowFailException, match=r"got no machine .ml.m5.xlarge spot."):
        finish(make_spot_task(**fields), start(make_spot_task(**fields), context))
    assert len(no_capacity.list_jobs()) == 2


def test_job_past_max_run_s_fails_the_task_without_a_retry(drydock, project, make_spot_task, context, start, resume):
    fields = {"max_run_s": 2, "max_wait_s": 60}
    deferral = start(make_spot_task("wait", **fields), context)
    with pytest.raises(AirflowFailException, match=r"stopped after max_run_s \(2 s\)"):
        resume(make_spot_task("wait", **fields), deferral)
    assert drydock.describe_job(deferral.trigger.wait.job_name)["SecondaryStatus"] == "MaxRuntimeExceeded"


# Budgets


def test_training_that_may_exceed_the_budget_is_not_started(drydock, project, make_spot_task, context):
    jobs = drydock.list_jobs()
    with pytest.raises(AirflowFailException, match=r"the budget does not allow this job: .*0.0192") as error:
        make_spot_task(budget_usd="0.019").execute(context)
    assert "\n" not in str(error.value)
    assert drydock.list_jobs() == jobs


def test_most_expensive_instance_type_decides_on_the_budget(drydock, project, make_spot_task, context):
    fields = {"instance_types": ["ml.m5.large", "ml.m5.4xlarge"], "on_no_capacity": "next_instance_type"}
    with pytest.raises(AirflowFailException, match=r"ml.m5.4xlarge"):
        make_spot_task(budget_usd=0.02, **fields).execute(context)


def test_monthly_budget_refuses_a_training_that_may_exceed_it(drydock, project, make_spot_task, context):
    (project / "params.yaml").write_text("budget: {project: p, month_usd: 0.001}")
    with pytest.raises(AirflowFailException, match="the budget does not allow"):
        make_spot_task().execute(context)


def test_job_that_exceeds_the_budget_is_stopped(
    drydock, project, make_spot_task, context, start, resume, tmp_path, capsys
):
    """Earlier attempts count. The test sets their cost, because a real job would have to run for hours."""
    deferral = start(make_spot_task("wait", budget_usd=1), context)
    fields = deferral.trigger.serialize()[1]
    assert (fields["price_usd_h"], fields["budget_usd"], fields["spent_usd"]) == (0.115, 1.0, 0.0)
    deferral.trigger = JobTrigger(**{**fields, "spent_usd": 1.0})
    with pytest.raises(
        AirflowFailException, match=r"was stopped: it cost 1\.\d+ USD, and the run's budget_usd is 1.0000"
    ):
        resume(make_spot_task("wait", budget_usd=1), deferral)
    assert drydock.describe_job(fields["job_name"])["TrainingJobStatus"] == "Stopped"


def test_job_past_its_deadline_is_stopped(drydock, project, make_spot_task, context, start, resume, monkeypatch):
    deferral = start(make_spot_task("wait"), context)
    deferral.trigger = JobTrigger(**{**deferral.trigger.serialize()[1], "max_duration_s": 1})
    monkeypatch.setattr(watch, "MARGIN_S", 1)
    with pytest.raises(AirflowException, match="was stopped: it did not end within 2 s") as error:
        resume(make_spot_task("wait"), deferral)
    assert type(error.value) is AirflowException
    assert drydock.describe_job(deferral.trigger.wait.job_name)["TrainingJobStatus"] == "Stopped"


def test_timeout_of_the_deferral_stops_the_job(drydock, project, make_spot_task, context, start, until):
    name = start(make_spot_task("wait"), context).trigger.wait.job_name
    with pytest.raises(TaskDeferralTimeout):
        make_spot_task("wait").resume_execution("__fail__", {"error": "Trigger timeout"}, context)
    until(lambda: drydock.describe_job(name)["TrainingJobStatus"] == "Stopped")


# Waiting and logs


@pytest.fixture
def read_whole_log(capsys):
    """Return the function that gives all that was logged since the start of the test."""
    parts = []

    def read() -> str:
        parts.append(capsys.readouterr().out)
        return "".join(parts)

    return read


@pytest.mark.parametrize("deferrable", [True, False])
def test_states_and_lines_of_the_job_are_logged_once(
    drydock, project, make_spot_task, context, finish, read_whole_log, deferrable
):
    task = make_spot_task(deferrable=deferrable)
    try:
        task.execute(context)
    except TaskDeferred as deferral:
        assert deferrable
        finish(make_spot_task(), deferral)
    log = read_whole_log()
    for words in ("Downloading since", "Training since", "Completed since", "algo-1 | trained on", "ok after []"):
        assert log.count(words) == 1, words


def test_log_cuts_many_lines_and_shows_the_last(
    drydock, project, make_spot_task, context, start, finish, read_whole_log, until
):
    script = (project / "train.py").read_text()
    (project / "train.py").write_text(
        script + "\nfor number in range(30000): print('line', number)\nprint('the end')\n"
    )
    deferral = start(make_spot_task(), context)
    # Each look logs some lines. The number of looks while the job runs depends on the machine.
    until(lambda: drydock.describe_job(deferral.trigger.wait.job_name)["TrainingJobStatus"] == "Completed")
    finish(make_spot_task(), deferral)
    log = read_whole_log()
    assert log.count("| line ") <= 4 * job_log.LINES_PER_CHECK
    assert "more lines in CloudWatch: /aws/sagemaker/TrainingJobs" in log
    assert "| the end" in log


def test_final_look_shows_the_last_line_that_an_earlier_look_cut() -> None:
    """The job wrote its last line long before its end, so the final look finds no new line."""

    class Logs:
        """CloudWatch Logs with one stream of 5,000 lines, in one page."""

        async def describe_log_streams(self, **_):
            return {"logStreams": [{"logStreamName": "job/algo-1-1"}]}

        async def get_log_events(self, *, startFromHead, nextToken="", limit=0, **_):
            lines = [f"line {number}" for number in range(5_000)] + ["the end"]
            page = [] if nextToken else lines if startFromHead else lines[-limit:]
            return {"events": [{"message": line} for line in page], "nextForwardToken": "f"}

    messages: list[str] = []
    log = job_log.JobLog("job", SimpleNamespace(info=lambda text, *values: messages.append(text % values)))
    asyncio.run(log.show_new_lines(Logs()))
    assert "algo-1 | the end" not in messages
    asyncio.run(log.show_new_lines(Logs(), is_final=True))
    assert messages[-1] == "algo-1 | the end"
    asyncio.run(log.show_new_lines(Logs()))
    assert messages.count("algo-1 | the end") == 1


@pytest.mark.parametrize(
    ("service", "operation", "code", "status"),
    [
        ("sagemaker", "DescribeTrainingJob", "ThrottlingException", 400),
        pytest.param("sagemaker", None, "ServiceUnavailable", 503, marks=pytest.mark.soak),
        ("logs", None, "ServiceUnavailableException", 500),
    ],
)
@pytest.mark.parametrize("deferrable", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_outage_is_logged_once_and_the_task_continues_after_it(
    drydock,
    project,
    make_spot_task,
    context,
    finish,
    read_whole_log,
    tmp_path,
    until,
    deferrable,
    service,
    operation,
    code,
    status,
):
    task, results = make_spot_task("wait", deferrable=deferrable, botocore_config=ONE_ATTEMPT), []

    def run() -> None:
        try:
            results.append(task.execute(context))
        except TaskDeferred as deferral:
            results.append(finish(make_spot_task("wait", botocore_config=ONE_ATTEMPT), deferral))

    thread = threading.Thread(target=run)
    thread.start()
    name = f"{make_spot_task()._make_job_task(context).jobs.base}-1"
    until(lambda: name in drydock.list_jobs() and drydock.describe_job(name)["SecondaryStatus"] == "Training")
    post_to_drydock(
        drydock, "outage", service=service, operation=operation or "", code=code, status=status, for_s=600, times=2
    )
    until(lambda: "answers again" in read_whole_log())
    (tmp_path / "release").touch()
    thread.join(120)
    assert results[0]["status"] == "Completed"
    log = read_whole_log()
    assert log.count("does not answer") == 1
    assert log.count("answers again") == 1


@pytest.mark.parametrize("operation", ["GET", pytest.param("HEAD", marks=pytest.mark.soak), "PUT"])
def test_task_starts_its_job_after_an_outage_of_s3(
    drydock, project, make_spot_task, context, start, finish, read_whole_log, operation
):
    post_to_drydock(drydock, "outage", service="s3", operation=operation, status=503, for_s=600, times=2)
    deferral = start(make_spot_task(botocore_config=ONE_ATTEMPT), context)
    assert "S3 does not answer" in read_whole_log() and "S3 answers again" in read_whole_log()
    assert finish(make_spot_task(), deferral)["status"] == "Completed"


@pytest.mark.soak
@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError"), (429, "Busy")])
def test_long_outage_of_s3_is_retried_by_airflow_and_named(
    drydock, project, make_spot_task, context, monkeypatch, until, status, code
):
    monkeypatch.setattr("leeway.hooks.sagemaker.aws_errors.RETRY_TIMEOUT_S", 0.5)
    post_to_drydock(drydock, "outage", service="s3", status=status, code=code, for_s=600, times=9)
    with pytest.raises(AirflowException, match=code) as error:
        make_spot_task(botocore_config=ONE_ATTEMPT).execute(context)
    until(lambda: has_s3(drydock))
    assert type(error.value) is AirflowException
    assert "does not exist" not in str(error.value)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"bucket": "nobody-has-it"}, "the bucket nobody-has-it does not exist"),
        ({"channels": {"train": "s3://nobody-has-it/rows"}}, "the bucket nobody-has-it does not exist"),
        ({"channels": {"train": "s3://leeway/nothing-there"}}, "the channel s3://leeway/nothing-there is empty"),
    ],
)
def test_missing_bucket_or_channel_fails_the_task_without_a_retry(
    drydock, project, make_spot_task, context, fields, text
):
    with pytest.raises(AirflowFailException, match=text):
        make_spot_task(**fields).execute(context)


def test_refused_bucket_fails_the_task_without_a_retry(drydock, project, make_spot_task, context):
    post_to_drydock(drydock, "outage", service="s3", operation="GET", status=403, code="AccessDenied", times=1)
    with pytest.raises(AirflowFailException, match=r"the bucket leeway cannot be used: .*AccessDenied"):
        make_spot_task().execute(context)


def test_restored_checkpoints_are_read_from_the_log(drydock, project, make_spot_task, context, start, finish):
    lines = ["checkpoint restored: none", "checkpoint restored: name=000175 saved_at=2026-11-21T03:20:11.123456+00:00"]
    script = (project / "train.py").read_text()
    (project / "train.py").write_text(
        f"for line in {lines}: print(line)\nprint('checkpoint restored, so to say')\n{script}"
    )
    deferral = start(make_spot_task(), context)
    finish(make_spot_task(), deferral)
    checkpoints = job_records.list_restored_checkpoints(drydock.client("logs"), deferral.trigger.wait.job_name)
    assert [checkpoint["saved_at"] for checkpoint in checkpoints] == ["", "2026-11-21T03:20:11.123456+00:00"]
    assert all(dt.datetime.fromisoformat(checkpoint["at"]).tzinfo for checkpoint in checkpoints)
    assert job_records.list_restored_checkpoints(drydock.client("logs"), "no-such-job") == []


def test_result_counts_an_interruption(
    drydock, project, make_spot_task, context, start, finish, read_whole_log, tmp_path, until
):
    deferral = start(make_spot_task("wait"), context)
    name = deferral.trigger.wait.job_name
    until(lambda: drydock.describe_job(name)["SecondaryStatus"] == "Training")
    post_to_drydock(drydock, "interrupt", job=name, after_s=0, no_capacity_s=1)
    until(
        lambda: any(
            transition["Status"] == "Interrupted"
            for transition in drydock.describe_job(name)["SecondaryStatusTransitions"]
        )
    )
    (tmp_path / "release").touch()
    result = finish(make_spot_task("wait"), deferral)
    assert (result["interruptions"], result["attempts"], result["switches"]) == (1, 1, [])
    assert result["capacity_s"] > 0
    assert result["saving"] == pytest.approx(1 - result["billable_s"] / result["training_s"], abs=1e-6)
    assert "Interrupted since" in read_whole_log()


def test_failed_job_is_charged(drydock, project, make_spot_task, context, start, resume, read_whole_log):
    with pytest.raises(AirflowFailException, match="the script failed"):
        resume(make_spot_task("crash"), start(make_spot_task("crash"), context))
    assert "1 job(s), " in read_whole_log()


# Kills


def test_kill_of_the_waiting_worker_stops_the_job_and_is_logged(
    drydock, project, make_spot_task, context, read_whole_log, until
):
    """With `deferrable=False` Airflow calls on_kill of the running task."""
    task = make_spot_task("wait", deferrable=False)
    errors = []

    def run() -> None:
        with contextlib.suppress(BaseException):
            try:
                task.execute(context)
            except AirflowException as error:
                errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    base = until(lambda: task._job_task and task._job_task.jobs.live_job_name)
    until(lambda: drydock.read_log(base))  # the task knows the name before the job exists
    task.on_kill()
    thread.join(60)
    assert drydock.describe_job(base)["TrainingJobStatus"] == "Stopped"
    assert "the task was killed: stopping training job" in read_whole_log()
    assert "stopped by somebody" in str(errors[0])


def kill_trigger(trigger, drydock, cancels=0):
    """Call on_kill of a trigger and cancel it several times, as Airflow does after a clear; return the job's status."""

    async def run() -> None:
        kill = asyncio.create_task(trigger.on_kill())
        for _ in range(cancels):
            await asyncio.sleep(0)
            kill.cancel()
        await kill

    asyncio.run(run())
    return drydock.describe_job(trigger.wait.job_name)["TrainingJobStatus"]


class TaskInstance:
    """The part of a task instance that a trigger reads."""

    def __init__(self, try_id):
        self.id, self.task_id, self.task = try_id, "train", None


def start_and_interrupt_trigger(deferral, try_id):
    """Return a trigger that has started to wait for the job and was then interrupted."""
    trigger = JobTrigger(**deferral.trigger.serialize()[1])
    trigger._task_instance = TaskInstance(try_id)

    async def start_and_cancel() -> None:
        wait = asyncio.create_task(anext(trigger.run()))
        while await wait_for_job.read_waiter(trigger.wait) != f"{trigger._try_id}/{trigger._waiter_id}":
            await asyncio.sleep(0.05)
        wait.cancel()
        await asyncio.gather(wait, return_exceptions=True)

    asyncio.run(start_and_cancel())
    return trigger


@pytest.mark.parametrize("cancels", [0, 5])
def test_kill_of_the_trigger_stops_the_job(drydock, project, make_spot_task, context, start, cancels):
    trigger = start_and_interrupt_trigger(start(make_spot_task("wait"), context), "try-1")
    assert kill_trigger(trigger, drydock, cancels) in ("Stopping", "Stopped")


def test_kill_stops_the_job_when_the_next_try_already_waits(drydock, project, make_spot_task, context, start):
    deferral = start(make_spot_task("wait"), context)
    first, _ = start_and_interrupt_trigger(deferral, "try-1"), start_and_interrupt_trigger(deferral, "try-2")
    assert kill_trigger(first, drydock) in ("Stopping", "Stopped")


def test_kill_of_a_trigger_that_another_triggerer_runs_keeps_the_job(
    drydock, project, make_spot_task, context, start, read_whole_log
):
    deferral = start(make_spot_task("wait"), context)
    first, _ = start_and_interrupt_trigger(deferral, "try-1"), start_and_interrupt_trigger(deferral, "try-1")
    assert kill_trigger(first, drydock) == "InProgress"
    assert "another triggerer waits for it now" in read_whole_log()
    drydock.stop_job(deferral.trigger.wait.job_name)
