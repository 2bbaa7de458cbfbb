"""BatchScoreOperator against a real drydock: one transform job a task, attached to, collected, never two."""

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
from urllib.request import Request, urlopen

import pytest
import structlog
from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from botocore.exceptions import ClientError
from leeway.hooks.sagemaker.wait_for_job import wait_for_job
from leeway.hooks.transform.inputs import TransformJobs, build_model
from leeway.operators.batch_score import BatchScoreOperator

from pipelines.costs.ledger import Ledger
from pipelines.costs.sweep import sweep
from pipelines.dataset import load_dataset
from tests.tools import forking

ROOT = Path(__file__).parents[3]
STANDINS = Path(__file__).parent / "standins"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A project whose partition is the text of a file, and a Python that has its two steps."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "rows").write_text(f"{tmp_path.name}\nrow\nrow\n")
    (tmp_path / "python").write_text(f"#!{sys.executable}\n" + (STANDINS / "scoring.py").read_text())
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setenv("LEEWAY_PROJECT", str(project))
    return project


@pytest.fixture
def task(request, tmp_path):
    """Makes the operator of one task, as each try of it would: always a new object."""

    def make(mode="", **more):
        given = {
            "dataset": "boats",
            "model_name": "boats",
            "partition": "2026-01-01",
            "transform_above_rows": 2,
            "image_uri": "image",
            "config": {"Environment": {"MODE": mode, "GATE": str(tmp_path / "gate")}},
            "max_run_s": 600,
            "check_interval_s": 1,
            "python": str(tmp_path / "python"),
            "instance_type": "ml.m5.large",
        }
        with DAG("".join(one if one.isalnum() else "-" for one in request.node.name)):
            return BatchScoreOperator(task_id="score", **{**given, **more})

    return make


def jobs(drydock, name):
    """The names of a task's jobs."""
    found = drydock.client("sagemaker").list_transform_jobs(NameContains=name.rpartition("-")[0], MaxResults=100)
    return sorted(one["TransformJobName"] for one in found["TransformJobSummaries"])


def uploads(drydock):
    return {key for key in drydock.list_uploads() if "/features/" in key}


def described(drydock, name):
    return drydock.client("sagemaker").describe_transform_job(TransformJobName=name)


def status(drydock, name):
    return described(drydock, name)["TransformJobStatus"]


def test_a_large_partition_is_scored_by_a_job(drydock, small, task, context, start, finish, tmp_path, capsys):
    deferred = start(task(), context)
    told = finish(task(), deferred)
    name = deferred.trigger.wait.job_name
    text = (small / "rows").read_text()
    assert told == {
        **{
            "schema_version": 1,
            "table": "predictions",
            "reason": "",
            "large": False,
            "dataset": "boats",
            "model_name": "boats",
        },
        **{"partition": "2026-01-01", "version": "7", "request": text, "said": [text.upper()]},
        "transform_job": name,
        "transform_job_arn": described(drydock, name)["TransformJobArn"],
        **{"status": "Completed", "attempts": 1, "transform_s": told["transform_s"], "cost_usd": told["cost_usd"]},
    }
    # A job of less than a second and a half costs less than the fourth digit that is kept.
    assert told["transform_s"] > 0
    assert told["cost_usd"] == pytest.approx(told["transform_s"] / 3600 * 0.115, abs=1e-4)
    assert "asked of" in capsys.readouterr().out, "the job's log is the task's"
    assert task().execute(context)["transform_job"] == name
    assert jobs(drydock, name) == [name], "what completed is collected"


def test_a_small_partition_is_scored_in_process_and_needs_no_cloud(small, task, context, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps({"conn_type": "aws"}))
    told = task(transform_above_rows="3", image_uri="").execute(context)
    assert (told["said"], told["transform_job"], told["attempts"], told["cost_usd"]) == ([], "", 0, 0.0)


