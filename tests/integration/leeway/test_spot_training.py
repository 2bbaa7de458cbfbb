"""Test SpotTrainingOperator with a real drydock: the request that it sends, and that a task never pays for two jobs."""

import asyncio
from dataclasses import asdict
from types import SimpleNamespace

import pytest
import structlog
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from leeway.hooks.sagemaker import aws_errors
from leeway.hooks.sagemaker.wait_for_job import start_job
from leeway.triggers.job import JobTrigger

from pipelines.versioning.workspaces import open_workspace
from tests.tools.airflow_project import run_git
from tests.tools.killed_worker import TRAINING_FIELDS, kill_worker
from tests.tools.outages import ONE_ATTEMPT, post_to_drydock


def list_jobs_of(drydock, deferral) -> list[str]:
    """Return the names of the jobs of a deferred task."""
    return list_jobs_of_wait(drydock, deferral.trigger.wait)


def list_jobs_of_wait(drydock, wait) -> list[str]:
    """Return the names of the jobs of the task that waits."""
    base = wait.job_name.rpartition("-")[0]
    return [name for name in drydock.list_jobs() if name.startswith(base)]


def commit_all(project):
    """Commit all files of the project; return the commit."""
    run_git(project, "add", "-A")
    run_git(project, "commit", "-qm", "x")
    return run_git(project, "rev-parse", "HEAD")


def list_input_uploads(drydock):
    """Return the times of the uploads of code and data, by key. Jobs of other tests write to other folders."""
    return {key: time for key, time in drydock.list_uploads().items() if "/code/" in key or "/data/" in key}


def test_request_asks_for_spot_and_has_times_as_numbers(drydock, project, make_spot_task, context, start, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    task = make_spot_task(
        max_run_s="120", max_wait_s="300", instance_count="1", volume_size_gb="5", environment={"MORE": "yes"}
    )
    deferral = start(task, context)
    job = drydock.describe_job(deferral.trigger.wait.job_name)
    assert job["EnableManagedSpotTraining"] is True
    assert job["StoppingCondition"] == {"MaxRuntimeInSeconds": 120, "MaxWaitTimeInSeconds": 300}
    assert job["ResourceConfig"] == {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 5}
    assert job["AlgorithmSpecification"]["TrainingImage"] == "image"
    assert job["RoleArn"].endswith(":role/leeway-training")
    assert job["HyperParameters"]["seed"] == "13"
    assert job["HyperParameters"]["sagemaker_program"] == "train.py"
    assert job["CheckpointConfig"]["S3Uri"].startswith("s3://leeway/leeway/checkpoints/")
    assert job["OutputDataConfig"]["S3OutputPath"] == "s3://leeway/leeway/jobs"
    assert job["Environment"]["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:9"
    assert job["Environment"]["MORE"] == "yes"
    assert job["Environment"]["LEEWAY_GIT_COMMIT"]
    # The task waits as long as the job may run, not half an hour as the provider's operator does.
    assert deferral.trigger.wait.max_duration_s == 300
    assert deferral.timeout.total_seconds() >= 300


def test_config_overrides_the_request(drydock, project, make_spot_task, context, start):
    network = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]}
    config = {
        "Environment": {"MORE": "yes"},
        "StoppingCondition": {"MaxWaitTimeInSeconds": 1_000},
        "VpcConfig": network,
        "EnableInterContainerTrafficEncryption": True,
    }
    job = drydock.describe_job(start(make_spot_task(config=config), context).trigger.wait.job_name)
    assert job["Environment"]["MORE"] == "yes"
    assert job["Environment"]["LEEWAY_GIT_COMMIT"]
    assert job["StoppingCondition"] == {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 1_000}
    assert job["VpcConfig"] == network and job["EnableInterContainerTrafficEncryption"] is True


