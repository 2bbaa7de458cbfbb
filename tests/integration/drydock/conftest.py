"""A drydock as a person starts it: a process of its own, on a free port, in a folder of its own."""

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
import psutil
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.tools import forking
from tests.tools.waiting import wait_until

REPOSITORY = Path(__file__).parents[3]
PATIENCE_S = 60.0
BUCKET = "bucket"
ENDED = ("Completed", "Failed", "Stopped")


def until(what: str, probe: Callable[[], Any], within_s: float = PATIENCE_S) -> Any:
    """Return the probe's first true value; fail the test if there is none within within_s seconds."""
    return wait_until(probe, within_s, most_s=0.1, reason=what)


@dataclass
class Drydock:
    """One running server and clients for it."""

    process: subprocess.Popen[bytes]
    url: str
    data: Path
    clients: dict[tuple[str, str], Any] = field(default_factory=dict)

    def client(self, service: str, region: str = "us-east-1") -> Any:
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
        self.client("s3").put_object(Bucket=BUCKET, Key=key, Body=body)
        return f"s3://{BUCKET}/{key}"

    def get(self, uri: str) -> bytes:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        return bytes(self.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())

    def keys(self, prefix: str) -> list[str]:
        answer = self.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return [item["Key"] for item in answer.get("Contents", [])]

    def source(self, name: str, script: str) -> str:
        return self.put(f"code/{name}/sourcedir.tar.gz", tarball({"train.py": script}))

    def request(self, name: str, script: str = "", **more: Any) -> dict[str, Any]:
        given = {"sagemaker_program": "train.py", "sagemaker_submit_directory": self.source(name, script)}
        return training_request(name, **{**more, "HyperParameters": {**given, **more.get("HyperParameters", {})}})

    def create(self, name: str, script: str = "", **more: Any) -> str:
        answer = self.client("sagemaker").create_training_job(**self.request(name, script, **more))
        return str(answer["TrainingJobArn"])

    def send_raw(self, operation: str, body: bytes, **more: str) -> tuple[int, str, str]:
        """Send a request that no client would send; return HTTP status, error code and message."""
        credential = "test/20250101/us-east-1/sagemaker/aws4_request"
        headers = {
            "X-Amz-Target": f"SageMaker.{operation}",
            "Content-Type": "application/x-amz-json-1.1",
            "Authorization": f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0",
            **more,
        }
        request = urllib.request.Request(self.url, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, "", ""
        except urllib.error.HTTPError as error:
            content = error.read()
            if not content.startswith(b"{"):
                return error.code, "", content.decode()
            details = {name.lower(): value for name, value in json.loads(content).items()}
            return error.code, details["__type"], details["message"]

    def describe(self, name: str) -> dict[str, Any]:
        return dict(self.client("sagemaker").describe_training_job(TrainingJobName=name))

    def stop(self, name: str) -> None:
        self.client("sagemaker").stop_training_job(TrainingJobName=name)

    def wait_for_end(self, name: str) -> dict[str, Any]:
        def probe() -> dict[str, Any] | None:
            job = self.describe(name)
            return job if job["TrainingJobStatus"] in ENDED else None

        return dict(until(f"the end of {name}", probe))

    def run(self, name: str, script: str = "", **more: Any) -> dict[str, Any]:
        self.create(name, script, **more)
        return self.wait_for_end(name)

    def read_log(self, name: str) -> list[str]:
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

    def wait_for_line(self, name: str, start: str, within_s: float = PATIENCE_S) -> str:
        """Wait for a line of the job's log that begins with start, and return it."""
        lines = until(
            f"{start!r} in the log of {name}",
            lambda: [line for line in self.read_log(name) if line.startswith(start)],
            within_s,
        )
        return str(lines[0])

    def tree(self, name: str, host: str = "algo-1") -> Path:
        return self.data / "jobs" / "123456789012" / "us-east-1" / name / host

    def base(self, name: str, host: str = "algo-1") -> str:
        """Return the path at which a job sees its tree."""
        return "/opt/ml" if self.health()["opt_ml"] else str(self.tree(name, host))

    def until(self, what: str, probe: Callable[[], Any]) -> Any:
        return until(what, probe)

    def tarball(self, files: Mapping[str, str]) -> bytes:
        return tarball(files)

    def read_archive(self, uri: str) -> dict[str, bytes]:
        """Return the files of an archive in S3."""
        with tarfile.open(fileobj=io.BytesIO(self.get(uri))) as tar:
            return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}  # type: ignore[union-attr]

    def channel(self, name: str, uri: str) -> dict[str, Any]:
        return {
            "ChannelName": name,
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}},
        }

    def spot_members(self, name: str, **more: Any) -> dict[str, Any]:
        """Return the members of a request for spot instances, with a checkpoint folder of the job's own."""
        return {
            "EnableManagedSpotTraining": True,
            "StoppingCondition": {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 1200},
            "CheckpointConfig": {"S3Uri": f"s3://{BUCKET}/checkpoints/{name}"},
            **more,
        }

    def is_alive(self, pid: int) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):  # it may end between two calls
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        return False

    def send_order(self, page: str, **body: Any) -> dict[str, Any]:
        """Send an order to drydock: interrupt, capacity or outage."""
        request = urllib.request.Request(f"{self.url}/drydock/{page}", data=json.dumps(body).encode())
        with urllib.request.urlopen(request) as answer:
            return dict(json.load(answer))

    def send_refused_order(self, page: str, **body: Any) -> tuple[int, str]:
        """Send an order that drydock must refuse; return the HTTP status and the reason."""
        with pytest.raises(urllib.error.HTTPError) as caught:
            self.send_order(page, **body)
        return caught.value.code, str(json.load(caught.value)["error"])

    def health(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/drydock/health") as answer:
            return dict(json.load(answer))


def tarball(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def training_request(name: str, **more: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/drydock",
        "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/output"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        **more,
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
            until("the server's port", lambda: port_file.exists() or process.poll() is not None)
            assert process.returncode is None, f"it does not start:\n{path.read_text()}"
            server = Drydock(process, f"http://127.0.0.1:{port_file.read_text()}", folder / "data")
            server.client("s3").create_bucket(Bucket=BUCKET)
            yield server
        finally:
            ended_by_test = process.returncode is not None  # the test has waited for its end
            by_itself = process.poll() is not None
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE_S)
            finally:
                process.kill()
            well = ended_by_test or (not by_itself and process.returncode == 0)
            assert well, f"drydock went away with {process.returncode}:\n{path.read_text()[-10_000:]}"


@pytest.fixture
def start() -> Callable[..., contextlib.AbstractContextManager[Drydock]]:
    """Return the context manager that runs one more server: start(folder, *options, environment=...)."""
    return start_server


@pytest.fixture(scope="module")
def dock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drydock]:
    """One server per test module, with short grace periods."""
    folder = tmp_path_factory.mktemp("dock")
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
    secret = {"SERVER_SECRET": "not for jobs", "MLFLOW_TRACKING_URI": "http://mlflow.invalid"}
    with start_server(folder, *options, environment=secret) as server:
        yield server
