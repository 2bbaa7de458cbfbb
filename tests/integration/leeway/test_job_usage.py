"""Test that the ledger gets what a job used of its instances, by CloudWatch, and that running jobs are read."""

import datetime as dt
from typing import Any

import boto3
import pytest

from pipelines.costs.ledger import Ledger
from pipelines.costs.usage.columns import COLUMNS
from pipelines.costs.usage.job_metrics import read_usage
from pipelines.settings import settings
from pipelines.status.documents.jobs import RunningJobs
from pipelines.status.jobs.running import RunningJobsWriter
from tests.tools.outages import post_to_drydock

# Uses a core until the job has been measured, then ends.
BUSY = "import time\nwhile time.process_time() < 4: sum(range(1000))\n"
KNOWN = {"cpu_peak", "cpu_mean", "memory_peak", "memory_mean", "disk_peak", "disk_mean"}


@pytest.fixture
def busy_project(project: Any) -> Any:
    """Return a project whose training uses a core for four seconds."""
    script = (project / "train.py").read_text()
    (project / "train.py").write_text(script.replace("deadline =", f"{BUSY}deadline ="))
    return project


def read_row(name: str) -> dict[str, Any]:
    """Return the row of a job in the ledger."""
    return next(row for row in Ledger.open().read_rows() if row["name"] == name)


def test_ledger_has_peak_and_mean_of_what_a_training_used(
    drydock: Any, busy_project: Any, make_spot_task: Any, context: Any, start: Any, finish: Any
) -> None:
    deferral = start(make_spot_task(), context)
    finish(make_spot_task(), deferral)
    name = deferral.trigger.wait.job_name
    row = read_row(name)
    assert {column for column in COLUMNS if row[column] is not None} == KNOWN, "the job has no GPU"
    assert 5 < row["cpu_mean"] <= row["cpu_peak"] < 250
    assert 0 < row["memory_mean"] <= row["memory_peak"] < 10
    assert 0 < row["disk_mean"] <= row["disk_peak"] < 10
    usage = read_usage(drydock.client("cloudwatch"), drydock.describe_job(name))
    assert usage["cpu"] == {"peak": row["cpu_peak"], "mean": row["cpu_mean"]}
    assert set(usage) == {"cpu", "memory", "disk"}
    started = drydock.describe_job(name)["TrainingStartTime"]
    assert row["first_capacity_s"] == pytest.approx((started - row["created"]).total_seconds(), abs=1), "the queue time"


@pytest.mark.parametrize(
    ("lines", "share"),
    [
        (["data_wait_share=0.100;", "data_wait_share=0.375;"], 0.375),  # a training that resumed reports it twice
        pytest.param(["data_wait_share=1.000;"], 1.0, marks=pytest.mark.soak),
        (["the data_wait_share is 0.5", "data_wait_share=2.5;", "data_wait_share=nan;"], None),
        pytest.param([], None, marks=pytest.mark.soak),
    ],
)
def test_ledger_has_the_share_of_its_time_that_a_training_waited_for_data(
    drydock: Any,
    project: Any,
    make_spot_task: Any,
    context: Any,
    start: Any,
    finish: Any,
    lines: list[str],
    share: float | None,
) -> None:
    context["ti"].run_id = f"run-{len(lines)}-{share}"
    script = (project / "train.py").read_text()
    (project / "train.py").write_text(script + f"\nprint(*{lines}, sep='\\n')\n")
    deferral = start(make_spot_task(), context)
    finish(make_spot_task(), deferral)
    assert read_row(deferral.trigger.wait.job_name)["data_wait_share"] == share


@pytest.mark.parametrize(
    ("status", "code", "times"),
    [(503, "ServiceUnavailable", 2), pytest.param(403, "AccessDenied", 1, marks=pytest.mark.soak)],
)
def test_training_is_charged_without_its_use_if_cloudwatch_fails(
    drydock: Any,
    busy_project: Any,
    make_spot_task: Any,
    context: Any,
    start: Any,
    finish: Any,
    capsys: pytest.CaptureFixture[str],
    status: int,
    code: str,
    times: int,
) -> None:
    context["ti"].run_id = f"run-{status}"
    deferral = start(make_spot_task(), context)
    post_to_drydock(drydock, "outage", service="monitoring", status=status, code=code, times=times, for_s=600)
    result = finish(make_spot_task(), deferral)
    assert result["status"] == "Completed"
    row = read_row(deferral.trigger.wait.job_name)
    assert row["cost_usd"] > 0
    assert {row[column] for column in COLUMNS} == {None}, "not known, which is not 0"
    lines = [
        line
        for line in capsys.readouterr().out.splitlines()
        if "the utilization of the job's instances cannot be read" in line
    ]
    assert len(lines) == 1 and code in lines[0]


def test_running_jobs_are_read_with_their_use(
    set_aws_variables: None,
    drydock: Any,
    project: Any,
    make_spot_task: Any,
    context: Any,
    start: Any,
    until: Any,
    tmp_path: Any,
) -> None:
    context["ti"].run_id = "manual__2026-11-20T00:00:00+00:00"
    name = start(make_spot_task("wait", model="boat"), context).trigger.wait.job_name
    document_file = settings().home / "status/jobs.json"

    def read_job() -> Any:
        assert RunningJobsWriter().write_if_due()
        document = RunningJobs.model_validate_json(document_file.read_text())
        assert document.problem == ""
        job = next((job for job in document.jobs if job.name == name), None)
        return job if job and job.use.cpu else None

    job = until(read_job)
    assert (job.model, job.kind, job.instance_type, job.spot) == ("boat", "training", "ml.m5.large", True)
    assert job.run.endswith("/manual__2026-11-20T00:00:00+00:00")
    assert job.use.cores == 2
    assert job.status == "Training" and job.started is not None
    assert job.use.memory.peak < 10 and job.use.gpu is None
    (tmp_path / "release").touch()
    until(lambda: drydock.describe_job(name)["TrainingJobStatus"] == "Completed")
    assert RunningJobsWriter().write_if_due()
    assert name not in document_file.read_text(), "the control: it has ended"


def test_running_jobs_without_an_answer_name_the_problem_and_are_not_read_again_at_once(
    set_aws_variables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    writer = RunningJobsWriter()
    assert [writer.write_if_due(), writer.write_if_due()] == [True, False]
    document = RunningJobs.model_validate_json((settings().home / "status/jobs.json").read_text())
    assert document.jobs == [] and "127.0.0.1:1" in document.problem
    monkeypatch.setenv("AWS_DEFAULT_REGION", "")
    monkeypatch.setenv("AWS_REGION", "")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    assert RunningJobsWriter().write_if_due()
    document = RunningJobs.model_validate_json((settings().home / "status/jobs.json").read_text())
    assert document.problem == "no AWS region is configured."


def test_unknown_job_and_job_without_an_instance_have_no_use(drydock: Any) -> None:
    job = {
        "TrainingJobName": "unknown",
        "TrainingJobStatus": "Completed",
        "CreationTime": dt.datetime.now(dt.UTC),
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 2},
    }
    assert read_usage(drydock.client("cloudwatch"), {**job, "TrainingStartTime": job["CreationTime"]}) == {}
    refused = boto3.client("cloudwatch", endpoint_url="http://127.0.0.1:1", region_name="us-east-1")
    assert read_usage(refused, job) == {}, "it got no instance, so CloudWatch is not asked"