def test_hyperparameters_of_the_task_override_those_of_params_yaml(drydock, project, make_spot_task, context, start):
    deferral = start(make_spot_task(hyperparameters={"seed": 99}), context)
    assert drydock.describe_job(deferral.trigger.wait.job_name)["HyperParameters"]["seed"] == "99"


def test_code_of_a_workspace_is_that_of_its_commit(
    drydock, project, make_spot_task, context, start, finish, monkeypatch, home, fresh_settings, capsys
):
    """The workspace is that of DvcReproOperator. The project has another commit by now."""
    monkeypatch.setenv("LEEWAY_PROJECT", str(project))
    fresh_settings()
    run_git(project, "init", "-q")
    first_commit = commit_all(project)
    with open_workspace("run", None) as workspace:
        assert workspace.code.git_commit == first_commit
    (project / "lib/extra.py").write_text("WORD = 'other code for'")
    (project / "params.yaml").write_text("train: {hyperparameters: {seed: 99}}")
    second_commit = commit_all(project)
    for code, commit, word, seed in ((str(workspace.folder), first_commit, "trained on", "13"),
                                     ("", second_commit, "other code for", "99")):  # fmt: skip
        deferral = start(make_spot_task(code=code), context)
        job = drydock.describe_job(deferral.trigger.wait.job_name)
        assert (job["Environment"]["LEEWAY_GIT_COMMIT"], job["HyperParameters"]["seed"]) == (commit, seed)
        finish(make_spot_task(code=code), deferral)
        assert f"{word} {project.parent.name} ok" in capsys.readouterr().out


def test_completed_job_gives_the_result_of_the_task(drydock, project, make_spot_task, context, start, finish, capsys):
    deferral = start(make_spot_task(), context)
    result = finish(make_spot_task(), deferral)
    name = deferral.trigger.wait.job_name
    job = drydock.describe_job(name)
    assert {field: result[field] for field in ("training_job", "training_job_arn", "status", "model", "record")} == {
        "training_job": name,
        "training_job_arn": job["TrainingJobArn"],
        "status": "Completed",
        "model": f"s3://leeway/leeway/jobs/{name}/output/model.tar.gz",
        "record": f"s3://leeway/leeway/jobs/{name}/output/output.tar.gz",
    }
    assert (result["training_s"], result["billable_s"]) == (job["TrainingTimeInSeconds"], job["BillableTimeInSeconds"])
    assert (result["attempts"], result["switches"], result["instance_type"]) == (1, [], "ml.m5.large")
    assert result["cost_usd"] == pytest.approx(result["billable_s"] / 3600 * result["price_usd_h"], abs=1e-6)
    assert {"saving", "interruptions", "lost_s", "capacity_s"} <= result.keys()
    assert f"trained on {project.parent.name} ok" in capsys.readouterr().out
    assert drydock.read_archive(result["model"]) == {"model": f"{project.parent.name} 13".encode()}


def test_channel_may_be_what_a_processing_job_wrote(drydock, project, make_spot_task, context, start, finish):
    """As the output of SparkPreprocessOperator is; the job's role may read it."""
    prefix = f"leeway/processing/{context['ti'].run_id}/features/train/"
    drydock.client("s3").put_object(Bucket="leeway", Key=f"{prefix}rows", Body=b"rows of Spark")
    fields = {"channels": {"train": f"s3://leeway/{prefix}"}}
    deferral = start(make_spot_task(**fields), context)
    finish(make_spot_task(**fields), deferral)
    assert any("rows of Spark" in line for line in drydock.read_log(deferral.trigger.wait.job_name))


def test_retry_attaches_to_the_running_job(drydock, project, make_spot_task, context, start, finish, tmp_path):
    first = start(make_spot_task("wait"), context)
    second = start(make_spot_task("wait"), context)
    assert second.trigger.wait.job_name == first.trigger.wait.job_name
    assert list_jobs_of(drydock, first) == [first.trigger.wait.job_name]
    (tmp_path / "release").touch()
    assert finish(make_spot_task("wait"), second)["status"] == "Completed"


