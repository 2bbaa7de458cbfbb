"""`costs sweep`: what no task charged, because it was marked or never ran again."""

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


def test_jobs_that_no_task_charged_are_charged_once(
    set_aws_variables: None,
    drydock: Any,
    project: Path,
    make_spot_task: Any,
    context: Any,
    start: Any,
    finish: Any,
    until: Any,
) -> None:
    from pipelines.costs.sweep import sweep

    since = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=1)
    finish(make_spot_task(), start(make_spot_task(), context))  # charged by its task
    context["ti"].run_id = "marked"
    left = start(make_spot_task("crash", project="of the tag", model="boat"), context).trigger.wait.job_name
    drydock.client("sagemaker").create_training_job(TrainingJobName="somebody-elses", **FOREIGN)
    for name in (left, "somebody-elses"):
        until(lambda name=name: drydock.describe_job(name)["TrainingJobStatus"] in ("Failed", "Completed"))

    before = Ledger.open().rows()
    charged = [one.name for one in sweep(since)]
    assert left in charged and "somebody-elses" not in charged
    assert not {row["name"] for row in before} & set(charged)
    row = next(row for row in Ledger.open().rows() if row["name"] == left)
    assert (row["status"], row["project"], row["model"]) == ("Failed", "of the tag", "boat")
    assert (row["run_id"], row["task_id"], row["map_index"]) == ("marked", "train", -1)
    assert not {one.name for one in sweep(since)} & set(charged), "others' jobs may have ended meanwhile"


def test_the_command_says_what_it_charged(set_aws_variables: None, commands: Any, tmp_path: Path) -> None:
    done = commands.step("costs", "sweep", "--days", "1", "--json", env={"LEEWAY_HOME": str(tmp_path / "new")})
    assert done.code == 0, done.err
    assert isinstance(json.loads(done.out), list)


def test_without_a_region_it_says_so(set_aws_variables: None, commands: Any, tmp_path: Path) -> None:
    none = {"AWS_DEFAULT_REGION": "", "AWS_REGION": "", "AWS_CONFIG_FILE": "/dev/null"}
    done = commands.step("costs", "sweep", env={"LEEWAY_HOME": str(tmp_path / "new"), **none})
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "Set AWS_DEFAULT_REGION" in done.err
