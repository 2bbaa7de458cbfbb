"""Read and write stack.json, the record of a running stack. Each write replaces the file atomically."""

from __future__ import annotations

import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import psutil
from pydantic import BaseModel, ConfigDict, Field

from stack.files import write_atomically
from stack.layout import Layout


class Process(BaseModel):
    """One process. Its creation time distinguishes it from a later process with the same pid."""

    pid: int = Field(gt=0, lt=1 << 31)
    created: float
    """Seconds since 1970."""
    exit_code: int | None = None
    """Exit code of a process that has ended, or -N if signal N ended it; None before."""

    @classmethod
    def from_pid(cls, pid: int) -> Self:
        """Return the record of a living process."""
        return cls(pid=pid, created=psutil.Process(pid).create_time())

    def is_alive(self) -> bool:
        """Return whether the process still runs. A zombie does not count, nor does a later process with its pid."""
        try:
            process = psutil.Process(self.pid)
            return process.create_time() == self.created and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


class Ports(BaseModel):
    """The loopback ports of the servers."""

    airflow: int
    mlflow: int
    drydock: int
    docs: int


class Stack(BaseModel):
    """A stack that was started. It may have ended since."""

    model_config = ConfigDict(extra="ignore")

    id: str
    project: Path
    started_at: datetime
    ports: Ports
    supervisor: Process | None = None
    """The leader of the session and process group of all services. Its pid is the id of the group."""
    services: dict[str, Process] = {}
    """The last process of each service, by the service's name."""
    restarts: dict[str, int] = {}
    """How often the supervisor has restarted each service, because it ended by itself or could not start."""
    failed_service: str | None = None
    """The service that ended or could not start, and is not started again. The supervisor then stops all others."""
    is_stopping: bool = False
    """Whether the supervisor stops the services, or has stopped them."""

    @property
    def airflow_url(self) -> str:
        """The URL of Airflow's UI and API."""
        return f"http://127.0.0.1:{self.ports.airflow}"

    @property
    def mlflow_url(self) -> str:
        """The URL of MLflow's UI and API."""
        return f"http://127.0.0.1:{self.ports.mlflow}"

    @property
    def drydock_url(self) -> str:
        """The URL of drydock, for all AWS services that it stands in for, such as S3 and SageMaker."""
        return f"http://127.0.0.1:{self.ports.drydock}"

    @property
    def docs_url(self) -> str:
        """The URL of the data docs, which show the results of validations."""
        return f"http://127.0.0.1:{self.ports.docs}"

    def is_alive(self) -> bool:
        """Return whether the supervisor runs. If it was killed, services may still run, but nothing restarts them."""
        return self.supervisor is not None and self.supervisor.is_alive()

    def get_start_time(self, service: str) -> datetime:
        """Return when the service was last started. If it was not started yet, return when the stack was started."""
        process = self.services.get(service)
        return datetime.fromtimestamp(process.created, UTC) if process is not None else self.started_at

    def save(self, layout: Layout) -> None:
        """Replace the record in stack.json atomically."""
        write_atomically(layout.record_file, self.model_dump_json(indent=2))

    @classmethod
    def load(cls, layout: Layout) -> Self | None:
        """Return the record in stack.json, or None if no record can be read."""
        try:
            return cls.model_validate_json(layout.record_file.read_text())
        except (OSError, ValueError):  # not UTF-8, or not a record
            return None


def describe_exit_code(code: int | None) -> str:
    """Return how a process ended, in words: its exit code, or the signal that ended it."""
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # a real-time signal has a number only
        return f"signal {-code}"
