"""Test that the stop of a stack leaves its jobs to drydock: spot jobs are Interrupted, and resume at the next start."""

import io
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import psutil
import pytest

from stack.services.processes import find_processes, stop_processes

ROOT = Path(__file__).parents[4]
BUCKET = "bucket"
# The first run does not end by itself; the next one finds what the first has left.
NO_HANDLER = """
import os, pathlib, time
earlier = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"], "earlier")
if earlier.exists():
    raise SystemExit(0)
(earlier.parent.parent / "new").write_text("x")
(earlier.parent.parent / "new").rename(earlier)
print("on", flush=True)
time.sleep(600)
"""
SCRIPTS = {
    "no-handler": NO_HANDLER,
    "ignores-sigterm": "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + NO_HANDLER,
    # A signal to a process that the script started would end the script with another exit code.
    "child": NO_HANDLER.replace(
        "time.sleep(600)", "import subprocess; subprocess.run(['sleep', '600'], check=True, start_new_session=True)"
    ),
    "saves": "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n" + NO_HANDLER,
}


class Drydock:
    """A drydock server of a home's stack, as a real process."""

    def __init__(self, home: Path) -> None:
        port_file = home / "port"
        port_file.unlink(missing_ok=True)
        options = ["--port", "0", "--port-file", str(port_file), "--data", str(home / "drydock"), "--cores", "32"]
        marks = {"LEEWAY_STACK_ID": "one", "LEEWAY_HOME": str(home)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "drydock", *options, "--memory-gib", "128", "--shutdown-grace", "1"],
            env={**os.environ, **marks, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        self.port_file = port_file

    def connect(self, wait_for: Callable[..., Any]) -> None:
        """Wait until the server answers, and create the bucket."""
        wait_for(self.port_file.exists)
        session = boto3.session.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name="us-east-1")
        url = f"http://127.0.0.1:{self.port_file.read_text()}"
        self.s3, self.sagemaker = (session.client(name, endpoint_url=url) for name in ("s3", "sagemaker"))
        self.s3.create_bucket(Bucket=BUCKET)

    def create_training(self, name: str, script: str, *, spot: bool = True) -> None:
        archive, code = io.BytesIO(), script.encode()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            member = tarfile.TarInfo("train.py")
            member.size = len(code)
            tar.addfile(member, io.BytesIO(code))
        self.s3.put_object(Bucket=BUCKET, Key=f"{name}.tar.gz", Body=archive.getvalue())
        program = {
            "sagemaker_program": "train.py",
            "sagemaker_submit_directory": f"s3://{BUCKET}/{name}.tar.gz",
        }
        limits = {"MaxRuntimeInSeconds": 600, **({"MaxWaitTimeInSeconds": 900} if spot else {})}
        self.sagemaker.create_training_job(
            TrainingJobName=name,
            AlgorithmSpecification={"TrainingImage": "image", "TrainingInputMode": "File"},
            RoleArn="arn:aws:iam::123456789012:role/drydock",
            OutputDataConfig={"S3OutputPath": f"s3://{BUCKET}/output"},
            ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            StoppingCondition=limits,
            EnableManagedSpotTraining=spot,
            CheckpointConfig={"S3Uri": f"s3://{BUCKET}/checkpoints/{name}"},
            HyperParameters=program,
        )

    def create_processing(self, name: str) -> None:
        self.sagemaker.create_processing_job(
            ProcessingJobName=name,
            AppSpecification={"ImageUri": "image", "ContainerEntrypoint": ["sleep", "600"]},
            RoleArn="arn:aws:iam::123456789012:role/drydock",
            ProcessingResources={
                "ClusterConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1}
            },
        )

    def describe(self, name: str) -> dict[str, Any]:
        if name == "processing":
            return dict(self.sagemaker.describe_processing_job(ProcessingJobName=name))
        return dict(self.sagemaker.describe_training_job(TrainingJobName=name))

    def get_status(self, name: str) -> str:
        job = self.describe(name)
        return str(job.get("TrainingJobStatus") or job["ProcessingJobStatus"])

    def list_phases(self, name: str) -> list[str]:
        return [transition["Status"] for transition in self.describe(name)["SecondaryStatusTransitions"]]


