"""Record a training: always in files, and also in MLflow if a server answers.

This module is part of the training job's bundle, so besides Leeway it imports only the standard library,
and mlflow if it is installed.
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

from pipelines.system.mlflow_server import JOB_KEY, JOB_TAG, find_or_create_experiment, is_reachable, prepare_client
from pipelines.system.packages import find_versions

PACKAGES = ("xgboost-cpu", "xgboost", "pandas", "numpy", "pyarrow", "mlflow", "torch")
"""Packages whose versions are recorded."""


class Tracker:
    """Write the record of one training job: params.json, environment.json, rounds.csv and resources.json.

    A job that resumes from a checkpoint continues its MLflow run. To continue the record, too, the script must set
    `rounds` to the rounds in the checkpoint.

    Args:
        folder: folder of the record; created if it does not exist.
        job: name of the training job.
        experiment: name of the MLflow experiment.
    """

    def __init__(self, folder: Path, job: str, experiment: str) -> None:
        self.folder, self.job = folder, job
        self.started_s = time.time()
        self.rounds: list[dict[str, float]] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._mlflow = _connect(job, experiment)
        self._sent_round_count = 0

    def start(self, params: dict[str, Any]) -> None:
        """Record parameters, code version and environment."""
        self._write("params.json", params)
        self._write("environment.json", {JOB_KEY: self.job, **describe_environment()})
        if self._mlflow:
            self._mlflow.log_params(params)
            self._mlflow.set_tags({f"environment.{key}": value for key, value in describe_environment().items()})

    def add_round(self, number: int, metrics: dict[str, float]) -> None:
        """Add the metrics of one round to the record; `flush` writes them."""
        self.rounds.append({"round": number, **metrics})

    def flush(self) -> None:
        """Write the rounds recorded so far to the disk, and to MLflow."""
        if not self.rounds:
            return
        temporary = self.folder / ".rounds.csv"
        with temporary.open("w", newline="", encoding="utf-8") as file:
            columns = dict.fromkeys(name for round_metrics in self.rounds for name in round_metrics)
            writer = csv.DictWriter(file, fieldnames=list(columns))
            writer.writeheader()
            writer.writerows(self.rounds)
        temporary.replace(self.folder / "rounds.csv")
        if self._mlflow:
            self._mlflow.log_rounds(self.rounds[self._sent_round_count :])
        self._sent_round_count = len(self.rounds)

    def finish(self, results: dict[str, float]) -> None:
        """Complete the record with the results of the training, and with the resources that the job used."""
        self.flush()
        metrics = {**results, **measure_resources(self.started_s)}
        self._write("resources.json", metrics)
        if self._mlflow:
            self._mlflow.finish(metrics)

    def _write(self, name: str, value: dict[str, Any]) -> None:
        (self.folder / name).write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


class SilentTracker(Tracker):
    """Keep the metrics of the rounds, and write no record: of a job's hosts, only the first writes the record."""

    def __init__(self, folder: Path, job: str, experiment: str) -> None:
        """Take the arguments of a Tracker, and use none of them."""
        self.rounds = []

    def start(self, params: dict[str, Any]) -> None:
        """Record nothing."""

    def flush(self) -> None:
        """Write nothing."""

    def finish(self, results: dict[str, float]) -> None:
        """Record nothing."""