@pytest.mark.parametrize("left", ["rows", "champion"])
def test_a_retry_that_needs_no_job_stops_the_one_of_the_try_before(left, drydock, small, task, context, start, until):
    name = start(task("wait"), context).trigger.wait.job_name
    context["ti"] = SimpleNamespace(run_id="run", map_index=-1, try_number=2, xcom_push=lambda *_: None)
    if left == "rows":
        (small / "rows").write_text("row\n")
        assert task("wait").execute(context)["transform_job"] == ""
    else:
        (small / "no-champion").touch()
        with pytest.raises(AirflowSkipException):
            task("wait").execute(context)
    until(lambda: status(drydock, name) == "Stopped")


def test_a_retry_that_needs_no_job_needs_no_cloud_either(small, task, context, monkeypatch, capsys):
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps({"conn_type": "aws"}))
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    context["ti"].try_number = 2
    assert task(transform_above_rows="3").execute(context)["transform_job"] == ""
    assert "an earlier try may have left a job running" in capsys.readouterr().out


@pytest.mark.parametrize("above", [2, 3])
def test_without_a_champion_it_is_skipped(above, drydock, small, task, context):
    (small / "no-champion").touch()
    pushed = {}
    context["ti"].xcom_push = lambda key, value: pushed.update({key: value})
    with pytest.raises(AirflowSkipException, match="there is no champion"):
        task(transform_above_rows=above).execute(context)
    assert pushed["return_value"]["reason"] == "there is no champion"


def test_a_job_that_runs_is_waited_for_and_not_started_again(drydock, small, task, context, start, finish, tmp_path):
    first, second = start(task("wait"), context), start(task("wait"), context)
    assert first.trigger.wait.job_name == second.trigger.wait.job_name
    (tmp_path / "gate").touch()
    assert finish(task("wait"), second)["status"] == "Completed"
    assert len(jobs(drydock, first.trigger.wait.job_name)) == 1


def test_other_rows_and_another_image_are_the_next_job(drydock, small, task, context, start, finish):
    first = finish(task(), start(task(), context))["transform_job"]
    uploaded = uploads(drydock)
    (small / "rows").write_text("corrected\nrow\nrow\n")
    told = finish(task(), start(task(), context))
    assert told["transform_job"] == first.removesuffix("-1") + "-2"
    assert told["said"] == ["CORRECTED\nROW\nROW\n"]
    assert not [one for one in uploads(drydock) - uploaded if "model" in one], "the model is there already"
    assert finish(task(image_uri="other"), start(task(image_uri="other"), context))["transform_job"].endswith("-3")
    other = start(task(), {"ti": SimpleNamespace(run_id="run", map_index=0, try_number=1)})
    assert other.trigger.wait.job_name.rpartition("-")[0] != first.rpartition("-")[0]


def test_another_run_of_the_day_with_the_same_rows_pays_for_no_second_job(drydock, small, task, context, start, finish):
    """Labels come a day later, with another publication of the day: what the model is asked of is the same."""
    first = finish(task(), start(task(), context))
    again = task().execute({"ti": SimpleNamespace(run_id="of the labels", map_index=-1, try_number=1)})
    assert (again["transform_job"], again["said"]) == (first["transform_job"], first["said"])
    assert len(jobs(drydock, first["transform_job"])) == 1
    other = start(task(partition="2026-01-02"), context)
    assert other.trigger.wait.job_name.rpartition("-")[0] != first["transform_job"].rpartition("-")[0]


def test_one_model_of_a_version_however_many_jobs(drydock, small, task, context, start, finish):
    names = set()
    for run in ("one", "two"):
        context["ti"].run_id = run
        (small / "rows").write_text(f"{run}\nrow\nrow\n")
        told = finish(task(image_uri="shared"), start(task(image_uri="shared"), context))
        names.add(described(drydock, told["transform_job"])["ModelName"])
    (name,) = names
    assert name.startswith("boats-7-")
    drydock.client("sagemaker").delete_model(ModelName=name)
    (small / "rows").write_text("again\nrow\nrow\n")
    assert finish(task(image_uri="shared"), start(task(image_uri="shared"), context))["status"] == "Completed"


