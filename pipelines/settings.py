"""Read folders and addresses from the environment.

A few modules read a variable themselves, such as `pipelines.code_files`, which also works where there are no settings.

Settings that change a model belong in params.yaml; settings that differ between a laptop and AWS belong here.
`.env.example` lists every variable.
"""

from __future__ import annotations

import getpass
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from pipelines.addresses import check_http_address, check_mlflow_address
from pipelines.code_files import find_project
from pipelines.errors import SpecError
from pipelines.parameters import MAX_DAYS

EXPERIMENTS = (".dvc", "tmp", "exps")
"""Folder of a project in which DVC runs experiments, as the parts of its path."""
MAX_VALUE_CHARS = 60
"""Largest number of characters of a wrong value that an error message shows."""


class Settings(BaseSettings):
    """Folders, addresses and identity of this process."""

    # A variable that is set and empty, as in .env.example, counts as not set.
    model_config = SettingsConfigDict(
        env_prefix="LEEWAY_", frozen=True, use_attribute_docstrings=True, env_ignore_empty=True
    )

    project: Path = Field(default_factory=lambda: find_project(Path.cwd()))
    """Folder of params.yaml, dvc.yaml and expectations/. By default the working directory. If that is the folder of a
    model, PROJECT/models/NAME, the default is PROJECT."""
    home: Path = Field(default=Path(".leeway"), validate_default=True)
    """Folder of all state that Leeway keeps on this machine: lake, evidence, documents, workspaces. A relative path is
    below the working directory, or below PROJECT in the folder of a model, PROJECT/models/NAME. If DVC runs an
    experiment in a separate folder, it is still below the folder of the project."""
    datasets: str = ""
    """Folders of the project's own datasets, relative to LEEWAY_PROJECT, separated as in PATH. Empty: datasets/."""
    docs_url: str = ""
    """Address at which the data docs are served. Empty: the folder LEEWAY_HOME/docs."""
    workspace_days: int = Field(default=30, ge=1, le=MAX_DAYS)
    """Days without use after which a DVC workspace is removed."""
    memory_mib: int = Field(default=768, ge=16, le=1 << 30)
    """Largest memory, MiB, of one DuckDB query; what does not fit is spilled to LEEWAY_HOME/tmp."""
    status_copy: str = Field(default="", pattern=r"^(s3://[^/]+/.+)?$")
    """Where `status --write` copies the documents of Leeway's page, for an API server that cannot read LEEWAY_HOME:
    s3://BUCKET/KEY.zip. Empty: no copy."""
    dvc_remote: str = ""
    """Second copy of DVC's data, outside of LEEWAY_HOME: a folder, or s3://BUCKET/PREFIX. Empty: no second copy."""
    actor: str = ""
    """Who makes the request, for the registry's events. Airflow's operators set it. Empty: the user of the process."""
    python: str = ""
    """Python interpreter with the ML libraries, for Airflow's operators. Empty: the one that runs Airflow."""
    aws_conn_id: str = ""
    """Airflow connection of AWS that gives every step its credentials. Empty: the worker's environment gives them."""
    lake_conn_id: str = ""
    """Airflow connection of the lake's catalog, a PostgreSQL database. Empty: the worker's environment names it."""
    job_pool: str = ""
    """Airflow pool of the tasks that start jobs of SageMaker. Empty: the pool of all other tasks."""
    team: str = ""
    """Team that pays for jobs, for the reports of costs. Empty: the team of their project in params.yaml."""
    environment: str = ""
    """Environment of this installation, such as production, for the reports of costs. Empty: that of the jobs'
    project in params.yaml."""
    user: str = ""
    """Person for whom jobs run, for the reports of costs. Empty: the person who started the DAG run."""
    run: str = ""
    """DAG run for which this process works, as DAG/RUN. Empty outside of Airflow."""
    mlflow_tracking_uri: str = Field(default="", validation_alias="MLFLOW_TRACKING_URI")
    """Address of MLflow. Empty: there is none, so nothing is registered; `dvc repro` needs none."""
    mlflow_url: str = ""
    """Address at which people open MLflow in a browser, for links. Empty: MLFLOW_TRACKING_URI."""
    aws_endpoint_url: str = Field(default="", validation_alias="AWS_ENDPOINT_URL")
    """Address of drydock. Empty: AWS."""
    aws_endpoint_url_s3: str = Field(default="", validation_alias="AWS_ENDPOINT_URL_S3")
    """Address of S3, if it differs from the address of the other services. Empty: the same address."""

    @field_validator("project")
    @classmethod
    def _make_absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("home", mode="after")
    @classmethod
    def _locate_home(cls, value: Path) -> Path:
        # `dvc exp run --temp` and `--queue` copy the project's tracked files to a folder below its .dvc/tmp/exps.
        folders = [folder.parents[2] for folder in Path.cwd().parents if folder.parts[-3:] == EXPERIMENTS]
        return (folders[0] if folders else find_project(Path.cwd())) / value.expanduser()

    @field_validator("datasets")
    @classmethod
    def _check_datasets(cls, value: str, info: ValidationInfo) -> str:
        names = [name for name in value.split(os.pathsep) if name]
        folders = [info.data.get("project", Path.cwd()) / Path(name).expanduser() for name in names]
        missing_folders = [folder for folder in folders if not folder.is_dir()]
        if missing_folders:
            raise ValueError(f"{missing_folders[0]} is not a folder")
        return value

    @field_validator("mlflow_tracking_uri")
    @classmethod
    def _check_mlflow(cls, value: str) -> str:
        return check_mlflow_address(value)

    @field_validator("aws_endpoint_url", "aws_endpoint_url_s3", "mlflow_url")
    @classmethod
    def _check_endpoint(cls, value: str) -> str:
        return check_http_address(value)

    @field_validator("docs_url")
    @classmethod
    def _check_docs_url(cls, value: str) -> str:
        return value if value.startswith("file:///") else check_http_address(value)

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
        """Build the address of the drift report of a model, whose window ends on a day."""
        return f"{self._effective_docs_url}/drift/{quote(model, safe='')}/{quote(day, safe='')}/drift.html"

    def build_shadow_url(self, model: str, version: str) -> str:
        """Build the address of the report of a version's last shadow."""
        return f"{self._effective_docs_url}/shadow/{quote(model, safe='')}/{quote(version, safe='')}/shadow.html"

    def build_dataset_url(self, dataset: str) -> str:
        """Build the address of the data docs' page of a dataset."""
        return f"{self._effective_docs_url}/{quote(dataset, safe='')}/index.html"

    def build_reports_url(self, kind: str, model: str) -> str:
        """Build the address of the page that lists a model's reports of a kind: models, drift or shadow."""
        return f"{self._effective_docs_url}/{kind}/{quote(model, safe='')}/index.html"

    def build_version_url(self, model: str, version: str) -> str:
        """Build the address of a version's page in MLflow; empty if MLflow has no web pages."""
        address = self.mlflow_address
        return f"{address}/#/models/{quote(model, safe='')}/versions/{quote(version, safe='')}" if address else ""

    @property
    def mlflow_address(self) -> str:
        """Address at which people open MLflow; empty if MLflow has no web pages."""
        address = (self.mlflow_url or self.mlflow_tracking_uri).rstrip("/")
        return address if address.startswith("http") else ""

    @property
    def docs_index(self) -> str:
        """Address of the first page of the data docs."""
        return f"{self._effective_docs_url}/index.html"

    @property
    def _effective_docs_url(self) -> str:
        return self.docs_url.rstrip("/") or (self.home / "docs").as_uri()


