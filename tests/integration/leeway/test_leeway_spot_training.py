"""SpotTrainingOperator against a real drydock: what it asks for, and that no two jobs are ever paid for one."""

import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from leeway.hooks.training_job import TrainingJobs


def names(dock, deferred) -> list[str]:
    """The jobs of the task whose deferral this is."""
    base = deferred.trigger.job_name.rpartition("-")[0]
    return [name for name in dock.jobs() if name.startswith(base)]


def test_request_says_spot_and_its_times_as_numbers(at_dock, project, spot, context, start, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    task = spot(max_run_s="120", max_wait_s="300", instance_count="1", volume_size_gb="5", environment={"MORE": "yes"})
    deferred = start(task, context)
    job = at_dock.describe(deferred.trigger.job_name)
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
    assert deferred.trigger.attempts * deferred.trigger.waiter_delay >= 300
    assert deferred.timeout.total_seconds() >= 300


def test_hyperparameters_of_the_task_go_before_those_of_params(at_dock, project, spot, context, start):
    deferred = start(spot(hyperparameters={"seed": 99}), context)
    assert at_dock.describe(deferred.trigger.job_name)["HyperParameters"]["seed"] == "99"


def test_job_that_ends_well_is_the_task_s_result(at_dock, project, spot, context, start, finish, capsys):
    deferred = start(spot(), context)
    told = finish(spot(), deferred)
    name = deferred.trigger.job_name
    job = at_dock.describe(name)
    assert told == {
        "training_job": name,
        "training_job_arn": job["TrainingJobArn"],
        "status": "Completed",
        "model": f"s3://leeway/leeway/jobs/{name}/output/model.tar.gz",
        "record": f"s3://leeway/leeway/jobs/{name}/output/output.tar.gz",
        "training_s": job["TrainingTimeInSeconds"],
        "billable_s": job["BillableTimeInSeconds"],
        "instance_type": "ml.m5.large",
    }
    assert f"trained on {project.parent.name} ok" in capsys.readouterr().out
    assert at_dock.members(told["model"]) == {"model": f"{project.parent.name} 13".encode()}


def test_job_that_runs_is_waited_for_and_not_started_again(at_dock, project, spot, context, start, finish, tmp_path):
    first = start(spot("wait"), context)
    second = start(spot("wait"), context)
    assert second.trigger.job_name == first.trigger.job_name
    assert names(at_dock, first) == [first.trigger.job_name]
    (tmp_path / "gate").touch()
    assert finish(spot("wait"), second)["status"] == "Completed"


def test_job_that_completed_is_collected_and_not_started_again(at_dock, project, spot, context, start, finish):
    deferred = start(spot(), context)
    told = finish(spot(), deferred)
    before = at_dock.objects()
    assert spot().execute(context) == told
    assert names(at_dock, deferred) == [deferred.trigger.job_name]
    assert at_dock.objects() == before


def test_other_run_task_index_or_inputs_is_another_job(at_dock, project, spot, context, start, finish):
    first = start(spot(), context)
    finish(spot(), first)
    (project / "features" / "train" / "rows").write_text("corrected")
    second = start(spot(), context)
    assert second.trigger.job_name == first.trigger.job_name.removesuffix("-1") + "-2"
    others = [{"ti": SimpleNamespace(run_id="run", map_index=0)}, {"ti": SimpleNamespace(run_id="run2", map_index=-1)}]
    found = [first.trigger.job_name, second.trigger.job_name, *(start(spot(), one).trigger.job_name for one in others)]
    assert len({name.rpartition("-")[0] for name in found}) == 3


def test_script_that_crashes_fails_the_task_for_good_with_its_reason(at_dock, project, spot, context, start, finish):
    deferred = start(spot("crash"), context)
    with pytest.raises(AirflowFailException, match="the hull is leaking") as raised:
        finish(spot("crash"), deferred)
    assert "AlgorithmError" in str(raised.value)


def test_failed_job_is_followed_by_the_next_with_the_same_checkpoints(at_dock, project, spot, context, start, finish):
    first = start(spot("crash"), context)
    with pytest.raises(AirflowFailException):
        finish(spot("crash"), first)
    second = start(spot("crash"), context)
    assert names(at_dock, first) == [first.trigger.job_name, second.trigger.job_name]
    one, two = (at_dock.describe(each.trigger.job_name) for each in (first, second))
    assert one["CheckpointConfig"] == two["CheckpointConfig"]


def test_stopped_job_is_no_success_and_the_next_try_goes_on(
    at_dock, project, spot, context, start, finish, tmp_path, capsys, until
):
    first = start(spot("wait"), context)
    checkpoint = at_dock.describe(first.trigger.job_name)["CheckpointConfig"]["S3Uri"].removeprefix("s3://leeway/")
    until(lambda: f"{checkpoint}/step-0" in at_dock.objects())
    at_dock.stop(first.trigger.job_name)
    with pytest.raises(AirflowException, match="stopped") as raised:
        finish(spot("wait"), first)
    assert type(raised.value) is AirflowException
    (tmp_path / "gate").touch()
    second = start(spot("wait"), context)
    assert second.trigger.job_name.endswith("-2")
    assert finish(spot("wait"), second)["status"] == "Completed"
    assert "after ['step-0']" in capsys.readouterr().out


def test_job_that_is_stopping_is_waited_for(at_dock, project, spot, context, start, finish, tmp_path, until):
    """It still runs, and writes checkpoints where its follower would."""
    first = start(spot("stubborn"), context)
    name = first.trigger.job_name
    until(lambda: at_dock.describe(name)["SecondaryStatus"] == "Training")
    at_dock.stop(name)
    assert at_dock.describe(name)["TrainingJobStatus"] == "Stopping"
    assert start(spot("stubborn"), context).trigger.job_name == name
    assert names(at_dock, first) == [name]
    (tmp_path / "gate").touch()
    with pytest.raises(AirflowException, match="stopped"):
        finish(spot("stubborn"), first)


def test_job_that_runs_from_other_inputs_is_stopped_and_followed(at_dock, project, spot, context, start, until):
    """The task was cleared and its data changed: what runs would be collected as if it had been trained on the new."""
    first = start(spot("wait"), context)
    (project / "features" / "train" / "rows").write_text("corrected")
    second = start(spot("wait"), context)
    assert second.trigger.job_name == first.trigger.job_name.removesuffix("-1") + "-2"
    until(lambda: at_dock.describe(first.trigger.job_name)["TrainingJobStatus"] == "Stopped")
    checkpoints = [at_dock.describe(each.trigger.job_name)["CheckpointConfig"]["S3Uri"] for each in (first, second)]
    assert len(set(checkpoints)) == 2
    at_dock.stop(second.trigger.job_name)


WORKER = """
import os, signal, sys
from types import SimpleNamespace
from airflow.sdk import DAG
from leeway.hooks.training_job import TrainingJobs
from leeway.operators.spot_training import SpotTrainingOperator

create = TrainingJobs._create
def create_and_die(self, name, request):
    create(self, name, request)
    os.kill(os.getpid(), signal.SIGKILL)
TrainingJobs._create = create_and_die

with DAG(sys.argv[1]):
    task = SpotTrainingOperator(
        task_id="train", entry_point="train.py", bundle="bundle.txt", channels={"train": sys.argv[2]},
        hyperparameters={"mode": "ok", "gate": sys.argv[3]}, image_uri="image", max_run_s=600, max_wait_s=900)
task.execute({"ti": SimpleNamespace(run_id="run", map_index=-1)})
"""


def test_worker_killed_after_the_start_of_the_job_leaves_one_job(at_dock, project, spot, context, finish, tmp_path):
    task = spot()
    arguments = [task.dag_id, task.channels["train"], str(tmp_path / "gate")]
    worker = subprocess.run([sys.executable, "-c", WORKER, *arguments], capture_output=True, text=True, timeout=120)
    assert worker.returncode == -signal.SIGKILL, worker.stderr[-2_000:]
    (orphan,) = [name for name in at_dock.jobs() if name.startswith(task._name(context)[:-1])]
    from airflow.sdk.exceptions import TaskDeferred

    try:
        told = task.execute(context)
    except TaskDeferred as deferred:
        told = finish(spot(), deferred)
    assert told["training_job"] == orphan
    assert [name for name in at_dock.jobs() if name.startswith(task._name(context)[:-1])] == [orphan]


def test_tries_at_the_same_moment_start_one_job(at_dock, project, spot, context, start):
    """A worker that was thought dead, and the retry: both find nothing, both create."""
    task = spot("wait")
    request = task._request("a-name") | task._machine().request()
    barrier, found = threading.Barrier(4), []

    class Late(TrainingJobs):
        def _create(self, name, request):
            barrier.wait(30)
            return super()._create(name, request)

    def ensure() -> None:
        found.append(Late(SageMakerHook(aws_conn_id="aws_default"), task.log).ensure("at-once", request))

    threads = [threading.Thread(target=ensure) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [("at-once-1", "InProgress")] * 4
    assert [name for name in at_dock.jobs() if name.startswith("at-once")] == ["at-once-1"]
    at_dock.stop("at-once-1")


def test_uploads_happen_once_a_content(at_dock, project, spot, context, start):
    start(spot(), context)
    before = at_dock.objects()
    start(spot(hyperparameters={"seed": 1}), {"ti": SimpleNamespace(run_id="other", map_index=-1)})
    after = {key: moment for key, moment in at_dock.objects().items() if "/checkpoints/" not in key}
    assert after == {key: moment for key, moment in before.items() if "/checkpoints/" not in key}
    (project / "train.py").write_text((project / "train.py").read_text() + "\n")
    start(spot(), {"ti": SimpleNamespace(run_id="third", map_index=-1)})
    assert len([key for key in at_dock.objects() if "/code/" in key]) > len([key for key in before if "/code/" in key])


# What cannot work is said in a line.


def one_line(error: BaseException) -> str:
    assert "\n" not in str(error)
    assert error.__cause__ is None
    return str(error)


@pytest.mark.parametrize(("variable", "field"), [("LEEWAY_BUCKET", "bucket"), ("LEEWAY_ROLE_ARN", "role_arn")])
def test_bucket_and_role_are_asked_for(at_dock, project, spot, context, monkeypatch, variable, field):
    before = at_dock.objects()
    monkeypatch.delenv(variable)
    with pytest.raises(AirflowFailException, match=f"give {field}= to the task train, or set {variable}"):
        spot().execute(context)
    assert at_dock.objects() == before


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"max_run_s": 100, "max_wait_s": "99"}, r"max_wait_s \(99\) must be at least max_run_s \(100\)"),
        ({"max_run_s": "an hour"}, "max_run_s of the task train is no whole number: 'an hour'"),
        ({"bucket": "no-such-bucket"}, "no-such-bucket|NoSuchBucket"),
        ({"channels": {"train": "/no/such/folder"}}, "/no/such/folder"),
        ({"entry_point": "no_such.py"}, "no_such.py"),
        ({"instance_count": 0}, "refused"),
    ],
)
def test_wrong_request_is_refused_for_good(at_dock, project, spot, context, more, words):
    before = at_dock.jobs()
    with pytest.raises(AirflowFailException, match=words) as raised:
        spot(**more).execute(context)
    one_line(raised.value)
    assert at_dock.jobs() == before


