"""A real Airflow: scheduler, DAG processor, API server and triggerer as processes of their own, over a drydock."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from tests.tools.airflow_api import open_retrying_session
from tests.tools.airflow_project import DAG_IDS, format_bundle_config, write_project

ROOT = Path(__file__).parents[4]
STANDINS = Path(__file__).parents[1] / "standins"
KINDS = {"train": "Training", "preprocess": "Processing"}
"""Task to the kind of its SageMaker jobs, where it has some."""
PARTS = {
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "api-server": ["api-server"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}
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

    def __init__(self, project: Path, env: dict[str, str], port: int, dock: Any) -> None:
        self.project, self.home, self.url, self.dock = project, project.parent, f"http://127.0.0.1:{port}", dock
        own = {"API__PORT": str(port), "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/"}
        self.env = env | {f"AIRFLOW__{name}": value for name, value in own.items()}
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

    @cached_property
    def session(self) -> requests.Session:
        return open_retrying_session()

    @cached_property
    def token(self) -> str:
        return str(self.session.get(f"{self.url}/auth/token", timeout=60).json()["access_token"])

    def call(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = self.session.request(method, f"{self.url}/api/v2{path}", headers=headers, timeout=60, **options)
        answer.raise_for_status()
        return answer.json()

    def knows(self, dag_ids: Sequence[str]) -> bool:
        with contextlib.suppress(requests.RequestException, KeyError, ValueError):
            for dag_id in dag_ids:
                self.call("GET", f"/dags/{dag_id}")
            return True
        return False


class Run:
    """A run of a DAG, and the SageMaker jobs of one of its tasks."""

    def __init__(self, airflow: Airflow, dag_id: str, run_id: str, task_id: str, gate: Path) -> None:
        from leeway.hooks.sagemaker.named_jobs import base_name

        self.airflow, self.run_id, self.task_id, self.gate = airflow, run_id, task_id, gate
        self.kind, self.dag_id, self.base = KINDS.get(task_id, ""), dag_id, base_name(dag_id, run_id, task_id, -1)
        self.where, self.dag = f"/dags/{dag_id}/dagRuns/{run_id}", f"/dags/{dag_id}"

    def start(self, conf: dict[str, str]) -> None:
        body = {"dag_run_id": self.run_id, "logical_date": None, "conf": {"gate": str(self.gate), **conf}}
        self.airflow.call("POST", f"{self.dag}/dagRuns", json=body)

    def of(self, task_id: str) -> Run:
        """The same run, seen from another task."""
        return Run(self.airflow, self.dag_id, self.run_id, task_id, self.gate)

    def task(self) -> dict[str, Any]:
        return dict(self.airflow.call("GET", f"{self.where}/taskInstances/{self.task_id}"))

    def state(self) -> str:
        return str(self.task()["state"])

    def clear(self) -> None:
        body = {"dry_run": False, "dag_run_id": self.run_id, "task_ids": [self.task_id], "only_failed": False}
        self.airflow.call("POST", f"{self.dag}/clearTaskInstances", json=body)

    def mark(self, state: str) -> None:
        self.airflow.call("PATCH", f"{self.where}/taskInstances/{self.task_id}", json={"new_state": state})

    def log(self, number: int) -> str:
        """What the task wrote. On a loaded machine Airflow answers 404 for a moment after the task has ended."""
        where = f"{self.where}/taskInstances/{self.task_id}/logs/{number}?full_content=true"
        for last in (False,) * 30 + (True,):
            try:
                found = self.airflow.call("GET", where)
                break
            except requests.HTTPError as error:
                if last or error.response.status_code != 404:
                    raise
                time.sleep(1)
        return "\n".join(one if isinstance(one, str) else str(one.get("event")) for one in found["content"])

    def jobs(self) -> dict[str, str]:
        ask = getattr(self.airflow.dock.client("sagemaker"), f"list_{self.kind.lower()}_jobs")
        listed = ask(MaxResults=100, NameContains=self.base)[f"{self.kind}JobSummaries"]
        return {one[f"{self.kind}JobName"]: one[f"{self.kind}JobStatus"] for one in listed}

    def job(self, number: int) -> dict[str, Any]:
        ask = getattr(self.airflow.dock.client("sagemaker"), f"describe_{self.kind.lower()}_job")
        return dict(ask(**{f"{self.kind}JobName": f"{self.base}-{number}"}))

    def status(self, number: int) -> str:
        return str(self.job(number)[f"{self.kind}JobStatus"])

    def works(self, number: int) -> bool:
        """Whether the job's script has begun."""
        if f"{self.base}-{number}" not in self.jobs():
            return False
        job = self.job(number)
        return f"{self.kind}StartTime" in job and job.get("SecondaryStatus", "Training") == "Training"

    def result(self) -> dict[str, Any]:
        place = f"{self.where}/taskInstances/{self.task_id}/xcomEntries/return_value"
        found = self.airflow.call("GET", place)["value"]
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


@pytest.fixture(name="never_two", scope="session")
def _never_two_fixture() -> Callable[[Run], Any]:
    """A context manager over a run: its task never has two live jobs."""
    return never_two


@pytest.fixture(scope="session")
def airflow(
    tmp_path_factory: pytest.TempPathFactory,
    start_dock: Callable[[], Any],
    free_port: Callable[[], int],
    until: Callable[..., Any],
    put_airflow_database: Callable[[Path], None],
) -> Iterator[Airflow]:
    """The Airflow of all these tests, over a project with the DAGs of them all, and over a drydock of its own."""
    project = tmp_path_factory.mktemp("airflow") / "project"
    write_project(project, sys.modules[start_dock.__module__].SCRIPT)
    with start_dock() as dock:
        made = Airflow(project, environment(project, dock), free_port(), dock)
        put_airflow_database(made.home)
        try:
            for part in PARTS:
                made.start(part)
            until(lambda: made.knows(DAG_IDS), 180)
            yield made
        finally:
            for part in list(made.processes):
                made.kill(part)


def environment(project: Path, dock: Any) -> dict[str, str]:
    """Of all four parts, and of their tasks."""
    home, from_dock = project.parent, sys.modules[type(dock).__module__]
    return {
        **os.environ,
        **{f"AIRFLOW__{name}": str(value) for name, value in SETTINGS.items()},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": format_bundle_config(project),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH": str(home / "bundles"),
        "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "plugins"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW_CONN_AWS_DEFAULT": from_dock.connection(dock.url),
        "LEEWAY_BUCKET": from_dock.BUCKET,
        "LEEWAY_ROLE_ARN": "arn:aws:iam::123456789012:role/leeway-training",
        "LEEWAY_HOME": str(home / "leeway"),
        "LEEWAY_PROJECT": str(project),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins"), str(STANDINS)]),
        "NO_PROXY": "127.0.0.1",
    }


@pytest.fixture
def begun(airflow: Airflow, tmp_path: Path, until: Callable[..., Any]) -> Iterator[Callable[..., Run]]:
    """Starts a run of the Airflow; its gate is opened in the end, so that nothing is left running."""
    gate = tmp_path / "gate"

    def begin(dag_id: str, task_id: str, works: bool = True, **conf: str) -> Run:
        run = Run(airflow, dag_id, f"run-{uuid.uuid4().hex[:8]}", task_id, gate)
        run.start(conf)
        until(lambda: not works or run.works(1), 120)
        return run

    yield begin
    gate.touch()
