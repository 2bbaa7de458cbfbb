"""Test BatchScoreOperator with a real drydock: each task has one transform job, to which its retries attach."""

import asyncio
import datetime as dt
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog
from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from botocore.exceptions import ClientError
from leeway.hooks.sagemaker.wait_for_job import wait_for_job
from leeway.hooks.transform.job_requests import TransformJobs, build_model_request
from leeway.operators.batch_score import BatchScoreOperator

from pipelines.costs.ledger import Ledger
from pipelines.costs.uncharged_jobs import charge_uncharged_jobs
from pipelines.dataset import load_dataset
from tests.tools import forking
from tests.tools.killed_worker import kill_worker
from tests.tools.outages import post_to_drydock

ROOT = Path(__file__).parents[3]
STAND_INS = Path(__file__).parent / "stand_ins"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Set LEEWAY_PROJECT to a project whose partition is a text file, with stand-ins for its two steps; return it."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "rows").write_text(f"{tmp_path.name}\nrow\nrow\n")
    (tmp_path / "python").write_text(f"#!{sys.executable}\n" + (STAND_INS / "scoring.py").read_text())
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setenv("LEEWAY_PROJECT", str(project))
    return project


@pytest.fixture
def make_task(request, tmp_path):
    """Return the function that makes a new operator of the same task, as each try of a task does."""

    def make(mode="", **fields):
        defaults = {
            "dataset": "boats",
            "model": "boats",
            "partition": "2026-01-01",
            "transform_above_rows": 2,
            "image_uri": "image",
            "config": {"Environment": {"MODE": mode, "RELEASE_FILE": str(tmp_path / "release")}},
            "max_run_s": 600,
            "check_interval_s": 1,
            "python": str(tmp_path / "python"),
            "instance_type": "ml.m5.large",
        }
        with DAG("".join(character if character.isalnum() else "-" for character in request.node.name)):
            return BatchScoreOperator(task_id="score", **{**defaults, **fields})

    return make


def list_jobs(drydock, name):
    """Return the names of all jobs of the task that has the job `name`."""
    response = drydock.client("sagemaker").list_transform_jobs(NameContains=name.rpartition("-")[0], MaxResults=100)
    return sorted(job["TransformJobName"] for job in response["TransformJobSummaries"])


def list_feature_uploads(drydock):
    return {key for key in drydock.list_uploads() if "/features/" in key}


def describe_job(drydock, name):
    return drydock.client("sagemaker").describe_transform_job(TransformJobName=name)


def get_status(drydock, name):
    return describe_job(drydock, name)["TransformJobStatus"]


def test_large_partition_is_scored_by_a_job(drydock, project, make_task, context, start, finish, tmp_path, capsys):
    deferral = start(make_task(), context)
    result = finish(make_task(), deferral)
    name = deferral.trigger.wait.job_name
    text = (project / "rows").read_text()
    assert result == {
        **{
            "schema_version": 1,
            "table": "predictions",
            "reason": "",
            "large": False,
            "dataset": "boats",
            "model": "boats",
        },
        **{"partition": "2026-01-01", "version": "7", "request": text, "responses": [text.upper()]},
        "transform_job": name,
        "transform_job_arn": describe_job(drydock, name)["TransformJobArn"],
        **{"status": "Completed", "attempts": 1, "transform_s": result["transform_s"], "cost_usd": result["cost_usd"]},
    }
    # The cost is rounded to four digits, and a job of a second costs less than that.
    assert result["transform_s"] > 0
    assert result["cost_usd"] == pytest.approx(result["transform_s"] / 3600 * 0.115, abs=1e-4)
    assert "scoring" in capsys.readouterr().out, "the task logs the job's lines"
    assert make_task().execute(context)["transform_job"] == name
    assert list_jobs(drydock, name) == [name], "the next try collects the completed job"


def test_small_partition_is_scored_in_process_without_a_cloud(project, make_task, context, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps({"conn_type": "aws"}))
    result = make_task(transform_above_rows="3", image_uri="").execute(context)
    assert (result["responses"], result["transform_job"], result["attempts"], result["cost_usd"]) == ([], "", 0, 0.0)