@pytest.fixture
def start_drydock(tmp_path: Path, wait_for: Callable[..., Any]) -> Iterator[Callable[[], Drydock]]:
    servers: list[Drydock] = []

    def start() -> Drydock:
        servers.append(Drydock(tmp_path))
        servers[-1].connect(wait_for)
        return servers[-1]

    yield start
    for server in servers:
        server.process.terminate()
        server.process.wait(60)


def create_jobs(server: Drydock, wait_for: Callable[..., Any]) -> None:
    """Create one job of each kind. When this returns, all but `first-seconds` run, and have their checkpoint in S3."""
    for name, script in SCRIPTS.items():
        server.create_training(name, script)
    server.create_training("on-demand", NO_HANDLER, spot=False)
    server.create_processing("processing")
    keys = {f"checkpoints/{name}/earlier" for name in SCRIPTS}
    wait_for(lambda: keys <= {item["Key"] for item in server.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])})
    wait_for(lambda: "ProcessingStartTime" in server.describe("processing"))
    server.create_training("first-seconds", NO_HANDLER.replace("import os", "import time; time.sleep(1)\nimport os", 1))


@pytest.mark.parametrize("is_killed", [pytest.param(False, marks=pytest.mark.soak), True])
def test_jobs_resume_after_the_stop_of_their_stack(start_drydock, wait_for, tmp_path, is_killed):
    server = start_drydock()
    create_jobs(server, wait_for)
    if is_killed:  # during the stop, after its first signals
        threading.Timer(0.4, server.process.kill).start()
    assert stop_processes(tmp_path) > 0
    assert find_processes(tmp_path) == []
    server.process.wait(60)
    server = start_drydock()
    spot_names = [*SCRIPTS, "first-seconds"]
    for name in spot_names:
        if name == "first-seconds":  # it may have had no time for a checkpoint, and would then run for ever
            wait_for(lambda: server.list_phases("first-seconds")[-1] in ("Training", "Completed"))
            continue
        wait_for(lambda name=name: server.get_status(name) != "InProgress")
        assert server.get_status(name) == "Completed", server.describe(name)
        assert server.list_phases(name).count("Interrupted") == 1
    for name in ("on-demand", "processing"):
        assert server.describe(name)["FailureReason"].startswith("InternalServerError: drydock")  # retried by a task


def end_jobs(server: Drydock) -> None:
    """Send SIGTERM to all processes that drydock has started; one of them may end with another one."""
    for process in psutil.Process(server.process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.terminate()


@pytest.mark.soak
def test_a_stop_that_signals_every_process_of_the_machine_interrupts_spot_jobs(start_drydock, wait_for, tmp_path):
    """So does the shutdown of a machine."""
    server = start_drydock()
    server.create_training("no-handler", NO_HANDLER)
    wait_for(lambda: server.s3.list_objects_v2(Bucket=BUCKET, Prefix="checkpoints/").get("Contents"))
    end_jobs(server)
    server.process.terminate()
    server.process.wait(60)
    server = start_drydock()
    wait_for(lambda: server.get_status("no-handler") == "Completed")
    assert server.list_phases("no-handler").count("Interrupted") == 1


@pytest.mark.soak
def test_a_job_that_somebody_else_ends_has_failed(start_drydock, wait_for):
    """This is the negative control: without a stop of drydock, SIGTERM ends a job as the script's own failure."""
    server = start_drydock()
    server.create_training("no-handler", NO_HANDLER)
    wait_for(lambda: server.s3.list_objects_v2(Bucket=BUCKET, Prefix="checkpoints/").get("Contents"))
    end_jobs(server)
    wait_for(lambda: server.get_status("no-handler") == "Failed")
    assert "ExitCode 143" in server.describe("no-handler")["FailureReason"]
