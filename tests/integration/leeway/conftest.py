"""Provide a real drydock server, Airflow's connection to it, and a small project with a training script."""

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
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from tests.tools import forking
from tests.tools.groups import end_group
from tests.tools.recorded_calls import HINT, list_new_calls
from tests.tools.recording import TEST_ACCESS_KEY
from tools.record_calls import TEST_NAMES

ROOT = Path(__file__).parents[3]
BUCKET = "leeway"
TRAINING_SCRIPT = """
import argparse, os, pathlib, signal, sys, time
from lib.extra import WORD

parser = argparse.ArgumentParser()
for name in ("mode", "release_file", "seed"):
    parser.add_argument(f"--{name}", default="")
options = parser.parse_args()
if options.mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
checkpoints = pathlib.Path(os.environ.get("SM_CHECKPOINT_DIR", os.environ["SAGEMAKER_BASE_DIR"] + "/checkpoints"))
rows = (pathlib.Path(os.environ["SM_CHANNEL_TRAIN"]) / "rows").read_text()
earlier = sorted(path.name for path in checkpoints.glob("*"))
print(f"{WORD} {rows} {options.mode} after {earlier}", flush=True)
checkpoints.mkdir(parents=True, exist_ok=True)
(checkpoints / f"step-{len(earlier)}").write_text("x")
if options.mode == "crash":
    raise SystemExit("the script failed")
deadline = time.monotonic() + 3_600  # far longer than any test waits
release_file = pathlib.Path(options.release_file)
while options.mode in ("wait", "stubborn") and not release_file.exists() and time.monotonic() < deadline:
    time.sleep(0.05)
(pathlib.Path(os.environ["SM_MODEL_DIR"]) / "model").write_text(f"{rows} {options.seed}")
"""


@dataclass
class Drydock:
    """A running drydock server, as its clients see it."""

    url: str
    process: subprocess.Popen[bytes]
    clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        if service not in self.clients:
            keys = {"aws_access_key_id": TEST_ACCESS_KEY, "aws_secret_access_key": "drydock-takes-any"}
            self.clients[service] = boto3.client(service, endpoint_url=self.url, region_name="us-east-1", **keys)
        return self.clients[service]

    def list_all(self, operation: str, items: str, name: str) -> list[str]:
        """Return the names of all resources that a listing of SageMaker has, on all its pages.

        A session's tests make more than one page of them, so a single page can miss the newest.
        """
        pages = self.client("sagemaker").get_paginator(operation).paginate()
        return sorted(item[name] for page in pages for item in page[items])

    def list_jobs(self) -> list[str]:
        """Return the names of all training jobs."""
        return self.list_all("list_training_jobs", "TrainingJobSummaries", "TrainingJobName")

    def describe_job(self, name: str) -> dict[str, Any]:
        return dict(self.client("sagemaker").describe_training_job(TrainingJobName=name))

    def read_log(self, name: str) -> list[str]:
        """Return the lines that a training job has logged so far."""
        logs, group = self.client("logs"), "/aws/sagemaker/TrainingJobs"
        with contextlib.suppress(logs.exceptions.ResourceNotFoundException):
            response = logs.filter_log_events(logGroupName=group, logStreamNamePrefix=f"{name}/")
            return [event["message"] for event in response["events"]]
        return []

    def kill_and_restart(self, until: Callable[..., Any]) -> None:
        """Send SIGKILL to the server, and start it again with its data and port."""
        self.process.kill()
        self.process.wait(60)
        command = list(self.process.args)
        command[command.index("--port") + 1] = self.url.rpartition(":")[2]
        port_file = Path(command[command.index("--port-file") + 1])
        port_file.unlink()
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        with (port_file.parent / "log").open("a") as log:
            self.process = forking.Popen(
                command, cwd=port_file.parent, env=env, stdout=log, stderr=log, start_new_session=True
            )
        until(lambda: port_file.exists() or self.process.poll() is not None)

    def stop_job(self, name: str) -> None:
        self.client("sagemaker").stop_training_job(TrainingJobName=name)

    def list_uploads(self) -> dict[str, Any]:
        """Return the time of the last write of each uploaded object, by key, without the jobs' own outputs."""
        objects = self.client("s3").list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return {item["Key"]: item["LastModified"] for item in objects if "/jobs/" not in item["Key"]}

    def read_archive(self, uri: str) -> dict[str, bytes]:
        """Return the content of each file of a tar archive in S3, by name."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        content = self.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            return {file.name: tar.extractfile(file).read() for file in tar if file.isfile()}


def build_aws_connection(url: str) -> str:
    """Return the value of AIRFLOW_CONN_AWS_DEFAULT for an endpoint."""
    extra = {"endpoint_url": url, "region_name": "us-east-1"}
    keys = {"login": "AKIADRYDOCKTAKESANY0", "password": "drydock-takes-any"}
    return json.dumps({"conn_type": "aws", **keys, "extra": extra})


def get_calls_file() -> Path:
    """Return the file in which the servers' calls are recorded; tools/record_calls.py names one by RECORD_CALLS."""
    return Path(os.environ.get("RECORD_CALLS") or f"{os.environ['AIRFLOW_HOME']}/calls-{os.getpid()}")


