"""Test SparkPreprocessOperator with a real drydock: each task has one processing job, to which its retries attach."""

import asyncio
import datetime as dt
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from leeway.hooks.processing.inputs import ARCHIVE
from leeway.operators.spark_preprocess import SparkPreprocessOperator

from pipelines.costs.ledger import Ledger
from pipelines.costs.uncharged_jobs import charge_uncharged_jobs
from tests.tools import forking
from tests.tools.airflow_project import link_code
from tests.tools.killed_worker import kill_worker
from tests.tools.outages import ONE_ATTEMPT, post_to_drydock

ROOT = Path(__file__).parents[3]
STAND_INS = Path(__file__).parent / "stand_ins"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Set LEEWAY_PROJECT to a project with stand-ins for the job's script and the step `pack`; return its folder."""
    project = tmp_path / "project"
    (project / "pipelines" / "container").mkdir(parents=True)
    (project / "data").mkdir()
    shutil.copy(STAND_INS / "processing.py", project / "pipelines" / "container")
    link_code(project)
    (project / "data" / "snapshot.json").write_text(tmp_path.name)
    (tmp_path / "python").write_text(f"#!{sys.executable}\n" + (STAND_INS / "pack.py").read_text())
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setenv("LEEWAY_PROJECT", str(project))
    return project


@pytest.fixture
def make_task(request, tmp_path):
    """Return the function that makes a new operator of the same task, as each try of a task does."""

    def make(mode="", **fields):
        defaults = {
            "image_uri": "image",
            "validation_days": 2,
            "environment": {"MODE": mode, "RELEASE_FILE": str(tmp_path / "release")},
            "max_run_s": 600,
            "check_interval_s": 1,
            "python": str(tmp_path / "python"),
            "instance_type": "ml.m5.large",
        }
        with DAG("".join(character if character.isalnum() else "-" for character in request.node.name)):
            return SparkPreprocessOperator(task_id="preprocess", **{**defaults, **fields})

    return make


def list_jobs(drydock, name):
    """Return the names of all jobs of the task that has the job `name`."""
    base = name.rpartition("-")[0]
    response = drydock.client("sagemaker").list_processing_jobs(NameContains=base, MaxResults=100)
    return sorted(job["ProcessingJobName"] for job in response["ProcessingJobSummaries"])


def list_data_uploads(drydock):
    """Return the keys of the uploaded inputs. Jobs of other tests write to other folders."""
    return {key for key in drydock.list_uploads() if "/data/" in key}


def describe_job(drydock, name):
    return drydock.client("sagemaker").describe_processing_job(ProcessingJobName=name)


def test_job_writes_features_to_s3_and_the_task_downloads_them(
    drydock, project, make_task, context, start, finish, tmp_path, capsys
):
    folder = tmp_path / "features"
    deferral = start(make_task(folder=str(folder)), context)
    result = finish(make_task(folder=str(folder)), deferral)
    name = deferral.trigger.wait.job_name
    job = describe_job(drydock, name)
    uri = job["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"]
    assert result == {
        "schema_version": 1,
        "features": str(folder),
        "rows_train": 3,
        "rows_validation": 2,
        "rows_holdout": 1,
        "digest": result["digest"],
        "channels": {channel: f"{uri}/features/{channel}/" for channel in ("train", "validation")},
        "processing_job": name,
        "processing_job_arn": job["ProcessingJobArn"],
        "status": "Completed",
        "attempts": 1,
        "processing_s": result["processing_s"],
        "cost_usd": result["cost_usd"],
    }
    assert (folder / "train/data.parquet").read_text() == f"{tmp_path.name} train"
    assert f"building {tmp_path.name} --engine spark --validation-days 2" in capsys.readouterr().out
    assert not list((project / "data").glob(".window-*"))
    result = make_task().execute(context)
    assert result["features"] == f"{uri}/features"
    assert list_jobs(drydock, name) == [name], "the next try collects the completed job"


@pytest.mark.soak
def test_features_are_downloaded_after_an_outage_of_s3(
    drydock, project, make_task, context, start, finish, tmp_path, capsys
):
    finish(make_task(), start(make_task(), context))
    for operation in ("HEAD", "GET"):
        post_to_drydock(drydock, "outage", service="s3", operation=operation, for_s=600, times=2)
        folder = tmp_path / operation
        make_task(folder=str(folder), botocore_config=ONE_ATTEMPT).execute(context)
        assert (folder / "train/data.parquet").read_text() == f"{tmp_path.name} train"
    assert capsys.readouterr().out.count("S3 answers again") == 2


