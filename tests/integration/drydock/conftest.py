"""Start drydock as a user does: as a process, on a free port, in its own folder."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from drydock.execution.engine import find_engine_problem
from tests.tools import forking
from tests.tools.python_image import provide_image
from tests.tools.waiting import wait_until

REPOSITORY = Path(__file__).parents[3]
TIMEOUT_S = 180.0
BUCKET = "bucket"
END_STATUSES = ("Completed", "Failed", "Stopped")


def wait_for(reason: str, condition: Callable[[], Any], timeout_s: float = TIMEOUT_S) -> Any:
    """Return the condition's first true value. Fail the test if there is none within `timeout_s` seconds."""
    return wait_until(condition, timeout_s, max_pause_s=0.1, reason=reason)


@dataclass
class Drydock:
    """A running drydock server, its clients, and calls that tests make often."""

    process: subprocess.Popen[bytes]
    url: str
    data: Path
    clients: dict[tuple[str, str], Any] = field(default_factory=dict)

    def client(self, service: str, region: str = "us-east-1") -> Any:
        """Return a client of a service, which is created once."""
        if (service, region) not in self.clients:
            session = boto3.session.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=region)
            config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, proxies={})
            self.clients[service, region] = session.client(service, endpoint_url=self.url, config=config)
        return self.clients[service, region]

    def create_unchecked_client(self, service: str) -> Any:
        """Return a client that also sends requests that boto3 would refuse."""
        session = boto3.session.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1")
        return session.client(service, endpoint_url=self.url, config=Config(parameter_validation=False, proxies={}))

    def put(self, key: str, body: bytes) -> str:
        """Write an object, and return its URI."""
        self.client("s3").put_object(Bucket=BUCKET, Key=key, Body=body)
        return f"s3://{BUCKET}/{key}"

    def get(self, uri: str) -> bytes:
        """Read an object."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        return bytes(self.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())

    def list_keys(self, prefix: str) -> list[str]:
        """List the keys of the bucket that begin with a prefix."""
        response = self.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return [item["Key"] for item in response.get("Contents", [])]

    def upload_source(self, name: str, script: str) -> str:
        """Upload a bundle with a training script, and return its URI."""
        return self.put(f"code/{name}/sourcedir.tar.gz", pack_archive({"train.py": script}))

    def build_request(self, name: str, script: str = "", **fields: Any) -> dict[str, Any]:
        """Upload a training script, and return the request of a job that runs it."""
        program = {"sagemaker_program": "train.py", "sagemaker_submit_directory": self.upload_source(name, script)}
        hyperparameters = {**program, **fields.get("HyperParameters", {})}
        return build_training_request(name, **{**fields, "HyperParameters": hyperparameters})

    def create_job(self, name: str, script: str = "", **fields: Any) -> str:
        """Create a training job that runs a script, and return its ARN."""
        response = self.client("sagemaker").create_training_job(**self.build_request(name, script, **fields))
        return str(response["TrainingJobArn"])

    def send_raw(self, operation: str, body: bytes, **headers: str) -> tuple[int, str, str]:
        """Send a request as no client would. Return the HTTP status, the error code and the message."""
        credential = "test/20250101/us-east-1/sagemaker/aws4_request"
        all_headers = {
            "X-Amz-Target": f"SageMaker.{operation}",
            "Content-Type": "application/x-amz-json-1.1",
            "Authorization": f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0",
            **headers,
        }
        request = urllib.request.Request(self.url, data=body, headers=all_headers)
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, "", ""
        except urllib.error.HTTPError as error:
            content = error.read()
            if not content.startswith(b"{"):
                return error.code, "", content.decode()
            details = {name.lower(): value for name, value in json.loads(content).items()}
            return error.code, details["__type"], details["message"]

    def describe_job(self, name: str) -> dict[str, Any]:
        """Return the description of a training job."""
        return dict(self.client("sagemaker").describe_training_job(TrainingJobName=name))

    def stop_job(self, name: str) -> None:
        """Stop a training job."""
        self.client("sagemaker").stop_training_job(TrainingJobName=name)

    def wait_for_end(self, name: str) -> dict[str, Any]:
        """Wait for the end of a training job, and return its description."""

        def find_ended_job() -> dict[str, Any] | None:
            job = self.describe_job(name)
            return job if job["TrainingJobStatus"] in END_STATUSES else None

        return dict(wait_for(f"the end of {name}", find_ended_job))

    def run_job(self, name: str, script: str = "", **fields: Any) -> dict[str, Any]:
        """Create a training job, wait for its end, and return its description."""
        self.create_job(name, script, **fields)
        return self.wait_for_end(name)

    def read_log(self, name: str) -> list[str]:
        """Return the lines of the first stream of a training job's log."""
        logs, group = self.client("logs"), "/aws/sagemaker/TrainingJobs"
        with contextlib.suppress(ClientError):
            streams = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{name}/")["logStreams"]
            if streams:
                stream = streams[0]["logStreamName"]
                response = logs.get_log_events(logGroupName=group, logStreamName=stream, startFromHead=True)
                return [event["message"] for event in response["events"]]
        return []

    def read_full_log(self, name: str, group: str = "/aws/sagemaker/TrainingJobs") -> list[str]:
        """Return the lines of all hosts and runs of a job, stream after stream."""
        logs, lines = self.client("logs"), []
        with contextlib.suppress(ClientError):
            for stream in logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{name}/")["logStreams"]:
                query = {"logGroupName": group, "logStreamName": stream["logStreamName"], "startFromHead": True}
                lines += [event["message"] for event in logs.get_log_events(**query)["events"]]
        return lines

    def wait_for_line(self, name: str, start: str, timeout_s: float = TIMEOUT_S) -> str:
        """Wait for a line of the job's log that begins with start, and return it."""
        lines = wait_for(
            f"{start!r} in the log of {name}",
            lambda: [line for line in self.read_log(name) if line.startswith(start)],
            timeout_s,
        )
        return str(lines[0])

    def get_job_folder(self, name: str, host: str = "algo-1") -> Path:
        """Return the folder of a job on this machine."""
        return self.data / "jobs" / "123456789012" / "us-east-1" / name / host

    def get_base_path(self, name: str, host: str = "algo-1") -> str:
        """Return the path at which a job sees its folder."""
        return "/opt/ml" if self.get_health()["opt_ml"] else str(self.get_job_folder(name, host))

    def wait_until(self, reason: str, condition: Callable[[], Any]) -> Any:
        """Return the condition's first true value. Fail the test if there is none in time."""
        return wait_for(reason, condition)

    def pack_archive(self, files: Mapping[str, str]) -> bytes:
        """Return a tar.gz archive of files: name to text."""
        return pack_archive(files)

    def read_archive(self, uri: str) -> dict[str, bytes]:
        """Return the files of an archive in S3."""
        with tarfile.open(fileobj=io.BytesIO(self.get(uri))) as tar:
            return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}

    def build_channel(self, name: str, uri: str) -> dict[str, Any]:
        """Return a channel of a request for an S3 prefix."""
        return {
            "ChannelName": name,
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}},
        }

    def build_spot_fields(self, name: str, **fields: Any) -> dict[str, Any]:
        """Return the fields of a request for spot instances, with the job's own checkpoint folder."""
        return {
            "EnableManagedSpotTraining": True,
            "StoppingCondition": {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 1200},
            "CheckpointConfig": {"S3Uri": f"s3://{BUCKET}/checkpoints/{name}"},
            **fields,
        }

    def send_command(self, page: str, **body: Any) -> dict[str, Any]:
        """Send a command to drydock's own API: interrupt, capacity or outage."""
        request = urllib.request.Request(f"{self.url}/drydock/{page}", data=json.dumps(body).encode())
        with urllib.request.urlopen(request) as response:
            return dict(json.load(response))

    def send_refused_command(self, page: str, **body: Any) -> tuple[int, str]:
        """Send a command that drydock must refuse; return the HTTP status and the reason."""
        with pytest.raises(urllib.error.HTTPError) as error:
            self.send_command(page, **body)
        return error.value.code, str(json.load(error.value)["error"])

    def get_health(self) -> dict[str, Any]:
        """Return the server's health report."""
        with urllib.request.urlopen(f"{self.url}/drydock/health") as response:
            return dict(json.load(response))


