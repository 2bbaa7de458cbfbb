"""SparkPreprocessOperator against a real drydock: one processing job a task, attached to, collected, never two."""

import asyncio
import datetime as dt
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from leeway.hooks.processing.inputs import ARCHIVE
from leeway.operators.spark_preprocess import SparkPreprocessOperator

from pipelines.costs.ledger import Ledger
from pipelines.costs.sweep import sweep
from tests.tools import forking

ROOT = Path(__file__).parents[3]
STANDINS = Path(__file__).parent / "standins"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A project whose entry does as the variable MODE says, and a Python that packs a text file."""
    project = tmp_path / "project"
    (project / "pipelines" / "container").mkdir(parents=True)
    (project / "data").mkdir()
    shutil.copy(STANDINS / "processing.py", project / "pipelines" / "container")
    (project / "data" / "snapshot.json").write_text(tmp_path.name)
    (tmp_path / "python").write_text(f"#!{sys.executable}\n" + (STANDINS / "pack.py").read_text())
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setenv("LEEWAY_PROJECT", str(project))
    return project


@pytest.fixture
def task(request, tmp_path):
    """Makes the operator of one task, as each try of it would: always a new object."""

    def make(mode="", **more):
        given = {
            "image_uri": "image",
            "validation_days": 2,
            "environment": {"MODE": mode, "GATE": str(tmp_path / "gate")},
            "max_run_s": 600,
            "check_interval_s": 1,
            "python": str(tmp_path / "python"),
            "instance_type": "ml.m5.large",
        }
        with DAG("".join(one if one.isalnum() else "-" for one in request.node.name)):
            return SparkPreprocessOperator(task_id="preprocess", **{**given, **more})

    return make


def jobs(drydock, name):
    """The names of a task's jobs."""
    base = name.rpartition("-")[0]
    found = drydock.client("sagemaker").list_processing_jobs(NameContains=base, MaxResults=100)
    return sorted(one["ProcessingJobName"] for one in found["ProcessingJobSummaries"])


def uploads(drydock):
    """The keys of what was sent; jobs of other tests may still write elsewhere."""
    return {key for key in drydock.list_uploads() if "/data/" in key}


def described(drydock, name):
    return drydock.client("sagemaker").describe_processing_job(ProcessingJobName=name)


def test_features_are_in_s3_and_are_brought(drydock, small, task, context, start, finish, tmp_path, capsys):
    folder = tmp_path / "features"
    deferred = start(task(folder=str(folder)), context)
    told = finish(task(folder=str(folder)), deferred)
    name = deferred.trigger.wait.job_name
    job = described(drydock, name)
    uri = job["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"]
    assert told == {
        "schema_version": 1,
        "features": str(folder),
        "rows_train": 3,
        "rows_validation": 2,
        "rows_holdout": 1,
        "digest": told["digest"],
        "channels": {one: f"{uri}/features/{one}/" for one in ("train", "validation")},
        "processing_job": name,
        "processing_job_arn": job["ProcessingJobArn"],
        "status": "Completed",
        "attempts": 1,
        "processing_s": told["processing_s"],
        "cost_usd": told["cost_usd"],
    }
    assert (folder / "train/data.parquet").read_text() == f"{tmp_path.name} train"
    assert f"building {tmp_path.name} --engine spark --validation-days 2" in capsys.readouterr().out
    assert not list((small / "data").glob(".window-*"))
    in_s3 = task().execute(context)
    assert in_s3["features"] == f"{uri}/features"
    assert jobs(drydock, name) == [name], "what completed is collected"


def test_what_was_changed_on_its_way_is_refused(drydock, small, task, context, start, finish, tmp_path):
    told = finish(task(), start(task(), context))
    bucket, _, key = told["features"].removeprefix("s3://").partition("/")
    drydock.client("s3").put_object(Bucket=bucket, Key=f"{key}/train/data.parquet", Body=b"tampered")
    with pytest.raises(AirflowException, match="the files were changed") as raised:
        task(folder=str(tmp_path / "features")).execute(context)
    assert type(raised.value) is AirflowException
    assert not (tmp_path / "features").exists()
    drydock.client("s3").delete_object(Bucket=bucket, Key=key.removesuffix("features") + "result.json")
    with pytest.raises(AirflowFailException, match=r"result\.json is not there"):
        task().execute(context)


def test_a_job_that_runs_is_waited_for_and_not_started_again(drydock, small, task, context, start, finish, tmp_path):
    first, second = start(task("wait"), context), start(task("wait"), context)
    assert first.trigger.wait.job_name == second.trigger.wait.job_name
    (tmp_path / "gate").touch()
    assert finish(task("wait"), second)["status"] == "Completed"
    assert len(jobs(drydock, first.trigger.wait.job_name)) == 1