class _MlflowRun:
    """The MLflow run of a job. An error of the server never stops the training."""

    def __init__(self, client: Any, run_id: str, metric_class: Any) -> None:
        self._client, self.run_id, self._metric_class = client, run_id, metric_class
        self._has_failed = False
        self._logged_rounds: set[int] | None = None

    def log_params(self, params: dict[str, Any]) -> None:
        self._call(lambda: [self._client.log_param(self.run_id, key, value) for key, value in params.items()])

    def set_tags(self, tags: dict[str, str]) -> None:
        self._call(lambda: [self._client.set_tag(self.run_id, key, value) for key, value in tags.items()])

    def log_rounds(self, rounds: list[dict[str, float]]) -> None:
        now_ms = int(time.time() * 1000)
        metrics = [
            self._metric_class(name, value, now_ms, step=int(row["round"]))
            for row in rounds
            if row["round"] not in self._find_logged_rounds(rounds)
            for name, value in row.items()
            if name != "round"
        ]
        # A request has at most 900 metrics: MLflow refuses one with more than 1,000.
        batches = [metrics[start : start + 900] for start in range(0, len(metrics), 900)]
        self._call(lambda: [self._client.log_batch(self.run_id, batch) for batch in batches])

    def finish(self, results: dict[str, float]) -> None:
        now_ms = int(time.time() * 1000)
        metrics = [self._metric_class(f"training_{name}", value, now_ms, step=0) for name, value in results.items()]
        self._call(lambda: self._client.log_batch(self.run_id, metrics))
        self._call(lambda: self._client.set_terminated(self.run_id))

    def _find_logged_rounds(self, rounds: list[dict[str, float]]) -> set[int]:
        """Return the numbers of the rounds that MLflow has already, so that a resumed job does not log them twice."""
        if self._logged_rounds is None:
            self._logged_rounds = set()
            name = next(name for name in rounds[0] if name != "round")
            self._call(
                lambda: self._logged_rounds.update(
                    metric.step for metric in self._client.get_metric_history(self.run_id, name)
                )
            )
        return self._logged_rounds

    def _call(self, request: Any) -> None:
        """Call `request`, unless an earlier request failed; write its error to stderr instead of raising it."""
        if self._has_failed:  # each further request would delay the training until the client's time-out
            return
        try:
            request()
        except Exception as error:  # mlflow raises errors of any type; the files of the record have the same content
            self._has_failed = True
            sys.stderr.write(
                f"MLflow failed ({type(error).__name__}): from now on the training is recorded in files only.\n"
            )


def _connect(job: str, experiment: str) -> _MlflowRun | None:
    """Find the job's run at MLFLOW_TRACKING_URI by its tag, or create it; None if MLflow cannot be used.

    The reason is written to stderr, unless MLFLOW_TRACKING_URI is not set.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not uri:
        return None
    if not is_reachable(uri):
        sys.stderr.write(f"MLflow at {uri} does not answer: this run is recorded in files only.\n")
        return None
    try:
        from mlflow import MlflowClient
        from mlflow.entities import Metric
    except ImportError:
        sys.stderr.write("mlflow is not installed here: this run is recorded in files only.\n")
        return None
    prepare_client()
    try:
        client = MlflowClient(uri)
        experiment_id = find_or_create_experiment(client, experiment)
        runs = client.search_runs([experiment_id], f"tags.`{JOB_TAG}` = '{job}'", max_results=1)
        run = runs[0] if runs else client.create_run(experiment_id, run_name=job, tags={JOB_TAG: job})
        return _MlflowRun(client, run.info.run_id, Metric)
    except Exception as error:  # a server that fails here must not stop the training
        sys.stderr.write(f"MLflow at {uri} failed ({error}): this run is recorded in files only.\n")
        return None


def describe_environment() -> dict[str, str]:
    """Return the git commit, the versions of Python and of `PACKAGES`, the platform, and the number of cores.

    If there are several hosts, their number is added.
    """
    host_count = len(json.loads(os.environ.get("SM_HOSTS") or "[]"))
    return {
        **({"hosts": str(host_count)} if host_count > 1 else {}),
        "git_commit": os.environ.get("LEEWAY_GIT_COMMIT", "unknown"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": str(os.cpu_count()),
        **find_versions(PACKAGES),
    }


def measure_resources(since_s: float) -> dict[str, float]:
    """Return the wall-clock seconds since `since_s`, and the processor seconds and peak memory, MiB, of this process.

    Args:
        since_s: a time as `time.time()` returns it.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "wall_s": round(time.time() - since_s, 3),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
        "peak_memory_mib": round(usage.ru_maxrss / 1024, 1),
    }