@pytest.mark.parametrize("change", ["few rows", "no champion"])
def test_retry_that_needs_no_job_stops_the_running_job(change, drydock, project, make_task, context, start, until):
    name = start(make_task("wait"), context).trigger.wait.job_name
    context["ti"] = SimpleNamespace(run_id="run", map_index=-1, try_number=2, xcom_push=lambda *_: None)
    if change == "few rows":
        (project / "rows").write_text("row\n")
        assert make_task("wait").execute(context)["transform_job"] == ""
    else:
        (project / "no-champion").touch()
        with pytest.raises(AirflowSkipException):
            make_task("wait").execute(context)
    until(lambda: get_status(drydock, name) == "Stopped")


def test_retry_that_needs_no_job_needs_no_cloud(project, make_task, context, monkeypatch, capsys):
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps({"conn_type": "aws"}))
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    context["ti"].try_number = 2
    assert make_task(transform_above_rows="3").execute(context)["transform_job"] == ""
    assert "an earlier try may have left a job running" in capsys.readouterr().out


@pytest.mark.parametrize("above_rows", [2, 3])
def test_task_is_skipped_without_a_champion(above_rows, drydock, project, make_task, context):
    (project / "no-champion").touch()
    xcoms = {}
    context["ti"].xcom_push = lambda key, value: xcoms.update({key: value})
    with pytest.raises(AirflowSkipException, match="there is no champion"):
        make_task(transform_above_rows=above_rows).execute(context)
    assert xcoms["return_value"]["reason"] == "there is no champion"


def test_retry_attaches_to_the_running_job(drydock, project, make_task, context, start, finish, tmp_path):
    first, second = start(make_task("wait"), context), start(make_task("wait"), context)
    assert first.trigger.wait.job_name == second.trigger.wait.job_name
    (tmp_path / "release").touch()
    assert finish(make_task("wait"), second)["status"] == "Completed"
    assert len(list_jobs(drydock, first.trigger.wait.job_name)) == 1


@pytest.mark.soak
def test_changed_rows_or_image_start_another_job(drydock, project, make_task, context, start, finish):
    first = finish(make_task(), start(make_task(), context))["transform_job"]
    earlier_uploads, model = list_feature_uploads(drydock), describe_job(drydock, first)["ModelName"]
    assert model.startswith("boats-7-")
    drydock.client("sagemaker").delete_model(ModelName=model)  # the next job creates it again
    (project / "rows").write_text("corrected\nrow\nrow\n")
    result = finish(make_task(), start(make_task(), context))
    assert result["transform_job"] == first.removesuffix("-1") + "-2"
    assert result["responses"] == ["CORRECTED\nROW\nROW\n"]
    new_uploads = list_feature_uploads(drydock) - earlier_uploads
    assert not [key for key in new_uploads if "model" in key], "the model is in S3 already"
    assert describe_job(drydock, result["transform_job"])["ModelName"] == model
    result = finish(make_task(image_uri="other"), start(make_task(image_uri="other"), context))
    assert result["transform_job"].endswith("-3")
    assert describe_job(drydock, result["transform_job"])["ModelName"] != model
    other = start(make_task(), {"ti": SimpleNamespace(run_id="run", map_index=0, try_number=1)})
    assert other.trigger.wait.job_name.rpartition("-")[0] != first.rpartition("-")[0]


def test_another_run_of_the_day_with_the_same_rows_starts_no_job(drydock, project, make_task, context, start, finish):
    """Labels come a day later and publish the day again. The request to the model stays the same."""
    first = finish(make_task(), start(make_task(), context))
    repeat = make_task().execute({"ti": SimpleNamespace(run_id="labels", map_index=-1, try_number=1)})
    assert (repeat["transform_job"], repeat["responses"]) == (first["transform_job"], first["responses"])
    assert len(list_jobs(drydock, first["transform_job"])) == 1
    other = start(make_task(partition="2026-01-02"), context)
    assert other.trigger.wait.job_name.rpartition("-")[0] != first["transform_job"].rpartition("-")[0]


