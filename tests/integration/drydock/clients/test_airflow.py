"""The amazon provider's stock operators, sensor and hook, unmodified, in a real run of a DAG.

One process runs them all (`dag.test`: real supervision of tasks, real triggers) over an Airflow database of its own.
The connection's extra names the server, as a person would set it up; what that does not reach is said below.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

DAG = """
import copy, json, pathlib
from airflow.providers.amazon.aws.operators.sagemaker import (
    SageMakerProcessingOperator, SageMakerTrainingOperator, SageMakerTransformOperator
)
from airflow.providers.amazon.aws.sensors.sagemaker import SageMakerTrainingSensor
from airflow.sdk import DAG, chain

given = json.loads(pathlib.Path(__file__).with_name("given.json").read_text())

def train(name, job, **more):
    config = {**copy.deepcopy(given["training"][name]), "TrainingJobName": job}
    if "CheckpointConfig" in config:
        config["CheckpointConfig"]["S3Uri"] += f"/{job}"
    fixed = {"task_id": job, "config": config, "check_interval": 1, "action_if_job_exists": "fail"}
    return SageMakerTrainingOperator(**fixed, **more)

def process(name, job, **more):
    config = {**copy.deepcopy(given["processing"][name]), "ProcessingJobName": job}
    files = [{"output_name": "out", "file_name": "report.json", "result_name": "report"}]
    return SageMakerProcessingOperator(task_id=job, config=config, check_interval=1, output_files_to_xcom=files, **more)

def transform(name, job, **more):
    config = copy.deepcopy(given["transform"][name])
    config["Model"]["ModelName"] = config["Transform"]["ModelName"] = config["Transform"]["TransformJobName"] = job
    return SageMakerTransformOperator(task_id=job, config=config, check_interval=1, **more)

def sense(task_id, job, **more):
    return SageMakerTrainingSensor(task_id=task_id, job_name=job, poke_interval=1, **more)

# One after the other, whatever became of the one before.
with DAG("stock", schedule=None, default_args={"trigger_rule": "all_done"}) as dag:
    tasks = []
    for kind, deferrable in (("waiting", False), ("deferred", True)):
        how = {"deferrable": deferrable}
        tasks += [train(name, f"{name}-{kind}", print_log=deferrable, **how) for name in given["training"]]
        tasks += [process(name, f"{name}-{kind}", **how) for name in given["processing"]]
        tasks += [transform(name, f"{name}-{kind}", **how) for name in given["transform"]]
    tasks += [
        train("fine", "sensed", wait_for_completion=False, print_log=False),
        sense("sensor_polls", "sensed", print_log=False),
        sense("sensor_reads", "fine-waiting"),
        sense("sensor_broken", "broken-waiting", print_log=False),
        sense("sensor_nobody", "nobody", print_log=False),
    ]
    chain(*tasks)
"""
RUN = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session

bag = DagBag(json.loads(sys.argv[1]))
assert bag.import_errors == {}, bag.import_errors
run = bag.dags["stock"].test()
with create_session() as session:
    states = {ti.task_id: ti.state for ti in session.query(TaskInstance).filter_by(dag_id="stock", run_id=run.run_id)}
    found = session.query(XComModel).filter_by(dag_id="stock", run_id=run.run_id, key="return_value")
    xcoms = {one.task_id: XComModel.deserialize_value(one) for one in found}
print("\\n" + json.dumps({"states": states, "xcoms": xcoms}))
"""
BOTH = pytest.mark.parametrize("kind", ["waiting", "deferred"])