def test_retry_collects_the_completed_job(drydock, project, make_spot_task, context, start, finish):
    deferral = start(make_spot_task(), context)
    result = finish(make_spot_task(), deferral)
    uploads = list_input_uploads(drydock)
    assert make_spot_task().execute(context) == result
    assert list_jobs_of(drydock, deferral) == [deferral.trigger.wait.job_name]
    assert list_input_uploads(drydock) == uploads


@pytest.mark.soak
def test_another_run_map_index_or_input_starts_another_job(drydock, project, make_spot_task, context, start, finish):
    first = start(make_spot_task(), context)
    finish(make_spot_task(), first)
    (project / "features" / "train" / "rows").write_text("corrected")
    second = start(make_spot_task(), context)
    assert second.trigger.wait.job_name == first.trigger.wait.job_name.removesuffix("-1") + "-2"
    contexts = [
        {"ti": SimpleNamespace(run_id="run", map_index=0, try_number=1)},
        {"ti": SimpleNamespace(run_id="run2", map_index=-1, try_number=1)},
    ]
    names = [
        first.trigger.wait.job_name,
        second.trigger.wait.job_name,
        *(start(make_spot_task(), other_context).trigger.wait.job_name for other_context in contexts),
    ]
    assert len({name.rpartition("-")[0] for name in names}) == 3


def test_crashed_script_fails_the_task_without_a_retry_and_gives_the_reason(
    drydock, project, make_spot_task, context, start, finish
):
    deferral = start(make_spot_task("crash"), context)
    with pytest.raises(AirflowFailException, match="the script failed") as error:
        finish(make_spot_task("crash"), deferral)
    assert "AlgorithmError" in str(error.value)


def test_retry_after_a_failed_job_uses_the_same_checkpoints(drydock, project, make_spot_task, context, start, finish):
    first = start(make_spot_task("crash"), context)
    with pytest.raises(AirflowFailException):
        finish(make_spot_task("crash"), first)
    second = start(make_spot_task("crash"), context)
    assert list_jobs_of(drydock, first) == [first.trigger.wait.job_name, second.trigger.wait.job_name]
    failed_job, running_job = (drydock.describe_job(deferral.trigger.wait.job_name) for deferral in (first, second))
    assert failed_job["CheckpointConfig"] == running_job["CheckpointConfig"]


def test_stopped_job_fails_the_task_and_the_next_try_resumes(
    drydock, project, make_spot_task, context, start, finish, tmp_path, capsys, until
):
    first = start(make_spot_task("wait"), context)
    checkpoint = drydock.describe_job(first.trigger.wait.job_name)["CheckpointConfig"]["S3Uri"].removeprefix(
        "s3://leeway/"
    )
    until(lambda: f"{checkpoint}/step-0" in drydock.list_uploads())
    drydock.stop_job(first.trigger.wait.job_name)
    with pytest.raises(AirflowException, match="stopped") as error:
        finish(make_spot_task("wait"), first)
    assert type(error.value) is AirflowException
    (tmp_path / "release").touch()
    second = start(make_spot_task("wait"), context)
    assert second.trigger.wait.job_name.endswith("-2")
    assert finish(make_spot_task("wait"), second)["status"] == "Completed"
    assert "after ['step-0']" in capsys.readouterr().out


def test_retry_waits_for_a_stopping_job_and_starts_another(
    drydock, project, make_spot_task, context, start, resume, tmp_path, until
):
    """A job that a clear has stopped still runs for a moment and writes checkpoints to the folder of the next job."""
    first = start(make_spot_task("stubborn"), context)
    name = first.trigger.wait.job_name
    until(lambda: drydock.read_log(name))  # after its first line the script ignores SIGTERM
    drydock.stop_job(name)
    assert drydock.describe_job(name)["TrainingJobStatus"] == "Stopping"
    retry = start(make_spot_task("stubborn"), context)
    assert retry.trigger.wait.job_name == name
    assert list_jobs_of(drydock, first) == [name]
    (tmp_path / "release").touch()
    with pytest.raises(TaskDeferred) as second:
        resume(make_spot_task("stubborn"), retry)
    assert drydock.describe_job(name)["TrainingJobStatus"] == "Stopped"
    assert second.value.trigger.wait.job_name == name.removesuffix("-1") + "-2"
    assert second.value.trigger.wait.request