class RacingTransformJobs(TransformJobs):
    """Transform jobs whose model is created by another process just before."""

    def _call_model(self, verb, **request):
        if verb == "create":
            super()._call_model(verb, **request)
        return super()._call_model(verb, **request)


def test_model_that_another_process_created_first_is_reused(drydock):
    hook, log = SageMakerHook(), structlog.get_logger()
    request = build_model_request(
        "racing", "arn:aws:iam::123456789012:role/leeway", {"Image": "i", "ModelDataUrl": "s3://leeway/m"}
    )
    RacingTransformJobs(hook, log, "base").ensure_model(request)
    model = drydock.client("sagemaker").describe_model(ModelName=request["ModelName"])
    assert model["PrimaryContainer"]["Image"] == "i"
    outage = {"operation": "CreateModel", "status": 400, "code": "ValidationException", "times": 1}
    post_to_drydock(drydock, "outage", service="sagemaker", **outage)
    with pytest.raises(ClientError, match="ValidationException"):
        TransformJobs(hook, log, "base").ensure_model({**request, "ModelName": "refused"})


def test_image_of_the_framework_is_the_default(drydock, project, make_task, context, start, finish):
    result = finish(make_task(image_uri=""), start(make_task(image_uri=""), context))
    name = describe_job(drydock, result["transform_job"])["ModelName"]
    container = drydock.client("sagemaker").describe_model(ModelName=name)["PrimaryContainer"]
    assert "sagemaker-xgboost:" in container["Image"]
    code = {"SAGEMAKER_PROGRAM": "inference.py", "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code"}
    assert container["Environment"] == code, "the framework's image reads from these variables where the code is"


def test_crashed_model_fails_the_task_without_a_retry(drydock, project, make_task, context, start, finish):
    with pytest.raises(AirflowFailException, match=r"transform job \S+ failed: AlgorithmError: .*the script failed"):
        finish(make_task("crash"), start(make_task("crash"), context))


@pytest.mark.soak
def test_stopped_job_fails_the_task(drydock, project, make_task, context, start, finish, tmp_path):
    deferral = start(make_task("wait"), context)
    drydock.client("sagemaker").stop_transform_job(TransformJobName=deferral.trigger.wait.job_name)
    with pytest.raises(AirflowException, match="was stopped by somebody") as error:
        finish(make_task("wait"), deferral)
    assert type(error.value) is AirflowException
    (tmp_path / "release").touch()
    assert finish(make_task("wait"), start(make_task("wait"), context))["attempts"] == 2


@pytest.mark.soak
def test_retry_waits_for_a_stopping_job_and_starts_another(
    drydock, project, make_task, context, start, finish, until, tmp_path
):
    name = start(make_task("stubborn"), context).trigger.wait.job_name
    until((tmp_path / "release-reached").exists)
    drydock.client("sagemaker").stop_transform_job(TransformJobName=name)
    deferral = start(make_task("stubborn"), context)
    assert (deferral.trigger.wait.job_name, deferral.trigger.wait.was_stopping) == (name, True)
    (tmp_path / "release").touch()
    assert finish(make_task("stubborn"), deferral)["attempts"] == 2


@pytest.mark.soak
def test_job_past_max_run_s_is_stopped_and_fails_the_task_without_a_retry(
    drydock, project, make_task, context, start, finish
):
    deferral = start(make_task("wait", max_run_s=1), context)
    with pytest.raises(AirflowFailException, match=r"it ran longer than max_run_s \(1 s\)\. Give a longer max_run_s"):
        finish(make_task("wait", max_run_s=1), deferral)
    assert get_status(drydock, deferral.trigger.wait.job_name) == "Stopped"


