"""What a training run tells of itself: always as files, and to MLflow too where a server answers.

Travels in the training job's bundle, so it imports the standard library, and mlflow where it is installed.
"""

from __future__ import annotations

import csv
import json
import os
import platform
import resource
import sys
import time
from pathlib import Path
from typing import Any

from pipelines.system.mlflow_server import JOB_KEY, JOB_TAG, is_reachable, silence_header_warnings
from pipelines.system.packages import find_versions

PACKAGES = ("xgboost-cpu", "xgboost", "pandas", "numpy", "pyarrow", "mlflow")


class Tracker:
    """The record of one training job in `folder`: params.json, environment.json, rounds.csv, resources.json.

    A job that goes on from a checkpoint goes on with its record, and with its MLflow run.
    """

    def __init__(self, folder: Path, job: str, experiment: str) -> None:
        self.folder, self.job = folder, job
        self.started_s = time.time()
        self.rounds: list[dict[str, float]] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._mlflow = _connect(job, experiment)
        self._sent = 0

    def start(self, params: dict[str, Any]) -> None:
        """Parameters, code version and environment are recorded."""
        self._write("params.json", params)
        self._write("environment.json", {JOB_KEY: self.job, **describe_environment()})
        if self._mlflow:
            self._mlflow.log_params(params)
            self._mlflow.set_tags({f"environment.{key}": value for key, value in describe_environment().items()})

    def round(self, number: int, metrics: dict[str, float]) -> None:
        """The metrics of one round are in the record; `flush` writes it."""
        self.rounds.append({"round": number, **metrics})

    def flush(self) -> None:
        """What was recorded so far is on disk, and at MLflow."""
        if not self.rounds:
            return
        temporary = self.folder / ".rounds.csv"
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(self.rounds[0]))
            writer.writeheader()
            writer.writerows(self.rounds)
        temporary.replace(self.folder / "rounds.csv")
        if self._mlflow:
            self._mlflow.log_rounds(self.rounds[self._sent :])
        self._sent = len(self.rounds)

    def finish(self, results: dict[str, float]) -> None:
        """The record is complete: results, and the resources that the job used."""
        self.flush()
        used = {**results, **measure_resources(self.started_s)}
        self._write("resources.json", used)
        if self._mlflow:
            self._mlflow.finish(used)

    def _write(self, name: str, value: dict[str, Any]) -> None:
        (self.folder / name).write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


class _MlflowRun:
    """The run of a job at an MLflow server; found again by its tag. Losing the server never loses the training."""

    def __init__(self, client: Any, run_id: str, batch: Any) -> None:
        self._client, self.run_id, self._metric = client, run_id, batch
        self._lost = False
        self._known: set[int] | None = None

    def log_params(self, params: dict[str, Any]) -> None:
        self._try(lambda: [self._client.log_param(self.run_id, key, value) for key, value in params.items()])

    def set_tags(self, tags: dict[str, str]) -> None:
        self._try(lambda: [self._client.set_tag(self.run_id, key, value) for key, value in tags.items()])

    def log_rounds(self, rounds: list[dict[str, float]]) -> None:
        now = int(time.time() * 1000)
        metrics = [
            self._metric(name, value, now, int(row["round"]))
            for row in rounds
            if row["round"] not in self._have(rounds)
            for name, value in row.items()
            if name != "round"
        ]
        parts = [metrics[n : n + 900] for n in range(0, len(metrics), 900)]  # MLflow takes 1,000 at once
        self._try(lambda: [self._client.log_batch(self.run_id, part) for part in parts])

    def finish(self, results: dict[str, float]) -> None:
        now = int(time.time() * 1000)
        metrics = [self._metric(f"training_{name}", value, now, 0) for name, value in results.items()]
        self._try(lambda: self._client.log_batch(self.run_id, metrics))
        self._try(lambda: self._client.set_terminated(self.run_id))

    def _have(self, rounds: list[dict[str, float]]) -> set[int]:
        """Rounds that the run has already: MLflow would keep a second value beside the first."""
        if self._known is None:
            self._known = set()
            name = next(name for name in rounds[0] if name != "round")
            self._try(
                lambda: self._known.update(one.step for one in self._client.get_metric_history(self.run_id, name))
            )
        return self._known

    def _try(self, call: Any) -> None:
        if self._lost:  # each attempt would hold the training up for as long as the client is patient
            return
        try:
            call()
        except Exception as error:  # the files hold the same; mlflow raises what it likes
            self._lost = True
            sys.stderr.write(f"MLflow did not take it ({type(error).__name__}): from here on only the files have it.\n")


def _connect(job: str, experiment: str) -> _MlflowRun | None:
    """The job's run at MLFLOW_TRACKING_URI; None, with a line that says so, where there is none."""
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not uri:
        return None
    if not is_reachable(uri):
        sys.stderr.write(f"MLflow at {uri} does not answer: this run is recorded in files only.\n")
        return None
    # A server that dies should cost seconds; MLflow's own patience is minutes, at every call.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    try:
        from mlflow import MlflowClient
        from mlflow.entities import Metric
    except ImportError:
        sys.stderr.write("mlflow is not installed here: this run is recorded in files only.\n")
        return None
    silence_header_warnings()
    try:
        client = MlflowClient(uri)
        found = client.get_experiment_by_name(experiment)
        experiment_id = found.experiment_id if found else client.create_experiment(experiment)
        same = client.search_runs([experiment_id], f"tags.`{JOB_TAG}` = '{job}'", max_results=1)
        run = same[0] if same else client.create_run(experiment_id, run_name=job, tags={JOB_TAG: job})
        return _MlflowRun(client, run.info.run_id, Metric)
    except Exception as error:  # a server that answers health but not this must not stop a training that can go on
        sys.stderr.write(f"MLflow at {uri} refused ({error}): this run is recorded in files only.\n")
        return None


def describe_environment() -> dict[str, str]:
    """Code version, Python, platform, cores and the versions of the packages that make the model."""
    return {
        "git_commit": os.environ.get("LEEWAY_GIT_COMMIT", "unknown"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": str(os.cpu_count()),
        **find_versions(PACKAGES),
    }


def measure_resources(since_s: float) -> dict[str, float]:
    """Wall and processor seconds since `since_s`, and the peak memory of this process in MiB."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "wall_s": round(time.time() - since_s, 3),
        "cpu_s": round(used.ru_utime + used.ru_stime, 3),
        "peak_memory_mib": round(used.ru_maxrss / 1024, 1),
    }