def test_running_job_with_other_inputs_ends_before_the_next_one_starts(
    drydock, project, make_spot_task, context, start, resume, finish, tmp_path
):
    """After a clear the data changed: the model of the running job must not pass as trained on the new data."""
    first = start(make_spot_task("wait"), context)
    name = first.trigger.wait.job_name
    (project / "features" / "train" / "rows").write_text("corrected")
    retry = start(make_spot_task("wait"), context)
    assert retry.trigger.wait.job_name == name
    assert list_jobs_of(drydock, first) == [name]
    with pytest.raises(TaskDeferred) as second:
        resume(make_spot_task("wait"), retry)
    assert drydock.describe_job(name)["TrainingJobStatus"] == "Stopped"
    (tmp_path / "release").touch()
    next_job = finish(make_spot_task("wait"), second.value)["training_job"]
    assert next_job == name.removesuffix("-1") + "-2"
    assert len({drydock.describe_job(job)["CheckpointConfig"]["S3Uri"] for job in (name, next_job)}) == 2


def test_worker_killed_after_creating_the_job_leaves_one_job(
    drydock, project, make_spot_task, context, finish, tmp_path
):
    task = make_spot_task()
    kill_worker(task, TRAINING_FIELDS, "leeway.hooks.sagemaker.wait_for_job:_create_job")
    base = task._make_job_task(context).jobs.base
    (orphan,) = [name for name in drydock.list_jobs() if name.startswith(base)]
    try:
        result = task.execute(context)
    except TaskDeferred as deferral:
        result = finish(make_spot_task(), deferral)
    assert result["training_job"] == orphan
    assert [name for name in drydock.list_jobs() if name.startswith(base)] == [orphan]


def defer(task, context):
    """Run a task until it defers, and return its wait. The job is not started."""
    with pytest.raises(TaskDeferred) as deferral:
        task.execute(context)
    return deferral.value.trigger.wait


def test_simultaneous_tries_start_one_job(drydock, project, make_spot_task, context):
    """A try that seemed dead and its retry both find no job, and both start one."""
    waits = [defer(make_spot_task("wait"), context) for _ in range(4)]
    assert len({wait.job_name for wait in waits}) == 1
    name = waits[0].job_name
    assert list_jobs_of_wait(drydock, waits[0]) == [], "the trigger starts the job, not the task"

    async def start_together():
        return await asyncio.gather(*(start_job(wait, structlog.get_logger()) for wait in waits))

    started = asyncio.run(start_together())
    assert sorted(bool(wait.attached_at) for wait in started) == [False, True, True, True]
    assert list_jobs_of_wait(drydock, waits[0]) == [name]
    drydock.stop_job(name)


def test_kill_of_a_trigger_that_starts_a_job_stops_the_job(drydock, project, make_spot_task, context, until):
    """The trigger is killed while SageMaker refuses to create the job, so the job exists only after the kill."""
    trigger = JobTrigger(**asdict(defer(make_spot_task("wait", botocore_config=ONE_ATTEMPT), context)))
    name, trigger.task_instance = trigger.wait.job_name, SimpleNamespace(id="1", task_id="train", task=None)
    outage = {"service": "sagemaker", "operation": "CreateTrainingJob", "code": "ThrottlingException", "status": 400}
    post_to_drydock(drydock, "outage", **outage, for_s=600, times=2)

    async def start_and_kill():
        run = asyncio.create_task(anext(trigger.run()))
        await asyncio.sleep(0.5)
        run.cancel()
        assert name not in drydock.list_jobs()
        await trigger.on_kill()

    asyncio.run(start_and_kill())
    until(lambda: drydock.describe_job(name)["TrainingJobStatus"] == "Stopped")