@pytest.mark.soak
def test_clear_stops_the_job(drydock, project, make_task, context, start, until):
    deferral = start(make_task("wait"), context)
    name = deferral.trigger.wait.job_name
    deferral.trigger._task_instance = SimpleNamespace(id="try")
    asyncio.run(deferral.trigger.on_kill())
    until(lambda: get_status(drydock, name) == "Stopped")
    worker = make_task("wait")
    next_job = start(worker, context).trigger.wait.job_name
    worker.on_kill()
    until(lambda: get_status(drydock, next_job) == "Stopped")


def delete_output(drydock, name):
    bucket, _, prefix = describe_job(drydock, name)["TransformOutput"]["S3OutputPath"][5:].partition("/")
    drydock.client("s3").delete_object(Bucket=bucket, Key=f"{prefix}/part-00000.jsonl.out")


@pytest.mark.soak
def test_retry_starts_another_job_when_the_output_was_deleted(drydock, project, make_task, context, start, finish):
    first = finish(make_task(), start(make_task(), context))
    delete_output(drydock, first["transform_job"])
    result = finish(make_task(), start(make_task(), context))
    assert (result["attempts"], result["responses"]) == (2, first["responses"])
    models = {describe_job(drydock, job["transform_job"])["ModelName"] for job in (first, result)}
    assert len(models) == 1, "jobs of a version share one model"
    assert make_task().execute(context)["transform_job"] == result["transform_job"]


@pytest.mark.soak
def test_same_try_starts_no_other_job_when_the_output_was_deleted(
    drydock, project, make_task, context, start, resume, finish
):
    deferral = start(make_task(), context)
    name = deferral.trigger.wait.job_name
    event = {"cause": "ended", "job_name": name, "message": "", "attached_at": None}
    asyncio.run(wait_for_job(deferral.trigger.wait, structlog.get_logger()))
    delete_output(drydock, name)
    with pytest.raises(AirflowException, match=r"-1 completed, but its scores at s3://\S+ are incomplete") as error:
        resume(make_task(), deferral, event)
    assert type(error.value) is AirflowException and list_jobs(drydock, name) == [name]
    assert finish(make_task(), start(make_task(), context))["attempts"] == 2


@pytest.mark.usefixtures("set_aws_variables", "fresh_settings")
def test_ledger_has_each_job_that_ended_once(drydock, project, make_task, context, start, finish, until):
    since = dt.datetime.now(dt.UTC)
    result = finish(make_task(project="boat"), start(make_task(project="boat"), context))
    make_task(project="boat").execute(context)
    (row,) = Ledger.open().read_rows(project="boat")
    assert (row["arn"], row["status"], row["task_id"]) == (result["transform_job_arn"], "Completed", "score")
    assert (row["model"], row["spot"], row["instance_type"]) == ("boats", False, "ml.m5.large")
    other_task = make_task("wait", project="boat", partition="2026-01-02")
    stopped_job = start(other_task, context).trigger.wait.job_name
    drydock.client("sagemaker").stop_transform_job(TransformJobName=stopped_job)
    until(lambda: get_status(drydock, stopped_job) == "Stopped")
    assert stopped_job in [charge.name for charge in charge_uncharged_jobs(since)]
    assert charge_uncharged_jobs(since) == []


@pytest.mark.usefixtures("fresh_settings")
def test_refuses_a_job_that_may_exceed_the_budget(drydock, project, make_task, context):
    (project / "params.yaml").write_text("budget: {project: boat, month_usd: 0.01}\n")
    with pytest.raises(AirflowFailException, match=r"the budget does not allow this job: .*0.0192"):
        make_task().execute(context)


@pytest.mark.soak
def test_worker_killed_after_creating_the_job_leaves_one_job(
    drydock, project, make_task, context, start, finish, tmp_path
):
    names = ("dataset", "model", "partition", "transform_above_rows", "image_uri", "config", "max_run_s")
    names += ("check_interval_s", "python", "instance_type")
    kill_worker(make_task("wait"), names, "leeway.hooks.sagemaker.wait_for_job:_create_job")
    deferral = start(make_task("wait"), context)
    assert list_jobs(drydock, deferral.trigger.wait.job_name) == [deferral.trigger.wait.job_name]
    (tmp_path / "release").touch()
    assert finish(make_task("wait"), deferral)["attempts"] == 1