class Overtaken(TransformJobs):
    """Another process makes the model just before this one does."""

    def _of_model(self, verb, **asked):
        if verb == "create":
            super()._of_model(verb, **asked)
        return super()._of_model(verb, **asked)


def test_a_model_that_another_process_made_first_is_the_same(drydock):
    hook, log = SageMakerHook(), structlog.get_logger()
    asked = build_model(
        "taken", "arn:aws:iam::123456789012:role/leeway", {"Image": "i", "ModelDataUrl": "s3://leeway/m"}
    )
    Overtaken(hook, log, "base").ensure_model(asked)
    made = drydock.client("sagemaker").describe_model(ModelName=asked["ModelName"])
    assert made["PrimaryContainer"]["Image"] == "i"
    refusal = {
        "service": "sagemaker",
        "operation": "CreateModel",
        "status": 400,
        "code": "ValidationException",
        "times": 1,
    }
    urlopen(Request(f"{drydock.url}/drydock/outage", json.dumps(refusal).encode())).close()
    with pytest.raises(ClientError, match="ValidationException"):
        TransformJobs(hook, log, "base").ensure_model({**asked, "ModelName": "refused"})


def test_the_image_is_that_of_the_framework_where_none_is_given(drydock, small, task, context, start, finish):
    told = finish(task(image_uri=""), start(task(image_uri=""), context))
    name = described(drydock, told["transform_job"])["ModelName"]
    container = drydock.client("sagemaker").describe_model(ModelName=name)["PrimaryContainer"]
    assert "sagemaker-xgboost:" in container["Image"]
    code = {"SAGEMAKER_PROGRAM": "inference.py", "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code"}
    assert container["Environment"] == code, "that image looks for the code where it is told"


def test_a_model_that_crashes_fails_for_good(drydock, small, task, context, start, finish):
    with pytest.raises(AirflowFailException, match=r"transform job \S+ failed: AlgorithmError: .*the hull is leaking"):
        finish(task("crash"), start(task("crash"), context))


def test_a_stopped_job_is_no_success(drydock, small, task, context, start, finish, tmp_path):
    deferred = start(task("wait"), context)
    drydock.client("sagemaker").stop_transform_job(TransformJobName=deferred.trigger.wait.job_name)
    with pytest.raises(AirflowException, match="was stopped by somebody") as raised:
        finish(task("wait"), deferred)
    assert type(raised.value) is AirflowException
    (tmp_path / "gate").touch()
    assert finish(task("wait"), start(task("wait"), context))["attempts"] == 2


def test_a_job_that_is_being_stopped_is_followed_by_the_next(
    drydock, small, task, context, start, finish, until, tmp_path
):
    name = start(task("stubborn"), context).trigger.wait.job_name
    until((tmp_path / "gate-asked").exists)
    drydock.client("sagemaker").stop_transform_job(TransformJobName=name)
    deferred = start(task("stubborn"), context)
    assert (deferred.trigger.wait.job_name, deferred.trigger.wait.was_stopping) == (name, True)
    (tmp_path / "gate").touch()
    assert finish(task("stubborn"), deferred)["attempts"] == 2


def test_a_job_that_runs_longer_than_max_run_s_is_stopped_for_good(drydock, small, task, context, start, finish):
    deferred = start(task("wait", max_run_s=1), context)
    with pytest.raises(AirflowFailException, match=r"it ran longer than max_run_s \(1 s\)\. Give a longer max_run_s"):
        finish(task("wait", max_run_s=1), deferred)
    assert status(drydock, deferred.trigger.wait.job_name) == "Stopped"


