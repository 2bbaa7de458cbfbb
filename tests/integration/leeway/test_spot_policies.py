"""SpotTrainingOperator against a real drydock with a market and outages in the test's hand: capacity, budgets, logs."""

import asyncio
import contextlib
import datetime as dt
import threading
from types import SimpleNamespace

import pytest
import requests
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferralTimeout, TaskDeferred
from leeway.hooks.sagemaker import job_log, wait_for_job
from leeway.hooks.sagemaker import wait as watch
from leeway.triggers.job import JobTrigger

from pipelines.costs import job_records


def order(drydock, page, **body):
    """Pulls one of drydock's levers."""
    requests.post(f"{drydock.url}/drydock/{page}", json=body, timeout=30).raise_for_status()


@pytest.fixture
def no_capacity(start_drydock, connect_airflow):
    """A drydock of the test's own; nothing of ml.m5.large is to be had on spot there."""
    with start_drydock() as drydock:
        connect_airflow(drydock.url)
        order(drydock, "capacity", instance_type="ml.m5.large", available=False)
        yield drydock


SHORT = {"max_run_s": 2, "max_wait_s": 2}
"""For jobs that get no machine; one that does would have to train within it."""
ENOUGH = {"max_run_s": 10, "max_wait_s": 10}


def test_job_without_capacity_fails_for_good_and_says_what_to_give(
    no_capacity, project, make_spot_task, context, start, resume
):
    deferred = start(make_spot_task(**SHORT), context)
    with pytest.raises(
        AirflowFailException, match=r"got no machine .ml.m5.large spot. within 2 s.*max_wait_s"
    ) as raised:
        resume(make_spot_task(**SHORT), deferred)
    assert "\n" not in str(raised.value)
    job = no_capacity.describe_job(deferred.trigger.wait.job_name)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxWaitTimeExceeded")


@pytest.mark.parametrize(
    ("more", "kind", "is_spot"),
    [
        (
            {"instance_types": ["ml.m5.large", "ml.m5.xlarge"], "on_no_capacity": "next_instance_type"},
            "ml.m5.xlarge",
            True,
        ),
        ({"on_no_capacity": "on_demand"}, "ml.m5.large", False),
    ],
)
def test_switch_keeps_the_checkpoints_and_is_recorded(
    no_capacity, project, make_spot_task, context, start, finish, capsys, more, kind, is_spot
):
    deferred = start(make_spot_task(**ENOUGH, **more), context)
    told = finish(make_spot_task(**ENOUGH, **more), deferred)
    first, second = (no_capacity.describe_job(name) for name in no_capacity.list_jobs())
    assert first["CheckpointConfig"] == second["CheckpointConfig"]
    assert second["ResourceConfig"]["InstanceType"] == told["instance_type"] == kind
    assert second["EnableManagedSpotTraining"] is is_spot
    assert ("MaxWaitTimeInSeconds" in second["StoppingCondition"]) is is_spot
    to = f"{kind} {'spot' if is_spot else 'on demand'}"
    reason = {"from": "ml.m5.large spot", "to": to, "reason": "MaxWaitTimeExceeded", "job": first["TrainingJobName"]}
    assert told["switches"] == [reason]
    assert told["attempts"] == 2
    assert f"no capacity for ml.m5.large spot: continuing with {to}" in capsys.readouterr().out
    # Nothing was remembered: another try, of which nothing is known, finds the same.
    assert make_spot_task(**ENOUGH, **more).execute(context) == told
    assert len(no_capacity.list_jobs()) == 2


def test_ladder_that_ends_fails_for_good(no_capacity, project, make_spot_task, context, start, finish):
    order(no_capacity, "capacity", instance_type="ml.m5.*", available=False)
    more = {**SHORT, "instance_types": ["ml.m5.large", "ml.m5.xlarge"], "on_no_capacity": "next_instance_type"}
    with pytest.raises(AirflowFailException, match=r"got no machine .ml.m5.xlarge spot."):
        finish(make_spot_task(**more), start(make_spot_task(**more), context))
    assert len(no_capacity.list_jobs()) == 2