def test_refused_request_fails_the_task_and_its_retries(drydock, project, make_spot_task, context, resume, start):
    outage = {"service": "sagemaker", "operation": "CreateTrainingJob", "status": 400, "for_s": 600, "times": 1}
    for code, error_class in (("ValidationException", AirflowFailException), ("AccessDenied", AirflowException)):
        post_to_drydock(drydock, "outage", **outage, code=code)
        with pytest.raises(TaskDeferred) as deferral:
            make_spot_task().execute(context)
        with pytest.raises(AirflowException, match=f"was not started: .*{code}") as error:
            resume(make_spot_task(), deferral.value)
        assert type(error.value) is error_class
    # This is the negative control: without the outage, the job starts.
    start(make_spot_task(), context)


def test_equal_content_is_uploaded_once(drydock, project, make_spot_task, context, start):
    start(make_spot_task(), context)
    uploads = list_input_uploads(drydock)
    start(
        make_spot_task(hyperparameters={"seed": 1}), {"ti": SimpleNamespace(run_id="other", map_index=-1, try_number=1)}
    )
    assert list_input_uploads(drydock) == uploads
    (project / "train.py").write_text((project / "train.py").read_text() + "\n")
    start(make_spot_task(), {"ti": SimpleNamespace(run_id="third", map_index=-1, try_number=1)})
    assert len(list_input_uploads(drydock)) > len(uploads)


# A refusal is one line.


def check_one_line(error: BaseException) -> str:
    """Check that an error has one line and no cause; return its text."""
    assert "\n" not in str(error)
    assert error.__cause__ is None
    return str(error)


@pytest.mark.parametrize(("variable", "field"), [("LEEWAY_BUCKET", "bucket"), ("LEEWAY_ROLE_ARN", "role_arn")])
def test_refuses_a_task_without_bucket_or_role(drydock, project, make_spot_task, context, monkeypatch, variable, field):
    uploads = list_input_uploads(drydock)
    monkeypatch.delenv(variable)
    with pytest.raises(AirflowFailException, match=f"give {field}= to the task train, or set {variable}"):
        make_spot_task().execute(context)
    assert list_input_uploads(drydock) == uploads


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_run_s": 100, "max_wait_s": "99"}, r"max_wait_s \(99\) must be at least max_run_s \(100\)"),
        ({"max_run_s": "an hour"}, "max_run_s of the task train is not a whole number: 'an hour'"),
        ({"check_interval_s": 0}, "check_interval_s of the task train must be a whole number of 1 or more"),
        ({"volume_size_gb": 20_000}, "volume_size_gb of the task train must be a whole number from 1 to 16384"),
        ({"max_run_s": 2_419_201, "max_wait_s": 2_419_201}, "max_run_s of the task train must be .* 1 to 2419200"),
        ({"instance_type": "m5.large"}, "not instance types of SageMaker: m5.large"),
        ({"on_no_capacity": "pray"}, "on_no_capacity of the task train is 'pray'"),
        ({"budget_usd": "much"}, "budget_usd of the task train must be an amount"),
        ({"role_arn": "leeway-training-role-without-arn"}, "RoleArn .* is not of the form arn:aws"),
        ({"channels": {"a b": "s3://leeway/there/"}}, "ChannelName 'a b' is not of the form"),
        ({"channels": {"train": "s3://leeway/nothing/there/"}}, "the channel s3://leeway/nothing/there/ is empty"),
        ({"channels": {"train": "s3://leeway/leeway/"}}, "overlap"),
        ({"config": {"TrainingJobName": "mine"}}, "config must not have TrainingJobName"),
        ({"config": {"CheckpointConfig": {"S3Uri": "s3://other/place"}}}, "must be in a folder of s3://leeway"),
        ({"config": {"Colour": "red"}}, "SageMaker would refuse the request: .*Colour"),
        ({"bucket": "no-such-bucket"}, "no-such-bucket|NoSuchBucket"),
        ({"channels": {"train": "/no/such/folder"}}, "/no/such/folder"),
        ({"entry_point": "no_such.py"}, "no_such.py"),
        ({"instance_count": 0}, "instance_count of the task train must be a whole number of 1 or more: it is 0"),
    ],
)
def test_wrong_field_fails_the_task_without_a_retry(drydock, project, make_spot_task, context, fields, message):
    jobs = drydock.list_jobs()
    with pytest.raises(AirflowFailException, match=message) as error:
        make_spot_task(**fields).execute(context)
    check_one_line(error.value)
    assert drydock.list_jobs() == jobs