def test_a_clear_stops_the_job(drydock, small, task, context, start, until):
    deferred = start(task("wait"), context)
    name = deferred.trigger.wait.job_name
    deferred.trigger._task_instance = SimpleNamespace(id="try")
    asyncio.run(deferred.trigger.on_kill())
    until(lambda: status(drydock, name) == "Stopped")
    worker = task("wait")
    following = start(worker, context).trigger.wait.job_name
    worker.on_kill()
    until(lambda: status(drydock, following) == "Stopped")


def delete_output(drydock, name):
    bucket, _, prefix = described(drydock, name)["TransformOutput"]["S3OutputPath"][5:].partition("/")
    drydock.client("s3").delete_object(Bucket=bucket, Key=f"{prefix}/part-00000.jsonl.out")


def test_a_new_try_asks_the_next_job_where_the_output_was_deleted(drydock, small, task, context, start, finish):
    first = finish(task(), start(task(), context))
    delete_output(drydock, first["transform_job"])
    told = finish(task(), start(task(), context))
    assert (told["attempts"], told["said"]) == (2, first["said"])
    assert task().execute(context)["transform_job"] == told["transform_job"]


def test_the_same_try_asks_no_other_job_and_pays_for_none(drydock, small, task, context, start, resume, finish):
    deferred = start(task(), context)
    name = deferred.trigger.wait.job_name
    ended = {"cause": "ended", "job_name": name, "message": "", "attached_at": None}
    asyncio.run(wait_for_job(deferred.trigger.wait, structlog.get_logger()))
    delete_output(drydock, name)
    with pytest.raises(AirflowException, match=r"-1 completed, and its scores at s3://\S+ are not all there") as error:
        resume(task(), deferred, ended)
    assert type(error.value) is AirflowException and jobs(drydock, name) == [name]
    assert finish(task(), start(task(), context))["attempts"] == 2


@pytest.mark.usefixtures("set_aws_variables", "fresh_settings")
def test_what_ended_is_in_the_ledger_once(drydock, small, task, context, start, finish, until):
    since = dt.datetime.now(dt.UTC)
    told = finish(task(project="boat"), start(task(project="boat"), context))
    task(project="boat").execute(context)
    (row,) = Ledger.open().rows(project="boat")
    assert (row["arn"], row["status"], row["task_id"]) == (told["transform_job_arn"], "Completed", "score")
    assert (row["model"], row["spot"], row["instance_type"]) == ("boats", False, "ml.m5.large")
    another = task("wait", project="boat", partition="2026-01-02")
    left = start(another, context).trigger.wait.job_name
    drydock.client("sagemaker").stop_transform_job(TransformJobName=left)
    until(lambda: status(drydock, left) == "Stopped")
    assert left in [one.name for one in sweep(since)]
    assert sweep(since) == []


@pytest.mark.usefixtures("fresh_settings")
def test_a_budget_that_it_may_exceed_refuses_it(drydock, small, task, context):
    (small / "params.yaml").write_text("budget: {project: boat, month_usd: 0.01}\n")
    with pytest.raises(AirflowFailException, match=r"the budget does not allow this job: .*0.0192"):
        task().execute(context)


DIES = """
import os, re, signal, sys
from types import SimpleNamespace
from urllib.request import Request, urlopen
sys.path[:0] = [{root!r}, {plugins!r}]
import structlog
from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook
from airflow.sdk import DAG
from leeway.hooks.sagemaker.named_jobs import NamedJobs
from botocore.exceptions import ClientError
from leeway.hooks.transform.inputs import TransformJobs, build_model
from leeway.hooks.sagemaker.wait_for_job import wait_for_job
from leeway.operators.batch_score import BatchScoreOperator
create = NamedJobs.create
def create_and_die(self, *given):
    create(self, *given)
    os.kill(os.getpid(), signal.SIGKILL)
NamedJobs.create = create_and_die
with DAG({dag!r}):
    task = BatchScoreOperator(task_id="score", **{fields!r})
task.execute({{"ti": SimpleNamespace(run_id="run", map_index=-1, try_number=1)}})
"""


