"""Interrupt training runs at random moments: check that they finish, and measure lost work and the operator's overhead.

The runs use the embedded stack (Airflow's scheduler and triggerer, drydock), the flights script on real flights, and
SpotTrainingOperator. Drydock interrupts each job at random times: half of the interruptions with a notice, half without
(kill -9, and no last copy of the checkpoints).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from stack.airflow.client import AirflowClient
from stack.airflow.dag_parsing import wait_until_parsed
from stack.layout import Layout
from stack.services import start_stop
from stack.services.commands import USER, read_password
from stack.services.ports import ANY_PORTS
from stack.services.readiness import raise_if_dead

PROJECT = Path(__file__).parents[1]
RUNS = int(os.environ.get("LEEWAY_BENCH_RUNS", "100"))
AT_ONCE = 2
PLAIN_RUNS = 5
CHECKPOINT_S = 1.0
SEED = 13
RESTORED = re.compile(r"checkpoint restored: (?:none|name=\S+ saved_at=(\S+))")
HYPERPARAMETERS = {
    "num_round": 700,
    "early_stopping_rounds": 700,
    "eta": 0.02,
    "nthread": 1,
    "checkpoint_s": CHECKPOINT_S,
}
DAG = """
from airflow.sdk import DAG
from leeway.operators.spot_training import SpotTrainingOperator

with DAG("bench", schedule=None, max_active_runs=AT_ONCE):
    SpotTrainingOperator(
        task_id="train", entry_point="pipelines/datasets/flights/training.py",
        bundle="pipelines/datasets/flights/bundle.txt",
        channels={name: f"{FEATURES}/{name}" for name in ("train", "validation")},
        hyperparameters=HYPERPARAMETERS, image_uri="bench", instance_type="ml.t3.medium",
        max_run_s=1800, max_wait_s=7200, check_interval_s=1, project="benchmark",
    )
