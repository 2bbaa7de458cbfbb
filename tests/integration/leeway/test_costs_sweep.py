"""Test `costs sweep`: it charges jobs that no task charged.

Such a task was marked as failed or successful by hand, or did not run again after its job had ended.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

from pipelines.costs.ledger import Ledger

FOREIGN = {
    "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
    "RoleArn": "arn:aws:iam::123456789012:role/somebody-else",
    "OutputDataConfig": {"S3OutputPath": "s3://leeway/other"},
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
    "StoppingCondition": {"MaxRuntimeInSeconds": 600},
}


def test_sweep_charges_once_each_job_that_no_task_charged(
    set_aws_variables: None,
    drydock: Any,
    project: Path,
    make_spot_task: Any,
    context: Any,
    start: Any,
    finish: Any,
    until: Any,
) -> None:
    from pipelines.costs.uncharged_jobs import charge_uncharged_jobs

    since = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=1)
    script = (project / "train.py").read_text()
    (project / "train.py").write_text(f"print('data_wait_share=0.250;', flush=True)\n{script}")
    task = make_spot_task(priority="low")
    finish(task, start(task, context))  # its task charges this job
    assert Ledger.open().read_rows()[-1]["priority"] == "low"
    context["ti"].run_id = "marked"
    payer = {"LEEWAY_TEAM": "blue", "LEEWAY_USER": "ada"}
    task = make_spot_task("crash", project="tagged", model="boat", env=payer, priority="high")
    uncharged_job = start(task, context).trigger.wait.job_name
    drydock.client("sagemaker").create_training_job(TrainingJobName="foreign-job", **FOREIGN)
    for name in (uncharged_job, "foreign-job"):
        until(lambda name=name: drydock.describe_job(name)["TrainingJobStatus"] in ("Failed", "Completed"))

    before = Ledger.open().read_rows()
    charged_jobs = [charge.name for charge in charge_uncharged_jobs(since)]
    assert uncharged_job in charged_jobs and "foreign-job" not in charged_jobs
    assert not {row["name"] for row in before} & set(charged_jobs)
    row = next(row for row in Ledger.open().read_rows() if row["name"] == uncharged_job)
    assert (row["status"], row["project"], row["model"]) == ("Failed", "tagged", "boat")
    assert (row["run_id"], row["task_id"], row["map_index"]) == ("marked", "train", -1)
    assert (row["team"], row["user"], row["environment"], row["priority"]) == ("blue", "ada", "", "high")
    assert row["data_wait_share"] == 0.25
    assert row["input_bytes"] == (project / "features/train/rows").stat().st_size
    assert not {charge.name for charge in charge_uncharged_jobs(since)} & set(charged_jobs), "no job is charged twice"


def test_command_prints_the_jobs_that_it_charged(set_aws_variables: None, commands: Any, tmp_path: Path) -> None:
    result = commands.run_step("costs", "sweep", "--days", "1", "--json", env={"LEEWAY_HOME": str(tmp_path / "new")})
    assert result.code == 0, result.err
    assert isinstance(json.loads(result.out), list)


def test_command_names_the_variable_of_the_region_when_it_is_missing(
    set_aws_variables: None, commands: Any, tmp_path: Path
) -> None:
    no_region = {"AWS_DEFAULT_REGION": "", "AWS_REGION": "", "AWS_CONFIG_FILE": "/dev/null"}
    result = commands.run_step("costs", "sweep", env={"LEEWAY_HOME": str(tmp_path / "new"), **no_region})
    assert (result.code, len(result.err.splitlines())) == (2, 1)
    assert "Set AWS_DEFAULT_REGION" in result.err