def test_job_that_runs_too_long_fails_for_good_in_a_line(drydock, project, make_spot_task, context, start, resume):
    more = {"max_run_s": 2, "max_wait_s": 60}
    deferred = start(make_spot_task("wait", **more), context)
    with pytest.raises(AirflowFailException, match=r"stopped after max_run_s \(2 s\)"):
        resume(make_spot_task("wait", **more), deferred)
    assert drydock.describe_job(deferred.trigger.wait.job_name)["SecondaryStatus"] == "MaxRuntimeExceeded"


# Money


def test_training_that_may_cost_too_much_is_not_started(drydock, project, make_spot_task, context):
    before = drydock.list_jobs()
    with pytest.raises(AirflowFailException, match=r"the budget does not allow this job: .*0.0192") as raised:
        make_spot_task(budget_usd="0.019").execute(context)
    assert "\n" not in str(raised.value)
    assert drydock.list_jobs() == before


def test_dearest_machine_of_the_ladder_decides(drydock, project, make_spot_task, context):
    more = {"instance_types": ["ml.m5.large", "ml.m5.4xlarge"], "on_no_capacity": "next_instance_type"}
    with pytest.raises(AirflowFailException, match=r"ml.m5.4xlarge"):
        make_spot_task(budget_usd=0.02, **more).execute(context)


def test_month_that_is_spent_allows_no_training(drydock, project, make_spot_task, context):
    (project / "params.yaml").write_text("budget: {project: p, month_usd: 0.001}")
    with pytest.raises(AirflowFailException, match="the budget does not allow"):
        make_spot_task().execute(context)


def test_job_that_costs_too_much_is_stopped(drydock, project, make_spot_task, context, start, resume, tmp_path, capsys):
    """The attempts before it count: what they spent is made up here, for no test can wait for real money."""
    deferred = start(make_spot_task("wait", budget_usd=1), context)
    fields = deferred.trigger.serialize()[1]
    assert (fields["price_usd_h"], fields["budget_usd"], fields["spent_usd"]) == (0.115, 1.0, 0.0)
    deferred.trigger = JobTrigger(**{**fields, "spent_usd": 1.0})
    with pytest.raises(
        AirflowFailException, match=r"was stopped: it cost 1\.\d+ USD, and the run's budget_usd is 1.0000"
    ):
        resume(make_spot_task("wait", budget_usd=1), deferred)
    assert drydock.describe_job(fields["job_name"])["TrainingJobStatus"] == "Stopped"


def test_job_past_its_deadline_is_stopped(drydock, project, make_spot_task, context, start, resume, monkeypatch):
    deferred = start(make_spot_task("wait"), context)
    deferred.trigger = JobTrigger(**{**deferred.trigger.serialize()[1], "longest_s": 1})
    monkeypatch.setattr(watch, "MARGIN_S", 1)
    with pytest.raises(AirflowException, match="was stopped: it did not end within 2 s") as raised:
        resume(make_spot_task("wait"), deferred)
    assert type(raised.value) is AirflowException
    assert drydock.describe_job(deferred.trigger.wait.job_name)["TrainingJobStatus"] == "Stopped"


def test_wait_that_airflow_breaks_off_stops_the_job(drydock, project, make_spot_task, context, start, until):
    name = start(make_spot_task("wait"), context).trigger.wait.job_name
    with pytest.raises(TaskDeferralTimeout):
        make_spot_task("wait").resume_execution("__fail__", {"error": "Trigger timeout"}, context)
    until(lambda: drydock.describe_job(name)["TrainingJobStatus"] == "Stopped")


# Watching


@pytest.fixture
def told(capsys):
    """What was logged so far, kept whole."""
    kept = []

    def all_of_it() -> str:
        kept.append(capsys.readouterr().out)
        return "".join(kept)

    return all_of_it


@pytest.mark.parametrize("deferrable", [True, False])
def test_states_and_lines_show_once_while_the_job_runs(
    drydock, project, make_spot_task, context, finish, told, deferrable
):
    task = make_spot_task(deferrable=deferrable)
    try:
        task.execute(context)
    except TaskDeferred as deferred:
        assert deferrable
        finish(make_spot_task(), deferred)
    said = told()
    for words in ("Downloading since", "Training since", "Completed since", "algo-1 | trained on", "ok after []"):
        assert said.count(words) == 1, words


