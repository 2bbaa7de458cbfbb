"""Interrupt trainings at random times: check that they finish, and measure lost work and the operator's overhead.

The runs use the embedded stack (Airflow's scheduler and triggerer, drydock), the default training script on real
flights, and SpotTrainingOperator. drydock interrupts the first 1 to 5 attempts of each job, each at a random time, from
0 to the script's duration after the attempt begins: before the script has started, before its first checkpoint, between
a checkpoint and its upload, or at its end. Half of the interruptions come with a notice, half without (SIGKILL, and no
last copy of the checkpoints). An interruption that comes after the end of the script has no effect.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from benchmarks.spot.interrupter import Interrupter, list_jobs
from benchmarks.spot.timeline import Moment, measure_losses, parse_starts
from stack.airflow.client import AirflowClient
from stack.airflow.dag_parsing import unpause_when_parsed
from stack.layout import Layout
from stack.services import start_stop
from stack.services.commands import USER, read_password
from stack.services.ports import ANY_PORTS
from stack.services.readiness import load_live_stack

PROJECT = Path(__file__).parents[2]
FEATURES_FOLDER = "models/flights/data/features"
RUNS = int(os.environ.get("LEEWAY_BENCH_RUNS", "100"))
MAX_ACTIVE_RUNS = 2
UNINTERRUPTED_RUNS = 5
CHECKPOINT_S = 1.0
HYPERPARAMETERS = {
    "num_round": 700,
    "early_stopping_rounds": 700,
    "eta": 0.02,
    "nthread": 1,
    "checkpoint_s": CHECKPOINT_S,
}
"""With these values, no training stops early: each one makes all rounds."""
DAG_CODE = """
from airflow.sdk import DAG
from leeway.operators.spot_training import SpotTrainingOperator

with DAG("bench", schedule=None, max_active_runs=MAX_ACTIVE_RUNS):
    SpotTrainingOperator(
        task_id="train", model="flights",
        channels={name: f"{FEATURES}/{name}" for name in ("train", "validation")},
        hyperparameters=HYPERPARAMETERS, image_uri="bench", instance_type="ml.t3.medium",
        max_run_s=1800, max_wait_s=7200, check_interval_s=1, project="benchmark",
    )
"""


def run() -> dict[str, Any]:
    """Run the trainings, first without and then with interruptions. Return their seconds, and counts as facts."""
    with tempfile.TemporaryDirectory() as folder:
        project = _create_project(Path(folder))
        script_s = [_time_script(project, number) for number in range(UNINTERRUPTED_RUNS)]
        with _run_stack(project) as stack:
            uninterrupted_s = [
                _read_result(stack, run_id)["seconds"] for run_id in _run_one_by_one(stack, UNINTERRUPTED_RUNS)
            ]
            results = _run_with_interruptions(stack, statistics.median(script_s))
    median_s = statistics.median(script_s)
    overhead_s = statistics.median(uninterrupted_s) - median_s
    losses = [loss for result in results for loss in result["losses"]]
    moments = [loss.moment for loss in losses]
    return {
        "seconds": {
            "the training script without Airflow": script_s,
            "a DAG run of the operator, not interrupted": uninterrupted_s,
            "work lost by an interruption": [loss.lost_s for loss in losses],
            "a DAG run, interrupted at most 5 times": [result["seconds"] for result in results],
        },
        "facts": {
            "overhead_s": round(overhead_s, 2),
            "overhead_percent": round(100 * overhead_s / median_s, 1),
            "runs": len(results),
            "finished": sum(result["state"] == "success" for result in results),
            "runs_interrupted": sum(bool(result["interruptions"]) for result in results),
            "interruptions": sum(result["interruptions"] for result in results),
            "interruptions_before_the_script_began": moments.count(Moment.BEFORE_START),
            "interruptions_before_the_first_checkpoint": moments.count(Moment.BEFORE_CHECKPOINT),
            "interruptions_planned": sum(result["planned"] for result in results),
            "interruptions_after_a_checkpoint": moments.count(Moment.AFTER_CHECKPOINT),
            "checkpoint_s": CHECKPOINT_S,
            "max_lost_s": round(max(loss.lost_s for loss in losses), 2),
            "distinct_models": len({result["model"] for result in results}),
            "savings_that_differ_from_describe": sum(
                result["saving"] != result["saving_described"] for result in results
            ),
        },
    }


def _create_project(folder: Path) -> Path:
    """Create a clone of the project with real features and one DAG."""
    project = folder / "project"
    subprocess.run(["git", "clone", "-q", str(PROJECT), str(project)], check=True)
    for dag in project.glob("dags/*.py"):
        dag.unlink()
    constants = {
        "MAX_ACTIVE_RUNS": MAX_ACTIVE_RUNS,
        "FEATURES": str(project / FEATURES_FOLDER),
        "HYPERPARAMETERS": HYPERPARAMETERS,
    }
    (project / "dags" / "bench.py").write_text(
        "".join(f"{name} = {value!r}\n" for name, value in constants.items()) + DAG_CODE
    )
    _run_module(project, "dvc", "repro", "preprocess@flights")
    return project


def _build_environment(project: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # DVC's stages call `python`
    home = {"LEEWAY_PROJECT": str(project), "LEEWAY_HOME": str(project / ".leeway")}
    return {**os.environ, **home, "PYTHONPATH": ".", "PATH": path}


def _run_module(project: Path, *module: str, **env: str) -> str:
    command = [sys.executable, "-m", *module]
    result = subprocess.run(
        command, cwd=project, env={**_build_environment(project), **env}, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise RuntimeError(f"{' '.join(module)}: {result.stderr[-2000:]}")
    return result.stdout


def _time_script(project: Path, number: int) -> float:
    folder, features = project / f"script-{number}", project / FEATURES_FOLDER
    folders = {"SM_MODEL_DIR": "model", "SM_OUTPUT_DATA_DIR": "output/data", "SM_CHECKPOINT_DIR": "checkpoints"}
    for name in folders.values():
        (folder / name).mkdir(parents=True)
    env = {variable: str(folder / name) for variable, name in folders.items()}
    env |= {f"SM_CHANNEL_{name.upper()}": str(features / name) for name in ("train", "validation")}
    arguments = [argument for name, value in HYPERPARAMETERS.items() for argument in (f"--{name}", str(value))]
    start_s = time.monotonic()
    _run_module(project, "pipelines.defaults.training", *arguments, SAGEMAKER_BASE_DIR=str(folder), **env)
    return time.monotonic() - start_s


@contextmanager
def _run_stack(project: Path) -> Iterator[dict[str, Any]]:
    """Start the stack, and yield its clients and drydock's URL by name. The stack is stopped after the block."""
    layout = Layout(project=project, home=project / ".leeway")
    os.environ["DRYDOCK_CORES"] = "4"  # two jobs of 2 vCPUs run at once; each script has one thread
    stack, _ = start_stop.start_stack(layout, ANY_PORTS, lambda *_: None)
    keys = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench", "region_name": "us-east-1"}
    clients = {name: boto3.client(name, endpoint_url=stack.drydock_url, **keys) for name in ("sagemaker", "logs", "s3")}
    try:
        api = AirflowClient(stack.airflow_url, USER, read_password(layout))
        unpause_when_parsed(api, ["bench"], stack.started_at, lambda: load_live_stack(layout, stack))
        yield {"api": api, "url": stack.drydock_url, **clients}
    finally:
        start_stop.stop_stack(layout)