def test_refuses_features_that_were_changed_in_s3(drydock, project, make_task, context, start, finish, tmp_path):
    result = finish(make_task(), start(make_task(), context))
    bucket, _, key = result["features"].removeprefix("s3://").partition("/")
    drydock.client("s3").put_object(Bucket=bucket, Key=f"{key}/train/data.parquet", Body=b"tampered")
    with pytest.raises(AirflowException, match="the files were changed") as error:
        make_task(folder=str(tmp_path / "features")).execute(context)
    assert type(error.value) is AirflowException
    assert not (tmp_path / "features").exists()
    drydock.client("s3").delete_object(Bucket=bucket, Key=key.removesuffix("features") + "result.json")
    with pytest.raises(AirflowFailException, match=r"result\.json does not exist"):
        make_task().execute(context)


@pytest.mark.soak
def test_retry_attaches_to_the_running_job(drydock, project, make_task, context, start, finish, tmp_path):
    first, second = start(make_task("wait"), context), start(make_task("wait"), context)
    assert first.trigger.wait.job_name == second.trigger.wait.job_name
    (tmp_path / "release").touch()
    assert finish(make_task("wait"), second)["status"] == "Completed"
    assert len(list_jobs(drydock, first.trigger.wait.job_name)) == 1


@pytest.mark.soak
def test_changed_inputs_or_map_index_start_another_job(drydock, project, make_task, context, start, finish):
    first = start(make_task(), context)
    finish(make_task(), first)
    earlier_uploads = list_data_uploads(drydock)
    (project / "data" / "snapshot.json").write_text("corrected")
    result = finish(make_task(), start(make_task(), context))
    assert result["processing_job"] == first.trigger.wait.job_name.removesuffix("-1") + "-2"
    new_uploads = list_data_uploads(drydock) - earlier_uploads
    assert not [key for key in new_uploads if ARCHIVE in key], "the code is in S3 already"
    (project / "pipelines" / "more.py").write_text("")
    assert finish(make_task(), start(make_task(), context))["processing_job"].endswith("-3")
    other = start(make_task(), {"ti": SimpleNamespace(run_id="run", map_index=0, try_number=1)})
    assert other.trigger.wait.job_name.rpartition("-")[0] != first.trigger.wait.job_name.rpartition("-")[0]


@pytest.mark.soak
@pytest.mark.parametrize(("mode", "error_class"), [("exit2", AirflowFailException), ("exit75", AirflowException)])
def test_exit_code_decides_whether_the_task_is_retried(
    mode, error_class, drydock, project, make_task, context, start, finish
):
    deferral = start(make_task(mode), context)
    with pytest.raises(AirflowException, match=r"processing job \S+ failed: the script failed\.") as error:
        finish(make_task(mode), deferral)
    assert type(error.value) is error_class
    retry = start(make_task(mode), context)
    assert list_jobs(drydock, retry.trigger.wait.job_name) == [
        deferral.trigger.wait.job_name,
        retry.trigger.wait.job_name,
    ]


@pytest.mark.soak
def test_stopped_job_fails_the_task(drydock, project, make_task, context, start, finish, tmp_path):
    deferral = start(make_task("wait"), context)
    drydock.client("sagemaker").stop_processing_job(ProcessingJobName=deferral.trigger.wait.job_name)
    with pytest.raises(AirflowException, match="was stopped by somebody") as error:
        finish(make_task("wait"), deferral)
    assert type(error.value) is AirflowException
    (tmp_path / "release").touch()
    assert finish(make_task("wait"), start(make_task("wait"), context))["attempts"] == 2


@pytest.mark.soak
def test_job_past_max_run_s_fails_the_task_without_a_retry(drydock, project, make_task, context, start, finish):
    deferral = start(make_task("wait", max_run_s=1), context)
    with pytest.raises(AirflowFailException, match=r"stopped after max_run_s \(1 s\)"):
        finish(make_task("wait", max_run_s=1), deferral)


@pytest.mark.soak
def test_clear_stops_the_job(drydock, project, make_task, context, start, until):
    deferral = start(make_task("wait"), context)
    name = deferral.trigger.wait.job_name
    deferral.trigger._task_instance = SimpleNamespace(id="try")
    asyncio.run(deferral.trigger.on_kill())
    until(lambda: describe_job(drydock, name)["ProcessingJobStatus"] == "Stopped")
    deferral = start(make_task("wait"), context)
    worker = make_task("wait")
    start(worker, context)
    worker.on_kill()
    until(lambda: describe_job(drydock, deferral.trigger.wait.job_name)["ProcessingJobStatus"] == "Stopped")


