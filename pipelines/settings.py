"""Read folders and addresses from the environment. No other module reads these variables.

Settings that change a model belong in params.yaml; settings that differ between a laptop and AWS belong here.
`.env.example` lists every variable.
"""

from __future__ import annotations

import getpass
import os
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

PARAMS_FILE = "params.yaml"
"""File of the project that holds the parameters of the steps; see `pipelines.params`."""


class Settings(BaseSettings):
    """Folders, addresses and identity of this process."""

    model_config = SettingsConfigDict(env_prefix="LEEWAY_", frozen=True, use_attribute_docstrings=True)

    project: Path = Field(default_factory=Path.cwd)
    """Folder of params.yaml, dvc.yaml and expectations/."""
    home: Path = Path(".leeway")
    """Folder of all state that Leeway keeps on this machine: lake, evidence, documents, workspaces."""
    docs_url: str = ""
    """Address at which the data docs are served; the folder LEEWAY_HOME/docs where it is empty."""
    workspace_days: int = Field(default=30, ge=1)
    """Days without use after which a DVC workspace is removed."""
    dvc_remote: str = ""
    """Second copy of DVC's data, outside of LEEWAY_HOME: a folder, or s3://BUCKET/PREFIX. Empty: no second copy."""
    actor: str = ""
    """Who makes the request, for the registry's events. Airflow's operators set it. Empty: the user of the process."""
    python: str = ""
    """Python interpreter with the ML libraries, for Airflow's operators. Empty: the one that runs Airflow."""
    run: str = ""
    """DAG run that makes the request, as DAG/RUN. Empty outside of Airflow."""
    mlflow_tracking_uri: str = Field(default="", validation_alias="MLFLOW_TRACKING_URI")
    """Address of MLflow. Empty where there is none (a plain `dvc repro`)."""
    aws_endpoint_url: str = Field(default="", validation_alias="AWS_ENDPOINT_URL")
    """Address of drydock. Empty: AWS."""
    aws_endpoint_url_s3: str = Field(default="", validation_alias="AWS_ENDPOINT_URL_S3")
    """Address of S3, where it is not the address of the other services. Empty: the same address as theirs."""

    @field_validator("project", "home")
    @classmethod
    def _make_absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @property
    def s3_endpoint(self) -> str:
        """Address of S3. Empty: AWS."""
        return self.aws_endpoint_url_s3 or self.aws_endpoint_url

    def build_docs_url(self, dataset: str, partition: str) -> str:
        """Build the address of the data docs' page of one partition."""
        return f"{self._effective_docs_url}/{quote(dataset, safe='')}/{quote(partition, safe='')}.html"

    def build_report_url(self, model: str, version: str) -> str:
        """Build the address of the evaluation report of one model version."""
        return f"{self._effective_docs_url}/models/{quote(model, safe='')}/{quote(version, safe='')}/report.html"

    def build_drift_url(self, model: str, day: str) -> str:
        """Build the address of the drift report of a model up to a day."""
        return f"{self._effective_docs_url}/drift/{quote(model, safe='')}/{quote(day, safe='')}/drift.html"

    @property
    def docs_index(self) -> str:
        """Address of the first page of the data docs."""
        return f"{self._effective_docs_url}/index.html"

    @property
    def _effective_docs_url(self) -> str:
        return self.docs_url.rstrip("/") or (self.home / "docs").as_uri()


@lru_cache(maxsize=1)
def settings() -> Settings:
    """Return the settings of this process; the environment is read once."""
    return Settings()


def get_actor() -> str:
    """Return who makes the request: LEEWAY_ACTOR, or else the user of the operating system."""
    if settings().actor:
        return settings().actor
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have no name
        return f"uid {os.getuid()}"
