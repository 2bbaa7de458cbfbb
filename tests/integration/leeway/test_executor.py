"""Test that the end of a scheduler costs no task a try. Scheduler and database are Airflow's own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tools import forking

DAG_CODE = """
import datetime as dt
from airflow.sdk import DAG, task

with DAG("tries", schedule=None) as dag:
    @task(retries=2, retry_delay=dt.timedelta(seconds=0))
    def work():
        pass
    work()
"""
SCRIPT = """
import json, os, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.executors.executor_loader import ExecutorLoader
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, JobState

DagBag(sys.argv[1]).dags["tries"].test()  # it creates the run and its task
executor = ExecutorLoader.get_default_executor()
with create_session() as session:
    dead_scheduler = Job(job_type="SchedulerJob", state=JobState.FAILED)
    session.add(dead_scheduler)
    session.flush()
    (ti,) = session.query(TaskInstance)
    ti.state, ti.try_number, ti.max_tries, ti.queued_by_job_id = sys.argv[2], 2, 2, dead_scheduler.id
    session.query(DagRun).update({"state": DagRunState.RUNNING})
runner = SchedulerJobRunner(job=Job(), executors=[executor])
count = runner.adopt_or_reset_orphaned_tasks()
with create_session() as session:
    (ti,) = session.query(TaskInstance)
    result = {"reset": count, "state": ti.state, "max_tries": ti.max_tries}
print("RESULT", json.dumps(result))
"""


@pytest.fixture
def adopt(tmp_path: Path, put_airflow_database: Callable[[Path], None]) -> Callable[[str, str], dict[str, Any]]:
    """Return the function that lets a new scheduler find a task in its second of three tries."""

    def run(executor: str, state: str) -> dict[str, Any]:
        (tmp_path / "dags").mkdir(exist_ok=True)
        (tmp_path / "dags" / "tries.py").write_text(DAG_CODE)
        home = tmp_path / "airflow"
        put_airflow_database(home)
        env = {**os.environ, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__EXECUTOR": executor}
        env |= {"AIRFLOW__CORE__LOAD_EXAMPLES": "False", "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags")}
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "dags"), state]
        result = forking.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert result.returncode == 0, result.stderr[-3_000:]
        line = next(line for line in result.stdout.splitlines() if line.startswith("RESULT "))
        answer: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
        return answer

    return run


@pytest.mark.parametrize(
    ("executor", "state", "max_tries"),
    [
        # Airflow starts the task again as its third try. It may be retried only while the number is at most max_tries.
        ("leeway.executor.RestartableLocalExecutor", "queued", 3),
        pytest.param("LocalExecutor", "queued", 2, marks=pytest.mark.soak),
    ],
)
def test_task_of_a_scheduler_that_ended_keeps_its_tries(adopt: Any, executor: str, state: str, max_tries: int) -> None:
    assert adopt(executor, state) == {"reset": 1, "state": None, "max_tries": max_tries}
