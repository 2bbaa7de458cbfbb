"""Measure drydock by requests to its API. The benchmark fails if a job is lost or runs twice."""

from __future__ import annotations

import contextlib
import io
import os
import random
import secrets
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

GROUP, TIMEOUT_S = "/aws/sagemaker/TrainingJobs", 600.0
REPETITIONS, SUBMITTED_JOBS, SMALL_JOBS, KILLS = 5, 100, 200, 20
# Submissions are measured while there is no spot capacity. No job runs then, so only the submission is measured.
SPOT_LIMITS = {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 1200}
SPOT = {"EnableManagedSpotTraining": True, "StoppingCondition": SPOT_LIMITS}
FAST_OPTIONS = ("--cores", "8", "--memory-gib", "100", "--checkpoint-interval", "0.2", "--shutdown-grace", "1")
LOG_SCRIPT = """
import os, pathlib, time
with open(os.environ["RUN_LOG"], "a") as run_log:
    run_log.write(os.environ["TRAINING_JOB_NAME"] + "\\n")
pathlib.Path(os.environ["SM_MODEL_DIR"], "name").write_text(os.environ["TRAINING_JOB_NAME"])
print("ends", time.time(), flush=True)
os._exit(0)
"""
# Counts to 20: every 50 ms, it adds a file to its checkpoint folder.
COUNT_SCRIPT = """
import os, pathlib, time
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
count = max((int(path.name) for path in folder.iterdir()), default=0)
while count < 20:
    count += 1
    (folder.parent / "new").write_text("x")
    (folder.parent / "new").rename(folder / f"{count:05d}")
    time.sleep(0.05)
pathlib.Path(os.environ["SM_MODEL_DIR"], "name").write_text(os.environ["TRAINING_JOB_NAME"])
"""


def run() -> dict[str, list[float]]:
    """Measure submission (compared with moto's server), latencies, many concurrent jobs, and 20 kills of the server."""
    return {**_measure_submission(), **_measure_latencies(), **_measure_concurrent_jobs(), **_measure_kills()}


@dataclass
class Server:
    """A running server.

    Attributes:
        process: The server's process.
        url: The server's URL.
        run_log: The file to which LOG_SCRIPT adds the name of its job, once for each run.
    """

    process: subprocess.Popen[bytes]
    url: str
    run_log: Path

    def create_client(self, service: str) -> Any:
        """Return a new client. It has its own session, since boto3's default session is not thread-safe."""
        session = boto3.session.Session("x", "x", region_name="us-east-1")
        config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, proxies={})
        return session.client(service, endpoint_url=self.url, config=config)

    def put_source(self, script: str) -> None:
        """Upload the script that the jobs of `build_request` run."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            member = tarfile.TarInfo("train.py")
            member.size = len(script)
            tar.addfile(member, io.BytesIO(script.encode()))
        s3 = self.create_client("s3")
        s3.create_bucket(Bucket="bench")
        s3.put_object(Bucket="bench", Key="source.tar.gz", Body=buffer.getvalue())

    def build_request(self, name: str, **fields: Any) -> dict[str, Any]:
        """Return the request for a small training job."""
        return {
            "TrainingJobName": name,
            "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
            "HyperParameters": {
                "sagemaker_program": "train.py",
                "sagemaker_submit_directory": "s3://bench/source.tar.gz",
            },
            "Environment": {"RUN_LOG": str(self.run_log)},
            "RoleArn": "arn:aws:iam::123456789012:role/bench",
            "OutputDataConfig": {"S3OutputPath": "s3://bench/output"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
            **fields,
        }


@contextlib.contextmanager
def _run_server(command: Sequence[str], folder: Path) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)], cwd=folder, stdout=log, stderr=log, env=_build_environment()
        )
    try:
        wait_for(lambda: _is_reachable(url))
        yield Server(process, url, folder / "run-log")
    finally:
        process.terminate()
        process.wait(60)


def run_drydock(folder: Path, *options: str) -> contextlib.AbstractContextManager[Server]:
    """Run a drydock server, with its data in a folder, while the block runs."""
    return _run_server([sys.executable, "-m", "drydock", "--data", str(folder / "data"), *options], folder)


def _build_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}


def _is_reachable(url: str) -> bool:
    try:
        with urllib.request.urlopen(url):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _measure_submission() -> dict[str, list[float]]:
    """Measure drydock and moto's server alternately, each with 1 and with 8 clients."""
    seconds_by_row: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as drydock_folder, tempfile.TemporaryDirectory() as moto_folder:
        moto_command = [sys.executable, "-m", "moto.server"]
        with run_drydock(Path(drydock_folder)) as drydock, _run_server(moto_command, Path(moto_folder)) as peer:
            capacity_request = urllib.request.Request(f"{drydock.url}/drydock/capacity", data=b'{"available": false}')
            urllib.request.urlopen(capacity_request).close()
            for number in range(REPETITIONS + 1):
                for clients in (1, 8):
                    for name, server in (("drydock", drydock), ("moto_server, which runs nothing (peer)", peer)):
                        seconds = _submit_jobs(server, f"n{number}-{clients}", clients)
                        if number:  # the first repetition only warms up
                            row = f"{SUBMITTED_JOBS} jobs submitted by {clients} client{'s' * (clients > 1)}, {name}"
                            seconds_by_row.setdefault(row, []).append(seconds)
    return seconds_by_row


