"""Test drydock with the amazon provider's unmodified operator and sensor of tuning jobs, in a real run of a DAG."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tools import forking

pytestmark = pytest.mark.soak
DAG = """
import copy, json, pathlib
from airflow.providers.amazon.aws.operators.sagemaker import SageMakerTuningOperator
from airflow.providers.amazon.aws.sensors.sagemaker import SageMakerTuningSensor
from airflow.sdk import DAG, chain

requests = json.loads(pathlib.Path(__file__).with_name("requests.json").read_text())

def tune(name, task_id, job=None, **options):
    config = {**copy.deepcopy(requests[name]), "HyperParameterTuningJobName": job or task_id}
    return SageMakerTuningOperator(task_id=task_id, config=config, check_interval=1, **options)

# The tasks run one after the other, also after a failure.
with DAG("tuning", schedule=None, default_args={"trigger_rule": "all_done"}) as dag:
    chain(
        tune("fine", "fine-waiting"),
        tune("fine", "fine-deferred", deferrable=True),
        tune("broken", "broken-waiting"),
        tune("broken", "broken-deferred", deferrable=True),
        tune("fine", "duplicate", "fine-waiting"),
        tune("fine", "sensed", wait_for_completion=False),
        SageMakerTuningSensor(task_id="sensor", job_name="sensed", poke_interval=1),
        SageMakerTuningSensor(task_id="sensor-broken", job_name="broken-waiting", poke_interval=1),
    )
"""
SCRIPT = """
import sys
print(f"loss={float(sys.argv[sys.argv.index('--rate') + 1])};")
"""


def build_request(drydock: Any, name: str, script: str) -> dict[str, Any]:
    """Return the request of a tuning job, with numbers as texts: the operator converts them."""
    source = drydock.upload_source(name, script)
    channel = drydock.build_channel("train", drydock.put(f"{name}/rows.csv", b"1,2"))
    metrics = [{"Name": "loss", "Regex": "loss=(.*);"}]
    return {
        "HyperParameterTuningJobConfig": {
            "Strategy": "Random",
            "HyperParameterTuningJobObjective": {"Type": "Minimize", "MetricName": "loss"},
            "ResourceLimits": {"MaxNumberOfTrainingJobs": "2", "MaxParallelTrainingJobs": "2"},
            "ParameterRanges": {"ContinuousParameterRanges": [{"Name": "rate", "MinValue": "0", "MaxValue": "1"}]},
        },
        "TrainingJobDefinition": {
            "AlgorithmSpecification": {
                "TrainingImage": "image",
                "TrainingInputMode": "File",
                "MetricDefinitions": metrics,
            },
            "RoleArn": "arn:aws:iam::123456789012:role/drydock",
            "InputDataConfig": [channel],
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/output"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": "1", "VolumeSizeInGB": "1"},
            "StoppingCondition": {"MaxRuntimeInSeconds": "600"},
            "StaticHyperParameters": {"sagemaker_program": "train.py", "sagemaker_submit_directory": source},
        },
    }


@pytest.fixture(scope="module")
def run(
    drydock: Any,
    aws: dict[str, str],
    scripts: dict[str, str],
    make_airflow_env: Callable[[str, str], dict[str, str]],
    put_airflow_database: Callable[[Path], None],
    airflow_program: str,
) -> SimpleNamespace:
    """Run the DAG; return the states of its tasks, their XComs, and the log."""
    env = make_airflow_env("tuning", DAG)
    folder = Path(env["AIRFLOW__CORE__DAGS_FOLDER"])
    requests = {
        "fine": build_request(drydock, "fine", SCRIPT),
        "broken": build_request(drydock, "broken", scripts["fails"]),
    }
    (folder / "requests.json").write_text(json.dumps(requests))
    put_airflow_database(Path(env["AIRFLOW_HOME"]))
    command = [sys.executable, "-c", airflow_program, str(folder), "tuning"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = forking.Popen(command, env={**aws, **env}, cwd=folder, text=True, **pipes)
    try:
        log, _ = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, log[-4000:]
    return SimpleNamespace(log=log, **json.loads(log.splitlines()[-1]))


@pytest.mark.parametrize("kind", ["waiting", "deferred"])
def test_operator_returns_the_description_with_the_best_trial(run: SimpleNamespace, drydock: Any, kind: str) -> None:
    assert run.states[f"fine-{kind}"] == "success"
    job = run.xcoms[f"fine-{kind}"]["Tuning"]
    assert job["HyperParameterTuningJobStatus"] == "Completed" and job["TrainingJobStatusCounters"]["Completed"] == 2
    best = drydock.describe_job(job["BestTrainingJob"]["TrainingJobName"])
    assert best["TuningJobArn"] == job["HyperParameterTuningJobArn"]


@pytest.mark.parametrize("kind", ["waiting", "deferred"])
def test_failed_tuning_job_fails_its_task(run: SimpleNamespace, kind: str) -> None:
    assert run.states[f"broken-{kind}"] == "failed" and f"broken-{kind}" not in run.xcoms
    assert "All training jobs failed." in run.log


def test_name_in_use_fails_the_task(run: SimpleNamespace) -> None:
    assert run.states["duplicate"] == "failed" and "with the name, fine-waiting, already exists" in run.log


def test_sensor_succeeds_and_fails(run: SimpleNamespace) -> None:
    assert run.states["sensed"] == run.states["sensor"] == "success"
    assert run.states["sensor-broken"] == "failed"