def test_a_worker_killed_at_the_worst_moment_leaves_one_job(drydock, small, task, context, start, finish, tmp_path):
    made = task("wait")
    names = ("dataset", "model_name", "partition", "transform_above_rows", "image_uri", "config", "max_run_s")
    names += ("check_interval_s", "python", "instance_type")
    fields = {name: getattr(made, name) for name in names}
    code = DIES.format(root=str(ROOT), plugins=str(ROOT / "plugins"), dag=made.dag_id, fields=fields)
    killed = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2_000:]
    deferred = start(task("wait"), context)
    assert jobs(drydock, deferred.trigger.wait.job_name) == [deferred.trigger.wait.job_name]
    (tmp_path / "gate").touch()
    assert finish(task("wait"), deferred)["attempts"] == 1


def test_waits_in_the_worker_where_it_is_not_deferrable(drydock, small, task, context):
    assert task(deferrable=False).execute(context)["status"] == "Completed"


REFUSED = {
    "bound": ({"transform_above_rows": "many"}, "transform_above_rows of the task score is no whole number"),
    "machine": ({"instance_type": "big"}, "no instance types of SageMaker: big"),
    "count": ({"instance_count": 0}, "instance_count of the task score must be"),
    "long": ({"max_run_s": 10**9}, "max_run_s of the task score must be a whole number from 1 to 2419200"),
    "own": ({"config": {"ModelName": "x"}}, "config must not have ModelName"),
    "output": (
        {"config": {"TransformOutput": {"S3OutputPath": "s3://all-days"}}},
        r"config must not have TransformOutput\.S3OutputPath",
    ),
    "shape": ({"config": {"Oops": 1}}, "SageMaker would refuse the request: .*Oops"),
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


@pytest.fixture
def champion(trained, with_mlflow, tmp_path, monkeypatch):
    """The trained model is the champion of `transformed`, in the session's MLflow."""
    from pipelines.registry.versions import Registry
    from tests.tools.candidates import register

    shutil.copytree(trained.data, tmp_path / "data")
    version = register("transformed")
    Registry.open().client.set_registered_model_alias("transformed", "champion", version)
    return version


def test_the_champion_scores_the_same_in_a_job_as_in_process(
    drydock, home, day_rows, champion, task, context, start, finish, monkeypatch, fresh_settings
):
    """The real steps, model and lake: to the last bit, so that scoring in process then commits nothing."""
    from pipelines.lake import Lake
    from pipelines.steps import score

    monkeypatch.setenv("LEEWAY_HOME", str(home))
    monkeypatch.setenv("LEEWAY_PROJECT", str(ROOT))
    fresh_settings()
    lake, rows = Lake.open(), day_rows("2013-02-01")
    lake.write_partition("flights", dt.date(2013, 2, 1), rows, load_dataset("flights").key)
    fields = {
        **{"dataset": "flights", "model_name": "transformed", "partition": "2013-02-01", "config": {}},
        "python": forking.ensure_stand_in(),
        "transform_above_rows": rows.num_rows - 1,
    }
    told = finish(task(**fields), start(task(**fields), context))
    assert (told["status"], told["version"], told["scored"], told["changed"]) == (
        *("Completed", champion, rows.num_rows, True),
    )
    kept = lake.read_partition("flights_predictions", dt.date(2013, 2, 1))
    file = Path(told["rows"]).read_bytes()
    here = score.run(score.ScoreSpec(model_name="transformed", partition="2013-02-01"))
    assert not here.changed and here.rows.read_bytes() == file
    assert lake.read_partition("flights_predictions", dt.date(2013, 2, 1)).equals(kept)
    in_process = task(**{**fields, "transform_above_rows": rows.num_rows}).execute(context)
    assert {name: value for name, value in in_process.items() if name in here.model_dump()} == json.loads(
        here.model_dump_json()
    )