def _submit_jobs(server: Server, prefix: str, client_count: int) -> float:
    clients = [server.create_client("sagemaker") for _ in range(client_count)]

    def submit(number: int) -> None:
        for job in range(number, SUBMITTED_JOBS, client_count):
            clients[number].create_training_job(**server.build_request(f"{prefix}-{job}", **SPOT))

    start_s = time.perf_counter()
    with ThreadPoolExecutor(client_count) as pool:
        list(pool.map(submit, range(client_count)))
    return time.perf_counter() - start_s


def _measure_latencies() -> dict[str, list[float]]:
    first_line_delays_s, end_delays_s = [], []
    with tempfile.TemporaryDirectory() as home, run_drydock(Path(home), *FAST_OPTIONS) as server:
        server.put_source(LOG_SCRIPT)
        sagemaker, logs = server.create_client("sagemaker"), server.create_client("logs")
        for number in range(4 * REPETITIONS):
            start_s = time.time()
            sagemaker.create_training_job(**server.build_request(f"job-{number}"))
            ended_at = float(wait_for(partial(_read_first_line, logs, f"job-{number}/")).split()[1])
            first_line_delays_s.append(time.time() - start_s)
            job = wait_for(partial(_find_ended_job, sagemaker, f"job-{number}"), every_s=0.002)
            end_delays_s.append(time.time() - ended_at - _compute_upload_s(job))
    return {
        "from the submission to the script's first line in CloudWatch Logs": first_line_delays_s,
        "from the script's end to Completed, without the upload": end_delays_s,
    }


def _read_first_line(logs: Any, prefix: str) -> str:
    with contextlib.suppress(ClientError):  # the group does not exist yet
        for stream in logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=prefix)["logStreams"]:
            page = logs.get_log_events(logGroupName=GROUP, logStreamName=stream["logStreamName"], startFromHead=True)
            return str(page["events"][0]["message"]) if page["events"] else ""
    return ""


def _find_ended_job(sagemaker: Any, name: str) -> dict[str, Any] | None:
    job: dict[str, Any] = sagemaker.describe_training_job(TrainingJobName=name)
    return job if job["TrainingJobStatus"] in ("Completed", "Failed", "Stopped") else None


def _compute_upload_s(description: dict[str, Any]) -> float:
    transitions = description["SecondaryStatusTransitions"]
    upload = next(transition for transition in transitions if transition["Status"] == "Uploading")
    return float((upload["EndTime"] - upload["StartTime"]).total_seconds())


def _measure_concurrent_jobs() -> dict[str, list[float]]:
    row = f"{SMALL_JOBS} small jobs submitted at once, each run exactly once"
    return {row: [_run_concurrent_jobs() for _ in range(3)]}