def _trigger_run(stack: dict[str, Any]) -> str:
    body = {"logical_date": None, "dag_run_id": f"bench-{time.time_ns()}"}
    return str(stack["api"].request("POST", "/dags/bench/dagRuns", json=body)["dag_run_id"])


def _run_one_by_one(stack: dict[str, Any], count: int) -> Iterator[str]:
    """Start each run after the end of the one before, and yield its id when it has ended."""
    for _ in range(count):
        run_id = _trigger_run(stack)
        while _read_state(stack, run_id) not in ("success", "failed"):
            time.sleep(0.2)
        yield run_id


def _read_state(stack: dict[str, Any], run_id: str) -> str:
    return str(stack["api"].request("GET", f"/dags/bench/dagRuns/{run_id}")["state"])


def _run_with_interruptions(stack: dict[str, Any], duration_s: float) -> list[dict[str, Any]]:
    """Start all runs, and interrupt their jobs. Return the results of the runs."""
    ignored_jobs = list_jobs(stack["sagemaker"])
    interrupter, results = Interrupter(stack["sagemaker"], stack["url"], duration_s, ignored_jobs), []
    unfinished_run_ids = {_trigger_run(stack) for _ in range(RUNS)}
    while unfinished_run_ids:
        interrupter.request_next_interruptions()
        oldest_run_ids = sorted(unfinished_run_ids)[: 2 * MAX_ACTIVE_RUNS]
        for run_id in oldest_run_ids:
            if _read_state(stack, run_id) not in ("success", "failed"):
                continue
            unfinished_run_ids.discard(run_id)
            result = _read_result(stack, run_id)
            results.append({**result, "planned": len(interrupter.plans[result["job"]])})
            print(f"{len(results)} of {RUNS}: {result['state']}, {result['interruptions']} interruptions", flush=True)
        time.sleep(0.2)
    return results


def _read_result(stack: dict[str, Any], run_id: str) -> dict[str, Any]:
    """Return the state, times and result of a run, from Airflow, the job's description and its log."""
    dag_run = stack["api"].request("GET", f"/dags/bench/dagRuns/{run_id}")
    path = f"/dags/bench/dagRuns/{run_id}/taskInstances/train/xcomEntries/return_value"
    result = stack["api"].request("GET", path)["value"]
    result = json.loads(result) if isinstance(result, str) else result
    job = stack["sagemaker"].describe_training_job(TrainingJobName=result["training_job"])
    bucket, _, key = job["ModelArtifacts"]["S3ModelArtifacts"].removeprefix("s3://").partition("/")
    model = stack["s3"].get_object(Bucket=bucket, Key=key)["Body"].read()
    stops = [item["StartTime"] for item in job["SecondaryStatusTransitions"] if item["Status"] == "Interrupted"]
    starts = parse_starts(list(_iter_log_events(stack["logs"], result["training_job"])))
    return {
        "job": result["training_job"],
        "state": dag_run["state"],
        "seconds": _parse_time(dag_run["end_date"]) - _parse_time(dag_run["start_date"]),
        "interruptions": result["interruptions"],
        "losses": measure_losses(job["CreationTime"], stops, starts),
        "saving": round(result["saving"], 6),
        "saving_described": round(1 - job["BillableTimeInSeconds"] / job["TrainingTimeInSeconds"], 6),
        "model": hashlib.sha256(model).hexdigest(),
    }


def _iter_log_events(logs: Any, job: str) -> Iterator[Mapping[str, Any]]:
    group = "/aws/sagemaker/TrainingJobs"
    for stream in logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{job}/")["logStreams"]:
        query = {"logGroupName": group, "logStreamName": stream["logStreamName"], "startFromHead": True}
        yield from logs.get_log_events(**query)["events"]


def _parse_time(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()
