"""SparkPreprocessOperator in a real Airflow (four processes and their tasks): a clear, kill -9, and what docs show."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[4]
STANDINS = Path(__file__).parents[1] / "standins"
DAG = """
import datetime as dt, os
from airflow.sdk import DAG
from leeway.operators.spark_preprocess import SparkPreprocessOperator
from leeway.operators.spot_training import SpotTrainingOperator

RETRIED = {"retries": 20, "retry_delay": dt.timedelta(seconds=0.5)}

def preprocess(deferrable):
    return SparkPreprocessOperator(
        task_id="preprocess", image_uri="image", instance_type="ml.m5.large", max_run_s=600, check_interval_s=1,
        environment={"MODE": "{{ params.mode }}", "GATE": "{{ params.gate }}"}, deferrable=deferrable,
        python=os.environ["LEEWAY_PROJECT"] + "/python", **RETRIED,
    )

def train():
    return SpotTrainingOperator(
        task_id="train", entry_point="train.py", bundle="bundle.txt", image_uri="image",
        check_interval_s=1, max_run_s=600, max_wait_s=900, **RETRIED,
        %s
    )

for name, deferrable in (("deferred", True), ("waiting", False)):
    with DAG(f"spark_{name}", schedule=None, params={"mode": "wait", "gate": ""}) as dag:
        first = preprocess(deferrable)
        if deferrable:
            first >> train()
    globals()[dag.dag_id] = dag
"""
SCRIPT = """
import os, pathlib
rows = (pathlib.Path(os.environ["SM_CHANNEL_TRAIN"]) / "data.parquet").read_text()
print("trained on", rows, flush=True)
(pathlib.Path(os.environ["SM_MODEL_DIR"]) / "model").write_text(rows)
"""
STATE = {"spark_deferred": "deferred", "spark_waiting": "running"}


@pytest.fixture(scope="module")
def airflow(start_airflow: Callable[..., Any], make_project: Callable[..., Any]) -> Iterator[Any]:
    files = {
        "dags/dags.py": DAG % shown(),
        "pipelines/container/processing.py": (STANDINS / "processing.py").read_text(),
        "data/snapshot.json": "window",
        "python": f"#!{sys.executable}\n" + (STANDINS / "pack.py").read_text(),
        "train.py": SCRIPT,
        "bundle.txt": "",
    }
    project = make_project(files)
    (project / "python").chmod(0o755)
    with start_airflow(project, STATE) as made:
        yield made


def shown() -> str:
    """The channels of the training in docs/how-to/processing-job.md."""
    page = (ROOT / "docs/how-to/processing-job.md").read_text()
    found = re.search(r"SpotTrainingOperator\(.*?(channels=.*?)\n\)", page, re.S)
    assert found
    return found[1]


def test_it_runs_through_and_a_training_takes_its_channels(begun, until):
    run = begun("spark_deferred", "preprocess", mode="")
    until(lambda: run.state() == "success", 120)
    told = run.result()
    assert told["attempts"] == 1
    assert told["processing_job"] == f"{run.base}-1"
    until(lambda: "building window --engine spark" in run.log(1), 60)  # the end of a log comes after that of the task
    train = run.of("train")
    until(lambda: train.state() == "success", 120)
    inputs = train.job(1)["InputDataConfig"]
    places = {one["ChannelName"]: one["DataSource"]["S3DataSource"]["S3Uri"] for one in inputs}
    assert told["channels"].items() <= places.items()
    until(lambda: "trained on window train" in train.log(1), 60)


def test_kills_leave_one_job_and_lose_no_result(airflow, begun, never_two, until):
    """kill -9 of the triggerer, and of the workers with their scheduler, while a job runs for each."""
    runs = [begun(dag_id, "preprocess") for dag_id in STATE]
    until(lambda: [run.state() for run in runs] == list(STATE.values()), 60)
    until(lambda: all("building window" in run.log(1) for run in runs), 60)
    with never_two(runs[0]), never_two(runs[1]):
        airflow.kill("triggerer")
        airflow.kill_tasks()
        airflow.kill("scheduler")
        for part in ("scheduler", "triggerer"):
            airflow.start(part)
        # The killed worker's task is missed, and its next try finds the job.
        until(lambda: runs[1].task()["try_number"] > 1 and runs[1].state() == "running", 120)
        runs[0].gate.touch()
        until(lambda: [run.state() for run in runs] == ["success"] * 2, 120)
    for run in runs:
        assert run.jobs() == {f"{run.base}-1": "Completed"}
        assert run.result()["attempts"] == 1


def test_clear_stops_the_job_and_the_next_follows(begun, never_two, until):
    runs = [begun(dag_id, "preprocess") for dag_id in STATE]
    until(lambda: [run.state() for run in runs] == list(STATE.values()), 60)
    until(lambda: all("building window" in run.log(1) for run in runs), 60)  # the job's own lines, while it runs
    with never_two(runs[0]), never_two(runs[1]):
        for run in runs:
            run.clear()
        until(lambda: [run.status(1) for run in runs] == ["Stopped"] * 2, 60)
        until(lambda: all(run.works(2) for run in runs), 120)
        runs[0].gate.touch()
        until(lambda: [run.state() for run in runs] == ["success"] * 2, 120)
    until(lambda: "the task was cleared or marked: stopping processing job" in runs[0].log(1), 60)
    until(lambda: "the task was killed: stopping processing job" in runs[1].log(1), 60)
    for run in runs:
        assert run.result()["processing_job"] == f"{run.base}-2"
        assert run.result()["attempts"] == 2
