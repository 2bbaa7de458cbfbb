"""Manage versions of models in MLflow: their lineage, and the events that decide which version is champion.

Importing any module of this package configures MLflow's client first.
"""

import os

from pipelines.system.mlflow_server import prepare_client

# MLflow's defaults retry for minutes: a server that is down must be reported within seconds.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
# By default MLflow packs the uv.lock of the whole project, 700 KB, into every model.
os.environ.setdefault("MLFLOW_UV_AUTO_DETECT", "false")
prepare_client()
