"""Test drydock with the amazon provider's unmodified operators, sensor and hook, in a real run of a DAG.

One process runs all tasks (`dag.test`: real supervision of tasks, real triggers) with its own Airflow database.
The connection's extra names the server, as a user would configure it. A comment says where that does not suffice.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tools import forking

TASKS = """
import copy, json, pathlib
from airflow.providers.amazon.aws.operators.sagemaker import (
    SageMakerEndpointOperator, SageMakerProcessingOperator, SageMakerTrainingOperator, SageMakerTransformOperator
)
from airflow.providers.amazon.aws.sensors.sagemaker import SageMakerEndpointSensor, SageMakerTrainingSensor
from airflow.sdk import DAG, chain

requests = json.loads(pathlib.Path(__file__).with_name("requests.json").read_text())

def train(name, job, **options):
    config = {**copy.deepcopy(requests["training"][name]), "TrainingJobName": job}
    if "CheckpointConfig" in config:
        config["CheckpointConfig"]["S3Uri"] += f"/{job}"
    arguments = {"task_id": job, "config": config, "check_interval": 1, "action_if_job_exists": "fail"}
    return SageMakerTrainingOperator(**arguments, **options)

def process(name, job, **options):
    config = {**copy.deepcopy(requests["processing"][name]), "ProcessingJobName": job}
    files = [{"output_name": "out", "file_name": "report.json", "result_name": "report"}]
    arguments = {"task_id": job, "config": config, "check_interval": 1, "output_files_to_xcom": files}
    return SageMakerProcessingOperator(**arguments, **options)

def transform(name, job, **options):
    config = copy.deepcopy(requests["transform"][name])
    config["Model"]["ModelName"] = config["Transform"]["ModelName"] = config["Transform"]["TransformJobName"] = job
    return SageMakerTransformOperator(task_id=job, config=config, check_interval=1, **options)

def deploy(task_id, version, endpoint="deployed", **options):
    config = {"Endpoint": {"EndpointName": endpoint, "EndpointConfigName": version}}
    variant = {"VariantName": "main", "ModelName": version, "InstanceType": "ml.m5.large", "InitialInstanceCount": "1"}
    config["Model"] = {**copy.deepcopy(requests["transform"]["upper"]["Model"]), "ModelName": version}
    config["EndpointConfig"] = {"EndpointConfigName": version, "ProductionVariants": [variant]}
    arguments = {"check_interval": 1, "max_ingestion_time": 120, **options}
    return SageMakerEndpointOperator(task_id=task_id, config=config, **arguments)

def sense(task_id, job, **options):
    return SageMakerTrainingSensor(task_id=task_id, job_name=job, poke_interval=1, **options)
"""
DAG = (
    TASKS
    + """
# The tasks run one after the other, also after a failure.
with DAG("stock", schedule=None, default_args={"trigger_rule": "all_done"}) as dag:
    tasks = []
    for kind, deferrable in (("waiting", False), ("deferred", True)):
        options = {"deferrable": deferrable}
        tasks += [train(name, f"{name}-{kind}", print_log=deferrable, **options) for name in requests["training"]]
        tasks += [process(name, f"{name}-{kind}", **options) for name in requests["processing"]]
        tasks += [transform(name, f"{name}-{kind}", **options) for name in requests["transform"]]
    tasks += [
        train("fine", "sensed", wait_for_completion=False, print_log=False),
        sense("sensor_polls", "sensed", print_log=False),
        sense("sensor_reads", "fine-waiting"),
        sense("sensor_broken", "broken-waiting", print_log=False),
        sense("sensor_unknown", "unknown", print_log=False),
    ]
    tasks += [
        deploy("created", "version-1"),
        deploy("updated", "version-2", operation="update", deferrable=True),
        SageMakerEndpointSensor(task_id="endpoint_serves", endpoint_name="deployed", poke_interval=1),
    ]
    chain(*tasks)
"""
)
SHORT_DAG = (
    TASKS
    + """