"""


def run() -> dict[str, Any]:
    """Run the trainings, and return seconds by row, and facts."""
    with tempfile.TemporaryDirectory() as folder:
        project = _create_project(Path(folder))
        script_s = [_time_script(project, number) for number in range(PLAIN_RUNS)]
        with _run_stack(project) as stack:
            plain_s = [_read_result(stack, run)["seconds"] for run in _run_in_turn(stack, PLAIN_RUNS)]
            results = _run_with_interruptions(stack)
    median_s = statistics.median(script_s)
    overhead_s = statistics.median(plain_s) - median_s
    return {
        "seconds": {
            "the script by hand": script_s,
            "a DAG run of the operator, not interrupted": plain_s,
            "lost work of an interruption": [lost for result in results for lost in result["lost_s"]],
            "a DAG run, interrupted 1 to 5 times": [result["seconds"] for result in results],
        },
        "facts": {
            "overhead_s": round(overhead_s, 2),
            "overhead_percent": round(100 * overhead_s / median_s, 1),
            "runs": len(results),
            "finished": sum(result["state"] == "success" for result in results),
            "runs_interrupted": sum(bool(result["interruptions"]) for result in results),
            "interruptions": sum(result["interruptions"] for result in results),
            "restored": sum(result["restored"] for result in results),
            "runs_that_restored": sum(bool(result["restored"]) for result in results),
            "checkpoint_s": CHECKPOINT_S,
            "most_lost_s": round(max(lost for result in results for lost in result["lost_s"]), 2),
            "different_models": len({result["model"] for result in results}),
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
    constants = {"AT_ONCE": AT_ONCE, "FEATURES": str(project / "data" / "features"), "HYPERPARAMETERS": HYPERPARAMETERS}
    (project / "dags" / "bench.py").write_text(
        "".join(f"{name} = {value!r}\n" for name, value in constants.items()) + DAG
    )
    _run(project, "dvc", "repro", "preprocess")
    return project


def _env(project: Path) -> dict[str, str]:
    return {**os.environ, "LEEWAY_PROJECT": str(project), "LEEWAY_HOME": str(project / ".leeway"), "PYTHONPATH": "."}


def _run(project: Path, *module: str, **env: str) -> str:
    command = [sys.executable, "-m", *module]
    result = subprocess.run(
        command, cwd=project, env={**_env(project), **env}, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise RuntimeError(f"{' '.join(module)}: {result.stderr[-2000:]}")
    return result.stdout


def _time_script(project: Path, number: int) -> float:
    base, features = project / f"by-hand-{number}", project / "data" / "features"
    folders = {"SM_MODEL_DIR": "model", "SM_OUTPUT_DATA_DIR": "output/data", "SM_CHECKPOINT_DIR": "checkpoints"}
    for name in folders.values():
        (base / name).mkdir(parents=True)
    env = {variable: str(base / name) for variable, name in folders.items()}
    env |= {f"SM_CHANNEL_{name.upper()}": str(features / name) for name in ("train", "validation")}
    arguments = [part for name, value in HYPERPARAMETERS.items() for part in (f"--{name}", str(value))]
    began = time.monotonic()
    _run(project, "pipelines.datasets.flights.training", *arguments, SAGEMAKER_BASE_DIR=str(base), **env)
    return time.monotonic() - began


@contextmanager
def _run_stack(project: Path) -> Iterator[dict[str, Any]]:
    """Start the stack, and yield its clients. The stack is stopped after the block."""
    layout = Layout(project=project, home=project / ".leeway")
    os.environ["DRYDOCK_CORES"] = "4"  # the script has one thread, so two jobs fit on two cores
    stack, _ = start_stop.start_stack(layout, ANY_PORTS, lambda *_: None)
    keys = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench", "region_name": "us-east-1"}
    clients = {name: boto3.client(name, endpoint_url=stack.drydock_url, **keys) for name in ("sagemaker", "logs", "s3")}
    try:
        api = AirflowClient(stack.airflow_url, USER, read_password(layout))
        wait_until_parsed(api, ["bench"], stack.started_at, lambda: raise_if_dead(layout, stack))
        yield {"api": api, "url": stack.drydock_url, **clients}
    finally:
        start_stop.stop_stack(layout)


def _trigger_run(stack: dict[str, Any]) -> str:
    body = {"logical_date": None, "dag_run_id": f"bench-{time.time_ns()}"}
    return str(stack["api"].request("POST", "/dags/bench/dagRuns", json=body)["dag_run_id"])


def _run_in_turn(stack: dict[str, Any], count: int) -> Iterator[str]:
    for _ in range(count):
        run = _trigger_run(stack)
        while _read_state(stack, run) not in ("success", "failed"):
            time.sleep(0.2)
        yield run


def _read_state(stack: dict[str, Any], run: str) -> str:
    return str(stack["api"].request("GET", f"/dags/bench/dagRuns/{run}")["state"])


def _run_with_interruptions(stack: dict[str, Any]) -> list[dict[str, Any]]:
    """Start all runs, and order interruptions for each job when it appears. Return the results of the runs."""
    chance, interrupted, results = random.Random(SEED), set(_list_jobs(stack)), []
    runs = [_trigger_run(stack) for _ in range(RUNS)]
    waiting = set(runs)
    while waiting:
        for job in set(_list_jobs(stack)) - interrupted:
            _order_interruptions(stack["url"], job, chance)
            interrupted.add(job)
        for run in [run for run in sorted(waiting)[: 2 * AT_ONCE] if _read_state(stack, run) in ("success", "failed")]:
            waiting.discard(run)
            results.append(_read_result(stack, run))
            print(
                f"{len(results)} of {RUNS}: {results[-1]['state']}, {results[-1]['interruptions']} interruptions",
                flush=True,
            )
        time.sleep(0.2)
    return results


def _list_jobs(stack: dict[str, Any]) -> list[str]:
    page = stack["sagemaker"].list_training_jobs(
        NameContains="bench", SortBy="CreationTime", SortOrder="Descending", MaxResults=20
    )
    return [job["TrainingJobName"] for job in page["TrainingJobSummaries"]]


def _order_interruptions(url: str, job: str, chance: random.Random) -> None:
    """Order 1 to 5 interruptions. Their times increase, so each one meets another attempt of the job."""
    # The script needs 2 s to start, and writes its first checkpoint a second later.
    after = 3.4
    for _ in range(chance.randint(1, 5)):
        after += chance.uniform(0.2, 0.6)
        body = {"job": job, "after_s": after, "capacity_back_after_s": 0.2, "notice_s": chance.choice([0, 30])}
        with urllib.request.urlopen(f"{url}/drydock/interrupt", json.dumps(body).encode()):
            pass


def _read_result(stack: dict[str, Any], run: str) -> dict[str, Any]:
    """Return what Airflow, the description of the job, and its log say about a run."""
    dag_run = stack["api"].request("GET", f"/dags/bench/dagRuns/{run}")
    entry = f"/dags/bench/dagRuns/{run}/taskInstances/train/xcomEntries/return_value"
    result = stack["api"].request("GET", entry)["value"]
    result = json.loads(result) if isinstance(result, str) else result
    job = stack["sagemaker"].describe_training_job(TrainingJobName=result["training_job"])
    bucket, _, key = job["ModelArtifacts"]["S3ModelArtifacts"].removeprefix("s3://").partition("/")
    model = stack["s3"].get_object(Bucket=bucket, Key=key)["Body"].read()
    starts = _list_starts(stack, result["training_job"])
    stops = [item["StartTime"] for item in job["SecondaryStatusTransitions"] if item["Status"] == "Interrupted"]
    return {
        "state": dag_run["state"],
        "seconds": _parse_time(dag_run["end_date"]) - _parse_time(dag_run["start_date"]),
        "interruptions": result["interruptions"],
        "restored": sum(saved is not None for _, saved in starts[1:]),
        "lost_s": [
            _measure_lost(stop, before, starts) for before, stop in itertools.pairwise([job["CreationTime"], *stops])
        ],
        "saving": round(result["saving"], 6),
        "saving_described": round(1 - job["BillableTimeInSeconds"] / job["TrainingTimeInSeconds"], 6),
        "model": hashlib.sha256(model).hexdigest(),
    }


def _measure_lost(stop: dt.datetime, before: dt.datetime, starts: list[tuple[dt.datetime, str | None]]) -> float:
    """Return the seconds of work that an interruption lost.

    They count from the checkpoint that was restored next, or from the start of work. The result is 0 where the attempt,
    which began after `before`, was interrupted while it was starting.
    """
    began = next((moment for moment, _ in starts if before <= moment < stop), None)
    saved = next((saved for moment, saved in starts if moment >= stop), None)
    if began is None:
        return 0.0
    return max(0.0, (stop - max(began, dt.datetime.fromisoformat(saved) if saved else began)).total_seconds())


def _list_starts(stack: dict[str, Any], job: str) -> list[tuple[dt.datetime, str | None]]:
    """Return when each attempt of a job began to work, and the time of the checkpoint that it restored, in order."""
    group, starts = "/aws/sagemaker/TrainingJobs", []
    for stream in stack["logs"].describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{job}/")["logStreams"]:
        query = {"logGroupName": group, "logStreamName": stream["logStreamName"], "startFromHead": True}
        events = stack["logs"].get_log_events(**query)["events"]
        starts += [
            (event["timestamp"], match.group(1)) for event in events if (match := RESTORED.search(event["message"]))
        ]
    starts.sort(key=lambda start: start[0])
    return [(dt.datetime.fromtimestamp(moment / 1000, dt.UTC), saved) for moment, saved in starts]


def _parse_time(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()
