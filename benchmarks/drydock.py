"""drydock, seen by its clients: `python -m benchmarks drydock`. A job that is lost, or run twice, ends it."""

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

GROUP = "/aws/sagemaker/TrainingJobs"
PATIENCE_S = 600.0
RUNS, SUBMITTED, SMALL, KILLS = 5, 100, 200, 20
# Nothing of it can run: what is measured is the submission alone.
NOWHERE = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 1200},
}
FAST = ("--cores", "8", "--memory-gib", "100", "--checkpoint-interval", "0.2", "--shutdown-grace", "1")
ONCE = """
import os, pathlib, time
with open(os.environ["LEDGER"], "a") as ledger:
    ledger.write(os.environ["TRAINING_JOB_NAME"] + "\\n")
pathlib.Path(os.environ["SM_MODEL_DIR"], "name").write_text(os.environ["TRAINING_JOB_NAME"])
print("ends", time.time(), flush=True)
os._exit(0)
"""
# Counts in its checkpoint folder, a number each 50 ms, to 20.
STEADY = """
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
    """Submission beside moto's own server, latencies, many jobs at once, and a server that is killed 20 times."""
    return {**_submission(), **_latencies(), **_many_at_once(), **_killed()}


@dataclass
class Server:
    """A server that answers at url, and its ledger of what ran."""

    process: subprocess.Popen[bytes]
    url: str
    ledger: Path

    def client(self, service: str) -> Any:
        """A client of its own: boto3's default session is not for several threads."""
        session = boto3.session.Session("x", "x", region_name="us-east-1")
        config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, proxies={})
        return session.client(service, endpoint_url=self.url, config=config)

    def put_source(self, script: str) -> None:
        """The script is what the jobs of `request` run."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            member = tarfile.TarInfo("train.py")
            member.size = len(script)
            tar.addfile(member, io.BytesIO(script.encode()))
        s3 = self.client("s3")
        s3.create_bucket(Bucket="bench")
        s3.put_object(Bucket="bench", Key="source.tar.gz", Body=buffer.getvalue())

    def request(self, name: str, **more: Any) -> dict[str, Any]:
        """A small training job."""
        return {
            "TrainingJobName": name,
            "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
            "HyperParameters": {
                "sagemaker_program": "train.py",
                "sagemaker_submit_directory": "s3://bench/source.tar.gz",
            },
            "Environment": {"LEDGER": str(self.ledger)},
            "RoleArn": "arn:aws:iam::123456789012:role/bench",
            "OutputDataConfig": {"S3OutputPath": "s3://bench/output"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
            **more,
        }


@contextlib.contextmanager
def _serving(command: Sequence[str], folder: Path) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)], cwd=folder, stdout=log, stderr=log, env=_environment()
        )
    try:
        _until(lambda: _answers(url))
        yield Server(process, url, folder / "ledger")
    finally:
        process.terminate()
        process.wait(60)


def _drydock(folder: Path, *options: str) -> contextlib.AbstractContextManager[Server]:
    return _serving([sys.executable, "-m", "drydock", "--data", str(folder / "data"), *options], folder)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _submission() -> dict[str, list[float]]:
    """Both servers side by side, each with 1 and with 8 clients, in turn."""
    measured: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        moto = [sys.executable, "-m", "moto.server"]
        with _drydock(Path(ours)) as drydock, _serving(moto, Path(theirs)) as peer:
            pull = urllib.request.Request(f"{drydock.url}/drydock/capacity", data=b'{"available": false}')
            urllib.request.urlopen(pull).close()
            for number in range(RUNS + 1):
                for clients in (1, 8):
                    for who, server in (("drydock", drydock), ("moto_server, which runs nothing (peer)", peer)):
                        seconds = _submit(server, f"n{number}-{clients}", clients)
                        if number:  # the first does not count
                            row = f"{SUBMITTED} jobs submitted by {clients} client{'s' * (clients > 1)}, {who}"
                            measured.setdefault(row, []).append(seconds)
    return measured


def _submit(server: Server, prefix: str, count: int) -> float:
    clients = [server.client("sagemaker") for _ in range(count)]

    def submit(number: int) -> None:
        for job in range(number, SUBMITTED, count):
            clients[number].create_training_job(**server.request(f"{prefix}-{job}", **NOWHERE))

    began = time.perf_counter()
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(submit, range(count)))
    return time.perf_counter() - began


def _latencies() -> dict[str, list[float]]:
    first, seen = [], []
    with tempfile.TemporaryDirectory() as home, _drydock(Path(home), *FAST) as server:
        server.put_source(ONCE)
        sagemaker, logs = server.client("sagemaker"), server.client("logs")
        for number in range(4 * RUNS):
            began = time.time()
            sagemaker.create_training_job(**server.request(f"job-{number}"))
            ends = float(_until(partial(_first_line, logs, f"job-{number}/")).split()[1])
            first.append(time.time() - began)
            done = _until(partial(_ended, sagemaker, f"job-{number}"), every_s=0.002)
            seen.append(time.time() - ends - _uploading_s(done))
    return {
        "from submit to the script's first line in CloudWatch Logs": first,
        "from the script's end to Completed, without the upload": seen,
    }


def _first_line(logs: Any, prefix: str) -> str:
    with contextlib.suppress(ClientError):  # no group yet
        for stream in logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=prefix)["logStreams"]:
            found = logs.get_log_events(logGroupName=GROUP, logStreamName=stream["logStreamName"], startFromHead=True)
            return str(found["events"][0]["message"]) if found["events"] else ""
    return ""


def _ended(sagemaker: Any, name: str) -> dict[str, Any] | None:
    found: dict[str, Any] = sagemaker.describe_training_job(TrainingJobName=name)
    return found if found["TrainingJobStatus"] in ("Completed", "Failed", "Stopped") else None


def _uploading_s(description: dict[str, Any]) -> float:
    line = next(one for one in description["SecondaryStatusTransitions"] if one["Status"] == "Uploading")
    return float((line["EndTime"] - line["StartTime"]).total_seconds())


def _many_at_once() -> dict[str, list[float]]:
    row = f"{SMALL} small jobs submitted at once, none lost, none twice"
    return {row: [_one_crowd() for _ in range(3)]}


def _one_crowd() -> float:
    names = [f"job-{number:03d}" for number in range(SMALL)]
    with tempfile.TemporaryDirectory() as home, _drydock(Path(home), *FAST) as server:
        server.put_source(ONCE)
        clients = [server.client("sagemaker") for _ in range(8)]
        began = time.perf_counter()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: clients[n % 8].create_training_job(**server.request(names[n])), range(SMALL)))
        ended = [_until(partial(_ended, clients[0], name)) for name in names]
        seconds = time.perf_counter() - began
        _require({one["TrainingJobStatus"] for one in ended} == {"Completed"}, "every job is Completed")
        _require(Counter(server.ledger.read_text().split()) == Counter(names), "every job ran once")
    return seconds


def _killed() -> dict[str, list[float]]:
    chance, names, stored = random.Random(13), list[str](), dict[str, bytes]()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        for number in range(KILLS):
            with _drydock(folder, *FAST) as server:
                if not number:
                    server.put_source(STEADY)
                timer = threading.Timer(chance.uniform(0.2, 2.0), server.process.kill)
                timer.start()
                _work_while_it_lives(server, chance, names, stored)
                timer.join()
        with _drydock(folder, *FAST) as server:
            sagemaker, s3 = server.client("sagemaker"), server.client("s3")
            for name in names:
                done = _until(partial(_ended, sagemaker, name))
                _require(done["TrainingJobStatus"] == "Completed", f"{name}: {done.get('FailureReason')}")
                key = done["ModelArtifacts"]["S3ModelArtifacts"].removeprefix("s3://bench/")
                model = s3.get_object(Bucket="bench", Key=key)["Body"].read()
                _require(_text(model) == name, f"the model of {name} is its own")
            for key, body in stored.items():
                _require(s3.get_object(Bucket="bench", Key=key)["Body"].read() == body, f"object {key} is whole")
    seconds = time.perf_counter() - began
    return {f"{KILLS} kills -9, {len(names)} spot jobs Completed, {len(stored)} objects whole": [seconds]}


def _work_while_it_lives(server: Server, chance: random.Random, names: list[str], stored: dict[str, bytes]) -> None:
    """What was answered is in names and stored; what was not may have happened or not."""
    sagemaker, s3 = server.client("sagemaker"), server.client("s3")
    while server.process.poll() is None:
        name, body = f"job-{secrets.token_hex(4)}", chance.randbytes(chance.choice([10, 100_000]))
        checkpoints = {"CheckpointConfig": {"S3Uri": f"s3://bench/checkpoints/{name}"}}
        with contextlib.suppress(ClientError, BotoCoreError):
            s3.put_object(Bucket="bench", Key=f"objects/{name}", Body=body)
            stored[f"objects/{name}"] = body
            sagemaker.create_training_job(**server.request(name, **NOWHERE, **checkpoints))
            names.append(name)
        time.sleep(0.15)


def _text(archive: bytes) -> str:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = tar.extractfile("name")
        return member.read().decode() if member else ""


def _until(probe: Callable[[], Any], every_s: float = 0.005) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if value := probe():
            return value
        time.sleep(every_s)
    raise SystemExit(f"error: not within {PATIENCE_S:.0f} s: {probe}")


def _require(truth: bool, what: str) -> None:
    if not truth:
        raise SystemExit(f"error: it does not hold that {what}")
