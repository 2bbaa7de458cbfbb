"""Training runs that are interrupted at random moments: do they finish, what do they lose, what does the operator cost?

The real thing: the embedded stack (Airflow's scheduler, triggerer, drydock), the flights script on real flights,
SpotTrainingOperator. Interruptions are ordered from drydock as each job appears: half of them with the notice, half
without any (kill -9, and no last copy of the checkpoints).
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
BY_HAND = 5
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
    """Measures, and returns seconds by row and the facts that the seconds do not say."""
    with tempfile.TemporaryDirectory() as folder:
        project = _project(Path(folder))
        by_hand = [_by_hand(project, number) for number in range(BY_HAND)]
        with _stack(project) as stack:
            quiet = [_finished(stack, one)["seconds"] for one in _one_by_one(stack, BY_HAND)]
            done = _storm(stack)
    whole = statistics.median(by_hand)
    more = statistics.median(quiet) - whole
    return {
        "seconds": {
            "the script by hand": by_hand,
            "a DAG run of the operator, not interrupted": quiet,
            "lost work of an interruption": [lost for one in done for lost in one["lost_s"]],
            "a DAG run, interrupted 1 to 5 times": [one["seconds"] for one in done],
        },
        "facts": {
            "overhead_s": round(more, 2),
            "overhead_percent": round(100 * more / whole, 1),
            "runs": len(done),
            "finished": sum(one["state"] == "success" for one in done),
            "runs_interrupted": sum(bool(one["interruptions"]) for one in done),
            "interruptions": sum(one["interruptions"] for one in done),
            "restored": sum(one["restored"] for one in done),
            "runs_that_restored": sum(bool(one["restored"]) for one in done),
            "checkpoint_s": CHECKPOINT_S,
            "most_lost_s": round(max(lost for one in done for lost in one["lost_s"]), 2),
            "different_models": len({one["model"] for one in done}),
            "savings_that_differ_from_describe": sum(one["saving"] != one["saving_described"] for one in done),
        },
    }


def _project(folder: Path) -> Path:
    """A clone with real features and one DAG."""
    project = folder / "project"
    subprocess.run(["git", "clone", "-q", str(PROJECT), str(project)], check=True)
    for dag in project.glob("dags/*.py"):
        dag.unlink()
    given = {"AT_ONCE": AT_ONCE, "FEATURES": str(project / "data" / "features"), "HYPERPARAMETERS": HYPERPARAMETERS}
    (project / "dags" / "bench.py").write_text("".join(f"{name} = {value!r}\n" for name, value in given.items()) + DAG)
    _run(project, "dvc", "repro", "preprocess")
    return project


def _env(project: Path) -> dict[str, str]:
    return {**os.environ, "LEEWAY_PROJECT": str(project), "LEEWAY_HOME": str(project / ".leeway"), "PYTHONPATH": "."}


def _run(project: Path, *module: str, **env: str) -> str:
    command = [sys.executable, "-m", *module]
    done = subprocess.run(
        command, cwd=project, env={**_env(project), **env}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(module)}: {done.stderr[-2000:]}")
    return done.stdout


def _by_hand(project: Path, number: int) -> float:
    base, features = project / f"by-hand-{number}", project / "data" / "features"
    folders = {"SM_MODEL_DIR": "model", "SM_OUTPUT_DATA_DIR": "output/data", "SM_CHECKPOINT_DIR": "checkpoints"}
    for name in folders.values():
        (base / name).mkdir(parents=True)
    env = {variable: str(base / name) for variable, name in folders.items()}
    env |= {f"SM_CHANNEL_{name.upper()}": str(features / name) for name in ("train", "validation")}
    given = [part for name, value in HYPERPARAMETERS.items() for part in (f"--{name}", str(value))]
    began = time.monotonic()
    _run(project, "pipelines.datasets.flights.training", *given, SAGEMAKER_BASE_DIR=str(base), **env)
    return time.monotonic() - began


@contextmanager
def _stack(project: Path) -> Iterator[dict[str, Any]]:
    """The stack, up, and clients of it."""
    layout = Layout(project=project, home=project / ".leeway")
    os.environ["DRYDOCK_CORES"] = "4"  # the script has one thread: two jobs on two cores
    stack, _ = start_stop.start_stack(layout, ANY_PORTS, lambda *_: None)
    keys = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench", "region_name": "us-east-1"}
    clients = {name: boto3.client(name, endpoint_url=stack.drydock_url, **keys) for name in ("sagemaker", "logs", "s3")}
    try:
        api = AirflowClient(stack.airflow_url, USER, read_password(layout))
        wait_until_parsed(api, ["bench"], stack.started_at, lambda: raise_if_dead(layout, stack))
        yield {"api": api, "url": stack.drydock_url, **clients}
    finally:
        start_stop.stop_stack(layout)


def _begin(stack: dict[str, Any]) -> str:
    body = {"logical_date": None, "dag_run_id": f"bench-{time.time_ns()}"}
    return str(stack["api"].request("POST", "/dags/bench/dagRuns", json=body)["dag_run_id"])


def _one_by_one(stack: dict[str, Any], count: int) -> Iterator[str]:
    for _ in range(count):
        run = _begin(stack)
        while _state(stack, run) not in ("success", "failed"):
            time.sleep(0.2)
        yield run


def _state(stack: dict[str, Any], run: str) -> str:
    return str(stack["api"].request("GET", f"/dags/bench/dagRuns/{run}")["state"])


def _storm(stack: dict[str, Any]) -> list[dict[str, Any]]:
    """All runs at once, as many as may; whatever job appears gets its interruptions."""
    chance, ordered, known = random.Random(SEED), set(_jobs(stack)), []
    runs = [_begin(stack) for _ in range(RUNS)]
    waiting = set(runs)
    while waiting:
        for job in set(_jobs(stack)) - ordered:
            _order(stack["url"], job, chance)
            ordered.add(job)
        for run in [run for run in sorted(waiting)[: 2 * AT_ONCE] if _state(stack, run) in ("success", "failed")]:
            waiting.discard(run)
            known.append(_finished(stack, run))
            print(
                f"{len(known)} of {RUNS}: {known[-1]['state']}, {known[-1]['interruptions']} interruptions", flush=True
            )
        time.sleep(0.2)
    return known


def _jobs(stack: dict[str, Any]) -> list[str]:
    found = stack["sagemaker"].list_training_jobs(
        NameContains="bench", SortBy="CreationTime", SortOrder="Descending", MaxResults=20
    )
    return [one["TrainingJobName"] for one in found["TrainingJobSummaries"]]


def _order(url: str, job: str, chance: random.Random) -> None:
    """1 to 5 interruptions: each meets another run of the job, since their seconds rise."""
    # The script needs 2 s to start, and a second more to its first checkpoint.
    after = 3.4
    for _ in range(chance.randint(1, 5)):
        after += chance.uniform(0.2, 0.6)
        body = {"job": job, "after_s": after, "capacity_back_after_s": 0.2, "notice_s": chance.choice([0, 30])}
        with urllib.request.urlopen(f"{url}/drydock/interrupt", json.dumps(body).encode()):
            pass


def _finished(stack: dict[str, Any], run: str) -> dict[str, Any]:
    """What a run's record says, and what its job's description and log say."""
    told = stack["api"].request("GET", f"/dags/bench/dagRuns/{run}")
    entry = f"/dags/bench/dagRuns/{run}/taskInstances/train/xcomEntries/return_value"
    result = stack["api"].request("GET", entry)["value"]
    result = json.loads(result) if isinstance(result, str) else result
    job = stack["sagemaker"].describe_training_job(TrainingJobName=result["training_job"])
    bucket, _, key = job["ModelArtifacts"]["S3ModelArtifacts"].removeprefix("s3://").partition("/")
    model = stack["s3"].get_object(Bucket=bucket, Key=key)["Body"].read()
    starts = _starts(stack, result["training_job"])
    stops = [one["StartTime"] for one in job["SecondaryStatusTransitions"] if one["Status"] == "Interrupted"]
    return {
        "state": told["state"],
        "seconds": _moment(told["end_date"]) - _moment(told["start_date"]),
        "interruptions": result["interruptions"],
        "restored": sum(saved is not None for _, saved in starts[1:]),
        "lost_s": [_lost(stop, before, starts) for before, stop in itertools.pairwise([job["CreationTime"], *stops])],
        "saving": round(result["saving"], 6),
        "saving_described": round(1 - job["BillableTimeInSeconds"] / job["TrainingTimeInSeconds"], 6),
        "model": hashlib.sha256(model).hexdigest(),
    }


def _lost(stop: dt.datetime, before: dt.datetime, starts: list[tuple[dt.datetime, str | None]]) -> float:
    """Seconds of work that an interruption cost: since the checkpoint that was restored next, or since work began.

    0 where the run, which began after `before`, was interrupted while it was still starting.
    """
    began = next((moment for moment, _ in starts if before <= moment < stop), None)
    saved = next((saved for moment, saved in starts if moment >= stop), None)
    if began is None:
        return 0.0
    return max(0.0, (stop - max(began, dt.datetime.fromisoformat(saved) if saved else began)).total_seconds())


def _starts(stack: dict[str, Any], job: str) -> list[tuple[dt.datetime, str | None]]:
    """When each run of a job began to work, and what it had restored, in their order."""
    group, found = "/aws/sagemaker/TrainingJobs", []
    for one in stack["logs"].describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{job}/")["logStreams"]:
        asked = {"logGroupName": group, "logStreamName": one["logStreamName"], "startFromHead": True}
        events = stack["logs"].get_log_events(**asked)["events"]
        found += [
            (event["timestamp"], match.group(1)) for event in events if (match := RESTORED.search(event["message"]))
        ]
    found.sort(key=lambda one: one[0])
    return [(dt.datetime.fromtimestamp(moment / 1000, dt.UTC), saved) for moment, saved in found]


def _moment(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()
