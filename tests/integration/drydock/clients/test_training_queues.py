"""Test queues for training jobs with the unmodified sagemaker SDK 3 (TrainingQueue) and the AWS CLI."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tools import forking

ROLE = "arn:aws:iam::123456789012:role/drydock"
CLIENT = """
import json, sys
import sagemaker.train.aws_batch.training_queued_job as queued_job
from sagemaker.core.training.configs import Compute, OutputDataConfig, StoppingCondition
from sagemaker.train import ModelTrainer
from sagemaker.train.aws_batch.exception import NoTrainingJob
from sagemaker.train.aws_batch.training_queue import TrainingQueue

queued_job.POLL_IN_SECONDS = 0.5  # instead of 5
settings = json.loads(sys.argv[1])

def make_trainer(name, source):
    return ModelTrainer(
        training_image="image", role=settings["role"], base_job_name=name,
        hyperparameters={"sagemaker_program": "train.py", "sagemaker_submit_directory": source},
        compute=Compute(instance_type="ml.m5.large", instance_count=1, volume_size_in_gb=1),
        stopping_condition=StoppingCondition(max_runtime_in_seconds=600),
        output_data_config=OutputDataConfig(s3_output_path="s3://bucket/output"),
    )

queue = TrainingQueue("sdk")
endless = queue.submit(make_trainer("endless", settings["endless"]), inputs=None, share_identifier="A", priority=1)
jobs = queue.map(
    make_trainer("good", settings["good"]), [None, None], job_names=["good-1", "good-2"], share_identifier="B",
    tags={"team": "b"},
)
bad = queue.submit(make_trainer("bad", settings["bad"]), inputs=None, job_name="bad", share_identifier="B", priority=0)
results = {"status": endless.describe()["status"]}
try:
    bad.get_model_trainer()
except NoTrainingJob:
    results["waits"] = True
results["by_share"] = sorted(job.job_name for job in queue.list_jobs_by_share(status=None, share_identifier="B"))
results["found"] = queue.get_job("good-2").job_arn == jobs[1].job_arn
results["updated"] = jobs[1].update(7)["jobName"]
endless.terminate("enough")
results["results"] = [job.result(timeout=300)["status"] for job in jobs]
trainer = jobs[0].get_model_trainer()
results["model"] = trainer._latest_training_job.model_artifacts.s3_model_artifacts
results["training_job"] = trainer._latest_training_job.training_job_name
for name, job in (("bad", bad), ("endless", endless)):
    try:
        job.result(timeout=300)
    except RuntimeError as failure:
        results[name] = str(failure)
try:
    queue.submit(make_trainer("no-share", settings["good"]), inputs=None)
except Exception as failure:
    results["refused"] = str(failure)
print("\\n" + json.dumps(results), flush=True)
"""
CONFIG = """
SchemaVersion: '1.0'
SageMaker:
  PythonSDK:
    Modules:
      TelemetryOptOut: true