@lru_cache(maxsize=1)
def settings() -> Settings:
    """Return the settings of this process. The environment is read only once.

    Raises:
        SpecError: a variable has a value that is not valid. A retry cannot help.
    """
    try:
        return Settings()
    except ValidationError as error:
        problems = [f"{_name_variable(problem['loc'])}: {_describe_problem(problem)}" for problem in error.errors()]
        raise SpecError(
            f"{'; '.join(problems)}.", "Correct the environment variable; .env.example describes each."
        ) from None


def create_home() -> None:
    """Create LEEWAY_HOME if it does not exist. Only its owner has access, because it holds data and models. Idempotent.

    The mode of an existing folder is not changed, because its owner may share it.
    """
    settings().home.mkdir(mode=0o700, parents=True, exist_ok=True)


def _name_variable(location: tuple[int | str, ...]) -> str:
    """Return the name of the environment variable of a field."""
    name = str(location[0])
    return name if name.isupper() else f"LEEWAY_{name.upper()}"


def _describe_problem(problem: Any) -> str:
    text = problem["msg"].removeprefix("Value error, ")
    value = re.sub("//.*@", "//***@", str(problem["input"]), flags=re.DOTALL)  # without a password
    return f"{text[:1].lower()}{text[1:]} (got {value[:MAX_VALUE_CHARS]!r})"


def get_actor() -> str:
    """Return who makes the request: LEEWAY_ACTOR, or else the user of the operating system."""
    if settings().actor:
        return settings().actor
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have no name
        return f"uid {os.getuid()}"