def test_other_inputs_are_the_next_job_and_another_index_another(drydock, small, task, context, start, finish):
    first = start(task(), context)
    finish(task(), first)
    uploaded = uploads(drydock)
    (small / "data" / "snapshot.json").write_text("corrected")
    told = finish(task(), start(task(), context))
    assert told["processing_job"] == first.trigger.wait.job_name.removesuffix("-1") + "-2"
    assert not [one for one in uploads(drydock) - uploaded if ARCHIVE in one], "the code is there already"
    (small / "pipelines" / "more.py").write_text("")
    assert finish(task(), start(task(), context))["processing_job"].endswith("-3")
    other = start(task(), {"ti": SimpleNamespace(run_id="run", map_index=0, try_number=1)})
    assert other.trigger.wait.job_name.rpartition("-")[0] != first.trigger.wait.job_name.rpartition("-")[0]


@pytest.mark.parametrize(("mode", "kind"), [("exit2", AirflowFailException), ("exit75", AirflowException)])
def test_exit_codes_say_whether_a_retry_helps(mode, kind, drydock, small, task, context, start, finish):
    deferred = start(task(mode), context)
    with pytest.raises(AirflowException, match=r"processing job \S+ failed: the hull is leaking\.") as raised:
        finish(task(mode), deferred)
    assert type(raised.value) is kind
    again = start(task(mode), context)
    assert jobs(drydock, again.trigger.wait.job_name) == [
        deferred.trigger.wait.job_name,
        again.trigger.wait.job_name,
    ]


def test_a_stopped_job_is_no_success(drydock, small, task, context, start, finish, tmp_path):
    deferred = start(task("wait"), context)
    drydock.client("sagemaker").stop_processing_job(ProcessingJobName=deferred.trigger.wait.job_name)
    with pytest.raises(AirflowException, match="was stopped by somebody") as raised:
        finish(task("wait"), deferred)
    assert type(raised.value) is AirflowException
    (tmp_path / "gate").touch()
    assert finish(task("wait"), start(task("wait"), context))["attempts"] == 2


def test_a_job_past_max_run_s_fails_for_good(drydock, small, task, context, start, finish):
    deferred = start(task("wait", max_run_s=1), context)
    with pytest.raises(AirflowFailException, match=r"stopped after max_run_s \(1 s\)"):
        finish(task("wait", max_run_s=1), deferred)


def test_a_clear_stops_the_job(drydock, small, task, context, start, until):
    deferred = start(task("wait"), context)
    name = deferred.trigger.wait.job_name
    deferred.trigger._task_instance = SimpleNamespace(id="try")
    asyncio.run(deferred.trigger.on_kill())
    until(lambda: described(drydock, name)["ProcessingJobStatus"] == "Stopped")
    deferred = start(task("wait"), context)
    worker = task("wait")
    start(worker, context)
    worker.on_kill()
    until(lambda: described(drydock, deferred.trigger.wait.job_name)["ProcessingJobStatus"] == "Stopped")


@pytest.mark.usefixtures("fresh_settings")
def test_what_ended_is_in_the_ledger_once(drydock, small, task, context, start, finish):
    with pytest.raises(AirflowException, match="the hull is leaking"):
        finish(task("exit75", project="boat"), start(task("exit75", project="boat"), context))
    told = finish(task(project="boat"), start(task(project="boat"), context))
    task(project="boat").execute(context)
    rows = Ledger.open().rows(project="boat")
    assert [row["status"] for row in rows] == ["Failed", "Completed"]
    assert rows[1]["arn"] == told["processing_job_arn"]
    for row in rows:
        assert (row["dag_id"], row["task_id"], row["instance_type"]) == (task().dag_id, "preprocess", "ml.m5.large")
        assert (row["spot"], row["saving"], row["lost_s"]) == (False, 0.0, 0.0)
        assert row["training_s"] == row["billable_s"]
        assert row["cost_usd"] == row["on_demand_usd"] == round(row["billable_s"] * 0.115 / 3_600, 6)
        assert row["capacity_s"] == pytest.approx((row["started"] - row["created"]).total_seconds(), abs=0.001)
    assert told["cost_usd"] == pytest.approx(sum(row["cost_usd"] for row in rows))


@pytest.mark.usefixtures("fresh_settings")
def test_a_budget_that_it_may_exceed_refuses_it(drydock, small, task, context):
    (small / "params.yaml").write_text("budget: {project: boat, month_usd: 0.01}\n")
    with pytest.raises(AirflowFailException, match=r"the budget does not allow this job: .*0.0192"):
        task().execute(context)
    assert Ledger.open().rows() == []


@pytest.mark.usefixtures("set_aws_variables", "fresh_settings")
def test_a_job_that_no_task_charged_is_swept(drydock, small, task, context, start, until):
    since = dt.datetime.now(dt.UTC)
    left = start(task("wait", project="boat"), context).trigger.wait.job_name
    assert left not in [one.name for one in sweep(since)], "it runs"
    drydock.client("sagemaker").stop_processing_job(ProcessingJobName=left)
    until(lambda: described(drydock, left)["ProcessingJobStatus"] == "Stopped")
    assert left in [one.name for one in sweep(since)]
    assert [(row["name"], row["run_id"]) for row in Ledger.open().rows(project="boat")] == [(left, "run")]
    assert sweep(since) == []


