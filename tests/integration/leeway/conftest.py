"""A drydock as a person starts it, the Airflow connection to it, and a small project to train."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from tests.tools import forking
from tests.tools.groups import end_group
from tests.tools.recording import TEST_ACCESS_KEY

ROOT = Path(__file__).parents[3]
BUCKET = "leeway"
SCRIPT = """
import argparse, os, pathlib, signal, sys, time
from lib.extra import WORD

parser = argparse.ArgumentParser()
for name in ("mode", "gate", "seed"):
    parser.add_argument(f"--{name}", default="")
given = parser.parse_args()
if given.mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
checkpoints = pathlib.Path(os.environ.get("SM_CHECKPOINT_DIR", os.environ["SAGEMAKER_BASE_DIR"] + "/checkpoints"))
rows = (pathlib.Path(os.environ["SM_CHANNEL_TRAIN"]) / "rows").read_text()
before = sorted(path.name for path in checkpoints.glob("*"))
print(f"{WORD} {rows} {given.mode} after {before}", flush=True)
checkpoints.mkdir(parents=True, exist_ok=True)
(checkpoints / f"step-{len(before)}").write_text("x")
if given.mode == "crash":
    raise SystemExit("the hull is leaking")
ends = time.monotonic() + 3_600  # far longer than any test waits
while given.mode in ("wait", "stubborn") and not pathlib.Path(given.gate).exists() and time.monotonic() < ends:
    time.sleep(0.05)
(pathlib.Path(os.environ["SM_MODEL_DIR"]) / "model").write_text(f"{rows} {given.seed}")
"""


@dataclass
class Dock:
    """A running drydock."""

    url: str
    process: subprocess.Popen[bytes]
    clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        if service not in self.clients:
            keys = {"aws_access_key_id": TEST_ACCESS_KEY, "aws_secret_access_key": "drydock-takes-any"}
            self.clients[service] = boto3.client(service, endpoint_url=self.url, region_name="us-east-1", **keys)
        return self.clients[service]

    def jobs(self) -> list[str]:
        found = self.client("sagemaker").list_training_jobs(MaxResults=100)["TrainingJobSummaries"]
        return sorted(one["TrainingJobName"] for one in found)

    def describe(self, name: str) -> dict[str, Any]:
        return dict(self.client("sagemaker").describe_training_job(TrainingJobName=name))

    def lines(self, name: str) -> list[str]:
        """What a job has written so far."""
        logs, group = self.client("logs"), "/aws/sagemaker/TrainingJobs"
        with contextlib.suppress(logs.exceptions.ResourceNotFoundException):
            answer = logs.filter_log_events(logGroupName=group, logStreamNamePrefix=f"{name}/")
            return [event["message"] for event in answer["events"]]
        return []

    def stop(self, name: str) -> None:
        self.client("sagemaker").stop_training_job(TrainingJobName=name)

    def objects(self) -> dict[str, Any]:
        """Key to the moment when it was written, of what was uploaded."""
        found = self.client("s3").list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return {one["Key"]: one["LastModified"] for one in found if "/jobs/" not in one["Key"]}

    def members(self, uri: str) -> dict[str, bytes]:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        content = self.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            return {one.name: tar.extractfile(one).read() for one in tar if one.isfile()}  # type: ignore[union-attr]


def connection(url: str) -> str:
    """AIRFLOW_CONN_AWS_DEFAULT for an endpoint."""
    extra = {"endpoint_url": url, "region_name": "us-east-1"}
    given = {"login": "AKIADRYDOCKTAKESANY0", "password": "drydock-takes-any"}
    return json.dumps({"conn_type": "aws", **given, "extra": extra})


@contextlib.contextmanager
def docked(folder: Path, until: Callable[..., Any]) -> Iterator[Dock]:
    """A drydock in `folder`, gone at the end with all that it runs."""
    port = folder / "port"
    # Set by tools/record_calls.py: a file for the calls that the server gets.
    noted = os.environ.get("RECORD_CALLS")
    server = [str(ROOT / "tests/tools/recording.py"), noted] if noted else ["-m", "drydock"]
    command = [sys.executable, *server, "--port", "0", "--port-file", str(port)]
    command += ["--data", str(folder / "data")]
    command += ["--cores", "8", "--stop-grace", "60", "--checkpoint-interval", "0.2", "--shutdown-grace", "0.5"]
    with (folder / "log").open("w") as log:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = forking.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        until(lambda: port.exists() or process.poll() is not None)
        dock = Dock(f"http://127.0.0.1:{port.read_text()}", process)
        dock.client("s3").create_bucket(Bucket=BUCKET)
        yield dock
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            end_group(process)


@pytest.fixture(scope="session")
def start_dock(tmp_path_factory: pytest.TempPathFactory, until: Callable[..., Any]) -> Callable[[], Any]:
    """Starts one more drydock: a context manager."""
    return lambda: docked(tmp_path_factory.mktemp("dock"), until)


@pytest.fixture(scope="session")
def dock(start_dock: Callable[[], Any]) -> Iterator[Dock]:
    """The drydock of these tests; each test has jobs of its own: the run's name is the test's."""
    with start_dock() as made:
        yield made


@pytest.fixture
def point_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Points Airflow's connection at an endpoint; the ledger is the test's own."""

    def point(url: str) -> None:
        monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", connection(url))
        monkeypatch.setenv("LEEWAY_BUCKET", BUCKET)
        monkeypatch.setenv("LEEWAY_ROLE_ARN", "arn:aws:iam::123456789012:role/leeway-training")

    return point


