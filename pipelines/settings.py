"""Where things are: the one reader of the environment.

What changes a model belongs in params.yaml; what differs between a laptop and AWS belongs here.
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


class Settings(BaseSettings):
    """Folders and addresses of this process."""

    model_config = SettingsConfigDict(env_prefix="LEEWAY_", frozen=True, use_attribute_docstrings=True)

    project: Path = Field(default_factory=Path.cwd)
    """Folder of params.yaml, dvc.yaml and expectations/."""
    home: Path = Path(".leeway")
    """Folder of all state of the embedded default."""
    docs_url: str = ""
    """Where the data docs are served; the folder itself, LEEWAY_HOME/docs, where it is empty."""
    workspace_days: int = Field(default=30, ge=1)
    """Days after its last use that a DVC workspace stays."""
    dvc_remote: str = ""
    """Where DVC's data go besides LEEWAY_HOME: a folder, or s3://BUCKET/PREFIX; empty where they go nowhere."""
    actor: str = ""
    """Who is asking, for the registry's events: Airflow's operators say it; the system's user where it is empty."""
    python: str = ""
    """Interpreter that has the ML libraries, for Airflow's operators; Airflow's own where it is empty."""
    run: str = ""
    """Run of a DAG that is asking, DAG/RUN; empty outside of Airflow."""
    mlflow_tracking_uri: str = Field(default="", validation_alias="MLFLOW_TRACKING_URI")
    """MLflow's address; empty where there is none (a plain `dvc repro`)."""
    aws_endpoint_url: str = Field(default="", validation_alias="AWS_ENDPOINT_URL")
    """drydock's address; empty for AWS itself."""
    aws_endpoint_url_s3: str = Field(default="", validation_alias="AWS_ENDPOINT_URL_S3")
    """Address of an S3 store apart from it; empty where there is none."""

    @field_validator("project", "home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @property
    def s3_endpoint(self) -> str:
        """Where S3 is; empty for AWS itself."""
        return self.aws_endpoint_url_s3 or self.aws_endpoint_url

    def docs_page(self, dataset: str, partition: str) -> str:
        """The address of the data docs' page of one partition."""
        return f"{self._docs}/{quote(dataset, safe='')}/{quote(partition, safe='')}.html"

    def report_page(self, model: str, version: str) -> str:
        """The address of the page of one version's verdict."""
        return f"{self._docs}/models/{quote(model, safe='')}/{quote(version, safe='')}/report.html"

    def drift_page(self, model: str, day: str) -> str:
        """The address of the page of what was seen of drift up to a day."""
        return f"{self._docs}/drift/{quote(model, safe='')}/{quote(day, safe='')}/drift.html"

    @property
    def docs_index(self) -> str:
        """The address of the data docs' first page."""
        return f"{self._docs}/index.html"

    @property
    def _docs(self) -> str:
        return self.docs_url.rstrip("/") or (self.home / "docs").as_uri()


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The settings, read once a process."""
    return Settings()


def actor() -> str:
    """Whom this process works for: LEEWAY_ACTOR, else the user of the operating system."""
    if settings().actor:
        return settings().actor
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"uid {os.getuid()}"