DIES = """
import os, re, signal, sys
from types import SimpleNamespace
sys.path[:0] = [{root!r}, {plugins!r}]
from airflow.sdk import DAG
from leeway.hooks.sagemaker.named_jobs import NamedJobs
from leeway.operators.spark_preprocess import SparkPreprocessOperator
create = NamedJobs.create
def create_and_die(self, *given):
    create(self, *given)
    os.kill(os.getpid(), signal.SIGKILL)
NamedJobs.create = create_and_die
with DAG({dag!r}):
    task = SparkPreprocessOperator(task_id="preprocess", **{fields!r})
task.execute({{"ti": SimpleNamespace(run_id="run", map_index=-1, try_number=1)}})
"""


def test_a_worker_killed_at_the_worst_moment_leaves_one_job(drydock, small, task, context, start, finish, tmp_path):
    made = task("wait")
    names = ("image_uri", "validation_days", "environment", "max_run_s", "check_interval_s", "python", "instance_type")
    fields = {name: getattr(made, name) for name in names}
    code = DIES.format(root=str(ROOT), plugins=str(ROOT / "plugins"), dag=made.dag_id, fields=fields)
    killed = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2_000:]
    deferred = start(task("wait"), context)
    assert deferred.trigger.wait.job_name.endswith("-1")
    assert jobs(drydock, deferred.trigger.wait.job_name) == [deferred.trigger.wait.job_name]
    (tmp_path / "gate").touch()
    assert finish(task("wait"), deferred)["attempts"] == 1


def test_waits_in_the_worker_where_it_is_not_deferrable(drydock, small, task, context):
    assert task(deferrable=False).execute(context)["status"] == "Completed"


REFUSED = {
    "no image": ({"image_uri": ""}, "give image_uri= to the task preprocess"),
    "days": ({"validation_days": "zero"}, "validation_days of the task preprocess is no whole number: 'zero'"),
    "machine": ({"instance_type": "big"}, "no instance types of SageMaker: big"),
    "disk": ({"volume_size_gb": 0}, "volume_size_gb of the task preprocess must be"),
    "long": ({"max_run_s": 10**9}, "max_run_s of the task preprocess must be a whole number from 1 to 432000"),
    "own": ({"config": {"ProcessingJobName": "x"}}, "config must not have ProcessingJobName"),
    "shape": ({"config": {"Oops": 1}}, "SageMaker would refuse the request: .*Oops"),
    "snapshot": ({"snapshot": "data/none.json"}, r"none\.json does not exist: the step `snapshot` writes it"),
    "bucket": ({"bucket": "nobody-has-it"}, "the bucket nobody-has-it is not there"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_told_in_a_line_before_anything_is_sent(case, drydock, small, task, context):
    fields, text = REFUSED[case]
    before = uploads(drydock)
    with pytest.raises(AirflowFailException, match=text) as raised:
        task(**fields).execute(context)
    assert "\n" not in str(raised.value)
    assert uploads(drydock) == before


def test_a_project_without_the_entry_is_refused(drydock, small, task, context):
    (small / "pipelines" / "container" / "processing.py").unlink()
    with pytest.raises(AirflowFailException, match="LEEWAY_PROJECT must be the project"):
        task().execute(context)


@pytest.mark.usefixtures("java")
def test_spark_builds_the_same_features_in_the_job_as_duckdb_does_here(
    drydock, in_quarter, task, context, start, finish, tmp_path, monkeypatch, capsys
):
    from pipelines.steps import preprocess, snapshot

    snapshot.run(snapshot.SnapshotSpec(as_of="2013-01-15", train_days=5, holdout_days=3, min_train_days=2))
    here = preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    project = tmp_path / "sent"
    shutil.copytree(ROOT / "pipelines", project / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("LEEWAY_PROJECT", str(project))
    monkeypatch.setenv("LEEWAY_HOME", str(in_quarter))
    fields = {
        "snapshot": str(tmp_path / "data/snapshot.json"),
        "folder": str(tmp_path / "brought"),
        "python": forking.ensure_stand_in(),
        "environment": {"LC_ALL": "C.UTF-8", "JAVA_TOOL_OPTIONS": os.environ["JAVA_TOOL_OPTIONS"]},
    }
    told = finish(task(**fields), start(task(**fields), context))
    assert told["digest"] == here.digest
    for name in ("train", "validation", "holdout"):
        built = (tmp_path / "brought" / name / "data.parquet").read_bytes()
        assert built == (tmp_path / "data/features" / name / "data.parquet").read_bytes()
    assert "features: {'train':" in capsys.readouterr().out, "the job's log is the task's"
    # The code that was sent is the code that runs: nothing of this checkout.
    text = (project / "pipelines/datasets/flights/features.py").read_text()
    (project / "pipelines/datasets/flights/features.py").write_text(
        text.replace("(clock // 100) * 60", "(clock // 100) * 61")
    )
    other = finish(task(**fields), start(task(**fields), context))
    assert other["digest"] != here.digest and json.dumps(other)
