"""A drydock as a person starts it: a process of its own, on a free port, in a folder of its own."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
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

REPOSITORY = Path(__file__).parents[3]
PATIENCE_S = 60.0
BUCKET = "bucket"
ENDED = ("Completed", "Failed", "Stopped")


def until(what: str, probe: Callable[[], Any], within_s: float = PATIENCE_S) -> Any:
    """Return the probe's first true value; the test fails where there is none within a minute, or what it is given."""
    deadline, pause_s = time.monotonic() + within_s, 0.02
    while time.monotonic() < deadline:
        if value := probe():
            return value
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, 0.1)  # each look takes from the server the time that it works in
    return pytest.fail(f"not within {within_s} s: {what}")


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

    def unchecked(self, service: str) -> Any:
        """A client that sends what boto3 would refuse."""
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

    def raw(self, operation: str, body: bytes, **more: str) -> tuple[int, str, str]:
        """Send a request that no client lets through; return HTTP status, error code, message."""
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
            said = {name.lower(): value for name, value in json.loads(content).items()}
            return error.code, said["__type"], said["message"]

    def describe(self, name: str) -> dict[str, Any]:
        return dict(self.client("sagemaker").describe_training_job(TrainingJobName=name))

    def stop(self, name: str) -> None:
        self.client("sagemaker").stop_training_job(TrainingJobName=name)

    def ended(self, name: str) -> dict[str, Any]:
        def probe() -> dict[str, Any] | None:
            found = self.describe(name)
            return found if found["TrainingJobStatus"] in ENDED else None

        return dict(until(f"the end of {name}", probe))

    def run(self, name: str, script: str = "", **more: Any) -> dict[str, Any]:
        self.create(name, script, **more)
        return self.ended(name)

    def log(self, name: str) -> list[str]:
        logs, group = self.client("logs"), "/aws/sagemaker/TrainingJobs"
        with contextlib.suppress(ClientError):
            found = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{name}/")["logStreams"]
            if found:
                stream = found[0]["logStreamName"]
                answer = logs.get_log_events(logGroupName=group, logStreamName=stream, startFromHead=True)
                return [event["message"] for event in answer["events"]]
        return []

    def whole_log(self, name: str, group: str = "/aws/sagemaker/TrainingJobs") -> list[str]:
        """Return the lines of all hosts and runs of a job, stream after stream."""
        logs, lines = self.client("logs"), []
        with contextlib.suppress(ClientError):
            for stream in logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{name}/")["logStreams"]:
                asked = {"logGroupName": group, "logStreamName": stream["logStreamName"], "startFromHead": True}
                lines += [event["message"] for event in logs.get_log_events(**asked)["events"]]
        return lines

    def said(self, name: str, start: str, within_s: float = PATIENCE_S) -> str:
        """Return the first line of the job's log that begins with start, once it is there."""
        found = until(
            f"{start!r} in the log of {name}", lambda: [x for x in self.log(name) if x.startswith(start)], within_s
        )
        return str(found[0])

    def tree(self, name: str, host: str = "algo-1") -> Path:
        return self.data / "jobs" / "123456789012" / "us-east-1" / name / host

    def base(self, name: str, host: str = "algo-1") -> str:
        """Return what a job sees as its tree."""
        return "/opt/ml" if self.health()["opt_ml"] else str(self.tree(name, host))

    def until(self, what: str, probe: Callable[[], Any]) -> Any:
        return until(what, probe)

    def tarball(self, files: Mapping[str, str]) -> bytes:
        return tarball(files)

    def members(self, uri: str) -> dict[str, bytes]:
        """Return the files of an archive in S3."""
        with tarfile.open(fileobj=io.BytesIO(self.get(uri))) as tar:
            return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}  # type: ignore[union-attr]

    def channel(self, name: str, uri: str) -> dict[str, Any]:
        return {
            "ChannelName": name,
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}},
        }

    def spot(self, name: str, **more: Any) -> dict[str, Any]:
        """What makes a request one for spot instances, with a checkpoint folder of the job's own."""
        return {
            "EnableManagedSpotTraining": True,
            "StoppingCondition": {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 1200},
            "CheckpointConfig": {"S3Uri": f"s3://{BUCKET}/checkpoints/{name}"},
            **more,
        }

    def alive(self, pid: int) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):  # it may go between two looks
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        return False

    def pull(self, lever: str, **body: Any) -> dict[str, Any]:
        """Pull one of drydock's own levers: interrupt, capacity, outage."""
        request = urllib.request.Request(f"{self.url}/drydock/{lever}", data=json.dumps(body).encode())
        with urllib.request.urlopen(request) as answer:
            return dict(json.load(answer))

    def refused(self, lever: str, **body: Any) -> tuple[int, str]:
        """Pull a lever that does not move; return the status and the reason."""
        with pytest.raises(urllib.error.HTTPError) as caught:
            self.pull(lever, **body)
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
def started(folder: Path, *options: str, environment: Mapping[str, str] | None = None) -> Iterator[Drydock]:
    """Start a server; end it, with all that it runs, at the end."""
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
            ended_by_test = process.returncode is not None  # it has waited for it
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
    """How to start one more server: start(folder, *options, environment=...), a context manager."""
    return started


@pytest.fixture(scope="module")
def dock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drydock]:
    """One server for a module, with short graces."""
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
    with started(folder, *options, environment=secret) as server:
        yield server
