"""The sagemaker SDK 3, unmodified: ModelTrainer with its drivers, and its processors.

Its drivers know their files by absolute paths below /opt/ml: they need an executor that can mount it there.
"""

import contextlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

CLIENT = """
import concurrent.futures, json, logging, sys
from sagemaker.core.helper.session_helper import Session
from sagemaker.core.processing import ProcessingS3Input, ScriptProcessor
from sagemaker.core.shapes import ProcessingOutput, ProcessingS3Output
from sagemaker.core.training.configs import (
    CheckpointConfig, Compute, InputData, OutputDataConfig, SourceCode, StoppingCondition,
)
from sagemaker.train import ModelTrainer

logging.basicConfig(level=logging.INFO)
given = json.loads(sys.argv[1])
told = {}

def trainer(name, script, spot=False, **more):
    limits = {"max_runtime_in_seconds": 600, **({"max_wait_time_in_seconds": 900} if spot else {})}
    checkpoints = {"checkpoint_config": CheckpointConfig(s3_uri=f"s3://bucket/checkpoints/{name}")} if spot else {}
    return ModelTrainer(
        training_image="image", role=given["role"], base_job_name=name,
        source_code=SourceCode(source_dir=given["source"], entry_script=script),
        compute=Compute(
            instance_type="ml.m5.large", instance_count=1, volume_size_in_gb=1, enable_managed_spot_training=spot,
        ),
        stopping_condition=StoppingCondition(**limits),
        output_data_config=OutputDataConfig(s3_output_path="s3://bucket/output"),
        **checkpoints, **more,
    )

def begin(name, script, **more):
    made = trainer(name, script, **more)
    made.train(wait=False)
    job = made._latest_training_job
    print("\\nbegun", job.training_job_name, flush=True)
    return job

def ended(job):
    try:
        job.wait(poll=1)
        error = ""
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    job.refresh()
    states = [one.status for one in job.secondary_status_transitions]
    return {"name": job.training_job_name, "status": job.training_job_status, "states": states, "error": error}

def processor(code, name):
    made = ScriptProcessor(
        role=given["role"], image_uri="image", command=["python3"], instance_count=1, instance_type="ml.m5.large",
        base_job_name=name, sagemaker_session=Session(),
    )
    there = ProcessingS3Output(
        s3_uri=f"s3://bucket/{name}/out", local_path="/opt/ml/processing/output/out", s3_upload_mode="EndOfJob"
    )
    output = ProcessingOutput(output_name="out", s3_output=there)
    return lambda: made.run(code=code, outputs=[output], wait=True, logs=True)

# They ask for their job's state each 10 s: meanwhile there is more to do.
threads = concurrent.futures.ThreadPoolExecutor()
breaks, reports = map(threads.submit, [processor(given["fails"], "breaks"), processor(given["reports"], "reports")])
fine = trainer("fine", "train.py", hyperparameters={"depth": 3, "words": "two words"})
fine.train(input_data_config=[InputData(channel_name="train", data_source=given["rows"])], wait=True, logs=True)
job = fine._latest_training_job
told["fine"] = {**ended(job), "model": job.model_artifacts.s3_model_artifacts}

jobs = {
    "spot": begin("spot", "count.py", spot=True, environment=given["held"]),
    "stopped": begin("stopped", "count.py", environment={"GOAL": "1000000"}),
    "broken": begin("broken", "fails.py"),
}
told.update({name: ended(job) for name, job in jobs.items()})
try:
    trainer("nobody", "train.py").train(
        input_data_config=[InputData(channel_name="train", data_source="s3://bucket/not-there/")], logs=False
    )
except Exception as raised:
    told["nobody"] = str(raised)
try:
    backwards = trainer("backwards", "train.py", spot=True)
    backwards.stopping_condition = StoppingCondition(max_runtime_in_seconds=600, max_wait_time_in_seconds=60)
    backwards.train()
except Exception as raised:
    told["backwards"] = str(raised)

try:
    breaks.result()
except Exception as raised:
    told["breaks"] = str(raised)
reports.result()
print("\\n" + json.dumps(told), flush=True)
"""
TRAIN = """
import json, os, pathlib
rows = pathlib.Path(os.environ["SM_CHANNEL_TRAIN"], "rows.csv").read_text()
print("trained on", rows, "with", json.dumps(json.loads(os.environ["SM_HPS"]), sort_keys=True), flush=True)
pathlib.Path(os.environ["SM_MODEL_DIR"], "model").write_text(rows)
"""
CONFIG = """
SchemaVersion: '1.0'
SageMaker:
  PythonSDK:
    Modules:
      TelemetryOptOut: true
      # The SDK asks STS for its default bucket's name, at AWS's own address whatever AWS_ENDPOINT_URL says.
      Session: {DefaultS3Bucket: bucket}
"""
ROLE = "arn:aws:iam::123456789012:role/training"

