"""Manage versions of models in MLflow: their lineage, and the events that decide which version is champion.

Importing any module of this package configures MLflow's client first.
"""

import os

from pipelines.system.mlflow_server import prepare_client

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
# By default MLflow packs the uv.lock of the whole project, 700 KB, into every model.
os.environ.setdefault("MLFLOW_UV_AUTO_DETECT", "false")
prepare_client()