def test_malformed_params_are_named(at_dock, project, spot, context):
    (project / "params.yaml").write_text("train: {colour: red}")
    with pytest.raises(AirflowFailException, match="unknown key colour") as raised:
        spot().execute(context)
    one_line(raised.value)


def test_endpoint_that_does_not_answer_is_tried_again(project, spot, context, point_at, free_port):
    point_at(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(AirflowException, match="does not answer") as raised:
        spot().execute(context)
    assert type(raised.value) is AirflowException
    one_line(raised.value)


def test_endpoint_that_is_lost_while_the_job_runs_is_tried_again(start_dock, project, spot, context, start, point_at):
    with start_dock() as dock:
        point_at(dock.url)
        deferred = start(spot(), context)
    with pytest.raises(AirflowException, match="does not answer") as raised:
        spot().execute_complete(context, {"status": "success", "job_name": deferred.trigger.job_name})
    assert type(raised.value) is AirflowException
    one_line(raised.value)


def test_trigger_that_gave_up_leaves_the_job_to_the_next_try(at_dock, project, spot, context, start):
    deferred = start(spot("wait"), context)
    with pytest.raises(AirflowException, match="timeout") as raised:
        spot("wait").execute_complete(context, {"status": "timeout", "job_name": deferred.trigger.job_name})
    assert type(raised.value) is AirflowException
    assert start(spot("wait"), context).trigger.job_name == deferred.trigger.job_name
    at_dock.stop(deferred.trigger.job_name)
