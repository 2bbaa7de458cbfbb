"""SpotTrainingOperator in a real Airflow (four processes and their tasks): clears, marks and kill -9."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

ROOT = Path(__file__).parents[3]
PARTS = {
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "api-server": ["api-server"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}
DAG = """
import datetime as dt
from airflow.sdk import DAG
from leeway.operators.spot_training import SpotTrainingOperator

for name, deferrable in (("deferred", True), ("waiting", False)):
    with DAG(f"spot_{name}", schedule=None, params={"mode": "wait", "gate": ""}) as dag:
        SpotTrainingOperator(
            task_id="train", entry_point="train.py", bundle="bundle.txt", image_uri="image",
            channels={"train": "%s"}, deferrable=deferrable, check_interval_s=1, max_run_s=600, max_wait_s=900,
            hyperparameters={"mode": "{{ params.mode }}", "gate": "{{ params.gate }}"},
            retries=20, retry_delay=dt.timedelta(seconds=0.5),
        )
    globals()[dag.dag_id] = dag
"""
SETTINGS = {
    "CORE__LOAD_EXAMPLES": False, "CORE__EXECUTOR": "LocalExecutor", "CORE__PARALLELISM": 4,
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": False, "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": True,
    "CORE__HOSTNAME_CALLABLE": "socket.gethostname",
    "API__HOST": "127.0.0.1", "API__WORKERS": 1, "API__SECRET_KEY": "only-for-this-test",
    "API_AUTH__JWT_SECRET": "only-for-this-test-and-long-enough-for-sha512-only-for-this-test-and-long",
    # What died is missed in seconds, not in minutes.
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 0.1, "SCHEDULER__JOB_HEARTBEAT_SEC": 1,
    "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": 1, "SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": 5,
    "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": 2, "SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": 1,
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": 20,
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": 2,
    "TRIGGERER__JOB_HEARTBEAT_SEC": 1, "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": 5,
    "USAGE_DATA_COLLECTION__ENABLED": False,
}  # fmt: skip


class Airflow:
    """An Airflow of four processes, each with a process group of its own."""

    def __init__(self, home: Path, env: dict[str, str], port: int) -> None:
        self.home, self.env, self.url = home, env, f"http://127.0.0.1:{port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, part: str) -> None:
        with (self.home / f"{part}.log").open("ab") as log:
            command = [sys.executable, "-m", "airflow", *PARTS[part]]
            options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "start_new_session": True}
            self.processes[part] = subprocess.Popen(command, cwd=self.home, env=self.env, **options)

    def kill(self, part: str) -> None:
        """kill -9 of the part and of all below it: a machine that is gone."""
        process = self.processes[part]
        below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        for one in [*below, process]:
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                one.send_signal(signal.SIGKILL)
        process.wait()

    def kill_tasks(self) -> None:
        """kill -9 of what runs tasks, below the scheduler."""
        for one in psutil.Process(self.processes["scheduler"].pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if one.pid != os.getpid():
                    one.send_signal(signal.SIGKILL)

    def call(self, method: str, path: str, **options: Any) -> Any:
        token = requests.get(f"{self.url}/auth/token", timeout=60).json()["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        answer = requests.request(method, f"{self.url}/api/v2{path}", headers=headers, timeout=60, **options)
        answer.raise_for_status()
        return answer.json()

    def healthy(self) -> bool:
        with contextlib.suppress(requests.RequestException, KeyError, ValueError):
            self.call("GET", "/dags/spot_deferred")
            self.call("GET", "/dags/spot_waiting")
            return True
        return False


class Run:
    """A run of one of the DAGs, and the jobs of its task."""

    def __init__(self, airflow: Airflow, dock: Any, dag_id: str, gate: Path) -> None:
        from leeway.hooks.jobs import base_name

        self.airflow, self.dock, self.gate, self.run_id = airflow, dock, gate, f"run-{uuid.uuid4().hex[:8]}"
        self.base = base_name(dag_id, self.run_id, "train", -1)
        self.where, self.dag = f"/dags/{dag_id}/dagRuns/{self.run_id}", f"/dags/{dag_id}"
        body = {"dag_run_id": self.run_id, "logical_date": None, "conf": {"gate": str(gate)}}
        airflow.call("POST", f"{self.dag}/dagRuns", json=body)

    def task(self) -> dict[str, Any]:
        return dict(self.airflow.call("GET", f"{self.where}/taskInstances/train"))

    def state(self) -> str:
        return str(self.task()["state"])

    def clear(self) -> None:
        body = {"dry_run": False, "dag_run_id": self.run_id, "task_ids": ["train"], "only_failed": False}
        self.airflow.call("POST", f"{self.dag}/clearTaskInstances", json=body)

    def mark(self, state: str) -> None:
        self.airflow.call("PATCH", f"{self.where}/taskInstances/train", json={"new_state": state})

    def log(self, number: int) -> str:
        found = self.airflow.call("GET", f"{self.where}/taskInstances/train/logs/{number}?full_content=true")
        return "\n".join(one if isinstance(one, str) else str(one.get("event")) for one in found["content"])

    def jobs(self) -> dict[str, str]:
        listed = self.dock.client("sagemaker").list_training_jobs(MaxResults=100, NameContains=self.base)
        return {one["TrainingJobName"]: one["TrainingJobStatus"] for one in listed["TrainingJobSummaries"]}

    def job(self, number: int) -> dict[str, Any]:
        return dict(self.dock.describe(f"{self.base}-{number}"))

    def trains(self, number: int) -> bool:
        name = f"{self.base}-{number}"
        return name in self.jobs() and self.job(number)["SecondaryStatus"] == "Training"

    def result(self) -> dict[str, Any]:
        found = self.airflow.call("GET", f"{self.where}/taskInstances/train/xcomEntries/return_value")["value"]
        return json.loads(found) if isinstance(found, str) else dict(found)


@contextlib.contextmanager
def never_two(run: Run) -> Iterator[None]:
    """Asks ListTrainingJobs all the while: at most one job of the task lives at any moment."""
    over, most = threading.Event(), []

    def look() -> None:
        while not over.is_set():
            live = [name for name, status in run.jobs().items() if status in ("InProgress", "Stopping")]
            most.append(live)
            over.wait(0.05)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert most
    assert max(map(len, most)) <= 1, most


@pytest.fixture(scope="module")
def airflow(
    start_dock: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory, until: Callable[..., Any]
) -> Iterator[tuple[Airflow, Any]]:
    import socket

    conftest = sys.modules[start_dock.__module__]
    home = tmp_path_factory.mktemp("airflow")
    project, dags = home / "project", home / "dags"
    files = {"train.py": conftest.SCRIPT, "lib/__init__.py": "", "lib/extra.py": "WORD = 'trained on'\n",
             "bundle.txt": "lib/__init__.py\nlib/extra.py\n", "features/rows": "rows"}  # fmt: skip
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    dags.mkdir()
    (dags / "spot.py").write_text(textwrap.dedent(DAG % (project / "features")))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with start_dock() as dock:
        own = {
            **{f"AIRFLOW__{name}": str(value) for name, value in SETTINGS.items()},
            "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__DAGS_FOLDER": str(dags), "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "plugins"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
            "AIRFLOW_CONN_AWS_DEFAULT": conftest.connection(dock.url),
            "LEEWAY_BUCKET": conftest.BUCKET, "LEEWAY_ROLE_ARN": "arn:aws:iam::123456789012:role/leeway-training",
            "LEEWAY_HOME": str(home / "leeway"), "LEEWAY_PROJECT": str(project),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")]), "NO_PROXY": "127.0.0.1",
        }  # fmt: skip
        made = Airflow(home, {**os.environ, **own}, port)
        subprocess.run(
            [sys.executable, "-m", "airflow", "db", "migrate"], env=made.env, check=True, capture_output=True
        )
        try:
            for part in PARTS:
                made.start(part)
            until(made.healthy, 180)
            yield made, dock
        finally:
            for part in list(made.processes):
                made.kill(part)


@pytest.fixture
def begun(airflow: tuple[Airflow, Any], tmp_path: Path, until: Callable[..., Any]) -> Iterator[Callable[..., Run]]:
    """Starts a run; its gate is opened in the end, so that nothing is left running."""
    gate = tmp_path / "gate"

    def begin(dag_id: str, trains: bool = True) -> Run:
        run = Run(*airflow, dag_id, gate)
        until(lambda: not trains or run.trains(1), 120)
        return run

    yield begin
    gate.touch()


STATE = {"spot_deferred": "deferred", "spot_waiting": "running"}


@pytest.mark.parametrize("dag_id", STATE)
def test_clear_stops_the_job_and_the_next_goes_on_from_its_checkpoints(begun, until, dag_id):
    run = begun(dag_id)
    with never_two(run):
        until(lambda: run.state() == STATE[dag_id], 60)
        until(lambda: "trained on rows wait" in run.log(1), 60)  # the job's own lines, while it runs
        assert "Training since" in run.log(1)
        run.clear()
        until(lambda: run.job(1)["TrainingJobStatus"] == "Stopped", 60)
        until(lambda: run.trains(2), 120)
        assert run.job(1)["CheckpointConfig"] == run.job(2)["CheckpointConfig"]
        until(lambda: run.state() == STATE[dag_id], 60)
        assert any(words in run.log(1) for words in ("cleared or marked: stopping", "killed: stopping"))
        run.gate.touch()
        until(lambda: run.state() == "success", 120)
    assert run.result()["training_job"] == f"{run.base}-2"
    assert run.result()["attempts"] == 2
    assert any("after ['step-0']" in run.log(number) for number in range(2, run.task()["try_number"] + 1))


@pytest.mark.parametrize("dag_id", STATE)
@pytest.mark.parametrize("state", ["failed", "success"])
def test_mark_stops_the_job(begun, until, dag_id, state):
    run = begun(dag_id)
    # Before the triggerer has begun to wait, Airflow has nobody to tell of a mark.
    until(lambda: "Training since" in run.log(1), 60)
    run.mark(state)
    until(lambda: run.job(1)["TrainingJobStatus"] == "Stopped", 60)
    assert run.state() == state
    assert list(run.jobs()) == [f"{run.base}-1"]
    assert "stopping training job" in run.log(1)


def test_restart_of_the_triggerer_does_not_stop_the_job(airflow, begun, until):
    """The negative control: only a person stops a job."""
    run = begun("spot_deferred")
    until(lambda: run.state() == "deferred", 60)
    process = airflow[0].processes["triggerer"]
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    airflow[0].start("triggerer")
    run.gate.touch()
    until(lambda: run.state() == "success", 120)
    assert list(run.jobs().items()) == [(f"{run.base}-1", "Completed")]
    assert run.result()["attempts"] == 1


@pytest.mark.parametrize("seed", range(3))
def test_kills_leave_one_job_at_a_time_and_lose_no_result(airflow, begun, until, seed):
    """kill -9 of what runs tasks, of the triggerer, of the scheduler, at moments that nobody chose."""
    parts, dice = airflow[0], random.Random(seed)
    run = begun("spot_deferred", trains=False)
    with never_two(run):
        for _ in range(4):
            threading.Event().wait(4 * dice.random())
            victim = dice.choice(["tasks", "triggerer", "scheduler"])
            if victim == "tasks":
                parts.kill_tasks()
                parts.kill("scheduler")  # LocalExecutor does not replace workers that were killed
                victim = "scheduler"
            else:
                parts.kill(victim)
            parts.start(victim)
        run.gate.touch()
        until(lambda: run.state() == "success", 240)
    assert list(run.jobs().values()) == ["Completed"]
    assert run.result()["training_job"] == f"{run.base}-1"