def test_worker_waits_for_the_job_when_the_task_is_not_deferrable(drydock, project, make_task, context):
    assert make_task(deferrable=False).execute(context)["status"] == "Completed"


REFUSED = {
    "bound that is not a number": (
        {"transform_above_rows": "many"},
        "transform_above_rows of the task score is not a whole number",
    ),
    "unknown instance type": ({"instance_type": "big"}, "not instance types of SageMaker: big"),
    "no instance": ({"instance_count": 0}, "instance_count of the task score must be"),
    "max_run_s over the limit": (
        {"max_run_s": 10**9},
        "max_run_s of the task score must be a whole number from 1 to 2419200",
    ),
    "reserved key": ({"config": {"ModelName": "x"}}, "config must not have ModelName"),
    "reserved output path": (
        {"config": {"TransformOutput": {"S3OutputPath": "s3://all-days"}}},
        r"config must not have TransformOutput\.S3OutputPath",
    ),
    "unknown key": ({"config": {"Oops": 1}}, "SageMaker would refuse the request: .*Oops"),
    "missing bucket": ({"bucket": "nobody-has-it"}, "the bucket nobody-has-it does not exist"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_wrong_fields_in_one_line_and_uploads_nothing(case, drydock, project, make_task, context):
    fields, text = REFUSED[case]
    before = list_feature_uploads(drydock)
    with pytest.raises(AirflowFailException, match=text) as error:
        make_task(**fields).execute(context)
    assert "\n" not in str(error.value)
    assert list_feature_uploads(drydock) == before


@pytest.fixture
def champion(trained, with_mlflow, tmp_path, monkeypatch):
    """Register the trained model and make it champion of `transformed`; return its version."""
    from pipelines.registry.versions import Registry
    from tests.tools.candidates import register

    shutil.copytree(trained.data, tmp_path / "data")
    version = register("transformed")
    Registry.open().client.set_registered_model_alias("transformed", "champion", version)
    return version


def test_champion_gives_the_same_scores_in_a_job_and_in_process(
    drydock, home, day_rows, champion, make_task, context, start, finish, tmp_path, monkeypatch, fresh_settings
):
    """The scores of the real steps, model and lake are identical, so that scoring in process commits nothing."""
    project = tmp_path / "without-models"  # a project with models/ refuses a model that has no folder there
    project.mkdir()
    (project / "pipelines").symlink_to(ROOT / "pipelines")
    from pipelines.lake import Lake
    from pipelines.steps import score

    monkeypatch.setenv("LEEWAY_HOME", str(home))
    monkeypatch.setenv("LEEWAY_PROJECT", str(project))
    fresh_settings()
    lake, rows = Lake.open(), day_rows("2013-02-01")
    lake.write_partition("flights", dt.date(2013, 2, 1), rows, load_dataset("flights").key)
    fields = {
        **{"dataset": "flights", "model": "transformed", "partition": "2013-02-01", "config": {}},
        "python": forking.ensure_stand_in(),
        "transform_above_rows": rows.num_rows - 1,
    }
    result = finish(make_task(**fields), start(make_task(**fields), context))
    assert (result["status"], result["version"], result["scored"], result["changed"]) == (
        *("Completed", champion, rows.num_rows, True),
    )
    scores = lake.read_partition("flights_predictions", dt.date(2013, 2, 1))
    rows_of_job = Path(result["rows"]).read_bytes()
    local_result = score.run(score.ScoreSpec(dataset="flights", model="transformed", partition="2013-02-01"))
    assert not local_result.changed and local_result.rows.read_bytes() == rows_of_job
    assert lake.read_partition("flights_predictions", dt.date(2013, 2, 1)).equals(scores)
    in_process = make_task(**{**fields, "transform_above_rows": rows.num_rows}).execute(context)
    assert {name: value for name, value in in_process.items() if name in local_result.model_dump()} == json.loads(
        local_result.model_dump_json()
    )