def _run_concurrent_jobs() -> float:
    names = [f"job-{number:03d}" for number in range(SMALL_JOBS)]
    with tempfile.TemporaryDirectory() as home, run_drydock(Path(home), *FAST_OPTIONS) as server:
        server.put_source(LOG_SCRIPT)
        clients = [server.create_client("sagemaker") for _ in range(8)]
        start_s = time.perf_counter()
        with ThreadPoolExecutor(8) as pool:
            requests = [server.build_request(name) for name in names]
            list(pool.map(lambda n: clients[n % 8].create_training_job(**requests[n]), range(SMALL_JOBS)))
        jobs = [wait_for(partial(_find_ended_job, clients[0], name)) for name in names]
        seconds = time.perf_counter() - start_s
        _check({job["TrainingJobStatus"] for job in jobs} == {"Completed"}, "every job is Completed")
        _check(Counter(server.run_log.read_text().split()) == Counter(names), "every job ran once")
    return seconds


def _measure_kills() -> dict[str, list[float]]:
    generator, names, objects = random.Random(13), list[str](), dict[str, bytes]()
    start_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        for number in range(KILLS):
            with run_drydock(folder, *FAST_OPTIONS) as server:
                if not number:
                    server.put_source(COUNT_SCRIPT)
                timer = threading.Timer(generator.uniform(0.2, 2.0), server.process.kill)
                timer.start()
                _work_until_killed(server, generator, names, objects)
                timer.join()
        with run_drydock(folder, *FAST_OPTIONS) as server:
            sagemaker, s3 = server.create_client("sagemaker"), server.create_client("s3")
            for name in names:
                job = wait_for(partial(_find_ended_job, sagemaker, name))
                _check(job["TrainingJobStatus"] == "Completed", f"{name} is Completed ({job.get('FailureReason')})")
                key = job["ModelArtifacts"]["S3ModelArtifacts"].removeprefix("s3://bench/")
                model = s3.get_object(Bucket="bench", Key=key)["Body"].read()
                _check(_read_name(model) == name, f"the model of {name} was written by {name}")
            for key, body in objects.items():
                _check(s3.get_object(Bucket="bench", Key=key)["Body"].read() == body, f"object {key} is complete")
    seconds = time.perf_counter() - start_s
    return {f"{KILLS} kills (SIGKILL), {len(names)} spot jobs Completed, {len(objects)} objects complete": [seconds]}


def _work_until_killed(server: Server, generator: random.Random, names: list[str], objects: dict[str, bytes]) -> None:
    """Write objects and create jobs until the server is killed.

    Only successful requests are added to `names` and `objects`. A request without a response may have had an effect.
    """
    sagemaker, s3 = server.create_client("sagemaker"), server.create_client("s3")
    while server.process.poll() is None:
        name, body = f"job-{secrets.token_hex(4)}", generator.randbytes(generator.choice([10, 100_000]))
        checkpoints = {"CheckpointConfig": {"S3Uri": f"s3://bench/checkpoints/{name}"}}
        with contextlib.suppress(ClientError, BotoCoreError):
            s3.put_object(Bucket="bench", Key=f"objects/{name}", Body=body)
            objects[f"objects/{name}"] = body
            sagemaker.create_training_job(**server.build_request(name, **SPOT, **checkpoints))
            names.append(name)
        time.sleep(0.15)


def _read_name(archive: bytes) -> str:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = tar.extractfile("name")
        return member.read().decode() if member else ""


def wait_for(read_value: Callable[[], Any], every_s: float = 0.005) -> Any:
    """Call a function until its result is true, and return this result. After `TIMEOUT_S`, end the benchmark."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if value := read_value():
            return value
        time.sleep(every_s)
    raise SystemExit(f"error: no result within {TIMEOUT_S:.0f} s: {read_value}")


def _check(is_true: bool, condition: str) -> None:
    if not is_true:
        raise SystemExit(f"error: the check failed: {condition}")
