"""Test drydock with the unmodified sagemaker SDK 3: ModelTrainer with its drivers, and its processors.

The drivers use absolute paths below /opt/ml, so they need an executor that can mount that folder.
"""

import contextlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

HEAD = """
import concurrent.futures, json, logging, sys
from sagemaker.core.helper.session_helper import Session
from sagemaker.core.processing import ProcessingS3Input, ScriptProcessor
from sagemaker.core.shapes import ProcessingOutput, ProcessingS3Output
from sagemaker.core.training.configs import (
    CheckpointConfig, Compute, InputData, OutputDataConfig, SourceCode, StoppingCondition,
)
from sagemaker.train import ModelTrainer

logging.basicConfig(level=logging.INFO)
settings = json.loads(sys.argv[1])
results = {}

def make_trainer(name, script, spot=False, **options):
    limits = {"max_runtime_in_seconds": 600, **({"max_wait_time_in_seconds": 900} if spot else {})}
    checkpoints = {"checkpoint_config": CheckpointConfig(s3_uri=f"s3://bucket/checkpoints/{name}")} if spot else {}
    return ModelTrainer(
        training_image="image", role=settings["role"], base_job_name=name,
        source_code=SourceCode(source_dir=settings["source"], entry_script=script),
        compute=Compute(
            instance_type="ml.m5.large", instance_count=1, volume_size_in_gb=1, enable_managed_spot_training=spot,
        ),
        stopping_condition=StoppingCondition(**limits),
        output_data_config=OutputDataConfig(s3_output_path="s3://bucket/output"),
        **checkpoints, **options,
    )

def start(name, script, **options):
    trainer = make_trainer(name, script, **options)
    trainer.train(wait=False)
    job = trainer._latest_training_job
    print("\\njob-started", job.training_job_name, flush=True)
    return job

def wait_for(job):
    try:
        job.wait(poll=1)
        error = ""
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
    job.refresh()
    states = [transition.status for transition in job.secondary_status_transitions]
    return {"name": job.training_job_name, "status": job.training_job_status, "states": states, "error": error}
"""
FINE = """
fine = make_trainer("fine", "train.py", hyperparameters={"depth": 3, "words": "two words"})
fine.train(input_data_config=[InputData(channel_name="train", data_source=settings["rows"])], wait=True, logs=True)
job = fine._latest_training_job
results["fine"] = {**wait_for(job), "model": job.model_artifacts.s3_model_artifacts}
"""
PRINT = """
print("\\n" + json.dumps(results), flush=True)
"""
PROCESSORS = """
def make_processor(code, name):
    processor = ScriptProcessor(
        role=settings["role"], image_uri="image", command=["python3"], instance_count=1, instance_type="ml.m5.large",
        base_job_name=name, sagemaker_session=Session(),
    )
    s3_output = ProcessingS3Output(
        s3_uri=f"s3://bucket/{name}/out", local_path="/opt/ml/processing/output/out", s3_upload_mode="EndOfJob"
    )
    output = ProcessingOutput(output_name="out", s3_output=s3_output)
    return lambda: processor.run(code=code, outputs=[output], wait=True, logs=True)

# The processors poll their jobs only every 10 s, so they run in threads.
threads = concurrent.futures.ThreadPoolExecutor()
breaks = threads.submit(make_processor(settings["fails"], "breaks"))
reports = threads.submit(make_processor(settings["reports"], "reports"))
"""
OTHERS = """
jobs = {
    "spot": start("spot", "count.py", spot=True, environment=settings["waits_for_interruption"]),
    "stopped": start("stopped", "count.py", environment={"GOAL": "1000000"}),
    "broken": start("broken", "fails.py"),
}
results.update({name: wait_for(job) for name, job in jobs.items()})
try:
    make_trainer("unknown", "train.py").train(
        input_data_config=[InputData(channel_name="train", data_source="s3://bucket/not-there/")], logs=False
    )
except Exception as failure:
    results["unknown"] = str(failure)
try:
    wrong_limits = make_trainer("wrong-limits", "train.py", spot=True)
    wrong_limits.stopping_condition = StoppingCondition(max_runtime_in_seconds=600, max_wait_time_in_seconds=60)
    wrong_limits.train()
except Exception as failure:
    results["wrong_limits"] = str(failure)

try:
    breaks.result()
except Exception as failure:
    results["breaks"] = str(failure)
reports.result()
"""
SHORT_CLIENT = HEAD + FINE + PRINT
CLIENT = HEAD + PROCESSORS + FINE + OTHERS + PRINT
BUILDER_CLIENT = """
import json, pathlib, sys
from sagemaker.core.helper.session_helper import Session
from sagemaker.serve.model_builder import ModelBuilder

builder = ModelBuilder(
    s3_model_data_url="s3://bucket/models/built/model.tar.gz", image_uri="image", role_arn=json.loads(sys.argv[1]),
    sagemaker_session=Session(), instance_type="ml.m5.large", env_vars={"SAGEMAKER_PROGRAM": "inference.py"},
    model_path=str(pathlib.Path.cwd() / "built"),  # otherwise a folder in /tmp, which nobody deletes
)
model = builder.build(model_name="built")
endpoint = builder.deploy(endpoint_name="built", initial_instance_count=1, wait=False)  # it would poll every 30 s
endpoint.wait_for_status("InService", poll=1)
answer = endpoint.invoke(body="1,2", content_type="text/csv", accept="text/csv")
results = [model.model_name, answer.body.read().decode(), answer.content_type]
endpoint.delete()
print("\\n" + json.dumps(results), flush=True)
"""
INFERENCE = """
def model_fn(model_dir): return "the model answers "
def transform_fn(model, body, content_type, accept): return model + body, accept
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
      # The SDK asks STS for its default bucket's name at AWS's own address and ignores AWS_ENDPOINT_URL.
      Session: {DefaultS3Bucket: bucket}
"""
ROLE = "arn:aws:iam::123456789012:role/training"

