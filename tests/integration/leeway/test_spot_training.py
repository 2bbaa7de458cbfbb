"""SpotTrainingOperator against a real drydock: what it asks for, and that no two jobs are ever paid for one."""

import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from leeway.hooks.sagemaker import aws_errors
from leeway.hooks.training.inputs import TrainingJobs


def names(drydock, deferred) -> list[str]:
    """The jobs of the task whose deferral this is."""
    base = deferred.trigger.wait.job_name.rpartition("-")[0]
    return [name for name in drydock.list_jobs() if name.startswith(base)]


def sent(drydock):
    """What a task sends before its job; jobs of other tests may still write their checkpoints and models."""
    return {key: moment for key, moment in drydock.list_uploads().items() if "/code/" in key or "/data/" in key}


def test_request_says_spot_and_its_times_as_numbers(drydock, project, make_spot_task, context, start, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    task = make_spot_task(
        max_run_s="120", max_wait_s="300", instance_count="1", volume_size_gb="5", environment={"MORE": "yes"}
    )
    deferred = start(task, context)
    job = drydock.describe_job(deferred.trigger.wait.job_name)
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
    # Waits as long as the job may live, not the provider's half hour.
    assert deferred.trigger.wait.longest_s == 300
    assert deferred.timeout.total_seconds() >= 300


def test_config_goes_over_the_request(drydock, project, make_spot_task, context, start):
    more = {"Environment": {"MORE": "yes"}, "StoppingCondition": {"MaxWaitTimeInSeconds": 1_000}}
    job = drydock.describe_job(start(make_spot_task(config=more), context).trigger.wait.job_name)
    assert job["Environment"]["MORE"] == "yes"
    assert job["Environment"]["LEEWAY_GIT_COMMIT"]
    assert job["StoppingCondition"] == {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 1_000}


def test_hyperparameters_of_the_task_go_before_those_of_params(drydock, project, make_spot_task, context, start):
    deferred = start(make_spot_task(hyperparameters={"seed": 99}), context)
    assert drydock.describe_job(deferred.trigger.wait.job_name)["HyperParameters"]["seed"] == "99"


def test_job_that_ends_well_is_the_task_s_result(drydock, project, make_spot_task, context, start, finish, capsys):
    deferred = start(make_spot_task(), context)
    told = finish(make_spot_task(), deferred)
    name = deferred.trigger.wait.job_name
    job = drydock.describe_job(name)
    assert {name: told[name] for name in ("training_job", "training_job_arn", "status", "model", "record")} == {
        "training_job": name,
        "training_job_arn": job["TrainingJobArn"],
        "status": "Completed",
        "model": f"s3://leeway/leeway/jobs/{name}/output/model.tar.gz",
        "record": f"s3://leeway/leeway/jobs/{name}/output/output.tar.gz",
    }
    assert (told["training_s"], told["billable_s"]) == (job["TrainingTimeInSeconds"], job["BillableTimeInSeconds"])
    assert (told["attempts"], told["switches"], told["instance_type"]) == (1, [], "ml.m5.large")
    assert told["cost_usd"] == pytest.approx(told["billable_s"] / 3600 * told["price_usd_h"], abs=1e-6)
    assert {"saving", "interruptions", "lost_s", "capacity_s"} <= told.keys()
    assert f"trained on {project.parent.name} ok" in capsys.readouterr().out
    assert drydock.read_archive(told["model"]) == {"model": f"{project.parent.name} 13".encode()}


def test_job_that_runs_is_waited_for_and_not_started_again(
    drydock, project, make_spot_task, context, start, finish, tmp_path
):
    first = start(make_spot_task("wait"), context)
    second = start(make_spot_task("wait"), context)
    assert second.trigger.wait.job_name == first.trigger.wait.job_name
    assert names(drydock, first) == [first.trigger.wait.job_name]
    (tmp_path / "gate").touch()
    assert finish(make_spot_task("wait"), second)["status"] == "Completed"


def test_job_that_completed_is_collected_and_not_started_again(
    drydock, project, make_spot_task, context, start, finish
):
    deferred = start(make_spot_task(), context)
    told = finish(make_spot_task(), deferred)
    before = sent(drydock)
    assert make_spot_task().execute(context) == told
    assert names(drydock, deferred) == [deferred.trigger.wait.job_name]
    assert sent(drydock) == before


def test_other_run_task_index_or_inputs_is_another_job(drydock, project, make_spot_task, context, start, finish):
    first = start(make_spot_task(), context)
    finish(make_spot_task(), first)
    (project / "features" / "train" / "rows").write_text("corrected")
    second = start(make_spot_task(), context)
    assert second.trigger.wait.job_name == first.trigger.wait.job_name.removesuffix("-1") + "-2"
    others = [
        {"ti": SimpleNamespace(run_id="run", map_index=0, try_number=1)},
        {"ti": SimpleNamespace(run_id="run2", map_index=-1, try_number=1)},
    ]
    found = [
        first.trigger.wait.job_name,
        second.trigger.wait.job_name,
        *(start(make_spot_task(), one).trigger.wait.job_name for one in others),
    ]
    assert len({name.rpartition("-")[0] for name in found}) == 3


def test_script_that_crashes_fails_the_task_for_good_with_its_reason(
    drydock, project, make_spot_task, context, start, finish
):
    deferred = start(make_spot_task("crash"), context)
    with pytest.raises(AirflowFailException, match="the hull is leaking") as raised:
        finish(make_spot_task("crash"), deferred)
    assert "AlgorithmError" in str(raised.value)


def test_failed_job_is_followed_by_the_next_with_the_same_checkpoints(
    drydock, project, make_spot_task, context, start, finish
):
    first = start(make_spot_task("crash"), context)
    with pytest.raises(AirflowFailException):
        finish(make_spot_task("crash"), first)
    second = start(make_spot_task("crash"), context)
    assert names(drydock, first) == [first.trigger.wait.job_name, second.trigger.wait.job_name]
    one, two = (drydock.describe_job(each.trigger.wait.job_name) for each in (first, second))
    assert one["CheckpointConfig"] == two["CheckpointConfig"]


def test_stopped_job_is_no_success_and_the_next_try_goes_on(
    drydock, project, make_spot_task, context, start, finish, tmp_path, capsys, until
):
    first = start(make_spot_task("wait"), context)
    checkpoint = drydock.describe_job(first.trigger.wait.job_name)["CheckpointConfig"]["S3Uri"].removeprefix(
        "s3://leeway/"
    )
    until(lambda: f"{checkpoint}/step-0" in drydock.list_uploads())
    drydock.stop_job(first.trigger.wait.job_name)
    with pytest.raises(AirflowException, match="stopped") as raised:
        finish(make_spot_task("wait"), first)
    assert type(raised.value) is AirflowException
    (tmp_path / "gate").touch()
    second = start(make_spot_task("wait"), context)
    assert second.trigger.wait.job_name.endswith("-2")
    assert finish(make_spot_task("wait"), second)["status"] == "Completed"
    assert "after ['step-0']" in capsys.readouterr().out


def test_job_that_is_stopping_is_waited_for_and_then_followed(
    drydock, project, make_spot_task, context, start, resume, tmp_path, until
):
    """It still runs, and writes checkpoints where its follower would: a clear stopped it just now."""
    first = start(make_spot_task("stubborn"), context)
    name = first.trigger.wait.job_name
    until(lambda: drydock.read_log(name))  # from then on it ignores SIGTERM
    drydock.stop_job(name)
    assert drydock.describe_job(name)["TrainingJobStatus"] == "Stopping"
    again = start(make_spot_task("stubborn"), context)
    assert again.trigger.wait.job_name == name
    assert names(drydock, first) == [name]
    (tmp_path / "gate").touch()
    with pytest.raises(TaskDeferred) as second:
        resume(make_spot_task("stubborn"), again)
    assert drydock.describe_job(name)["TrainingJobStatus"] == "Stopped"
    assert names(drydock, first) == [name, name.removesuffix("-1") + "-2"]
    assert second.value.trigger.wait.job_name.endswith("-2")  # and it ends by itself: the gate is open


def test_job_that_runs_from_other_inputs_is_stopped_and_has_ended_before_the_next(
    drydock, project, make_spot_task, context, start, resume
):
    """The task was cleared and its data changed: what runs would be collected as if it had been trained on the new."""
    first = start(make_spot_task("wait"), context)
    name = first.trigger.wait.job_name
    (project / "features" / "train" / "rows").write_text("corrected")
    again = start(make_spot_task("wait"), context)
    assert again.trigger.wait.job_name == name
    assert names(drydock, first) == [name]
    with pytest.raises(TaskDeferred) as second:
        resume(make_spot_task("wait"), again)
    assert drydock.describe_job(name)["TrainingJobStatus"] == "Stopped"
    follower = second.value.trigger.wait.job_name
    assert follower == name.removesuffix("-1") + "-2"
    assert len({drydock.describe_job(each)["CheckpointConfig"]["S3Uri"] for each in (name, follower)}) == 2
    drydock.stop_job(follower)


WORKER = """
import os, signal, sys
from types import SimpleNamespace
from airflow.sdk import DAG
from leeway.hooks.training.inputs import TrainingJobs
from leeway.operators.spot_training import SpotTrainingOperator

create = TrainingJobs.create
def create_and_die(self, name, request):
    create(self, name, request)
    os.kill(os.getpid(), signal.SIGKILL)
TrainingJobs.create = create_and_die

with DAG(sys.argv[1]):
    task = SpotTrainingOperator(
        task_id="train", entry_point="train.py", bundle="bundle.txt", channels={"train": sys.argv[2]},
        hyperparameters={"mode": "ok", "gate": sys.argv[3]}, image_uri="image", max_run_s=600, max_wait_s=900)
task.execute({"ti": SimpleNamespace(run_id="run", map_index=-1, try_number=1)})
"""


def test_worker_killed_after_the_start_of_the_job_leaves_one_job(
    drydock, project, make_spot_task, context, finish, tmp_path
):
    task = make_spot_task()
    arguments = [task.dag_id, task.channels["train"], str(tmp_path / "gate")]
    worker = subprocess.run([sys.executable, "-c", WORKER, *arguments], capture_output=True, text=True, timeout=120)
    assert worker.returncode == -signal.SIGKILL, worker.stderr[-2_000:]
    base = task._make_task(context).jobs.base
    (orphan,) = [name for name in drydock.list_jobs() if name.startswith(base)]
    try:
        told = task.execute(context)
    except TaskDeferred as deferred:
        told = finish(make_spot_task(), deferred)
    assert told["training_job"] == orphan
    assert [name for name in drydock.list_jobs() if name.startswith(base)] == [orphan]


def test_tries_at_the_same_moment_start_one_job(drydock, project, make_spot_task, context, monkeypatch):
    """A worker that was thought dead, and the retry: both find nothing, both create."""
    barrier, found, create = threading.Barrier(4), [], TrainingJobs.create

    def late(self, name, request):
        barrier.wait(60)
        return create(self, name, request)

    monkeypatch.setattr(TrainingJobs, "create", late)

    def execute(task) -> None:
        try:
            task.execute(context)
        except TaskDeferred as deferred:
            found.append(deferred.trigger.wait.job_name)

    threads = [threading.Thread(target=execute, args=(make_spot_task("wait"),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(found) == 4
    assert len(set(found)) == 1
    assert [name for name in drydock.list_jobs() if name.startswith(found[0][:-1])] == [found[0]]
    drydock.stop_job(found[0])


def test_uploads_happen_once_a_content(drydock, project, make_spot_task, context, start):
    start(make_spot_task(), context)
    before = sent(drydock)
    start(
        make_spot_task(hyperparameters={"seed": 1}), {"ti": SimpleNamespace(run_id="other", map_index=-1, try_number=1)}
    )
    assert sent(drydock) == before
    (project / "train.py").write_text((project / "train.py").read_text() + "\n")
    start(make_spot_task(), {"ti": SimpleNamespace(run_id="third", map_index=-1, try_number=1)})
    assert len(sent(drydock)) > len(before)


# What cannot work is said in a line.


def one_line(error: BaseException) -> str:
    assert "\n" not in str(error)
    assert error.__cause__ is None
    return str(error)


@pytest.mark.parametrize(("variable", "field"), [("LEEWAY_BUCKET", "bucket"), ("LEEWAY_ROLE_ARN", "role_arn")])
def test_bucket_and_role_are_asked_for(drydock, project, make_spot_task, context, monkeypatch, variable, field):
    before = sent(drydock)
    monkeypatch.delenv(variable)
    with pytest.raises(AirflowFailException, match=f"give {field}= to the task train, or set {variable}"):
        make_spot_task().execute(context)
    assert sent(drydock) == before


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"max_run_s": 100, "max_wait_s": "99"}, r"max_wait_s \(99\) must be at least max_run_s \(100\)"),
        ({"max_run_s": "an hour"}, "max_run_s of the task train is no whole number: 'an hour'"),
        ({"check_interval_s": 0}, "check_interval_s of the task train must be a whole number of 1 or more"),
        ({"volume_size_gb": 20_000}, "volume_size_gb of the task train must be a whole number from 1 to 16384"),
        ({"max_run_s": 2_419_201, "max_wait_s": 2_419_201}, "max_run_s of the task train must be .* 1 to 2419200"),
        ({"instance_type": "m5.large"}, "no instance types of SageMaker: m5.large"),
        ({"on_no_capacity": "pray"}, "on_no_capacity of the task train is 'pray'"),
        ({"budget_usd": "much"}, "budget_usd of the task train must be an amount"),
        ({"role_arn": "leeway-training-role-without-arn"}, "RoleArn .* is not of the form arn:aws"),
        ({"channels": {"a b": "s3://leeway/there/"}}, "ChannelName 'a b' is not of the form"),
        ({"channels": {"train": "s3://leeway/nothing/there/"}}, "nothing is in the channel s3://leeway/nothing/there/"),
        ({"channels": {"train": "s3://leeway/leeway/"}}, "one inside the other"),
        ({"config": {"TrainingJobName": "mine"}}, "config must not have TrainingJobName"),
        ({"config": {"CheckpointConfig": {"S3Uri": "s3://other/place"}}}, "must be in a folder of s3://leeway"),
        ({"config": {"Colour": "red"}}, "SageMaker would refuse the request: .*Colour"),
        ({"bucket": "no-such-bucket"}, "no-such-bucket|NoSuchBucket"),
        ({"channels": {"train": "/no/such/folder"}}, "/no/such/folder"),
        ({"entry_point": "no_such.py"}, "no_such.py"),
        ({"instance_count": 0}, "instance_count of the task train must be a whole number of 1 or more: it is 0"),
    ],
)
def test_wrong_request_is_refused_for_good(drydock, project, make_spot_task, context, more, words):
    before = drydock.list_jobs()
    with pytest.raises(AirflowFailException, match=words) as raised:
        make_spot_task(**more).execute(context)
    one_line(raised.value)
    assert drydock.list_jobs() == before