def pack_archive(files: Mapping[str, str]) -> bytes:
    """Return a tar.gz archive of files: name to text."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def build_training_request(name: str, **fields: Any) -> dict[str, Any]:
    """Return the request of a training job without a script."""
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/drydock",
        "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/output"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        **fields,
    }


@contextlib.contextmanager
def start_server(folder: Path, *options: str, environment: Mapping[str, str] | None = None) -> Iterator[Drydock]:
    """Run a server during a block, and end it with all its jobs."""
    port_file = folder / "port"
    command = [sys.executable, "-m", "drydock", "--port", "0", "--data", str(folder / "data")]
    command += ["--port-file", str(port_file), *options]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), **(environment or {})}
    path = folder / "log"
    with (
        path.open("a") as log,
        forking.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True) as process,
    ):
        try:
            wait_for("the server's port", lambda: port_file.exists() or process.poll() is not None)
            assert process.returncode is None, f"drydock does not start:\n{path.read_text()}"
            server = Drydock(process, f"http://127.0.0.1:{port_file.read_text()}", folder / "data")
            server.client("s3").create_bucket(Bucket=BUCKET)
            yield server
        finally:
            was_ended_by_test = process.returncode is not None  # the test has waited for its end
            has_ended = process.poll() is not None
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(TIMEOUT_S)
            finally:
                process.kill()
            is_correct = was_ended_by_test or (not has_ended and process.returncode == 0)
            assert is_correct, f"drydock ended with exit code {process.returncode}:\n{path.read_text()[-10_000:]}"


@pytest.fixture(scope="session")
def image() -> Iterator[str]:
    """Return the name of an image of the Python that runs the tests; skip the test where no engine has images."""
    if problem := find_engine_problem():
        message = f"no container engine (apt-get install docker.io): {problem}"
        # CI requires the engine, so that a missing one is no silent skip.
        pytest.fail(message) if os.environ.get("REQUIRE_CONTAINER_ENGINE") else pytest.skip(message)
    if sys.platform != "linux":
        pytest.skip("the image is made from this machine's Python, which is not for Linux")
    with provide_image() as name:
        yield name


@pytest.fixture
def run_drydock() -> Callable[..., contextlib.AbstractContextManager[Drydock]]:
    """Return the context manager that runs one more server: run_drydock(folder, *options, environment=...)."""
    return start_server


@pytest.fixture(scope="session")
def start_drydock() -> Callable[..., contextlib.AbstractContextManager[Drydock]]:
    """Return the same as `run_drydock`, for fixtures of a module."""
    return start_server


@pytest.fixture(scope="module")
def drydock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drydock]:
    """Start one server per test module, with short grace periods."""
    folder = tmp_path_factory.mktemp("drydock")
    options = (
        "--cores",
        "8",
        "--memory-gib",
        "100",
        "--stop-grace",
        "1",
        "--checkpoint-interval",
        "0.2",
        "--shutdown-grace",
        "1",
    )
    server_environment = {"SERVER_SECRET": "not for jobs", "MLFLOW_TRACKING_URI": "http://mlflow.invalid"}
    with start_server(folder, *options, environment=server_environment) as server:
        yield server