pytestmark = pytest.mark.skipif(
    not (shutil.which("pip3") or shutil.which("pip")), reason="the SDK's driver refuses a machine without pip"
)


@pytest.fixture(scope="module")
def given(scripts: Any, programs: Any, held: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a person has on the disk."""
    folder = tmp_path_factory.mktemp("project")
    # On SageMaker the folder of the checkpoints is this one, and no variable says so.
    counter = scripts["counter"].replace('os.environ["SM_CHECKPOINT_DIR"]', "'/opt/ml/checkpoints'")
    files = {
        "source/train.py": TRAIN, "source/count.py": counter, "source/fails.py": scripts["fails"],
        "rows/rows.csv": "1,2", "reports.py": programs["reports"], "fails.py": programs["fails"], "config.yaml": CONFIG,
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    names = {"source": "source", "rows": "rows", "reports": "reports.py", "fails": "fails.py", "config": "config.yaml"}
    return {"role": ROLE, "held": held, **{name: str(folder / path) for name, path in names.items()}}


@contextlib.contextmanager
def running(process: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    """The process, gone at the end."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def ran(drydock: Any, python: Callable[..., Any], given: dict[str, Any]) -> SimpleNamespace:
    """What the SDK told of its jobs, and all that it printed."""
    if not drydock.get_health()["opt_ml"]:
        pytest.skip("the process executor cannot mount /opt/ml here; the SDK's drivers need it, or the docker executor")
    lines = []
    # IAM here is moto's, which cannot say what a role may do: the SDK is told not to ask.
    settings = {"SAGEMAKER_VALIDATE_ROLE": "false", "SAGEMAKER_USER_CONFIG_OVERRIDE": given["config"]}
    with running(python(CLIENT, given, **settings)) as client:
        for line in client.stdout:
            lines.append(line)
            _, _, begun = line.rpartition("begun ")
            if begun.startswith(("spot-", "stopped-")):
                drydock.wait_for_line(begun.strip(), "from 0")
            if begun.startswith("spot-"):
                # Interrupted between its word and its first checkpoint, it would begin at 0 again, and wait at HOLD.
                drydock.wait_until("a checkpoint", lambda: drydock.list_keys("checkpoints/spot/"))
                drydock.send_command("interrupt", job=begun.strip(), capacity_back_after_s=0.1)
            if begun.startswith("stopped-"):
                drydock.stop_job(begun.strip())
    assert lines and lines[-1].startswith("{"), "".join(lines)[-4000:]
    return SimpleNamespace(log="".join(lines), **json.loads(lines[-1]))


def test_a_training_job_with_its_drivers_and_its_log(ran: SimpleNamespace, drydock: Any) -> None:
    assert ran.fine["status"] == "Completed" and ran.fine["error"] == ""
    assert drydock.read_archive(ran.fine["model"]) == {"model": b"1,2"}
    said = " ".join(ran.log.split())
    assert 'trained on 1,2 with {"depth": 3, "words": "two words"}' in said
    assert "Running Basic Script driver" in said and "Training Container Execution Completed" in said


def test_a_failure(ran: SimpleNamespace) -> None:
    assert ran.broken["status"] == "Failed" and ran.broken["error"].startswith("FailedStatusError")
    assert "hull is leaking" in ran.broken["error"] or "exit code" in ran.broken["error"].lower()


def test_a_stop(ran: SimpleNamespace) -> None:
    assert ran.stopped["status"] == "Stopped" and ran.stopped["states"][-2:] == ["Uploading", "Stopped"]


def test_an_interruption(ran: SimpleNamespace, drydock: Any) -> None:
    assert ran.spot["status"] == "Completed" and ran.spot["states"].count("Interrupted") == 1
    starts = [line for line in drydock.read_full_log(ran.spot["name"]) if line.startswith("from")]
    assert len(starts) == 2 and starts[0] == "from 0" and starts[1] != "from 0"


def test_what_is_refused(ran: SimpleNamespace) -> None:
    assert "No S3 objects found" in ran.nobody
    assert "It must be above or equal to MaxRuntimeInSeconds" in ran.backwards


def test_processing(ran: SimpleNamespace, drydock: Any) -> None:
    assert drydock.get("s3://bucket/reports/out/report.json") == b'{"rows": 3}' and "reported" in ran.log
    # The SDK (3.27.0) raises, but stumbles over an exception of its own that is not where it looks for it.
    assert ran.breaks
    failed = drydock.client("sagemaker").list_processing_jobs(NameContains="breaks")["ProcessingJobSummaries"]
    assert [("ExitCode 7" in one["FailureReason"], one["ProcessingJobStatus"]) for one in failed] == [(True, "Failed")]
    assert drydock.list_keys("breaks/out") == []


def test_telemetry_is_off(ran: SimpleNamespace) -> None:
    # That nobody was called is what the proxy watches.
    assert "will collect telemetry" not in ran.log