pytestmark = pytest.mark.skipif(
    not (shutil.which("pip3") or shutil.which("pip")),
    reason="pip is missing, which the SDK's driver needs: apt-get install python3-pip",
)


@pytest.fixture(scope="module")
def settings(
    scripts: Any, programs: Any, waits_for_interruption: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Write the files of a user, and return their paths and other settings."""
    folder = tmp_path_factory.mktemp("project")
    # This is SageMaker's default folder of checkpoints. The SDK sets no variable for it.
    counter = scripts["counter"].replace('os.environ["SM_CHECKPOINT_DIR"]', "'/opt/ml/checkpoints'")
    files = {
        "source/train.py": TRAIN, "source/count.py": counter, "source/fails.py": scripts["fails"],
        "rows/rows.csv": "1,2", "reports.py": programs["reports"], "fails.py": programs["fails"], "config.yaml": CONFIG,
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    names = {"source": "source", "rows": "rows", "reports": "reports.py", "fails": "fails.py", "config": "config.yaml"}
    return {
        "role": ROLE,
        "waits_for_interruption": waits_for_interruption,
        **{name: str(folder / path) for name, path in names.items()},
    }


@contextlib.contextmanager
def kill_at_end(process: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    """Kill the process at the end of the block."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def skip_without_opt_ml(drydock: Any) -> None:
    """Skip the test where /opt/ml cannot be mounted."""
    if not drydock.get_health()["opt_ml"]:
        pytest.skip("the process executor cannot mount /opt/ml on this machine, which the SDK's drivers need")


@pytest.fixture(scope="module")
def run(drydock: Any, start_python: Callable[..., Any], settings: dict[str, Any]) -> SimpleNamespace:
    """Run the client; return the results of its jobs, and its output."""
    skip_without_opt_ml(drydock)
    lines = []
    # drydock's IAM is moto's, which cannot simulate a role's policies: the SDK must not check the role.
    env = {"SAGEMAKER_VALIDATE_ROLE": "false", "SAGEMAKER_USER_CONFIG_OVERRIDE": settings["config"]}
    with kill_at_end(start_python(CLIENT, settings, **env)) as client:
        for line in client.stdout:
            lines.append(line)
            _, _, name = line.rpartition("job-started ")
            if name.startswith(("spot-", "stopped-")):
                drydock.wait_for_line(name.strip(), "from 0")
            if name.startswith("spot-"):
                # A job that is interrupted before its first checkpoint would start at 0 again, and wait at HOLD.
                drydock.wait_until("a checkpoint", lambda: drydock.list_keys("checkpoints/spot/"))
                drydock.send_command("interrupt", job=name.strip(), no_capacity_s=0.1)
            if name.startswith("stopped-"):
                drydock.stop_job(name.strip())
    assert lines and lines[-1].startswith("{"), "".join(lines)[-4000:]
    return SimpleNamespace(log="".join(lines), **json.loads(lines[-1]))


def test_model_trainer_runs_a_job_by_its_driver(
    drydock: Any, start_python: Callable[..., Any], settings: dict[str, Any]
) -> None:
    """One job, with its log. The other jobs of the SDK are in `run`."""
    skip_without_opt_ml(drydock)
    env = {"SAGEMAKER_VALIDATE_ROLE": "false", "SAGEMAKER_USER_CONFIG_OVERRIDE": settings["config"]}
    with kill_at_end(start_python(SHORT_CLIENT, settings, **env)) as client:
        log, _ = client.communicate()
    assert client.returncode == 0, log[-4_000:]
    check_fine_job(drydock, json.loads(log.splitlines()[-1])["fine"], log)
    assert "will collect telemetry" not in log


@pytest.mark.soak
def test_training_job_runs_by_the_drivers_and_shows_its_log(run: SimpleNamespace, drydock: Any) -> None:
    check_fine_job(drydock, run.fine, run.log)


def check_fine_job(drydock: Any, fine: dict[str, Any], log: str) -> None:
    """Check the result of the job `fine`, its model, and that the client has shown its log."""
    assert fine["status"] == "Completed" and fine["error"] == ""
    assert drydock.read_archive(fine["model"]) == {"model": b"1,2"}
    output = " ".join(log.split())
    assert 'trained on 1,2 with {"depth": 3, "words": "two words"}' in output
    assert "Running Basic Script driver" in output and "Training Container Execution Completed" in output


@pytest.mark.soak
def test_failure_is_an_error_of_the_sdk(run: SimpleNamespace) -> None:
    assert run.broken["status"] == "Failed" and run.broken["error"].startswith("FailedStatusError")
    assert "script fails" in run.broken["error"] or "exit code" in run.broken["error"].lower()


@pytest.mark.soak
def test_stopped_job_has_uploaded_its_model(run: SimpleNamespace) -> None:
    assert run.stopped["status"] == "Stopped" and run.stopped["states"][-2:] == ["Uploading", "Stopped"]


@pytest.mark.soak
def test_interrupted_job_resumes(run: SimpleNamespace, drydock: Any) -> None:
    assert run.spot["status"] == "Completed" and run.spot["states"].count("Interrupted") == 1
    starts = [line for line in drydock.read_full_log(run.spot["name"]) if line.startswith("from")]
    assert len(starts) == 2 and starts[0] == "from 0" and starts[1] != "from 0"


@pytest.mark.soak
def test_errors_of_requests_are_shown(run: SimpleNamespace) -> None:
    assert "No S3 objects found" in run.unknown
    assert "It must be above or equal to MaxRuntimeInSeconds" in run.wrong_limits


@pytest.mark.soak
def test_processing_jobs_upload_outputs_and_report_failures(run: SimpleNamespace, drydock: Any) -> None:
    assert drydock.get("s3://bucket/reports/out/report.json") == b'{"rows": 3}' and "reported" in run.log
    # The SDK (3.27.0) raises, but not its own exception: it looks for that in the wrong module.
    assert run.breaks
    failed_jobs = drydock.client("sagemaker").list_processing_jobs(NameContains="breaks")["ProcessingJobSummaries"]
    assert [("ExitCode 7" in job["FailureReason"], job["ProcessingJobStatus"]) for job in failed_jobs] == [
        (True, "Failed")
    ]
    assert drydock.list_keys("breaks/out") == []


@pytest.mark.soak
def test_model_builder_builds_and_deploys_a_model(
    drydock: Any, start_python: Callable[..., Any], settings: dict[str, Any]
) -> None:
    drydock.put("models/built/model.tar.gz", drydock.pack_archive({"code/inference.py": INFERENCE}))
    env = {"SAGEMAKER_VALIDATE_ROLE": "false", "SAGEMAKER_USER_CONFIG_OVERRIDE": settings["config"]}
    with kill_at_end(start_python(BUILDER_CLIENT, ROLE, **env)) as client:
        output, _ = client.communicate()
    assert client.returncode == 0, output[-4_000:]
    assert json.loads(output.splitlines()[-1]) == ["built", "the model answers 1,2", "text/csv"]


@pytest.mark.soak
def test_telemetry_is_off(run: SimpleNamespace) -> None:
    # The fixture proxy checks that no other machine was called.
    assert "will collect telemetry" not in run.log