@pytest.mark.soak
@pytest.mark.usefixtures("fresh_settings")
def test_ledger_has_each_job_that_ended_once(drydock, project, make_task, context, start, finish):
    with pytest.raises(AirflowException, match="the script failed"):
        finish(make_task("exit75", project="boat"), start(make_task("exit75", project="boat"), context))
    result = finish(make_task(project="boat"), start(make_task(project="boat"), context))
    make_task(project="boat").execute(context)
    rows = Ledger.open().read_rows(project="boat")
    assert [row["status"] for row in rows] == ["Failed", "Completed"]
    assert rows[1]["arn"] == result["processing_job_arn"]
    for row in rows:
        assert (row["dag_id"], row["task_id"], row["instance_type"]) == (
            make_task().dag_id,
            "preprocess",
            "ml.m5.large",
        )
        assert (row["spot"], row["saving"], row["lost_s"]) == (False, 0.0, 0.0)
        assert row["training_s"] == row["billable_s"]
        assert row["cost_usd"] == row["on_demand_usd"] == round(row["billable_s"] * 0.115 / 3_600, 6)
        assert row["capacity_s"] == pytest.approx((row["started"] - row["created"]).total_seconds(), abs=0.001)
    assert result["cost_usd"] == pytest.approx(sum(row["cost_usd"] for row in rows))


@pytest.mark.usefixtures("fresh_settings")
def test_refuses_a_job_that_may_exceed_the_budget(drydock, project, make_task, context):
    (project / "params.yaml").write_text("budget: {project: boat, month_usd: 0.01}\n")
    with pytest.raises(AirflowFailException, match=r"the budget does not allow this job: .*0.0192"):
        make_task().execute(context)
    assert Ledger.open().read_rows() == []


@pytest.mark.soak
@pytest.mark.usefixtures("set_aws_variables", "fresh_settings")
def test_sweep_charges_a_job_that_no_task_charged(drydock, project, make_task, context, start, until):
    since = dt.datetime.now(dt.UTC)
    name = start(make_task("wait", project="boat"), context).trigger.wait.job_name
    assert name not in [charge.name for charge in charge_uncharged_jobs(since)], "the job still runs"
    drydock.client("sagemaker").stop_processing_job(ProcessingJobName=name)
    until(lambda: describe_job(drydock, name)["ProcessingJobStatus"] == "Stopped")
    assert name in [charge.name for charge in charge_uncharged_jobs(since)]
    assert [(row["name"], row["run_id"]) for row in Ledger.open().read_rows(project="boat")] == [(name, "run")]
    assert charge_uncharged_jobs(since) == []


@pytest.mark.soak
def test_worker_killed_after_creating_the_job_leaves_one_job(
    drydock, project, make_task, context, start, finish, tmp_path
):
    names = ("image_uri", "validation_days", "environment", "max_run_s", "check_interval_s", "python", "instance_type")
    kill_worker(make_task("wait"), names, "leeway.hooks.sagemaker.wait_for_job:_create_job")
    deferral = start(make_task("wait"), context)
    assert deferral.trigger.wait.job_name.endswith("-1")
    assert list_jobs(drydock, deferral.trigger.wait.job_name) == [deferral.trigger.wait.job_name]
    (tmp_path / "release").touch()
    assert finish(make_task("wait"), deferral)["attempts"] == 1


@pytest.mark.soak
def test_worker_waits_for_the_job_when_the_task_is_not_deferrable(drydock, project, make_task, context):
    assert make_task(deferrable=False).execute(context)["status"] == "Completed"