@pytest.fixture(autouse=True)
def only_recorded_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that made an AWS call by which the policies of the roles were not written.

    The other tests name buckets, keys and jobs of their own, and make no other kind of call.
    """
    yield
    is_recorded = request.path.stem.removeprefix("test_") in TEST_NAMES and "RECORD_CALLS" not in os.environ
    if is_recorded and (new_calls := list_new_calls(get_calls_file())):
        get_calls_file().unlink()  # the next test must not fail for this one
        pytest.fail(f"calls that infra/policies/calls.json does not have: {'; '.join(new_calls)}. {HINT}")


@contextlib.contextmanager
def run_drydock(folder: Path, until: Callable[..., Any]) -> Iterator[Drydock]:
    """Run a drydock server in `folder` while the block runs. End it and its jobs afterwards."""
    port_file = folder / "port"
    program = str(ROOT / "tests/tools/recording.py"), str(get_calls_file())
    command = [sys.executable, *program, "--port", "0", "--port-file", str(port_file)]
    command += ["--data", str(folder / "data")]
    # The jobs of the tests need very little CPU and memory, so many of them may run at once.
    command += ["--cores", "32", "--memory-gib", "128"]
    command += ["--stop-grace", "60", "--checkpoint-interval", "0.2", "--shutdown-grace", "0.5"]
    with (folder / "log").open("w") as log:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = forking.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True)
    drydock = Drydock("", process)
    try:
        until(lambda: port_file.exists() or process.poll() is not None)
        drydock.url = f"http://127.0.0.1:{port_file.read_text()}"
        drydock.client("s3").create_bucket(Bucket=BUCKET)
        yield drydock
    finally:
        process = drydock.process  # a test may have started it again
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            end_group(process)


@pytest.fixture(scope="session")
def start_drydock(tmp_path_factory: pytest.TempPathFactory, until: Callable[..., Any]) -> Callable[[], Any]:
    """Return the function that runs another drydock server. It gives a context manager."""
    return lambda: run_drydock(tmp_path_factory.mktemp("drydock"), until)


@pytest.fixture(scope="session")
def drydock_server(start_drydock: Callable[[], Any]) -> Iterator[Drydock]:
    """Start one drydock server for the session. The tests can share it: each has its own DAG name and job names."""
    with start_drydock() as server:
        yield server


@pytest.fixture
def connect_airflow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh_settings: Callable[[], None]
) -> Callable[[str], None]:
    """Return the function that sets Airflow's AWS connection to an endpoint. The test has a ledger of its own."""

    def connect(url: str) -> None:
        monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", build_aws_connection(url))
        monkeypatch.setenv("LEEWAY_BUCKET", BUCKET)
        monkeypatch.setenv("LEEWAY_ROLE_ARN", "arn:aws:iam::123456789012:role/leeway-training")
        monkeypatch.setenv("LEEWAY_PYTHON", forking.ensure_stand_in())  # a new process takes ten times as long
        monkeypatch.setattr("leeway.hooks.sagemaker.aws_errors.MAX_DELAY_S", 0.2)  # no long pauses between retries
        fresh_settings()

    return connect


@pytest.fixture
def drydock(drydock_server: Drydock, connect_airflow: Callable[[str], None]) -> Drydock:
    """Return the session's drydock server, with Airflow's AWS connection set to it."""
    connect_airflow(drydock_server.url)
    return drydock_server


@pytest.fixture
def ended_endpoints(drydock: Drydock) -> Iterator[None]:
    """Delete the endpoints that the test leaves: each is a process."""
    yield
    sagemaker = drydock.client("sagemaker")
    for page in sagemaker.get_paginator("list_endpoints").paginate():
        for endpoint in page["Endpoints"]:
            with contextlib.suppress(sagemaker.exceptions.ClientError):  # it is being deleted
                sagemaker.delete_endpoint(EndpointName=endpoint["EndpointName"])