@pytest.fixture
def at_dock(dock: Dock, point_at: Callable[[str], None]) -> Dock:
    """The drydock, with Airflow's connection pointing there."""
    point_at(dock.url)
    return dock


@pytest.fixture
def aws(at_dock: Dock, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a person has in the environment who runs commands over it."""
    given = {"AWS_ENDPOINT_URL": at_dock.url, "AWS_DEFAULT_REGION": "us-east-1"}
    given |= {"AWS_ACCESS_KEY_ID": "AKIADRYDOCKTAKESANY0", "AWS_SECRET_ACCESS_KEY": "drydock-takes-any"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """LEEWAY_PROJECT: a training script that does as its hyperparameter `mode` says, and rows to train on."""
    folder = tmp_path / "project"
    files = {
        "train.py": SCRIPT,
        "lib/__init__.py": "",
        "lib/extra.py": "WORD = 'trained on'\n",
        "bundle.txt": "lib/__init__.py\nlib/extra.py\n",
        "params.yaml": textwrap.dedent("""
            train:
              hyperparameters: {seed: 13}
            """),
        "features/train/rows": tmp_path.name,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setenv("LEEWAY_PROJECT", str(folder))
    return folder


@pytest.fixture
def spot(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Makes SpotTrainingOperators of one task, as each try of it would: always a new object."""
    from airflow.sdk import DAG
    from leeway.operators.spot_training import SpotTrainingOperator

    def make(mode: str = "ok", **more: Any) -> Any:
        given = {
            "entry_point": "train.py",
            "bundle": "bundle.txt",
            "channels": {"train": str(tmp_path / "project" / "features" / "train")},
            "hyperparameters": {"mode": mode, "gate": str(tmp_path / "gate")},
            "image_uri": "image",
            "max_run_s": 600,
            "max_wait_s": 900,
            "check_interval_s": 1,
        }
        with DAG(re.sub(r"\W+", "-", request.node.name)):
            return SpotTrainingOperator(task_id="train", **{**given, **more})

    return make


@pytest.fixture
def context() -> dict[str, Any]:
    """The context of a task run, as far as the operator looks at it."""
    return {"ti": SimpleNamespace(run_id="run", map_index=-1, try_number=1)}


def started(task: Any, context: dict[str, Any]) -> Any:
    """The TaskDeferred that the task waits with."""
    from airflow.sdk.exceptions import TaskDeferred

    with pytest.raises(TaskDeferred) as deferred:
        task.execute(context)
    return deferred.value


def event_of(deferred: Any) -> dict[str, Any]:
    """What the trigger says in the end, made anew from its serialized form as the triggerer does."""
    from airflow.sdk._shared.module_loading import import_string

    path, fields = deferred.trigger.serialize()
    json.dumps(fields)
    trigger = import_string(path)(**fields)
    trigger.wait = replace(trigger.wait, check_interval_s=0.3)  # nobody pays here for a look

    async def first() -> Any:
        async for event in trigger.run():
            return event.payload

    return dict(asyncio.run(first()))


@pytest.fixture
def start() -> Callable[..., Any]:
    """Runs a task up to its deferral."""
    return started


@pytest.fixture
def wake(context: dict[str, Any]) -> Callable[..., Any]:
    """Waits for a deferred task's job in its trigger and hands the event to a new object of the task."""

    def run(task: Any, deferred: Any, event: dict[str, Any] | None = None) -> Any:
        return getattr(task, deferred.method_name)(context, event=event or event_of(deferred), **deferred.kwargs)

    return run


@pytest.fixture
def finish(wake: Callable[..., Any]) -> Callable[..., Any]:
    """Wakes a deferred task until it has its result, however often it defers again."""
    from airflow.sdk.exceptions import TaskDeferred

    def run(task: Any, deferred: Any) -> Any:
        while True:
            try:
                return wake(task, deferred)
            except TaskDeferred as again:
                deferred = again

    return run
