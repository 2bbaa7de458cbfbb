"""Name a training job's tag in MLflow, check whether a server answers, and prepare MLflow's client.

Part of the training job's bundle, so it imports the standard library only.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import urllib.error
import urllib.request

JOB_KEY = "training_job"
"""Key of environment.json, the record of a training: the name of the training job."""
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
    """Let MLflow's client in this process send requests without warnings, and without searches for missing packages."""
    # sagemaker-mlflow 0.5 registers request headers for SageMaker's own MLflow server, and fails on any other address.
    logging.getLogger("mlflow.tracking.request_header.registry").setLevel(logging.ERROR)
    # MLflow 3.17 tries to import these packages several times for each request. Each time Python searches all of
    # sys.path, which takes a third of the time of a request. With None, the import fails at once.
    for name in ("dbruntime", "IPython"):
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = None  # type: ignore[assignment]
