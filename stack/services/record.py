"""The record of a running stack: stack.json, always whole."""

from __future__ import annotations

import os
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Self

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

from stack.layout import Layout


class Process(BaseModel):
    """One process, told apart from a later one with the same number by when it was born."""

    pid: int
    created: float
    exit_code: int | None = None
    """Set once it has ended; negative is the number of a signal."""

    @classmethod
    def of(cls, pid: int) -> Self:
        """The record of a living process."""
        return cls(pid=pid, created=psutil.Process(pid).create_time())

    def alive(self) -> bool:
        """Whether that very process still runs. A zombie does not."""
        try:
            process = psutil.Process(self.pid)
            return process.create_time() == self.created and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


class Ports(BaseModel):
    """Loopback ports of the servers."""

    airflow: int
    mlflow: int
    drydock: int
    docs: int


class Stack(BaseModel):
    """A stack that was started, whether or not it still runs."""

    model_config = ConfigDict(extra="ignore")

    id: str
    project: Path
    started_at: datetime
    ports: Ports
    keeper: Process | None = None
    """Leader of the session and the process group of all services; its pid is the group's id."""
    services: dict[str, Process] = {}
    died: str | None = None
    """The service that ended by itself, for which the keeper stopped the rest."""

    @property
    def airflow_url(self) -> str:
        """Airflow's UI and API."""
        return f"http://127.0.0.1:{self.ports.airflow}"

    @property
    def mlflow_url(self) -> str:
        """MLflow's UI and API."""
        return f"http://127.0.0.1:{self.ports.mlflow}"

    @property
    def drydock_url(self) -> str:
        """Endpoint of drydock for S3, SageMaker and the rest."""
        return f"http://127.0.0.1:{self.ports.drydock}"

    @property
    def docs_url(self) -> str:
        """What validations found, as pages."""
        return f"http://127.0.0.1:{self.ports.docs}"

    def alive(self) -> bool:
        """Whether its keeper lives, which keeps all services or none."""
        return self.keeper is not None and self.keeper.alive()

    def save(self, layout: Layout) -> None:
        """Replaces the record at once: a reader sees the old or the new one."""
        write_atomically(layout.state, self.model_dump_json(indent=2))

    @classmethod
    def load(cls, layout: Layout) -> Self | None:
        """The record, or None where there is none that can be read."""
        try:
            return cls.model_validate_json(layout.state.read_text())
        except (FileNotFoundError, ValidationError):
            return None


def write_atomically(path: Path, text: str, mode: int = 0o600) -> None:
    """Leaves `path` with `text` and `mode`, or as it was."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