REFUSED = {
    "no image": ({"image_uri": ""}, "give image_uri= to the task preprocess"),
    "validation_days that is not a number": (
        {"validation_days": "zero"},
        "validation_days of the task preprocess is not a whole number: 'zero'",
    ),
    "unknown instance type": ({"instance_type": "big"}, "not instance types of SageMaker: big"),
    "no volume": ({"volume_size_gb": 0}, "volume_size_gb of the task preprocess must be"),
    "max_run_s over the limit": (
        {"max_run_s": 10**9},
        "max_run_s of the task preprocess must be a whole number from 1 to 432000",
    ),
    "reserved key": ({"config": {"ProcessingJobName": "x"}}, "config must not have ProcessingJobName"),
    "unknown key": ({"config": {"Oops": 1}}, "SageMaker would refuse the request: .*Oops"),
    "missing snapshot": ({"snapshot": "data/none.json"}, r"none\.json does not exist: the step `snapshot` writes it"),
    "missing bucket": ({"bucket": "nobody-has-it"}, "the bucket nobody-has-it does not exist"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_wrong_fields_in_one_line_and_uploads_nothing(case, drydock, project, make_task, context):
    fields, text = REFUSED[case]
    before = list_data_uploads(drydock)
    with pytest.raises(AirflowFailException, match=text) as error:
        make_task(**fields).execute(context)
    assert "\n" not in str(error.value)
    assert list_data_uploads(drydock) == before


def test_refuses_a_project_without_the_script_of_the_job(drydock, project, make_task, context):
    (project / "pipelines" / "container" / "processing.py").unlink()
    with pytest.raises(AirflowFailException, match="set LEEWAY_PROJECT to the project's folder"):
        make_task().execute(context)


@pytest.mark.soak
@pytest.mark.usefixtures("java")
def test_spark_in_a_job_and_duckdb_in_process_build_the_same_features(
    drydock, quarter_home, make_task, context, start, finish, tmp_path, monkeypatch, capsys
):
    from pipelines.steps import preprocess, snapshot

    snapshot.run(
        snapshot.SnapshotSpec(dataset="flights", as_of="2013-01-15", train_days=5, holdout_days=3, min_train_days=2)
    )
    local_result = preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    project = tmp_path / "project"
    shutil.copytree(ROOT / "pipelines", project / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("LEEWAY_PROJECT", str(project))
    monkeypatch.setenv("LEEWAY_HOME", str(quarter_home))
    fields = {
        "snapshot": str(tmp_path / "data/snapshot.json"),
        "folder": str(tmp_path / "downloaded"),
        "python": forking.ensure_stand_in(),
        "environment": {"LC_ALL": "C.UTF-8", "JAVA_TOOL_OPTIONS": os.environ["JAVA_TOOL_OPTIONS"]},
    }
    result = finish(make_task(**fields), start(make_task(**fields), context))
    assert result["digest"] == local_result.digest
    for name in ("train", "validation", "holdout"):
        content = (tmp_path / "downloaded" / name / "data.parquet").read_bytes()
        assert content == (tmp_path / "data/features" / name / "data.parquet").read_bytes()
    assert "features: {'train':" in capsys.readouterr().out, "the task logs the job's lines"
    # The job runs the uploaded code, and nothing of this checkout.
    (project / "pipelines/datasets/flights/features.py").write_text("raise SystemExit('these features are others')\n")
    with pytest.raises(AirflowException, match="these features are others"):
        finish(make_task(**fields), start(make_task(**fields), context))


OWN_DATASET = {
    "__init__": """
from dataclasses import replace

from pipelines.datasets.flights import DATASET as FLIGHTS

FEATURES = {"distance_km": "number", "origin": "category"}
DATASET = replace(
    FLIGHTS, name="our_arrivals", rows_from="flights", label="state", task="multiclass", features=FEATURES
)
""",
    "features": "def features(rows):\n    return rows.mutate(distance_km=rows.distance * 1.609)\n",
    "label": """
import ibis

def label(rows):
    return ibis.cases((rows.dep_time.isnull(), "cancelled"), (rows.arr_delay > 30, "late"), else_="on_time")
""",
}


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_a_job_finds_a_dataset_of_the_user_with_its_features_and_label(
    drydock, quarter_home, make_task, context, start, finish, tmp_path, monkeypatch
):
    """The dataset is in a folder of LEEWAY_DATASETS outside the project, and goes into the archive of the job."""
    from pipelines import datasets
    from pipelines.steps import preprocess, snapshot

    folder = tmp_path / "ours/our_arrivals"
    folder.mkdir(parents=True)
    for name, text in OWN_DATASET.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(folder.parent)])
    window = {"as_of": "2013-01-15", "train_days": 5, "holdout_days": 3, "min_train_days": 2}
    snapshot.run(snapshot.SnapshotSpec.parse({"dataset": "our_arrivals", **window}, "test"))
    local_result = preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    fields = {
        "snapshot": str(tmp_path / "data/snapshot.json"),
        "folder": str(tmp_path / "downloaded"),
        "python": forking.ensure_stand_in(),
        "environment": {"LC_ALL": "C.UTF-8", "JAVA_TOOL_OPTIONS": os.environ["JAVA_TOOL_OPTIONS"]},
    }
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    with pytest.raises(AirflowException, match="there is no dataset 'our_arrivals'"):
        finish(make_task(**fields), start(make_task(**fields), context))
    monkeypatch.setenv("LEEWAY_DATASETS", str(folder.parent))
    result = finish(make_task(**fields), start(make_task(**fields), context))
    assert result["digest"] == local_result.digest
    rows = pq.read_table(tmp_path / "downloaded/train/data.parquet")
    assert rows.equals(pq.read_table(tmp_path / "data/features/train/data.parquet"))
    assert set(rows["state"].to_pylist()) == {"cancelled", "late", "on_time"}
    assert rows["distance_km"][0].as_py() > 100