def test_flood_of_lines_is_cut_and_its_end_shows(drydock, project, make_spot_task, context, start, finish, told, until):
    script = (project / "train.py").read_text()
    (project / "train.py").write_text(script + "\nfor at in range(30000): print('line', at)\nprint('the end')\n")
    deferred = start(make_spot_task(), context)
    # Each look shows some lines: how many looks there are while it writes is the machine's.
    until(lambda: drydock.describe_job(deferred.trigger.wait.job_name)["TrainingJobStatus"] == "Completed")
    finish(make_spot_task(), deferred)
    said = told()
    assert said.count("| line ") <= 4 * job_log.LINES_PER_CHECK
    assert "more lines in CloudWatch: /aws/sagemaker/TrainingJobs" in said
    assert "| the end" in said


def test_end_of_a_flood_shows_when_an_earlier_look_had_cut_it_off() -> None:
    """The job wrote its last line long before it ended: the last look finds nothing new."""

    class Logs:
        """CloudWatch Logs with one stream of 5,000 lines, a page each."""

        async def describe_log_streams(self, **_):
            return {"logStreams": [{"logStreamName": "job/algo-1-1"}]}

        async def get_log_events(self, *, startFromHead, nextToken="", limit=0, **_):
            lines = [f"line {at}" for at in range(5_000)] + ["the end"]
            found = [] if nextToken else lines if startFromHead else lines[-limit:]
            return {"events": [{"message": one} for one in found], "nextForwardToken": "f"}

    said: list[str] = []
    seen = job_log.JobLog("job", SimpleNamespace(info=lambda text, *given: said.append(text % given)))
    asyncio.run(seen.show_new_lines(Logs()))
    assert "algo-1 | the end" not in said
    asyncio.run(seen.show_new_lines(Logs(), final=True))
    assert said[-1] == "algo-1 | the end"
    asyncio.run(seen.show_new_lines(Logs()))
    assert said.count("algo-1 | the end") == 1


@pytest.mark.parametrize(
    ("service", "operation", "code", "status"),
    [
        ("sagemaker", "DescribeTrainingJob", "ThrottlingException", 400),
        ("sagemaker", None, "ServiceUnavailable", 503),
        ("logs", None, "ServiceUnavailableException", 500),
    ],
)
@pytest.mark.parametrize("deferrable", [True, False])
def test_outage_is_told_once_and_waited_out(
    drydock,
    project,
    make_spot_task,
    context,
    finish,
    told,
    tmp_path,
    until,
    deferrable,
    service,
    operation,
    code,
    status,
):
    once = {"retries": {"total_max_attempts": 1}}  # else the client itself waits it out, and tells nobody
    task, found = make_spot_task("wait", deferrable=deferrable, botocore_config=once), []

    def run() -> None:
        try:
            found.append(task.execute(context))
        except TaskDeferred as deferred:
            found.append(finish(make_spot_task("wait", botocore_config=once), deferred))

    thread = threading.Thread(target=run)
    thread.start()
    name = f"{make_spot_task()._make_task(context).jobs.base}-1"
    until(lambda: name in drydock.list_jobs() and drydock.describe_job(name)["SecondaryStatus"] == "Training")
    order(drydock, "outage", service=service, operation=operation or "", code=code, status=status, for_s=600, times=2)
    until(lambda: "answers again" in told())
    (tmp_path / "gate").touch()
    thread.join(120)
    assert found[0]["status"] == "Completed"
    said = told()
    assert said.count("does not answer") == 1
    assert said.count("answers again") == 1


def test_restored_checkpoints_are_read_from_the_log(drydock, project, make_spot_task, context, start, finish):
    lines = ["checkpoint restored: none", "checkpoint restored: name=000175 saved_at=2026-11-21T03:20:11.123456+00:00"]
    script = (project / "train.py").read_text()
    (project / "train.py").write_text(
        f"for line in {lines}: print(line)\nprint('checkpoint restored, so to say')\n{script}"
    )
    deferred = start(make_spot_task(), context)
    finish(make_spot_task(), deferred)
    found = job_records.list_restored_checkpoints(drydock.client("logs"), deferred.trigger.wait.job_name)
    assert [one["saved_at"] for one in found] == ["", "2026-11-21T03:20:11.123456+00:00"]
    assert all(dt.datetime.fromisoformat(one["at"]).tzinfo for one in found)
    assert job_records.list_restored_checkpoints(drydock.client("logs"), "no-such-job") == []