def test_unknown_key_in_params_yaml_is_named(drydock, project, make_spot_task, context):
    (project / "params.yaml").write_text("train: {colour: red}")
    with pytest.raises(AirflowFailException, match="unknown key colour") as error:
        make_spot_task().execute(context)
    check_one_line(error.value)


def test_task_is_retried_when_the_endpoint_does_not_answer(
    project, make_spot_task, context, connect_airflow, free_port, monkeypatch
):
    monkeypatch.setattr(aws_errors, "RETRY_TIMEOUT_S", 1.0)
    connect_airflow(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(AirflowException, match="does not answer") as error:
        make_spot_task(botocore_config=ONE_ATTEMPT).execute(context)
    assert type(error.value) is AirflowException
    check_one_line(error.value)


def test_task_is_retried_when_the_endpoint_disappears_while_the_job_runs(
    start_drydock, project, make_spot_task, context, start, connect_airflow, resume, monkeypatch
):
    monkeypatch.setattr(aws_errors, "RETRY_TIMEOUT_S", 1.0)
    with start_drydock() as drydock:
        connect_airflow(drydock.url)
        deferral = start(make_spot_task(), context)
    with pytest.raises(AirflowException, match="does not answer") as error:
        resume(make_spot_task(botocore_config=ONE_ATTEMPT), deferral, deferral.trigger.wait.build_event("ended"))
    assert type(error.value) is AirflowException
    check_one_line(error.value)


def test_next_try_attaches_to_the_job_that_a_trigger_gave_up(drydock, project, make_spot_task, context, start, resume):
    deferral = start(make_spot_task("wait"), context)
    with pytest.raises(AirflowException, match="is not known: no answer") as error:
        resume(make_spot_task("wait"), deferral, deferral.trigger.wait.build_event("no_answer", "no answer"))
    assert type(error.value) is AirflowException
    assert start(make_spot_task("wait"), context).trigger.wait.job_name == deferral.trigger.wait.job_name
    drydock.stop_job(deferral.trigger.wait.job_name)


def test_training_has_the_hyperparameters_and_the_record_of_a_tuning(
    drydock, project, make_spot_task, context, start, finish
):
    record = {"name": "tune-1", "trials": 3, "hyperparameters": {"seed": 7}}
    deferral = start(make_spot_task(tuning=record), context)
    assert drydock.describe_job(deferral.trigger.wait.job_name)["HyperParameters"]["seed"] == "7"
    assert finish(make_spot_task(tuning=record), deferral)["tuning"] == record
    # An argument replaces a value of the tuning; the gate's report says so.
    other = {"ti": SimpleNamespace(run_id="other", map_index=-1, try_number=1)}
    deferral = start(make_spot_task(tuning=record, hyperparameters={"seed": 8}), other)
    assert drydock.describe_job(deferral.trigger.wait.job_name)["HyperParameters"]["seed"] == "8"
    with pytest.raises(AirflowFailException, match="tuning of the task train has no hyperparameters"):
        make_spot_task(tuning={"name": "tune-1"}).execute(other)