@pytest.fixture
def set_aws_variables(drydock: Drydock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the variables AWS_* to the drydock server, as for a person who runs commands."""
    variables = {"AWS_ENDPOINT_URL": drydock.url, "AWS_DEFAULT_REGION": "us-east-1"}
    variables |= {"AWS_ACCESS_KEY_ID": "AKIADRYDOCKTAKESANY0", "AWS_SECRET_ACCESS_KEY": "drydock-takes-any"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set LEEWAY_PROJECT to a project whose training script depends on its hyperparameter `mode`. Return its folder."""
    folder = tmp_path / "project"
    files = {
        "train.py": TRAINING_SCRIPT,
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
def make_spot_task(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Return the function that makes a new SpotTrainingOperator of the same task, as each try of a task does."""
    from airflow.sdk import DAG
    from leeway.operators.spot_training import SpotTrainingOperator

    def make(mode: str = "ok", **fields: Any) -> Any:
        defaults = {
            "entry_point": "train.py",
            "bundle": "bundle.txt",
            "channels": {"train": str(tmp_path / "project" / "features" / "train")},
            "hyperparameters": {"mode": mode, "release_file": str(tmp_path / "release")},
            "image_uri": "image",
            "max_run_s": 600,
            "max_wait_s": 900,
            "check_interval_s": 1,
        }
        with DAG(re.sub(r"\W+", "-", request.node.name)):
            return SpotTrainingOperator(task_id="train", **{**defaults, **fields})

    return make


@pytest.fixture
def context() -> dict[str, Any]:
    """Return the part of a task's context that the operator reads."""
    return {"ti": SimpleNamespace(run_id="run", map_index=-1, try_number=1, max_tries=2)}


def start_task(task: Any, context: dict[str, Any]) -> Any:
    """Run a task until it defers, start its job as the trigger does, and return the exception TaskDeferred."""
    from airflow.sdk.exceptions import TaskDeferred
    from leeway.hooks.sagemaker.wait import JobWait

    with pytest.raises(TaskDeferred) as deferral:
        task.execute(context)
    trigger = build_trigger(deferral.value)
    wait = asyncio.run(trigger.start_job())
    assert isinstance(wait, JobWait), wait
    deferral.value.trigger = type(trigger)(**asdict(wait))
    return deferral.value


def build_trigger(deferral: Any) -> Any:
    """Build the trigger from its serialized form, as the triggerer does."""
    from airflow.sdk._shared.module_loading import import_string

    path, fields = deferral.trigger.serialize()
    return import_string(path)(**json.loads(json.dumps(fields)))


def run_trigger(deferral: Any) -> dict[str, Any]:
    """Build the trigger, run it, and return its first event."""
    trigger = build_trigger(deferral)
    trigger.wait = replace(trigger.wait, check_interval_s=0.3)  # calls to this server cost nothing

    async def read_first_event() -> Any:
        async for event in trigger.run():
            return event.payload

    return dict(asyncio.run(read_first_event()))


@pytest.fixture
def start() -> Callable[..., Any]:
    """Return the function that runs a task until it defers."""
    return start_task


@pytest.fixture
def resume(context: dict[str, Any]) -> Callable[..., Any]:
    """Return the function that waits for a deferred task's job and passes the event to a new object of the task."""

    def run(task: Any, deferral: Any, event: dict[str, Any] | None = None) -> Any:
        return getattr(task, deferral.method_name)(context, event=event or run_trigger(deferral), **deferral.kwargs)

    return run


@pytest.fixture
def finish(resume: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that resumes a deferred task, and again each time it defers, until it returns a result."""
    from airflow.sdk.exceptions import TaskDeferred

    def run(task: Any, deferral: Any) -> Any:
        while True:
            try:
                return resume(task, deferral)
            except TaskDeferred as next_deferral:
                deferral = next_deferral

    return run


@pytest.fixture
def write_serving_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], Path]:
    """Return the function that writes a project whose registered versions are files, and sets LEEWAY_PROJECT to it."""

    def write(files: dict[str, str]) -> Path:
        project = tmp_path / "project"
        for name, text in files.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text)
        python = tmp_path / "python"
        python.write_text(f"""#!/bin/sh
case " $* " in
*" serving "*) exec "$LEEWAY_PYTHON" {Path(__file__).parent / "stand_ins/serving.py"} "$@" ;;
*) exec "$LEEWAY_PYTHON" "$@" ;;
esac
""")
        python.chmod(0o755)
        monkeypatch.setenv("LEEWAY_PROJECT", str(project))
        return project

    return write
