"""Provide a real Airflow: scheduler, DAG processor, API server and triggerer as processes, with a drydock server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from tests.tools import forking
from tests.tools.airflow_api import open_retrying_session
from tests.tools.airflow_project import DAG_IDS, format_bundle_config, write_project
from tests.tools.job_times import check_job_times, find_end

ROOT = Path(__file__).parents[4]
STAND_INS = Path(__file__).parents[1] / "stand_ins"
JOB_TYPES = {"train": "Training", "preprocess": "Processing"}
"""Type of the SageMaker jobs that a task starts, by the task's id."""
SERVERS = contextlib.ExitStack()
"""Stops the servers of this folder's tests when it is closed."""
COMPONENTS = {
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
    # Airflow notices a dead process in seconds instead of minutes.
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 0.4, "SCHEDULER__JOB_HEARTBEAT_SEC": 1,
    "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": 1, "SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": 5,
    "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": 2, "SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": 1,
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": 20,
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": 2,
    "TRIGGERER__JOB_HEARTBEAT_SEC": 1, "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": 5,
    "USAGE_DATA_COLLECTION__ENABLED": False,
}  # fmt: skip


class Airflow:
    """An Airflow of four processes, each in its own process group."""

    def __init__(self, project: Path, env: dict[str, str], port: int, drydock: Any) -> None:
        self.project, self.home, self.url, self.drydock = project, project.parent, f"http://127.0.0.1:{port}", drydock
        settings = {"API__PORT": str(port), "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/"}
        self.env = env | {f"AIRFLOW__{name}": value for name, value in settings.items()}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, component: str) -> None:
        with (self.home / f"{component}.log").open("ab") as log:
            command = [sys.executable, "-m", "airflow", *COMPONENTS[component]]
            options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "start_new_session": True}
            self.processes[component] = forking.Popen(command, cwd=self.home, env=self.env, **options)

    def kill(self, component: str) -> None:
        """Send SIGKILL to a process and all its children, as when a machine is lost."""
        process = self.processes[component]
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        members: list[subprocess.Popen[bytes] | psutil.Process] = [*children, process]
        for member in members:
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                member.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """Kill all processes that were started."""
        for component in list(self.processes):
            self.kill(component)

    def kill_tasks(self) -> None:
        """Send SIGKILL to the scheduler's children, which run the tasks."""
        for child in psutil.Process(self.processes["scheduler"].pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.pid != os.getpid():
                    child.send_signal(signal.SIGKILL)

    @cached_property
    def session(self) -> requests.Session:
        return open_retrying_session()

    @cached_property
    def token(self) -> str:
        return str(self.session.get(f"{self.url}/auth/token", timeout=180).json()["access_token"])

    def call_api(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        response = self.session.request(method, f"{self.url}/api/v2{path}", headers=headers, timeout=180, **options)
        response.raise_for_status()
        return response.json()

    def has_dags(self, dag_ids: Sequence[str]) -> bool:
        """Return whether the DAG processor has read all these DAGs."""
        with contextlib.suppress(requests.RequestException, KeyError, ValueError):
            for dag_id in dag_ids:
                self.call_api("GET", f"/dags/{dag_id}")
            return True
        return False


class TaskRun:
    """A run of a DAG, and the SageMaker jobs of one of its tasks.

    `release_file`: in mode `wait`, a job runs until this file exists. `job_base_name` is a job name without its number.
    """

    def __init__(self, airflow: Airflow, dag_id: str, run_id: str, task_id: str, release_file: Path) -> None:
        from leeway.hooks.sagemaker.named_jobs import build_base_name

        self.airflow, self.run_id, self.task_id, self.release_file = airflow, run_id, task_id, release_file
        self.dag_id, self.job_type = dag_id, JOB_TYPES.get(task_id, "")
        self.job_base_name = build_base_name(dag_id, run_id, task_id, -1)
        self.path, self.dag_path = f"/dags/{dag_id}/dagRuns/{run_id}", f"/dags/{dag_id}"

    def start(self, conf: dict[str, str]) -> None:
        body = {
            "dag_run_id": self.run_id,
            "logical_date": None,
            "conf": {"release_file": str(self.release_file), **conf},
        }
        self.airflow.call_api("POST", f"{self.dag_path}/dagRuns", json=body)

    def select_task(self, task_id: str) -> TaskRun:
        """Return the same run with another of its tasks."""
        return TaskRun(self.airflow, self.dag_id, self.run_id, task_id, self.release_file)

    def get_task(self) -> dict[str, Any]:
        return dict(self.airflow.call_api("GET", f"{self.path}/taskInstances/{self.task_id}"))

    def get_state(self) -> str:
        return str(self.get_task()["state"])

    def clear_task(self) -> None:
        body = {"dry_run": False, "dag_run_id": self.run_id, "task_ids": [self.task_id], "only_failed": False}
        self.airflow.call_api("POST", f"{self.dag_path}/clearTaskInstances", json=body)

    def mark_task(self, state: str) -> None:
        self.airflow.call_api("PATCH", f"{self.path}/taskInstances/{self.task_id}", json={"new_state": state})

    def read_log(self, number: int, max_tries: int = 31) -> str:
        """Return the log of a try. On a loaded machine Airflow answers 404 for a moment after the task has ended."""
        path = f"{self.path}/taskInstances/{self.task_id}/logs/{number}?full_content=true"
        for is_last in (False,) * (max_tries - 1) + (True,):
            try:
                log = self.airflow.call_api("GET", path)
                break
            except requests.HTTPError as error:
                if is_last or error.response.status_code != 404:
                    raise
                time.sleep(1)
        return "\n".join(line if isinstance(line, str) else str(line.get("event")) for line in log["content"])

    def read_logs(self) -> str:
        """Return the logs of all tries.

        Airflow's API has no log of a try that it started again as another one, which happens on a loaded machine: such
        a log is read from its files.
        """
        texts = []
        for number in range(1, self.get_task()["try_number"] + 1):
            try:
                texts.append(self.read_log(number, max_tries=1))
            except requests.HTTPError:
                folder = f"dag_id={self.dag_id}/run_id={self.run_id}/task_id={self.task_id}"
                files = (self.airflow.home / "logs" / folder).glob(f"attempt={number}.log*")
                texts += [file.read_text() for file in files]
        return "\n".join(texts)

    def list_jobs(self) -> dict[str, str]:
        """Return the status of each of the task's jobs, by name."""
        list_jobs = getattr(self.airflow.drydock.client("sagemaker"), f"list_{self.job_type.lower()}_jobs")
        jobs = list_jobs(MaxResults=100, NameContains=self.job_base_name)[f"{self.job_type}JobSummaries"]
        return {job[f"{self.job_type}JobName"]: job[f"{self.job_type}JobStatus"] for job in jobs}

    def get_job(self, number: int) -> dict[str, Any]:
        describe_job = getattr(self.airflow.drydock.client("sagemaker"), f"describe_{self.job_type.lower()}_job")
        return dict(describe_job(**{f"{self.job_type}JobName": f"{self.job_base_name}-{number}"}))

    def get_status(self, number: int) -> str:
        return str(self.get_job(number)[f"{self.job_type}JobStatus"])

    def has_started(self, number: int) -> bool:
        """Return whether the job's script has started."""
        if f"{self.job_base_name}-{number}" not in self.list_jobs():
            return False
        job = self.get_job(number)
        return f"{self.job_type}StartTime" in job and job.get("SecondaryStatus", "Training") == "Training"

    def get_result(self) -> dict[str, Any]:
        path = f"{self.path}/taskInstances/{self.task_id}/xcomEntries/return_value"
        value = self.airflow.call_api("GET", path)["value"]
        return json.loads(value) if isinstance(value, str) else dict(value)


@contextlib.contextmanager
def check_one_job_at_a_time(run: TaskRun) -> Iterator[None]:
    """Check, after the block, that at most one of the task's jobs was live at any moment.

    A job is live from its creation to its end, both as drydock recorded them. Only the last one may still be live.
    """
    yield
    jobs = [run.get_job(number) for number in range(1, len(run.list_jobs()) + 1)]
    assert jobs
    check_job_times([(job["CreationTime"], find_end(job, run.job_type)) for job in jobs])


@pytest.fixture(name="check_one_job_at_a_time", scope="session")
def _check_one_job_at_a_time() -> Callable[[TaskRun], Any]:
    """Return the context manager that checks that a run's task never has two live jobs."""
    return check_one_job_at_a_time


@pytest.fixture(scope="session")
def start_airflow(
    tmp_path_factory: pytest.TempPathFactory,
    start_drydock: Callable[[], Any],
    free_port: Callable[[], int],
    until: Callable[..., Any],
    put_airflow_database: Callable[[Path], None],
) -> Callable[[contextlib.ExitStack, dict[str, str]], Airflow]:
    """Return the function that starts an Airflow with the DAGs of all tests in this folder and its own drydock server.

    Its arguments are the stack that stops the servers, and more environment variables.
    """

    def start(servers: contextlib.ExitStack, variables: dict[str, str]) -> Airflow:
        project = tmp_path_factory.mktemp("airflow") / "project"
        write_project(project, sys.modules[start_drydock.__module__].TRAINING_SCRIPT)
        drydock = servers.enter_context(start_drydock())
        server = Airflow(project, build_environment(project, drydock) | variables, free_port(), drydock)
        put_airflow_database(server.home)
        servers.callback(server.stop)
        for component in COMPONENTS:
            server.start(component)
        until(lambda: server.has_dags(DAG_IDS), 180)
        return server

    return start


@pytest.fixture(scope="session")
def airflow(start_airflow: Callable[..., Airflow]) -> Iterator[Airflow]:
    """Start the Airflow that the tests in this folder share."""
    with SERVERS:
        yield start_airflow(SERVERS, {})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Stop the servers after the last test of this folder: even idle, they slow the tests that follow."""
    yield
    if nextitem is None or not nextitem.path.is_relative_to(Path(__file__).parent):
        SERVERS.close()


def build_environment(project: Path, drydock: Any) -> dict[str, str]:
    """Return the environment of the four processes and of their tasks."""
    home, leeway_conftest = project.parent, sys.modules[type(drydock).__module__]
    return {
        **os.environ,
        **{f"AIRFLOW__{name}": str(value) for name, value in SETTINGS.items()},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": format_bundle_config(project),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH": str(home / "bundles"),
        "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "plugins"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW_CONN_AWS_DEFAULT": leeway_conftest.build_aws_connection(drydock.url),
        "LEEWAY_BUCKET": leeway_conftest.BUCKET,
        "LEEWAY_ROLE_ARN": "arn:aws:iam::123456789012:role/leeway-training",
        "LEEWAY_HOME": str(home / "leeway"),
        "LEEWAY_PROJECT": str(project),
        "LEEWAY_PYTHON": forking.ensure_stand_in(),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins"), str(STAND_INS)]),
        "NO_PROXY": "127.0.0.1",
    }


@pytest.fixture
def start_run(airflow: Airflow, tmp_path: Path, until: Callable[..., Any]) -> Iterator[Callable[..., TaskRun]]:
    """Return the function that starts a run of a DAG. After the test, the release file ends all jobs."""
    release_file = tmp_path / "release"

    def start(dag_id: str, task_id: str, wait_for_job: bool = True, **conf: str) -> TaskRun:
        run = TaskRun(airflow, dag_id, f"run-{uuid.uuid4().hex[:8]}", task_id, release_file)
        run.start(conf)
        until(lambda: not wait_for_job or run.has_started(1), 250)
        return run

    yield start
    release_file.touch()