"""
GOOD = "import os, pathlib; pathlib.Path(os.environ['SM_MODEL_DIR'], 'model').write_text('done')"


def _create_queue(client: Any, name: str) -> None:
    client.create_service_environment(
        serviceEnvironmentName=name,
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}],
    )
    policy = client.create_scheduling_policy(name=name, fairsharePolicy={"shareDecaySeconds": 600})["arn"]
    client.create_job_queue(
        jobQueueName=name,
        priority=1,
        schedulingPolicyArn=policy,
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": name}],
        jobQueueType="SAGEMAKER_TRAINING",
    )


@pytest.mark.soak
def test_training_queue_of_the_sdk(
    drydock: Any, start_python: Callable[..., Any], scripts: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    env = {"SAGEMAKER_VALIDATE_ROLE": "false", "SAGEMAKER_USER_CONFIG_OVERRIDE": str(tmp_path / "config.yaml")}
    _create_queue(drydock.client("batch"), "sdk")
    sources = {"endless": "import time; time.sleep(600)", "good": GOOD, "bad": scripts["fails"]}
    settings = {name: drydock.upload_source(name, script) for name, script in sources.items()}
    with start_python(CLIENT, {**settings, "role": ROLE}, **env) as process:
        output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    results = json.loads(output.strip().splitlines()[-1])
    assert results["waits"] and results["found"] and results["updated"] == "good-2"
    assert results["by_share"] == ["bad", "good-1", "good-2"]
    assert results["results"] == ["SUCCEEDED", "SUCCEEDED"]
    assert results["training_job"].startswith("AWSBatchgood-") and len(results["training_job"]) <= 63
    assert drydock.read_archive(results["model"]) == {"model": b"done"}
    assert results["bad"].startswith("Received status from SageMaker: AlgorithmError: ExecuteUserScriptError")
    assert results["endless"] == "enough"
    assert "shareIdentifier must be specified" in results["refused"]


AWS = shutil.which("aws", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.soak
@pytest.mark.skipif(AWS is None, reason="`aws` is missing: apt-get install awscli")
def test_commands_of_the_how_to_page(drydock: Any, aws: dict[str, str], tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "training-queues.md").read_text(encoding="utf-8")
    make, quotas, remove = re.findall(r"^```\n(aws .*?)^```$", page, re.DOTALL | re.MULTILINE)
    env = {**aws, "PATH": f"{Path(str(AWS)).parent}{os.pathsep}{aws['PATH']}"}

    def run(script: str) -> None:
        result = subprocess.run(["bash", "-e"], input=script, env=env, cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr

    run(make)
    run(quotas)
    client = drydock.client("batch")
    assert {queue["jobQueueName"] for queue in client.describe_job_queues()["jobQueues"]} >= {"training", "quotas"}
    (share,) = client.list_quota_shares(jobQueue="quotas")["quotaShares"]
    assert share["resourceSharingConfiguration"] == {"strategy": "LEND_AND_BORROW", "borrowLimit": 100}
    disable, delete, *environment = remove.splitlines()
    run(f"{disable}\n{delete}")
    drydock.wait_until("the deletion", lambda: not client.describe_job_queues(jobQueues=["training"])["jobQueues"])
    run("\n".join(environment))


@pytest.mark.skipif(AWS is None, reason="`aws` is missing: apt-get install awscli")
def test_job_of_the_cli(drydock: Any, aws: dict[str, str], tmp_path: Path) -> None:
    def run(*words: str) -> Any:
        command = [sys.executable, str(AWS), "batch", *words]
        result = forking.run(command, env=aws, cwd=tmp_path, capture_output=True, text=True)
        if "invalid choice" in result.stderr or "Invalid choice" in result.stderr:
            pytest.skip("this AWS CLI is older than service jobs")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout) if result.stdout.strip() else None

    limits = "maxCapacity=1,capacityUnit=NUM_INSTANCES"
    run("create-service-environment", "--service-environment-name", "cli", "--service-environment-type",
        "SAGEMAKER_TRAINING", "--capacity-limits", limits)  # fmt: skip
    run("create-job-queue", "--job-queue-name", "cli", "--job-queue-type", "SAGEMAKER_TRAINING", "--priority", "1",
        "--service-environment-order", "order=1,serviceEnvironment=cli")  # fmt: skip
    (tmp_path / "payload.json").write_text(json.dumps(drydock.build_request("cli", GOOD)))
    job_id = run("submit-service-job", "--job-name", "cli", "--job-queue", "cli", "--service-job-type",
                 "SAGEMAKER_TRAINING", "--service-request-payload", "file://payload.json")["jobId"]  # fmt: skip
    drydock.wait_until(
        "the end", lambda: run("describe-service-job", "--job-id", job_id)["status"] in ("SUCCEEDED", "FAILED")
    )
    jobs = run("list-service-jobs", "--job-queue", "cli", "--job-status", "SUCCEEDED")["jobSummaryList"]
    assert [job["jobId"] for job in jobs] == [job_id]
    assert run("get-job-queue-snapshot", "--job-queue", "cli")["frontOfQueue"]["jobs"] == []
