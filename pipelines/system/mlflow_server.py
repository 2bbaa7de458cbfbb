"""Define MLflow's tag of a training job, check whether a server answers, prepare the client, and find experiments.

Part of the training job's bundle, so it imports the standard library only.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import urllib.error
import urllib.request
from typing import Any

JOB_KEY = "training_job"
"""Key in environment.json, a file that the training script writes: the name of the training job."""
JOB_TAG = f"leeway.{JOB_KEY}"
"""Tag of an MLflow run and of a registered version: the name of its training job."""


def is_reachable(uri: str, timeout_s: float = 5.0) -> bool:
    """Return whether an MLflow server answers at `uri` (http or https) within the timeout."""
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=timeout_s) as response:  # noqa: S310
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def prepare_client() -> None:
    """Limit the retries of MLflow's client in this process, its warnings, and its searches for missing packages.

    A request is retried twice, and each attempt takes at most 30 seconds. Environment variables can change this.
    """
    # MLflow's defaults retry for minutes: a server that refuses connections must be reported within seconds.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    # sagemaker-mlflow 0.5 registers request headers for SageMaker's own MLflow server, and fails on any other address.
    logging.getLogger("mlflow.tracking.request_header.registry").setLevel(logging.ERROR)
    # MLflow 3.17 tries to import these packages several times for each request. Each time Python searches all of
    # sys.path, which takes a third of the time of a request. With None, the import fails at once.
    for name in ("dbruntime", "IPython"):
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = None  # type: ignore[assignment]


def find_or_create_experiment(client: Any, name: str) -> str:
    """Return the id of an experiment; create it if it does not exist.

    Trials of a tuning start at the same time, so another job may create it in between.

    Args:
        client: MlflowClient.
        name: name of the experiment.

    Raises:
        mlflow.exceptions.MlflowException: the server does not answer, or refuses the experiment.
    """
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return str(client.create_experiment(name))
        except Exception:
            experiment = client.get_experiment_by_name(name)
            if experiment is None:
                raise
    return str(experiment.experiment_id)