def test_interruption_shows_in_the_result(
    drydock, project, make_spot_task, context, start, finish, told, tmp_path, until
):
    deferred = start(make_spot_task("wait"), context)
    name = deferred.trigger.wait.job_name
    until(lambda: drydock.describe_job(name)["SecondaryStatus"] == "Training")
    order(drydock, "interrupt", job=name, after_s=0, capacity_back_after_s=1)
    until(lambda: "Interrupted" in [one["Status"] for one in drydock.describe_job(name)["SecondaryStatusTransitions"]])
    (tmp_path / "gate").touch()
    found = finish(make_spot_task("wait"), deferred)
    assert (found["interruptions"], found["attempts"], found["switches"]) == (1, 1, [])
    assert found["capacity_s"] > 0
    assert found["saving"] == pytest.approx(1 - found["billable_s"] / found["training_s"], abs=1e-6)
    assert "Interrupted since" in told()


def test_failed_attempts_are_charged_too(drydock, project, make_spot_task, context, start, resume, told):
    with pytest.raises(AirflowFailException, match="the hull is leaking"):
        resume(make_spot_task("crash"), start(make_spot_task("crash"), context))
    assert "1 job(s), " in told()


# Kills


def test_kill_of_the_waiting_worker_stops_the_job_and_says_so(drydock, project, make_spot_task, context, told, until):
    """`deferrable=False`: Airflow calls on_kill of the running task."""
    task = make_spot_task("wait", deferrable=False)
    raised = []

    def run() -> None:
        with contextlib.suppress(BaseException):
            try:
                task.execute(context)
            except AirflowException as error:
                raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    base = until(lambda: task._task and task._task.jobs.live)
    until(lambda: drydock.read_log(base))  # its name is known before there is such a job
    task.on_kill()
    thread.join(60)
    assert drydock.describe_job(base)["TrainingJobStatus"] == "Stopped"
    assert "the task was killed: stopping training job" in told()
    assert "stopped by somebody" in str(raised[0])


def kill_of(trigger, drydock, cancels=0):
    """What Airflow does to the trigger of a task that was cleared: cancels it, again and again."""

    async def run() -> None:
        kill = asyncio.create_task(trigger.on_kill())
        for _ in range(cancels):
            await asyncio.sleep(0)
            kill.cancel()
        await kill

    asyncio.run(run())
    return drydock.describe_job(trigger.wait.job_name)["TrainingJobStatus"]


class Try:
    """The task instance, as far as a trigger looks at it."""

    def __init__(self, number):
        self.id, self.task_id, self.task = number, "train", None


def watching_trigger(deferred, number):
    """A trigger that has begun to wait, and was then interrupted."""
    trigger = JobTrigger(**deferred.trigger.serialize()[1])
    trigger._task_instance = Try(number)

    async def begin() -> None:
        wait = asyncio.create_task(anext(trigger.run()))
        while await wait_for_job.read_waiter(trigger.wait) != f"{trigger._try}/{trigger._number}":
            await asyncio.sleep(0.05)
        wait.cancel()
        await asyncio.gather(wait, return_exceptions=True)

    asyncio.run(begin())
    return trigger


@pytest.mark.parametrize("cancels", [0, 5])
def test_kill_of_the_trigger_stops_the_job(drydock, project, make_spot_task, context, start, cancels):
    trigger = watching_trigger(start(make_spot_task("wait"), context), "try-1")
    assert kill_of(trigger, drydock, cancels) in ("Stopping", "Stopped")


def test_kill_after_the_next_try_waits_already_stops_the_job(drydock, project, make_spot_task, context, start):
    deferred = start(make_spot_task("wait"), context)
    first, _ = watching_trigger(deferred, "try-1"), watching_trigger(deferred, "try-2")
    assert kill_of(first, drydock) in ("Stopping", "Stopped")


def test_trigger_that_another_triggerer_took_over_leaves_the_job(
    drydock, project, make_spot_task, context, start, told
):
    deferred = start(make_spot_task("wait"), context)
    first, _ = watching_trigger(deferred, "try-1"), watching_trigger(deferred, "try-1")
    assert kill_of(first, drydock) == "InProgress"
    assert "another triggerer waits for it now" in told()
    drydock.stop_job(deferred.trigger.wait.job_name)
