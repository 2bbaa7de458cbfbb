"""Where things are: the one reader of the environment.

What changes a model belongs in params.yaml; what differs between a laptop and AWS belongs here.
`.env.example` lists every variable.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Folders and addresses of this process."""

    model_config = SettingsConfigDict(env_prefix="LEEWAY_", frozen=True, use_attribute_docstrings=True)

    project: Path = Field(default_factory=Path.cwd)
    """Folder of params.yaml, dvc.yaml and expectations/."""
    home: Path = Path(".leeway")
    """Folder of all state of the embedded default."""
    mlflow_tracking_uri: str = Field(default="", validation_alias="MLFLOW_TRACKING_URI")
    """MLflow's address; empty where there is none (a plain `dvc repro`)."""
    aws_endpoint_url: str = Field(default="", validation_alias="AWS_ENDPOINT_URL")
    """drydock's address; empty for AWS itself."""

    @field_validator("project", "home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The settings, read once a process."""
    return Settings()