with DAG("short", schedule=None, default_args={"trigger_rule": "all_done"}) as dag:
    chain(
        train("fine", "short-fine", deferrable=True),
        train("broken", "short-broken", print_log=False),
        process("reports", "short-reports", deferrable=True),
        transform("upper", "short-upper"),
        sense("short-sensor", "short-fine"),
        deploy("short-created", "short-version", "short-deployed"),
    )
"""
)
BOTH_KINDS = pytest.mark.parametrize("kind", ["waiting", "deferred"])


def build_transform(drydock: Any, name: str, expression: str) -> dict[str, Any]:
    """Upload a model whose answer to a body is an expression; return the requests of the model and of its job."""
    code = f"def model_fn(model_dir): pass\ndef transform_fn(model, body, content_type, accept): return {expression}\n"
    uri = drydock.put(f"transform/{name}/model.tar.gz", drydock.pack_archive({"code/inference.py": code}))
    drydock.put(f"transform/{name}/in/a.txt", b"text")
    data_source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://bucket/transform/{name}/in/"}
    role = "arn:aws:iam::123456789012:role/drydock"
    return {
        "Model": {"PrimaryContainer": {"Image": "image", "ModelDataUrl": uri}, "ExecutionRoleArn": role},
        "Transform": {
            "TransformInput": {"DataSource": {"S3DataSource": data_source}, "ContentType": "text/plain"},
            "TransformOutput": {"S3OutputPath": f"s3://bucket/transform/{name}/out"},
            "TransformResources": {
                "InstanceType": "ml.m5.large",
                "InstanceCount": "1",
            },  # the operator converts it to a number
        },
    }


@pytest.fixture(scope="module")
def env(
    make_airflow_env: Callable[[str, str], dict[str, str]], put_airflow_database: Callable[[Path], None]
) -> dict[str, str]:
    """Return the environment of an Airflow with a database and a connection to the server."""
    env = make_airflow_env("stock", DAG)
    put_airflow_database(Path(env["AIRFLOW_HOME"]))
    return env


@pytest.fixture(scope="module")
def run(
    drydock: Any,
    aws: Any,
    env: Any,
    scripts: Any,
    endless: Any,
    waits_for_interruption: Any,
    build_processing: Any,
    programs: Any,
    airflow_program: str,
) -> SimpleNamespace:
    """Run the DAG; return the states of its tasks, their XComs, and the log."""
    folder = Path(env["AIRFLOW__CORE__DAGS_FOLDER"])
    training = {
        "spot": drydock.build_request(
            "z",
            scripts["counter"],
            **drydock.build_spot_fields("z"),
            Environment={"GOAL": "60", **waits_for_interruption},
        ),
        "stopped": drydock.build_request("w", scripts["counter"], Environment=endless),
        "fine": drydock.build_request("x", scripts["counter"]),
        "broken": drydock.build_request("y", scripts["fails"]),
    }
    reports = build_processing(drydock, "reports", programs["reports"])
    fails = build_processing(drydock, "fails", programs["fails"])
    transform = {
        "upper": build_transform(drydock, "upper", "body.upper()"),
        "broken-model": build_transform(drydock, "broken-model", "1 / 0"),
    }
    requests = {"training": training, "processing": {"reports": reports, "fails": fails}, "transform": transform}
    (folder / "requests.json").write_text(json.dumps(requests))
    full_env = {**aws, **env}
    command = [sys.executable, "-c", airflow_program, str(folder), "stock"]
    with (folder / "log").open("w") as log:
        process = forking.Popen(command, env=full_env, stdout=log, stderr=log, cwd=folder)
    try:
        for kind in ("waiting", "deferred"):
            drydock.wait_for_line(f"spot-{kind}", "from 0", 300)  # eight tasks run before the second one
            # A job that is interrupted before its first checkpoint would start at 0 again, and wait at HOLD.
            drydock.wait_until("a checkpoint", lambda kind=kind: drydock.list_keys(f"checkpoints/z/spot-{kind}/"))
            drydock.send_command("interrupt", job=f"spot-{kind}", no_capacity_s=0.1)
            drydock.wait_for_line(f"stopped-{kind}", "from 0")
            drydock.stop_job(f"stopped-{kind}")
        code, log_text = process.wait(300), (folder / "log").read_text()
    finally:
        process.kill()
        process.wait()
    assert code == 0, log_text[-4000:]
    return SimpleNamespace(log=log_text, **json.loads(log_text.splitlines()[-1]))


def test_each_operator_and_sensor_runs(
    drydock: Any,
    aws: Any,
    make_airflow_env: Any,
    scripts: Any,
    build_processing: Any,
    programs: Any,
    put_airflow_database: Any,
    airflow_program: str,
) -> None:
    """One task of each kind, most of them deferred. All others are in `run`."""
    env = make_airflow_env("short", SHORT_DAG)
    folder = Path(env["AIRFLOW__CORE__DAGS_FOLDER"])
    training = {
        "fine": drydock.build_request("short-x", scripts["counter"]),
        "broken": drydock.build_request("short-y", scripts["fails"]),
    }
    processing = {"reports": build_processing(drydock, "short-reports", programs["reports"])}
    requests = {
        "training": training,
        "processing": processing,
        "transform": {"upper": build_transform(drydock, "short", "body.upper()")},
    }
    (folder / "requests.json").write_text(json.dumps(requests))
    put_airflow_database(Path(env["AIRFLOW_HOME"]))
    command = [sys.executable, "-c", airflow_program, str(folder), "short"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    result = forking.run(command, env={**aws, **env}, cwd=folder, text=True, timeout=300, **pipes)
    assert result.returncode == 0, result.stdout[-4000:]
    run = json.loads(result.stdout.splitlines()[-1])
    good = ("short-fine", "short-reports", "short-upper", "short-sensor", "short-created")
    assert run["states"] == {**dict.fromkeys(good, "success"), "short-broken": "failed"}, result.stdout[-4000:]
    xcoms = run["xcoms"]
    job = xcoms["short-fine"]["Training"]
    assert job["TrainingJobStatus"] == "Completed"
    assert drydock.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": b"30"}
    assert "short-broken" not in xcoms and "ExitCode 7" in result.stdout
    # The provider reads this with a client without the connection's endpoint. AWS_ENDPOINT_URL names it.
    assert xcoms["short-reports"]["OutputFiles"] == {"report": {"rows": 3}}
    assert xcoms["short-upper"]["Transform"]["TransformJobStatus"] == "Completed"
    assert drydock.get("s3://bucket/transform/short/out/a.txt.out") == b"TEXT"
    assert "loss=0.25;" in result.stdout and "Billable seconds:" in result.stdout
    response = drydock.client("sagemaker-runtime").invoke_endpoint(EndpointName="short-deployed", Body=b"text")
    assert response["Body"].read() == b"TEXT"


@pytest.mark.soak
@BOTH_KINDS
def test_training_succeeds(run: SimpleNamespace, drydock: Any, kind: str) -> None:
    assert run.states[f"fine-{kind}"] == "success"
    job = run.xcoms[f"fine-{kind}"]["Training"]
    assert job["TrainingJobStatus"] == "Completed" and job["TrainingJobName"] == f"fine-{kind}"
    assert drydock.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": b"30"}


@pytest.mark.soak
@BOTH_KINDS
def test_failed_training_fails_its_task(run: SimpleNamespace, kind: str) -> None:
    assert run.states[f"broken-{kind}"] == "failed" and f"broken-{kind}" not in run.xcoms
    assert "ExitCode 7" in run.log and "the script fails" in run.log


@pytest.mark.soak
@BOTH_KINDS
def test_interrupted_training_resumes(run: SimpleNamespace, drydock: Any, kind: str) -> None:
    assert run.states[f"spot-{kind}"] == "success"
    job = run.xcoms[f"spot-{kind}"]["Training"]
    assert "Interrupted" in [transition["Status"] for transition in job["SecondaryStatusTransitions"]]
    assert drydock.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": b"60"}


@pytest.mark.soak
def test_stopped_training_is_a_success_if_polled_and_a_failure_if_deferred(run: SimpleNamespace) -> None:
    assert run.xcoms["stopped-waiting"]["Training"]["TrainingJobStatus"] == "Stopped"
    assert run.states["stopped-deferred"] == "failed" and "stopped-deferred" not in run.xcoms


@pytest.mark.soak
@BOTH_KINDS
def test_processing_returns_its_report(run: SimpleNamespace, kind: str) -> None:
    assert run.states[f"reports-{kind}"] == "success"
    result = run.xcoms[f"reports-{kind}"]
    assert result["Processing"]["ProcessingJobStatus"] == "Completed"
    # The provider reads this with a client without the connection's endpoint. AWS_ENDPOINT_URL names it.
    assert result["OutputFiles"] == {"report": {"rows": 3}}
    assert run.states[f"fails-{kind}"] == "failed" and f"fails-{kind}" not in run.xcoms


@pytest.mark.soak
@BOTH_KINDS
def test_transform_returns_job_and_model(run: SimpleNamespace, drydock: Any, kind: str) -> None:
    assert run.states[f"upper-{kind}"] == "success"
    result = run.xcoms[f"upper-{kind}"]
    assert result["Transform"]["TransformJobStatus"] == "Completed" and result["Model"]["ModelName"] == f"upper-{kind}"
    assert drydock.get("s3://bucket/transform/upper/out/a.txt.out") == b"TEXT"
    assert run.states[f"broken-model-{kind}"] == "failed" and f"broken-model-{kind}" not in run.xcoms


@pytest.mark.soak
def test_sensor_succeeds_fails_and_reads_the_log(run: SimpleNamespace) -> None:
    assert run.states["sensor_polls"] == run.states["sensor_reads"] == "success"
    assert "loss=0.25;" in run.log and "Billable seconds:" in run.log
    assert run.states["sensor_broken"] == run.states["sensor_unknown"] == "failed"


@pytest.mark.soak
def test_endpoint_is_created_updated_and_serves(run: SimpleNamespace, drydock: Any) -> None:
    assert [run.states[task] for task in ("created", "updated", "endpoint_serves")] == ["success"] * 3
    endpoint = drydock.client("sagemaker").describe_endpoint(EndpointName="deployed")
    assert (endpoint["EndpointStatus"], endpoint["EndpointConfigName"]) == ("InService", "version-2")
    response = drydock.client("sagemaker-runtime").invoke_endpoint(EndpointName="deployed", Body=b"text")
    assert response["Body"].read() == b"TEXT"


HOOK = """
import json, logging, sys
from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook

logging.basicConfig(level=logging.INFO, force=True)
fine, bad = json.loads(sys.argv[1])
hook = SageMakerHook(aws_conn_id="aws_default")
hook.create_training_job(fine, wait_for_completion=True, print_log=False, check_interval=0.2)
# The hook polls the state of a running job only every 30 s while it reads the log: so the job has to have ended.
states = hook.non_terminal_states, hook.training_failed_states
name = fine["TrainingJobName"]
hook.check_training_status_with_log(name, *states, wait_for_completion=True, check_interval=0)
names = [item["TrainingJobName"] for item in hook.list_training_jobs(name_contains="hook-")]
try:
    hook.create_training_job(bad, wait_for_completion=True, print_log=False, check_interval=0.2)
    error = None
except Exception as failure:
    error = str(failure)
print("\\n" + json.dumps({"names": names, "error": error}))
"""


def test_hook_creates_lists_and_reports_jobs(
    drydock: Any, env: dict[str, str], start_python: Callable[..., Any], scripts: dict[str, str]
) -> None:
    drydock.put("hook/data.csv", b"1")
    channels = [drydock.build_channel("train", "s3://bucket/hook/")]
    fine = drydock.build_request("hook-fine", "print('printed by the job')", InputDataConfig=channels)
    client = start_python(HOOK, [fine, drydock.build_request("hook-bad", scripts["fails"])], **env)
    output, _ = client.communicate(timeout=120)
    assert client.returncode == 0, output[-3000:]
    result = json.loads(output.splitlines()[-1])
    assert result["names"] == ["hook-fine"] and "ExitCode 7" in result["error"]
    assert "printed by the job" in output and "Billable seconds" in output