def test_malformed_params_are_named(drydock, project, make_spot_task, context):
    (project / "params.yaml").write_text("train: {colour: red}")
    with pytest.raises(AirflowFailException, match="unknown key colour") as raised:
        make_spot_task().execute(context)
    one_line(raised.value)


def test_endpoint_that_does_not_answer_is_tried_again(project, make_spot_task, context, connect_airflow, free_port):
    connect_airflow(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(AirflowException, match="does not answer") as raised:
        make_spot_task().execute(context)
    assert type(raised.value) is AirflowException
    one_line(raised.value)


def test_endpoint_that_is_lost_while_the_job_runs_is_tried_again(
    start_drydock, project, make_spot_task, context, start, connect_airflow, resume, monkeypatch
):
    monkeypatch.setattr(aws_errors, "RETRY_TIMEOUT_S", 1.0)
    with start_drydock() as drydock:
        connect_airflow(drydock.url)
        deferred = start(make_spot_task(), context)
    with pytest.raises(AirflowException, match="does not answer") as raised:
        resume(make_spot_task(), deferred, deferred.trigger.wait.end("ended"))
    assert type(raised.value) is AirflowException
    one_line(raised.value)


def test_trigger_that_gave_up_leaves_the_job_to_the_next_try(drydock, project, make_spot_task, context, start, resume):
    deferred = start(make_spot_task("wait"), context)
    with pytest.raises(AirflowException, match="cannot be watched: no answer") as raised:
        resume(make_spot_task("wait"), deferred, deferred.trigger.wait.end("silent", "no answer"))
    assert type(raised.value) is AirflowException
    assert start(make_spot_task("wait"), context).trigger.wait.job_name == deferred.trigger.wait.job_name
    drydock.stop_job(deferred.trigger.wait.job_name)