def transform(drydock: Any, name: str, answer: str) -> dict[str, Any]:
    """Requests for a model that says `answer` to a body, and for a job of it."""
    code = f"def model_fn(model_dir): pass\ndef transform_fn(model, body, content_type, accept): return {answer}\n"
    uri = drydock.put(f"transform/{name}/model.tar.gz", drydock.pack_archive({"code/inference.py": code}))
    drydock.put(f"transform/{name}/in/a.txt", b"ahoy")
    place = {"S3DataType": "S3Prefix", "S3Uri": f"s3://bucket/transform/{name}/in/"}
    role = "arn:aws:iam::123456789012:role/drydock"
    return {
        "Model": {"PrimaryContainer": {"Image": "image", "ModelDataUrl": uri}, "ExecutionRoleArn": role},
        "Transform": {
            "TransformInput": {"DataSource": {"S3DataSource": place}, "ContentType": "text/plain"},
            "TransformOutput": {"S3OutputPath": f"s3://bucket/transform/{name}/out"},
            "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": "1"},  # the operator makes a number
        },
    }


@pytest.fixture(scope="module")
def env(drydock: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An Airflow of its own, with the connection that points at the server."""
    home = tmp_path_factory.mktemp("airflow")
    (home / "dags").mkdir()
    (home / "dags" / "stock.py").write_text(DAG)
    extra = {"endpoint_url": drydock.url, "region_name": "us-east-1"}
    connection = {"conn_type": "aws", "login": "test", "password": "test", "extra": extra}
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(connection),
    }


@pytest.fixture(scope="module")
def ran(
    drydock: Any,
    aws: Any,
    env: Any,
    scripts: Any,
    forever: Any,
    held: Any,
    processing: Any,
    programs: Any,
    put_airflow_database: Any,
) -> SimpleNamespace:
    """What became of the tasks, their XComs, and the log of it all."""
    folder = Path(env["AIRFLOW__CORE__DAGS_FOLDER"])
    training = {
        "spot": drydock.build_request(
            "z", scripts["counter"], **drydock.build_spot_fields("z"), Environment={"GOAL": "60", **held}
        ),
        "stopped": drydock.build_request("w", scripts["counter"], Environment=forever),
        "fine": drydock.build_request("x", scripts["counter"]),
        "broken": drydock.build_request("y", scripts["fails"]),
    }
    reports = processing(drydock, "reports", programs["reports"])
    wrong = processing(drydock, "wrong", programs["fails"])
    told = {"louder": transform(drydock, "louder", "body.upper()"), "mute": transform(drydock, "mute", "1 / 0")}
    given = {"training": training, "processing": {"reports": reports, "wrong": wrong}, "transform": told}
    (folder / "given.json").write_text(json.dumps(given))
    everything = {**aws, **env}
    put_airflow_database(Path(env["AIRFLOW_HOME"]))
    command = [sys.executable, "-c", RUN, json.dumps(str(folder))]
    with (folder / "log").open("w") as log:
        run = subprocess.Popen(command, env=everything, stdout=log, stderr=log, cwd=folder)
    try:
        for kind in ("waiting", "deferred"):
            drydock.wait_for_line(f"spot-{kind}", "from 0", 300)  # eight tasks are run before the second one
            # Interrupted between its word and its first checkpoint, it would begin at 0 again, and wait at HOLD.
            drydock.wait_until("a checkpoint", lambda kind=kind: drydock.list_keys(f"checkpoints/z/spot-{kind}/"))
            drydock.send_command("interrupt", job=f"spot-{kind}", capacity_back_after_s=0.1)
            drydock.wait_for_line(f"stopped-{kind}", "from 0")
            drydock.stop_job(f"stopped-{kind}")
        code, said = run.wait(300), (folder / "log").read_text()
    finally:
        run.kill()
        run.wait()
    assert code == 0, said[-4000:]
    return SimpleNamespace(log=said, **json.loads(said.splitlines()[-1]))


@BOTH
def test_training(ran: SimpleNamespace, drydock: Any, kind: str) -> None:
    assert ran.states[f"fine-{kind}"] == "success"
    told = ran.xcoms[f"fine-{kind}"]["Training"]
    assert told["TrainingJobStatus"] == "Completed" and told["TrainingJobName"] == f"fine-{kind}"
    assert drydock.read_archive(told["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": b"30"}


@BOTH
def test_a_failed_training(ran: SimpleNamespace, kind: str) -> None:
    assert ran.states[f"broken-{kind}"] == "failed" and f"broken-{kind}" not in ran.xcoms
    assert "ExitCode 7" in ran.log and "the hull is leaking" in ran.log


@BOTH
def test_an_interrupted_training_resumes(ran: SimpleNamespace, drydock: Any, kind: str) -> None:
    assert ran.states[f"spot-{kind}"] == "success"
    told = ran.xcoms[f"spot-{kind}"]["Training"]
    assert "Interrupted" in [one["Status"] for one in told["SecondaryStatusTransitions"]]
    assert drydock.read_archive(told["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": b"60"}


def test_a_stopped_training(ran: SimpleNamespace) -> None:
    # The stock operator takes Stopped for a success where it polls, and for a failure where it is deferred.
    assert ran.xcoms["stopped-waiting"]["Training"]["TrainingJobStatus"] == "Stopped"
    assert ran.states["stopped-deferred"] == "failed" and "stopped-deferred" not in ran.xcoms


@BOTH
def test_processing(ran: SimpleNamespace, kind: str) -> None:
    assert ran.states[f"reports-{kind}"] == "success"
    told = ran.xcoms[f"reports-{kind}"]
    assert told["Processing"]["ProcessingJobStatus"] == "Completed"
    # Read with a client that the provider makes without the connection's endpoint: AWS_ENDPOINT_URL gives it.
    assert told["OutputFiles"] == {"report": {"rows": 3}}
    assert ran.states[f"wrong-{kind}"] == "failed" and f"wrong-{kind}" not in ran.xcoms


@BOTH
def test_transform(ran: SimpleNamespace, drydock: Any, kind: str) -> None:
    assert ran.states[f"louder-{kind}"] == "success"
    told = ran.xcoms[f"louder-{kind}"]
    assert told["Transform"]["TransformJobStatus"] == "Completed" and told["Model"]["ModelName"] == f"louder-{kind}"
    assert drydock.get("s3://bucket/transform/louder/out/a.txt.out") == b"AHOY"
    assert ran.states[f"mute-{kind}"] == "failed" and f"mute-{kind}" not in ran.xcoms


def test_the_sensor(ran: SimpleNamespace) -> None:
    assert ran.states["sensor_polls"] == ran.states["sensor_reads"] == "success"
    assert "loss=0.25;" in ran.log and "Billable seconds:" in ran.log
    assert ran.states["sensor_broken"] == ran.states["sensor_nobody"] == "failed"


HOOK = """
import json, logging, sys
from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook

logging.basicConfig(level=logging.INFO, force=True)
fine, bad = json.loads(sys.argv[1])
hook = SageMakerHook(aws_conn_id="aws_default")
hook.create_training_job(fine, wait_for_completion=True, print_log=False, check_interval=0.2)
# The hook's loop over a running job's log asks for its state every 30 s only: read the log of the ended one.
states = hook.non_terminal_states, hook.training_failed_states
name = fine["TrainingJobName"]
hook.check_training_status_with_log(name, *states, wait_for_completion=True, check_interval=0)
names = [item["TrainingJobName"] for item in hook.list_training_jobs(name_contains="hook-")]
try:
    hook.create_training_job(bad, wait_for_completion=True, print_log=False, check_interval=0.2)
    error = None
except Exception as raised:
    error = str(raised)
print("\\n" + json.dumps({"names": names, "error": error}))
"""


def test_the_hook(drydock: Any, env: dict[str, str], python: Callable[..., Any], scripts: dict[str, str]) -> None:
    drydock.put("hook/data.csv", b"1")
    channels = [drydock.build_channel("train", "s3://bucket/hook/")]
    fine = drydock.build_request("hook-fine", "print('said by the job')", InputDataConfig=channels)
    client = python(HOOK, [fine, drydock.build_request("hook-bad", scripts["fails"])], **env)
    said, _ = client.communicate(timeout=120)
    assert client.returncode == 0, said[-3000:]
    answer = json.loads(said.splitlines()[-1])
    assert answer["names"] == ["hook-fine"] and "ExitCode 7" in answer["error"]
    assert "said by the job" in said and "Billable seconds" in said
